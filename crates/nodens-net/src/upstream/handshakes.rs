//! Handshakes with upstreams take turns: each step costs as much as hundreds of hits, which go first.

use super::Places;
use super::streams::Streams;
use crate::context::Context;
use crate::slots::Key;

impl Streams {
    /// Whether what has arrived on a connection has to wait for its turn: it belongs to a handshake.
    pub(super) fn puts_off(&mut self, key: Key) -> bool {
        let Some(stream) = self.open.get_mut(key) else { return false };
        let waits = !stream.connected;
        if waits && !stream.in_turn {
            stream.in_turn = true;
            self.handshakes.push_back(key);
        }
        waits
    }

    /// Whether [`Streams::take_handshake`] has something to do now.
    pub(super) fn has_handshakes(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// Goes on with the handshake whose turn it is by one step. A connection that has closed was no turn.
    pub(super) fn take_handshake(
        &mut self,
        places: &mut Places,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
    ) {
        while let Some(key) = self.handshakes.pop_front() {
            let Some(stream) = self.open.get_mut(key) else { continue };
            stream.in_turn = false;
            self.read(key, places, scratch, cx);
            if let Some(stream) = self.open.get_mut(key) {
                stream.note_handshake(cx.now);
            }
            self.mark(key);
            return;
        }
    }
}
