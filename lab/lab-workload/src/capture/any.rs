//! A capture of any format, read from its beginning to its end.

use super::{NoCapture, Recording};
use crate::dnstap::{self, FrameError, Role};
use crate::recorded::{Broken, Record};
use std::io::{self, Chain, Cursor, Read};

/// Octets that tell the format.
const START_LEN: usize = 12;

/// A capture whose octets that tell the format were read before.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The messages of a capture, of which only a small part is in memory.
pub enum Messages<R: Read> {
    /// Of packets: pcap or pcapng.
    Packets(Box<Recording<Whole<R>>>),
    /// Of dnstap.
    Frames(Box<dnstap::Recording<Whole<R>>>),
}

/// A capture that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has none of the formats.
    #[error(transparent)]
    Format(#[from] NoCapture),
    /// It is dnstap that does not start as it should.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads the start of a capture. `port` is the servers' port, which counts for packets; `roles` are those
/// between which messages of dnstap are taken.
pub fn open<R: Read>(mut from: R, port: u16, roles: &[Role]) -> Result<Messages<R>, OpenError> {
    let mut start = Vec::new();
    from.by_ref().take(START_LEN as u64).read_to_end(&mut start)?;
    let is_stream = dnstap::is_stream(&start);
    let whole = Cursor::new(start).chain(from);
    if is_stream {
        return Ok(Messages::Frames(Box::new(dnstap::Recording::open(whole, roles)?)));
    }
    let packets = Recording::open(whole, port)?.ok_or(NoCapture)?;
    Ok(Messages::Packets(Box::new(packets)))
}

impl<R: Read> Iterator for Messages<R> {
    type Item = Result<Record, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Packets(recording) => recording.next(),
            Self::Frames(recording) => recording.next(),
        }
    }
}
