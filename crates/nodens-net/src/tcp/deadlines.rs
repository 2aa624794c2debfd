//! What happens to connections when a time has come.

use super::connection::NEVER;
use super::endpoint::Endpoint;
use super::server::{TcpServer, mark};
use crate::counters::Counters;
use crate::poll::Poll;
use nodens_core::Now;
use std::cmp::Reverse;

/// So many deadlines that count no longer are no reason to look for them.
const DEADLINES_FEW: usize = 64;

impl TcpServer {
    /// When [`TcpServer::tick`] has something to look at.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let first = self.deadlines.peek().map_or(NEVER, |Reverse((at, _))| *at);
        let press = if self.presses { self.press_at } else { NEVER };
        Some(first.min(self.sweep_at).min(self.accept_at).min(press)).filter(|at| *at != NEVER)
    }

    /// Drops deadlines of closed connections, and those that have moved, once they are the majority:
    /// clients that come and go would else leave one each for as long as a connection may be idle.
    pub(super) fn tidy_deadlines(&mut self) {
        let connections = &self.connections;
        if self.deadlines.len() > 2 * connections.len() + DEADLINES_FEW {
            let is_true = |key, at| connections.get(key).is_some_and(|open| open.queued == at);
            self.deadlines.retain(|Reverse((at, key))| is_true(*key, *at));
            self.deadlines.shrink_to(2 * connections.len() + DEADLINES_FEW);
        }
    }

    /// Connections get the times of a new configuration.
    pub(super) fn retime(&mut self) {
        for key in self.connections.keys(|_| true) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let own = |endpoint: &&Endpoint| endpoint.id == connection.endpoint;
            let Some(endpoint) = self.endpoints.iter().find(own) else { continue };
            connection.retime(&endpoint.times);
            let deadline = connection.deadline();
            if deadline < connection.queued {
                connection.queued = deadline;
                self.deadlines.push(Reverse((deadline, key)));
            }
        }
    }

    /// Closes the connections whose deadline has passed.
    ///
    /// Deadlines move on with every question; an entry of the queue only says when to look.
    pub(crate) fn tick(&mut self, now: Now, poll: &Poll, counters: &Counters) {
        self.go_on_accepting(now, poll);
        if self.sweep_at <= now.mono_ns {
            self.sweep(now, counters);
        }
        // Of a connection that lives long, deadlines that have moved stay too.
        self.tidy_deadlines();
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
            if connection.expire_requests(now) {
                counters.add(counters.timed_out, 1);
                mark(&mut self.dirty, connection, key);
            }
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

#[cfg(test)]
mod tests {
    use super::super::addresses::Addresses;
    use super::super::connection::Connection;
    use super::super::endpoint::Times;
    use super::super::quota::Quota;
    use super::super::unsent::Unsent;
    use super::*;
    use crate::pipe::Pipe;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    #[test]
    fn connections_that_are_closed_leave_no_deadlines() {
        const HOUR: u64 = 3_600_000_000_000;
        let quota = Arc::new(Quota::new(8, (8, 8), 1));
        let mut server = TcpServer::new(0, quota.clone(), Arc::new(Unsent::new(1 << 20)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (read, write, idle) = (HOUR, HOUR, HOUR);
        let times = Arc::new(Times { read, write, idle, questions: 9, updates: false });
        let poll = Poll::new().unwrap();
        let open = |server: &mut TcpServer| {
            let local = listener.local_addr().unwrap();
            _ = TcpStream::connect(local).unwrap();
            let (stream, peer) = listener.accept().unwrap();
            let addresses = Addresses::new(peer, local);
            quota.take(addresses.peer().ip()).unwrap().keep();
            let (now, pipe) = (Now::default(), Pipe::dialled(stream, None).unwrap());
            let connection = Connection::new(pipe, addresses, 1, times.clone(), now);
            let key = server.connections.insert(connection);
            server.rearm(key, &poll);
            key
        };
        let stays = open(&mut server);
        for _ in 0..4 * DEADLINES_FEW {
            let key = open(&mut server);
            server.close(key);
            assert!(server.deadlines.len() <= 3 + DEADLINES_FEW);
        }
        assert!(server.deadlines.iter().any(|Reverse((_, key))| *key == stays));
        assert_eq!(server.next_deadline(), Some(HOUR));
        // Those of a connection that stays, but have moved, go too.
        let moved = (1..4 * DEADLINES_FEW as u64).map(|later| Reverse((HOUR + later, stays)));
        server.deadlines.extend(moved);
        server.tidy_deadlines();
        assert_eq!(server.deadlines.len(), 1);
    }
}
