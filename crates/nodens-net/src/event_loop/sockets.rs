//! The sockets a worker listens to: its own, and those of others that are stuck.

use super::EventLoop;
use crate::listeners::Listening;
use crate::poll::Interest;
use crate::slots::Kind;
use crate::supervisor::Borrowed;
use std::net::SocketAddr;

impl EventLoop {
    /// Begins to listen; `of` is the worker that the socket is borrowed from.
    pub(super) fn listen(
        &mut self,
        Listening { transport, socket }: Listening,
        id: u32,
        bound: SocketAddr,
        of: Option<usize>,
    ) {
        let poll = (!self.paused).then_some(&self.poll);
        if transport.is_datagram() {
            let key = self.udp.add(socket.clone(), id, bound, of);
            _ = poll.map(|poll| poll.add(&socket, Kind::UdpServer, key, Interest::READ));
        } else {
            self.tcp.listen(socket, (id, of), poll);
        }
    }

    /// Answers at the sockets of another worker too, as far as it does not do so already.
    pub(super) fn stand_in(&mut self, worker: usize, sockets: Vec<Borrowed>) {
        if self.stop_at.is_some() {
            return;
        }
        for Borrowed { listener, bound, socket } in sockets {
            // A listener that is gone meanwhile needs nobody.
            let Some(endpoint) = self.tcp.endpoint(listener) else { continue };
            if !self.udp.has(&socket.socket) && !self.tcp.has(&socket.socket) {
                self.listen(socket, listener, bound, Some(worker));
                let place = |id: u32| (id == listener).then_some(endpoint.listener);
                self.udp.number(place);
            }
        }
    }

    /// Leaves the sockets of another worker to it. They stay as they are: it may read them by now.
    pub(super) fn stand_down(&mut self, worker: usize) {
        for key in self.udp.borrowed(worker) {
            if let Some(socket) = self.udp.socket(key) {
                self.poll.remove(socket);
            }
            self.udp.retire(key);
        }
        self.tcp.give_back(worker, &self.poll);
    }
}
