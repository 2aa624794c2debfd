//! DNS over QUIC (RFC 9250): one stream per query, ID 0.

use super::carrier::{End, Sink, Taken};
use super::quic::Protocol;
use lab_http3::Shared;
use nodens_wire::framing::{self, LENGTH_LEN};
use quinn_proto::{Dir, ReadError, StreamEvent, StreamId, VarInt};
use std::collections::{HashMap, HashSet};

/// DOQ_REQUEST_CANCELLED (RFC 9250 section 4.3).
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

struct Stream {
    id: u16,
    out: Vec<u8>,
    written: usize,
    /// What came so far, with the length in front.
    into: Vec<u8>,
}

pub(super) struct Doq {
    connection: Shared,
    streams: HashMap<StreamId, Stream>,
}

impl Doq {
    pub(super) fn new(connection: Shared) -> Self {
        Self { connection, streams: HashMap::new() }
    }

    fn read(&mut self, id: StreamId, sink: &mut Sink<'_, '_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let mut over = None;
        let mut connection = self.connection.borrow_mut();
        let mut received = connection.recv_stream(id);
        if let Ok(mut chunks) = received.read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => stream.into.extend_from_slice(&chunk.bytes),
                    Ok(None) => over = Some(true),
                    Err(ReadError::Reset(_)) => over = Some(false),
                    Err(ReadError::Blocked) => break,
                }
                if over.is_some() {
                    break;
                }
            }
            // What there is to send is sent in this turn anyway.
            _ = chunks.finalize();
        }
        let whole = framing::first_message(&stream.into).is_some();
        if over.is_none() && !whole {
            return;
        }
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if over.is_none() {
            // The answer is there; whether the stream is closed as it should be is not our matter.
            _ = connection.recv_stream(id).stop(Self::NO_ERROR);
        }
        let len = framing::first_length(&stream.into);
        match len.and_then(|len| stream.into.get_mut(LENGTH_LEN..LENGTH_LEN + len)) {
            Some(message) if over != Some(false) => sink.stream_message(stream.id, message),
            _ => sink.rejected(stream.id),
        }
    }

    /// Gives the octets of a query to its stream, as far as the server lets us.
    fn write(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let mut connection = self.connection.borrow_mut();
        let mut sending = connection.send_stream(id);
        while let Some(rest) = stream.out.get(stream.written..).filter(|rest| !rest.is_empty()) {
            match sending.write(rest) {
                Ok(count) => stream.written += count,
                // Writable or Stopped will come.
                Err(_) => return,
            }
        }
        // RFC 9250 section 4.2: the end of the stream says that there is no other query.
        _ = sending.finish();
    }
}

impl Protocol for Doq {
    const NAME: (&'static str, &'static str) = ("DNS over QUIC", "doq");
    /// DOQ_NO_ERROR (RFC 9250 section 4.3).
    const NO_ERROR: VarInt = VarInt::from_u32(0);

    fn start(&mut self) -> Result<bool, End> {
        Ok(true)
    }

    fn send(&mut self, id: u16, message: &[u8]) -> Taken {
        let opened = self.connection.borrow_mut().streams().open(Dir::Bi);
        let Some(stream) = opened else { return Taken::Full };
        let out = framing::framed(message);
        self.streams.insert(stream, Stream { id, out, written: 0, into: Vec::new() });
        self.write(stream);
        Taken::Yes
    }

    fn forget(&mut self, ids: &HashSet<u16>) {
        let mut connection = self.connection.borrow_mut();
        self.streams.retain(|id, stream| {
            let is_kept = !ids.contains(&stream.id);
            if !is_kept {
                // An error means that this side of the stream is over.
                _ = connection.recv_stream(*id).stop(REQUEST_CANCELLED);
                if stream.written < stream.out.len() {
                    _ = connection.send_stream(*id).reset(REQUEST_CANCELLED);
                }
            }
            is_kept
        });
    }

    fn on_stream(&mut self, event: StreamEvent, sink: &mut Sink<'_, '_>) {
        match event {
            StreamEvent::Readable { id } => self.read(id, sink),
            StreamEvent::Writable { id } => self.write(id),
            StreamEvent::Stopped { id, .. } => {
                if let Some(stream) = self.streams.remove(&id) {
                    sink.rejected(stream.id);
                }
            }
            StreamEvent::Opened { .. }
            | StreamEvent::Finished { .. }
            | StreamEvent::Available { .. } => {}
        }
    }

    fn turn(&mut self, _: &mut Sink<'_, '_>) -> Result<(), End> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    fn start_again(&mut self) -> Vec<u16> {
        let mut lost: Vec<_> = self.streams.drain().collect();
        lost.sort_by_key(|(id, _)| *id);
        lost.iter().map(|(_, stream)| stream.id).collect()
    }
}
