//! The same datagram more than once in a recording.
//!
//! A capture of several devices has a packet once for each of them (`-i any` on a node: the pod's, the bridge, and
//! the node's own), microseconds apart.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

/// Nanoseconds within which the same datagram is a copy of itself. Clients wait for longer before they send a query
/// again.
const WAIT: u64 = 1_000_000;
/// Datagrams that are remembered.
const KEPT_MAX: usize = 1 << 16;

/// The queries over UDP that were there last.
#[derive(Debug, Default)]
pub struct Copies {
    /// Hashes with their times, and the same in the order of the recording.
    last: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
}

impl Copies {
    /// Whether a message between these two was there shortly before `time`, in nanoseconds.
    pub fn is_copy(&mut self, time: u64, between: [SocketAddr; 2], message: &[u8]) -> bool {
        // Without ports, what looks the same may be of several clients.
        if between.first().is_none_or(|client| client.port() == 0) {
            return false;
        }
        while let Some(&(before, hash)) = self.order.front()
            && (time.abs_diff(before) > WAIT || self.order.len() > KEPT_MAX)
        {
            self.order.pop_front();
            if self.last.get(&hash) == Some(&before) {
                self.last.remove(&hash);
            }
        }
        let mut hasher = DefaultHasher::new();
        (between, message).hash(&mut hasher);
        let hash = hasher.finish();
        match self.last.entry(hash) {
            Entry::Occupied(entry) if time.abs_diff(*entry.get()) <= WAIT => true,
            entry => {
                entry.insert_entry(time);
                self.order.push_back((time, hash));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_a_copy_for_a_millisecond() {
        let [client, other, server] =
            ["10.0.0.1:40000", "10.0.0.2:40000", "10.0.0.53:53"].map(|text| text.parse().unwrap());
        let mut copies = Copies::default();
        assert!(!copies.is_copy(5_000, [client, server], b"query"));
        assert!(copies.is_copy(5_020, [client, server], b"query"));
        assert!(copies.is_copy(4_990, [client, server], b"query"), "devices need not be in order");
        assert!(!copies.is_copy(5_030, [client, server], b"another"));
        assert!(!copies.is_copy(5_040, [other, server], b"query"));
        assert!(!copies.is_copy(1_005_001, [client, server], b"query"), "sent again");
        let unknown = "10.0.0.1:0".parse().unwrap();
        assert!(!copies.is_copy(5_000, [unknown, server], b"query"));
        assert!(!copies.is_copy(5_000, [unknown, server], b"query"));
    }
}
