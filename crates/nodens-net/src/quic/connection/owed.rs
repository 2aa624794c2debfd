//! What a connection owes its client: responses that are not sent or not acknowledged.

use super::{Connection, Phase};
use nodens_core::Now;
use quinn_proto::StreamId;

/// A response, or the rest of one, that the connection has no room for yet.
pub(super) struct Unwritten {
    pub(super) stream: StreamId,
    pub(super) octets: Vec<u8>,
}

impl Connection {
    /// Writes a response, or keeps what there is no room for.
    pub(in crate::quic) fn respond(&mut self, stream: StreamId, framed: &[u8], now: Now) {
        if self.phase != Phase::Open {
            return;
        }
        if self.owed.is_empty() {
            self.progress_at = now.mono_ns;
        }
        let Some(written) = self.write(stream, framed) else { return };
        self.owed.insert(stream, framed.len());
        self.owed_octets += framed.len();
        if written < framed.len() {
            let octets = framed.get(written..).unwrap_or_default().to_vec();
            self.unwritten.push_back(Unwritten { stream, octets });
        }
    }

    /// Writes what there is room for, and the end behind the last octet. None if the client does not
    /// want it.
    fn write(&mut self, stream: StreamId, octets: &[u8]) -> Option<usize> {
        let mut writer = self.quinn.send_stream(stream);
        let written = match writer.write(octets) {
            Ok(written) => written,
            Err(quinn_proto::WriteError::Blocked) => 0,
            Err(_) => return None,
        };
        if written == octets.len() {
            // An error means that the client does not want it any more.
            _ = writer.finish();
        }
        Some(written)
    }

    /// Writes what had no room before.
    pub(in crate::quic) fn write_rest(&mut self) {
        for _ in 0..self.unwritten.len() {
            let Some(mut rest) = self.unwritten.pop_front() else { return };
            match self.write(rest.stream, &rest.octets) {
                None => self.settle(rest.stream),
                Some(written) if written < rest.octets.len() => {
                    rest.octets.drain(..written);
                    self.unwritten.push_back(rest);
                }
                Some(_) => {}
            }
        }
    }

    /// The client has acknowledged a response.
    pub(in crate::quic) fn acknowledged(&mut self, stream: StreamId, now: Now) {
        self.settle(stream);
        self.progress_at = now.mono_ns;
        self.refresh(now);
    }

    /// Nothing is owed on this stream any more.
    pub(super) fn settle(&mut self, stream: StreamId) {
        if let Some(len) = self.owed.remove(&stream) {
            self.owed_octets = self.owed_octets.saturating_sub(len);
        }
    }
}
