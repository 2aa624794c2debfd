//! DNS over QUIC (RFC 9250): one query per stream.

use super::Protocol;
use lab_http3::Shared;
use nodens_wire::framing;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};
use std::collections::HashMap;

/// DOQ_REQUEST_CANCELLED (RFC 9250 section 4.3).
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

pub(super) struct Doq {
    connection: Shared,
    /// What came on streams that are not whole yet, with the length in front.
    streams: HashMap<StreamId, Vec<u8>>,
}

impl Protocol for Doq {
    type Stream = StreamId;

    /// DOQ_NO_ERROR (RFC 9250 section 4.3).
    const NO_ERROR: VarInt = VarInt::from_u32(0);

    fn new(connection: Shared, _: u64) -> Self {
        Self { connection, streams: HashMap::new() }
    }

    fn turn(&mut self) -> Vec<(StreamId, Vec<u8>)> {
        let mut connection = self.connection.borrow_mut();
        while let Some(id) = connection.streams().accept(Dir::Bi) {
            self.streams.insert(id, Vec::new());
        }
        let mut whole = Vec::new();
        self.streams.retain(|id, into| {
            let over = read_stream(&mut connection, *id, into);
            let message = framing::first_message(into);
            if let Some((message, _)) = message {
                whole.push((*id, message.to_vec()));
            }
            message.is_none() && !over
        });
        whole
    }

    fn answer(&mut self, stream: StreamId, message: &[u8]) -> bool {
        let frame = framing::framed(message);
        let mut connection = self.connection.borrow_mut();
        let mut stream = connection.send_stream(stream);
        // The first window of a stream has room for any answer.
        stream.write(&frame).is_ok_and(|count| count == frame.len()) && stream.finish().is_ok()
    }

    fn lose(&mut self, _: StreamId) {}

    fn stopped(&mut self, stream: StreamId) {
        // Only then may the client open another (RFC 9000 section 3.5). An error means that the answer is out.
        _ = self.connection.borrow_mut().send_stream(stream).reset(REQUEST_CANCELLED);
    }
}

/// Reads what a stream has; true when nothing more will come.
fn read_stream(connection: &mut Connection, id: StreamId, into: &mut Vec<u8>) -> bool {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return true };
    let over = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => into.extend_from_slice(&chunk.bytes),
            Ok(None) | Err(ReadError::Reset(_)) => break true,
            Err(ReadError::Blocked) => break false,
        }
    };
    // What there is to send is sent in this turn anyway.
    _ = chunks.finalize();
    over
}
