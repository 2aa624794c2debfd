//! The sockets a worker listens to: its own, and those of others that are stuck.

use super::EventLoop;
use crate::poll::Interest;
use crate::slots::Kind;
use crate::supervisor::Borrowed;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

impl EventLoop {
    /// Begins to listen; `of` is the worker that the sockets are borrowed from.
    pub(super) fn listen(
        &mut self,
        (udp, tcp): (Arc<UdpSocket>, Arc<TcpListener>),
        id: u32,
        bound: SocketAddr,
        of: Option<usize>,
    ) {
        let key = self.udp.add(udp, id, bound, of);
        if let Some(socket) = self.udp.socket(key).filter(|_| !self.paused) {
            _ = self.poll.add(socket, Kind::UdpServer, key, Interest::READ);
        }
        let poll = (!self.paused).then_some(&self.poll);
        self.tcp.listen(tcp, (id, of), poll);
    }

    /// Answers at the sockets of another worker too, as far as it does not do so already.
    pub(super) fn stand_in(&mut self, worker: usize, sockets: Vec<Borrowed>) {
        if self.stop_at.is_some() {
            return;
        }
        for Borrowed { listener, bound, udp, tcp } in sockets {
            // A listener that is gone meanwhile needs nobody.
            let Some(endpoint) = self.tcp.endpoint(listener) else { continue };
            if !self.udp.has(&udp) {
                self.listen((udp, tcp), listener, bound, Some(worker));
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
