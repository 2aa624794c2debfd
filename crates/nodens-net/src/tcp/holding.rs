//! What a connection holds of the process's memory, and the end of one that holds too much.

use super::connection::Connection;
use super::server::TcpServer;
use crate::context::Context;
use crate::limits::{RECEIVE_COST, SENT_UNSEEN};
use crate::slots::Key;
use socket2::SockRef;
use std::time::Duration;

impl Connection {
    /// Enters what it holds now in the books of the process; says whether any connection of the
    /// process is to be closed for it.
    ///
    /// What the kernel holds counts too: its memory is charged to the process's control group. It
    /// is asked only for a connection that was sent much, or holds much.
    pub(super) fn account(&mut self) -> bool {
        // An empty buffer is about to be given up.
        let unsent = if self.output.is_empty() { 0 } else { self.output.capacity() };
        let own = unsent + self.input.capacity();
        self.strained = unsent > 0 && self.holding.budget().is_tight();
        let paused = !self.closing && self.is_full();
        let looks = self.holding.is_entered()
            || !self.output.is_empty()
            || self.written.saturating_sub(self.looked_at) >= SENT_UNSEEN;
        if looks {
            self.looked_at = self.written;
        }
        let kernel = if looks { crate::sys::unacknowledged(&self.stream).unwrap_or(0) } else { 0 };
        let waiting = if paused { RECEIVE_COST } else { 0 };
        self.holding.set(own + usize::try_from(kernel).unwrap_or(usize::MAX / 4) + waiting)
    }

    /// Gives up what the client has not acknowledged when the connection closes. The kernel would
    /// else keep it for minutes.
    pub(super) fn forsake(&self) {
        _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

impl TcpServer {
    /// Sends what there is of a connection before the end of the round, because it is much. Closes
    /// it and says `false` if it is of no more use.
    pub(super) fn send_early(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if connection.flush(cx.now).is_err() {
            self.close(key);
            return false;
        }
        self.presses |= connection.account();
        true
    }

    /// Closes the connections of this worker that hold too much of what all may hold.
    pub(super) fn close_doomed(&mut self, cx: &mut Context<'_>) {
        for key in self.unsent.doomed(self.worker) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            // What the client has taken meanwhile is not held any more.
            self.presses |= connection.account();
        }
        for key in self.unsent.doomed(self.worker) {
            cx.counters.add(cx.counters.greedy, 1);
            self.close(key);
        }
    }
}
