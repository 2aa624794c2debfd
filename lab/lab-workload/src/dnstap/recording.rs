//! dnstap as a recording of messages.

use super::{FrameError, FrameFault, Reader, Role, Tapped, Transport};
use crate::recorded::{Broken, Carrier, Content, Record};
use nodens_wire::{Flags, Header};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The messages of a stream between some [`Role`]s, in the order of the stream.
///
/// A server writes a message when it has read or sent it, so times need not be in order.
#[derive(Debug)]
pub struct Recording<R> {
    reader: Reader<R>,
    roles: Vec<Role>,
    others: u64,
    /// Of the last message that was read.
    role: Option<Role>,
    /// Whether the stream is a file, in which nothing is behind the end.
    is_file: bool,
    ended: bool,
}

impl<R: Read> Recording<R> {
    /// Reads the start of a file.
    pub fn open(from: R, roles: &[Role]) -> Result<Self, FrameError> {
        Ok(Self { is_file: true, ..Self::of(Reader::new(from)?, roles) })
    }

    /// The messages of a stream whose start was read.
    pub fn of(reader: Reader<R>, roles: &[Role]) -> Self {
        Self { reader, roles: roles.to_vec(), others: 0, role: None, is_file: false, ended: false }
    }

    /// The stream itself.
    pub fn reader_mut(&mut self) -> &mut Reader<R> {
        &mut self.reader
    }

    /// Frames read so far, control frames among them.
    pub fn frames(&self) -> u64 {
        self.reader.frames()
    }

    /// Between whom the last message was; none behind a frame that is no message.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Messages of other roles, which were left out.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The next message, or a broken frame.
    pub fn read(&mut self) -> Option<Result<Record, FrameError>> {
        loop {
            self.role = None;
            match self.reader.next() {
                Some(Ok(tapped)) if !self.roles.contains(&tapped.role) => self.others += 1,
                Some(Ok(tapped)) => {
                    let (frame, at) = (self.reader.frames(), self.reader.begun_at());
                    let record = record(frame, &tapped);
                    self.role = Some(tapped.role);
                    return Some(record.map_err(|fault| FrameError { frame, at, fault }));
                }
                Some(Err(error)) => {
                    self.ended |= error.is_end();
                    return Some(Err(error));
                }
                None if self.is_file && !self.ended => {
                    self.ended = true;
                    if let Err(error) = self.reader.check_end() {
                        return Some(Err(error));
                    }
                }
                None => return None,
            }
        }
    }
}

impl<R: Read> Iterator for Recording<R> {
    type Item = Result<Record, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.read()?.map_err(|error| Broken(error.to_string())))
    }
}

fn record(number: u64, tapped: &Tapped) -> Result<Record, FrameFault> {
    let (time, message) = tapped.message();
    let message = message.ok_or(FrameFault::Missing(
        "message of DNS in it, expected one (CoreDNS and Nodens write them with `full`)",
    ))?;
    let time = time.ok_or(FrameFault::Missing("time in it"))?;
    let header = Header::read(message).map_err(|_| {
        FrameFault::Field(format!("a message of {} octets, expected at least 12", message.len()))
    })?;
    if header.flags.has(Flags::QR) != tapped.is_response {
        let what = if tapped.is_response { "a response without" } else { "a query with" };
        return Err(FrameFault::Field(format!("{what} the QR bit")));
    }
    let content = match tapped.is_response {
        true => Content::Response(message.to_vec()),
        false => Content::Query(message.to_vec()),
    };
    let carrier = match tapped.transport {
        None | Some(Transport::Udp | Transport::DnscryptUdp) => Carrier::Udp,
        Some(_) => Carrier::Tcp,
    };
    let (client, server) = (peer(tapped.asker), peer(tapped.asked));
    Ok(Record { number, time, client, server, carrier, content })
}

/// An address and a port; what is missing is 0.
fn peer((address, port): (Option<IpAddr>, Option<u16>)) -> SocketAddr {
    (address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port.unwrap_or(0)).into()
}
