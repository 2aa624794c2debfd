//! Handshakes take turns: each step costs as much as hundreds of hits, which go first.

use super::server::TcpServer;
use crate::context::Context;
use crate::limits::HANDSHAKES_IN_A_ROW;
use crate::slots::Key;

impl TcpServer {
    /// Whether what has arrived on a connection has to wait for its turn: it belongs to a handshake.
    pub(super) fn puts_off(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let waits = connection.pipe.is_handshaking();
        if waits && !connection.in_turn {
            connection.in_turn = true;
            self.handshakes.push_back(key);
        }
        waits
    }

    /// Goes on with those handshakes whose turn it is.
    pub(super) fn take_handshakes(&mut self, cx: &mut Context<'_>) {
        for _ in 0..HANDSHAKES_IN_A_ROW {
            let Some(key) = self.handshakes.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.in_turn = false;
            self.read(key, cx);
        }
    }
}
