//! Handshakes take turns: each step costs as much as hundreds of hits, which go first.

use super::server::{TcpServer, mark};
use crate::context::Context;
use crate::limits::HANDSHAKES_IN_A_ROW;
use crate::slots::Key;
use nodens_tls::Untrusted;
use std::io;

impl TcpServer {
    /// Whether what has arrived on a connection has to wait for its turn: it belongs to a handshake.
    ///
    /// Handshakes that have begun go first: their work would else be in vain once there are more than
    /// can be done in time.
    pub(super) fn puts_off(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let waits = connection.pipe.is_handshaking();
        if waits && !connection.in_turn {
            connection.in_turn = true;
            if connection.pipe.has_begun() {
                self.handshakes.push_front(key);
            } else {
                self.handshakes.push_back(key);
            }
            // Its deadline counts while it waits.
            mark(&mut self.dirty, connection, key);
        }
        waits
    }

    /// Counts and logs that an error which ends a connection is about its client's certificate, if it is.
    pub(super) fn note_untrusted(&self, key: Key, error: &io::Error, cx: &mut Context<'_>) {
        let fault = error.get_ref().and_then(|error| error.downcast_ref());
        let untrusted = fault.and_then(Untrusted::of_error);
        if let Some((connection, untrusted)) = self.connections.get(key).zip(untrusted) {
            cx.counters.add(cx.counters.untrusted, 1);
            cx.worker.note_untrusted(cx.now, connection.addresses.peer(), &untrusted);
        }
    }

    /// Goes on with those handshakes whose turn it is. Where nothing has come, or the time is over, that
    /// was no turn.
    pub(super) fn take_handshakes(&mut self, cx: &mut Context<'_>) {
        let mut steps = 0;
        for _ in 0..self.handshakes.len() {
            let Some(key) = self.handshakes.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.in_turn = false;
            if connection.deadline() <= cx.now.mono_ns {
                mark(&mut self.dirty, connection, key);
                continue;
            }
            let before = connection.pipe.cost();
            self.read(key, cx);
            // A connection that is closed or past its handshake took a step.
            let after = self.connections.get(key).map(|connection| connection.pipe.cost());
            steps += usize::from(after != Some(before));
            if steps >= HANDSHAKES_IN_A_ROW {
                return;
            }
        }
    }
}
