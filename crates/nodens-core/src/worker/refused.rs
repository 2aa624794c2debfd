//! What the log says of refused queries and clients: how many, from time to time.

use super::Worker;
use crate::limits::MALFORMED_SAID_EVERY;
use crate::log::Level;
use crate::proxy::ProxyRefusal;
use crate::time::Now;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How many were refused since that was last said.
#[derive(Debug, Default)]
pub(super) struct Refused {
    unsaid: u64,
    said_at_ns: u64,
}

impl Refused {
    /// Counts one; gives how many there are to be said now, if it is time for that again.
    pub(super) fn add(&mut self, now: Now, every: Duration) -> Option<u64> {
        self.unsaid += 1;
        if now.since(self.said_at_ns) < every {
            return None;
        }
        self.said_at_ns = now.mono_ns;
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl Worker {
    /// The requests from now on came with these TLVs in their PROXY protocol header, or without any.
    pub fn announce(&mut self, tlvs: Option<&Arc<[u8]>>) {
        if tlvs.is_some() || self.tlvs.is_some() {
            self.tlvs = tlvs.cloned();
        }
    }

    /// A connection or datagram from `peer` was refused for its PROXY protocol header: says so, but not
    /// each time.
    pub fn note_refusal(&mut self, now: Now, peer: SocketAddr, refusal: ProxyRefusal) {
        if let Some(count) = self.misproxied.add(now, MALFORMED_SAID_EVERY) {
            let text = match count {
                1 => format!("{peer} refused: {refusal}"),
                _ => format!("{peer} and {} more before it refused: {refusal}", count - 1),
            };
            self.state.sink.line(Level::Warning, "proxyproto", text);
        }
    }
}
