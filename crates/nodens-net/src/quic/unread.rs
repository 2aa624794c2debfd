//! How much of what a client has sent may still be held because something of it was not read.
//!
//! What is received of a stream stays in the datagram it came in until it is read, and QUIC does not tell which
//! datagrams these are. But none that came before a time is needed any more once all streams that may have been
//! open then have been read to their ends. So datagrams are counted in two parts, and the earlier one goes
//! as soon as those streams have ended: also of a client that always has some open.

use crate::limits::QUIC_TLS_MAX;
use quinn_proto::StreamId;
use std::collections::HashSet;

/// Octets of datagrams with stream data that may be held.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Streams that were taken and whose end was not read.
    unended: HashSet<StreamId>,
    /// Those of them that were open when the later part began.
    elders: HashSet<StreamId>,
    /// Streams before this number may have been open then, too, and were not taken.
    elders_end: u64,
    /// Octets of the earlier and of the later part.
    octets: [usize; 2],
    /// Octets of datagrams with parts of the handshake, or of what a client sends in the place of such later:
    /// TLS has nothing to say then, and QUIC keeps what has gaps in front of it.
    of_tls: usize,
}

impl Unread {
    /// A datagram has come.
    pub(super) fn add(&mut self, octets: usize) {
        self.octets[1] += octets;
    }

    /// A datagram has come with a part of the handshake.
    pub(super) fn add_tls(&mut self, octets: usize) {
        self.of_tls += octets;
    }

    /// The handshake is over, and all of it is read.
    pub(super) fn end_handshake(&mut self) {
        self.of_tls = 0;
    }

    /// Whether more parts of a handshake have come than it has.
    pub(super) fn has_too_much_tls(&self) -> bool {
        self.of_tls > QUIC_TLS_MAX
    }

    /// What may be held.
    pub(super) fn octets(&self) -> usize {
        let [earlier, later] = self.octets;
        earlier + later + self.of_tls
    }

    /// Notes whether more may come on a stream.
    pub(super) fn note_end(&mut self, stream: StreamId, has_ended: bool) {
        if has_ended {
            self.unended.remove(&stream);
            self.elders.remove(&stream);
        } else {
            self.unended.insert(stream);
        }
    }

    /// So many streams were taken, and `waiting` others at most wait for that.
    pub(super) fn note_taken(&mut self, taken: u64, waiting: u32) {
        if waiting == 0 && self.unended.is_empty() {
            self.octets = [0; 2];
        } else if self.elders.is_empty() && taken >= self.elders_end {
            self.octets = [self.octets[1], 0];
            self.elders.clone_from(&self.unended);
            self.elders_end = taken.saturating_add(waiting.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn_proto::{Dir, Side};

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, index)
    }

    #[test]
    fn what_came_before_all_open_streams_is_held_no_more() {
        let mut unread = Unread::default();
        // Each ends only when the next one is there.
        for index in 0..1000 {
            unread.add(100);
            unread.note_end(id(index), false);
            if index > 0 {
                unread.note_end(id(index - 1), true);
            }
            unread.note_taken(index + 1, 0);
            assert!(unread.octets() <= 300, "{index}: {}", unread.octets());
        }
        unread.note_end(id(999), true);
        unread.note_taken(1000, 0);
        assert_eq!(unread.octets(), 0);
    }

    #[test]
    fn what_a_stream_that_stays_open_may_have_is_held() {
        let mut unread = Unread::default();
        unread.add(100);
        unread.note_end(id(0), false);
        unread.note_taken(1, 0);
        for index in 1..1000 {
            unread.add(100);
            unread.note_end(id(index), true);
            unread.note_taken(index + 1, 0);
            assert_eq!(unread.octets() as u64, (index + 1) * 100);
        }
    }

    #[test]
    fn what_is_in_the_place_of_a_handshake_is_held_for_good() {
        let mut unread = Unread::default();
        unread.add_tls(QUIC_TLS_MAX);
        assert_eq!((unread.octets(), unread.has_too_much_tls()), (QUIC_TLS_MAX, false));
        unread.end_handshake();
        assert_eq!(unread.octets(), 0);
        for _ in 0..=QUIC_TLS_MAX / 100 {
            assert!(!unread.has_too_much_tls());
            unread.add_tls(100);
            // All streams are read to their ends.
            unread.note_taken(1, 0);
        }
        assert!(unread.has_too_much_tls() && unread.octets() > QUIC_TLS_MAX);
    }

    #[test]
    fn streams_that_wait_to_be_taken_are_taken_for_open() {
        let mut unread = Unread::default();
        let mut most = 0;
        // One at a time is taken of a hundred that wait, while as many more come.
        for taken in 0..10_000 {
            unread.add(100);
            unread.note_taken(taken, 100);
            assert!(unread.octets() as u64 >= taken.min(100) * 100, "{taken}");
            most = unread.octets().max(most);
        }
        assert!(most <= 2 * 101 * 100, "{most}");
    }
}
