//! Listeners and connections that end.

use super::connection::{Connection, Phase, code};
use super::server::QuicServer;
use crate::context::Context;
use crate::limits::{BATCH, RECEIVE_BUFFER};
use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind};
use crate::tcp::Endpoint as Listener;
use quinn_proto::EndpointEvent;
use std::time::{Duration, Instant};

/// How many timers run out before one that sends a packet again is among them.
const PROBE_TIMERS: usize = 6;

impl Connection {
    /// Closes it when nothing more of its client is heard.
    pub(super) fn part(&mut self, at: Instant) {
        let code = self.farewell();
        if code != code::NO_ERROR && self.phase == Phase::Open {
            // quinn keeps the end behind data that its congestion control holds back, which no packet is
            // going to free. When a packet is taken for lost, one may leave all the same.
            let idle = Duration::from_nanos(self.times.idle / 2);
            let last = at + idle.min(Duration::from_secs(3));
            for _ in 0..PROBE_TIMERS {
                let next = self.quinn.poll_timeout().filter(|next| *next <= last);
                let Some(next) = next else { break };
                self.quinn.handle_timeout(next);
            }
        }
        self.close(code, "", at);
    }
}

impl QuicServer {
    /// Takes up another configuration. What has arrived at listeners that go is still answered; their
    /// connections close once they are answered.
    pub(crate) fn configure(
        &mut self,
        listener: impl Fn(u32) -> Option<Listener>,
        cx: &mut Context<'_>,
    ) {
        for key in self.sites.keys(|site| !site.retired && listener(site.listener.id).is_none()) {
            self.retire(key, cx);
        }
        for (_, site) in self.sites.iter_mut() {
            if let Some(listener) = listener(site.listener.id) {
                site.configure(listener);
            }
        }
    }

    /// Opens no more connections at a socket.
    fn retire(&mut self, key: Key, cx: &mut Context<'_>) {
        for _ in 0..RECEIVE_BUFFER / (BATCH * 1200) {
            if self.receive_batch(key, cx) == 0 {
                break;
            }
        }
        // Handshakes that wait are in vain here.
        while let Some(place) = self.incoming.iter().position(|(site, ..)| *site == key) {
            let Some((_, incoming, _)) = self.incoming.remove(place) else { break };
            let Some(site) = self.sites.get_mut(key) else { break };
            if !self.ending {
                site.endpoint.ignore(incoming);
                continue;
            }
            let mut reply = Vec::new();
            let transmit = site.endpoint.refuse(incoming, &mut reply);
            self.queue(key, &transmit, reply, cx);
        }
        self.flush(cx);
        if let Some(site) = self.sites.get_mut(key) {
            site.retired = true;
        }
        for connection in self.connections.keys(|own| own.site == key) {
            self.end_connection(connection);
        }
        self.flush(cx);
        self.tidy(cx.poll);
    }

    fn end_connection(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.say_goodbye();
            connection.ending = true;
        }
        self.mark(key);
    }

    /// Whether a connection that is answered may close: not before the client has acknowledged the
    /// answers, as long as that can be heard.
    pub(super) fn may_end(&self, key: Key) -> bool {
        let Some(connection) = self.connections.get(key) else { return false };
        let hears = self.sites.get(connection.site).is_some_and(|site| !site.deaf);
        !hears || connection.is_acknowledged()
    }

    /// Closes sockets whose listener is gone and whose connections are over.
    pub(crate) fn tidy(&mut self, poll: &Poll) {
        let is_open = |key: Key| {
            let mut all = self.connections.iter();
            all.any(|(_, own)| own.site == key && own.phase != Phase::Closed)
        };
        let over: Vec<Key> = self.sites.keys(|site| site.retired);
        let over: Vec<Key> = over.into_iter().filter(|key| !is_open(*key)).collect();
        for key in over {
            for connection in self.connections.keys(|own| own.site == key) {
                self.remove(connection);
            }
            if let Some(site) = self.sites.remove(key) {
                poll.remove(&site.socket);
            }
        }
    }

    /// Opens no more connections; those that are open close once they are answered.
    pub(crate) fn stop(&mut self, cx: &mut Context<'_>) {
        self.ending = true;
        for key in self.sites.keys(|site| !site.retired) {
            self.retire(key, cx);
        }
    }

    /// Leaves what arrives where it is, or takes it again.
    pub(crate) fn pause(&mut self, paused: bool, poll: &Poll) {
        for (key, site) in self.sites.iter() {
            if paused {
                poll.remove(&site.socket);
            } else {
                _ = poll.add(&site.socket, Kind::QuicServer, key, Interest::READ);
            }
        }
    }

    /// As [`QuicServer::stop`], but what arrives belongs to another process from now on: packets of the
    /// connections here too, so that these close as soon as their answers are sent.
    pub(crate) fn leave(&mut self, is_kept: impl Fn(u32) -> bool, cx: &mut Context<'_>) {
        self.ending = true;
        for key in self.sites.keys(|site| !site.retired) {
            let Some(site) = self.sites.get_mut(key) else { continue };
            if is_kept(site.listener.id) {
                (site.retired, site.deaf) = (true, true);
            } else {
                _ = cx.poll.add(&site.socket, Kind::QuicServer, key, Interest::READ);
                self.retire(key, cx);
            }
        }
        self.incoming.clear();
        for key in self.connections.keys(|_| true) {
            self.end_connection(key);
        }
        self.flush(cx);
        self.tidy(cx.poll);
    }

    /// Reads no more from the sockets of this worker, which has recovered, and closes the connections
    /// that came by them meanwhile.
    pub(crate) fn give_back_sockets(&mut self, worker: usize, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        for key in self.sites.keys(|site| site.of == Some(worker)) {
            for connection in self.connections.keys(|own| own.site == key) {
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.part(at);
                }
                self.transmit(connection, cx);
            }
            self.send_queue(cx);
            if let Some(site) = self.sites.get_mut(key) {
                site.retired = true;
            }
        }
        self.tidy(cx.poll);
    }

    /// Closes all connections, whatever they wait for.
    pub(crate) fn close_all(&mut self, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        for key in self.connections.keys(|own| own.phase != Phase::Closed) {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.part(at);
            }
            self.transmit(key, cx);
        }
        self.send_queue(cx);
    }

    /// Closes the connections of this worker that hold too much of what all may hold.
    pub(crate) fn close_doomed(&mut self, cx: &mut Context<'_>) {
        if self.connections.len() == 0 {
            // Most workers have none, and would lock the books for nothing.
            return;
        }
        let at = self.instant(cx.now);
        for key in self.unsent.doomed(self.place) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            cx.counters.add(cx.counters.greedy, 1);
            connection.close(code::EXCESSIVE_LOAD, "", at);
            self.discard(key, cx);
        }
        self.send_queue(cx);
    }

    /// Sends what a connection that is closed still says, and forgets it. It would else stay for a while,
    /// to say so again to packets that were on their way.
    pub(super) fn discard(&mut self, key: Key, cx: &mut Context<'_>) {
        self.transmit(key, cx);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let Some(site) = self.sites.get_mut(connection.site) {
            site.connections.remove(&connection.handle);
            _ = site.endpoint.handle_event(connection.handle, EndpointEvent::drained());
        }
        self.remove(key);
    }

    /// Whether other workers should look for connections that hold too much; says so once.
    pub(crate) fn take_pressure(&mut self) -> bool {
        std::mem::take(&mut self.presses)
    }
}
