//! What happens to connections when a time has come.

use super::connection::NEVER;
use super::server::TcpServer;
use crate::counters::Counters;
use crate::poll::Poll;
use nodens_core::Now;
use std::cmp::Reverse;

impl TcpServer {
    /// When [`TcpServer::tick`] has something to look at.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let first = self.deadlines.peek().map_or(NEVER, |Reverse((at, _))| *at);
        Some(first.min(self.sweep_at).min(self.accept_at)).filter(|at| *at != NEVER)
    }

    /// Closes the connections whose deadline has passed.
    ///
    /// Deadlines move on with every question; an entry of the queue only says when to look.
    pub(crate) fn tick(&mut self, now: Now, poll: &Poll, counters: &Counters) {
        self.go_on_accepting(now, poll);
        if self.sweep_at <= now.mono_ns {
            self.sweep(now, counters);
        }
        while let Some(Reverse((at, key))) = self.deadlines.peek().copied() {
            if at > now.mono_ns {
                return;
            }
            self.deadlines.pop();
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.queued != at {
                continue;
            }
            connection.look_at_client(now);
            let deadline = connection.deadline();
            if deadline <= now.mono_ns {
                if !connection.lingering {
                    counters.add(counters.timed_out, 1);
                }
                self.expire(key, now);
                continue;
            }
            connection.queued = deadline;
            if deadline != NEVER {
                self.deadlines.push(Reverse((deadline, key)));
            }
        }
    }
}
