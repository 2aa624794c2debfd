//! The sockets a worker listens to: its own, and those of others that are stuck.

use super::EventLoop;
use crate::listeners::{Assigned, Listening};
use crate::poll::Interest;
use crate::slots::Kind;
use nodens_core::Now;

impl EventLoop {
    /// Begins to listen, unless the listener is gone meanwhile; `of` is the worker that the socket is
    /// borrowed from.
    pub(super) fn listen(&mut self, assigned: Assigned, of: Option<usize>) {
        let Some(endpoint) = self.tcp.endpoint(assigned.listener) else { return };
        let Assigned { bound, socket: Listening { transport, socket }, .. } = assigned;
        let poll = (!self.paused).then_some(&self.poll);
        if transport.is_quic() {
            self.quic.listen((socket, of), bound, endpoint, poll);
        } else if transport.is_datagram() {
            let key = self.udp.add(socket.clone(), endpoint, bound, of);
            _ = poll.map(|poll| poll.add(&socket, Kind::UdpServer, key, Interest::READ));
        } else {
            self.tcp.listen(socket, (endpoint.id, of), poll);
        }
    }

    /// Answers at the sockets of another worker too, as far as it does not do so already.
    pub(super) fn stand_in(&mut self, worker: usize, sockets: Vec<Assigned>) {
        if self.stop_at.is_some() {
            return;
        }
        for assigned in sockets {
            let socket = &assigned.socket.socket;
            if !self.udp.has(socket) && !self.tcp.has(socket) && !self.quic.has(socket) {
                self.listen(assigned, Some(worker));
            }
        }
    }

    /// Leaves the sockets of another worker to it. They stay as they are: it may read them by now.
    pub(super) fn stand_down(&mut self, worker: usize, now: Now) {
        for key in self.udp.borrowed(worker) {
            if let Some(socket) = self.udp.socket(key) {
                self.poll.remove(socket);
            }
            self.udp.retire(key);
        }
        self.tcp.give_back(worker, &self.poll);
        self.quic(now, |quic, cx| quic.give_back_sockets(worker, cx));
    }
}
