//! Listeners that close: what has arrived at them is still answered, but for questions behind a long
//! answer when the listener is not in a new configuration. Their turn would come when the
//! configuration that answers them is gone.

use super::server::{TcpServer, mark};
use crate::context::Context;
use crate::limits::LAST_READS;
use crate::slots::Key;

impl TcpServer {
    /// Accepts no more connections and reads no more questions.
    pub(crate) fn stop(&mut self, cx: &mut Context<'_>) {
        // The listeners are not forgotten: of what has been read, questions behind a long answer
        // are still to be taken.
        self.close_listeners(|_| true, cx);
        self.ending = true;
    }

    /// Closes listeners after what waits at them, and lets their connections end.
    pub(super) fn close_listeners(&mut self, ends: impl Fn(u32) -> bool, cx: &mut Context<'_>) {
        for key in self.listeners.keys(|listener| ends(listener.endpoint)) {
            self.accept_all(key, cx);
            self.listeners.remove(key);
        }
        for key in self.connections.keys(|connection| ends(connection.endpoint)) {
            self.read_last(key, cx);
            self.finish_questions(key);
        }
    }

    /// Takes what has arrived, however much is under way.
    pub(super) fn read_last(&mut self, key: Key, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.pipe.is_handshaking() && connection.pipe.tls_version().is_none() {
            // All handshakes at once would take seconds. Of those that the server has answered the expensive part is
            // done, and the client sends its first query with what it has left of them (RFC 8446 section 2).
            return;
        }
        connection.last_call = true;
        self.take_octets(key, &[], cx);
        for _ in 0..LAST_READS {
            if !self.read(key, cx) {
                return;
            }
        }
    }

    pub(super) fn finish_questions(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.closing = true;
            mark(&mut self.dirty, connection, key);
        }
    }
}
