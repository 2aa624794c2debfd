//! New client connections: accepted always, kept if there is room.

use super::connection::Connection;
use super::quota::{Full, Place};
use super::server::{Listener, TcpServer};
use super::unsent::Holding;
use crate::context::Context;
use crate::limits::{ACCEPTS_IN_A_ROW, BACKLOG};
use crate::pipe::Pipe;
use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind};
use rustix::net::SocketFlags;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl TcpServer {
    /// Adds a listener; without `poll` nothing is accepted until [`TcpServer::pause`] says so.
    /// `of` is the worker that the socket is borrowed from.
    pub(crate) fn listen(
        &mut self,
        socket: Arc<OwnedFd>,
        (endpoint, of): (u32, Option<usize>),
        poll: Option<&Poll>,
    ) {
        let key = self.listeners.insert(Listener { socket, endpoint, of });
        if let (Some(listener), Some(poll)) = (self.listeners.get(key), poll) {
            _ = poll.add(&listener.socket, Kind::TcpListener, key, Interest::READ);
        }
    }

    /// Whether it accepts connections at this socket.
    pub(crate) fn has(&self, wanted: &Arc<OwnedFd>) -> bool {
        self.listeners.iter().any(|(_, own)| Arc::ptr_eq(&own.socket, wanted))
    }

    /// Accepts no more at the sockets that are borrowed from this worker.
    pub(crate) fn give_back(&mut self, worker: usize, poll: &Poll) {
        for key in self.listeners.keys(|own| own.of == Some(worker)) {
            if let Some(listener) = self.listeners.remove(key) {
                poll.remove(&listener.socket);
            }
        }
    }

    /// Leaves new connections where they are, or goes on accepting them.
    pub(crate) fn pause(&self, paused: bool, poll: &Poll) {
        for (key, listener) in self.listeners.iter() {
            if paused {
                poll.remove(&listener.socket);
            } else {
                _ = poll.add(&listener.socket, Kind::TcpListener, key, Interest::READ);
            }
        }
    }

    /// Accepts whatever waits at a listener that is about to close.
    pub(super) fn accept_all(&mut self, key: Key, cx: &mut Context<'_>) {
        for _ in 0..=BACKLOG as usize / ACCEPTS_IN_A_ROW {
            if !self.accept(key, cx) {
                return;
            }
        }
    }

    /// Accepts what waits at a listener; says whether there may be more.
    pub(crate) fn accept(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        for _ in 0..ACCEPTS_IN_A_ROW {
            let Some(listener) = self.listeners.get(key) else { return false };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let endpoint = listener.endpoint;
            match rustix::net::accept_with(&listener.socket, flags) {
                Ok(fd) => self.admit(TcpStream::from(fd), endpoint, cx),
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    if !self.make_room(None, cx) {
                        self.refuse(key);
                    }
                }
                // The client gave up while it waited.
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes a new connection, at the cost of the longest idle one if there is no place left: of
    /// the same client, if it is that client's places which are taken.
    fn admit(&mut self, stream: TcpStream, endpoint: u32, cx: &mut Context<'_>) {
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
        let (peer, local) = (canonical(peer), canonical(local));
        cx.counters.add(cx.counters.accepted, 1);
        let mut place = self.quota.take(peer.ip());
        let made = match place {
            Ok(_) => false,
            Err(Full::All) => self.make_room(None, cx),
            Err(Full::Client) => self.make_room(Some(peer.ip()), cx),
        };
        if made {
            place = self.quota.take(peer.ip());
        }
        let Ok(place) = place else {
            cx.counters.add(cx.counters.evicted, 1);
            return;
        };
        let Some(key) = self.keep(stream, (peer, local), endpoint, place, cx) else { return };
        self.expect_head(key);
        // Most clients have sent their question by now.
        if !self.puts_off(key) {
            self.read(key, cx);
        }
        // Whoever is idle may be with another worker.
        self.presses |= self.quota.is_tight() && !self.make_room(None, cx);
        let client = peer.ip();
        self.presses |= self.quota.is_crowded(client) && !self.make_room(Some(client), cx);
    }

    /// Begins to watch a connection that has its place.
    pub(super) fn keep(
        &mut self,
        stream: TcpStream,
        addresses: (SocketAddr, SocketAddr),
        endpoint: u32,
        place: Place,
        cx: &mut Context<'_>,
    ) -> Option<Key> {
        let listener = self.endpoint(endpoint)?;
        let (pipe, times) = (Pipe::accepted(&listener, stream)?, listener.times);
        let (unsent, worker) = (self.unsent.clone(), self.worker);
        let key = self.connections.insert_with(|key| {
            let holding = Holding::new(unsent, addresses.0.ip(), worker, key);
            Connection::new(pipe, addresses, endpoint, times, cx.now, (place, holding))
        });
        self.idle.enter(key, cx.now.mono_ns);
        self.idle_by_client.enter(addresses.0.ip(), key, cx.now.mono_ns);
        let connection = self.connections.get_mut(key)?;
        let identity = (Kind::TcpServer, key);
        if connection.pipe.register(cx.poll, identity, Interest::READ).is_err() {
            self.close(key);
            return None;
        }
        Some(key)
    }

    /// Whether the other workers should close idle connections, or such as hold too much; says so
    /// once.
    pub(crate) fn take_pressure(&mut self) -> bool {
        std::mem::take(&mut self.presses)
    }

    /// Closes idle connections until the last places are free again, and those that hold too much.
    pub(crate) fn relieve(&mut self, cx: &mut Context<'_>) {
        while self.quota.is_tight() && self.make_room(None, cx) {}
        for client in self.quota.crowded() {
            while self.quota.is_crowded(client) && self.make_room(Some(client), cx) {}
        }
        self.close_doomed(cx);
    }

    /// Closes the longest idle connection, of `client` if one is given; says whether there was one.
    pub(super) fn make_room(&mut self, client: Option<IpAddr>, cx: &Context<'_>) -> bool {
        let connections = &self.connections;
        let idle_since = |key| {
            let connection: &Connection = connections.get(key)?;
            // It may have been passed on to the client that a proxy named.
            let is_own = client.is_none_or(|client| connection.peer.ip() == client);
            is_own.then_some(if connection.is_idle() {
                connection.active_at
            } else {
                cx.now.mono_ns
            })
        };
        let longest = match client {
            None => self.idle.longest(cx.now.mono_ns, idle_since),
            Some(client) => self.idle_by_client.longest(client, cx.now.mono_ns, idle_since),
        };
        let Some(key) = longest else { return false };
        cx.counters.add(cx.counters.evicted, 1);
        self.evict(key);
        true
    }

    /// Takes a connection off the queue although there is no descriptor for it, and closes it.
    fn refuse(&mut self, key: Key) {
        self.reserve = None;
        if let Some(listener) = self.listeners.get(key) {
            let accept = || rustix::net::accept_with(&listener.socket, SocketFlags::CLOEXEC);
            drop(rustix::io::retry_on_intr(accept));
        }
        self.reserve = Poll::new().ok();
    }
}

/// IPv4 clients of an IPv6 socket are IPv4 clients.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}
