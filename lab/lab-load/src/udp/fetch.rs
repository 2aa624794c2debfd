//! Which sockets are read, when, and for how long.

use super::errors::take_refusals;
use super::open::READY_MAX;
use super::{RECEIVED_MAX, Udp};
use crate::run::Stamps;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

/// Full batches taken from one socket before the others have their turn.
pub(super) const BATCHES_PER_TURN: usize = 4;
/// Full batches taken from one socket before its queries are given up: more than a receive buffer
/// holds, and not without end.
const BATCHES_OVERDUE: usize = 1 << 12;

impl Udp<'_> {
    /// Receives what is there; sleeps until `next` or a datagram if this thread does not spin.
    pub(super) fn receive(&mut self, next: Option<u64>) -> io::Result<()> {
        let Some(mut poller) = self.poller.take() else {
            let mut all = true;
            for client in 0..self.sockets.len() {
                // Also without queries in flight: late answers and duplicates are stamped as they are read.
                all &= self.receive_from(client);
            }
            self.forget_pause(all);
            return Ok(());
        };
        let now = self.shard.now();
        let idle = !self.spins && self.dirty.is_empty();
        let sleep =
            if idle { self.shard.sleep(now, next, self.next_expire) } else { Duration::ZERO };
        let (mut all, mut count) = (true, 0);
        for ready in poller.wait(sleep)? {
            all &= self.receive_from(ready.token as usize);
            count += 1;
        }
        self.poller = Some(poller);
        // Of more than are reported at once, some may not have been.
        self.forget_pause(all && count < READY_MAX);
        Ok(())
    }

    /// After a turn that read all sockets to their end, if `all` says so, nothing is left in them
    /// from before it.
    fn forget_pause(&mut self, all: bool) {
        self.pause = if all { 0 } else { self.pause };
    }

    /// Whether the socket was read to its end.
    pub(super) fn receive_from(&mut self, client: usize) -> bool {
        self.receive_batches(client, BATCHES_PER_TURN)
    }

    fn receive_batches(&mut self, client: usize, most: usize) -> bool {
        for _ in 0..most {
            let Some(socket) = self.sockets.get(client) else { return true };
            match self.into.receive(socket.as_fd()) {
                Ok(count) => {
                    self.take_batch(client, count);
                    if count < RECEIVED_MAX {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => take_refusals(socket.as_fd(), client, &mut self.session),
            }
        }
        false
    }

    /// Fetches what the kernel says came in time, before its queries are given up: after a pause of
    /// this program it may still be in the sockets.
    pub(super) fn fetch_overdue(&mut self, now: u64) {
        if self.shard.config.stamps != Stamps::Kernel {
            return;
        }
        for client in 0..self.sockets.len() {
            if self.session.is_overdue(client, now) {
                self.receive_batches(client, BATCHES_OVERDUE);
            }
        }
    }
}
