//! New client connections: accepted always, kept if there is room.

use super::addresses::Addresses;
use super::connection::{Connection, NEVER};
use super::http::Http;
use super::pressure::idle_since;
use super::quota::{Full, Place};
use super::server::{Listener, TcpServer};
use crate::context::Context;
use crate::descriptors;
use crate::limits::{
    ACCEPTS_IN_A_ROW, ACCEPTS_WHILE_ASKING, BACKLOG, CLOSES_IN_A_ROW, HOLD_OFF_NS, PRESS_NS,
    ROOM_FOR_UPSTREAMS,
};
use crate::pipe::Pipe;
use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind};
use nodens_core::Group;
use nodens_core::Now;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::net::{SocketAddr, TcpStream};
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
    pub(crate) fn pause(&mut self, paused: bool, poll: &Poll) {
        self.accept_at = NEVER;
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
            // Those that wait here have no other time.
            self.asks = None;
        }
    }

    /// Accepts what waits at a listener; says whether there may be more.
    pub(crate) fn accept(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        for turn in 0..ACCEPTS_IN_A_ROW {
            if self.asks.is_some() && turn >= ACCEPTS_WHILE_ASKING {
                return true;
            }
            let Some(listener) = self.listeners.get(key) else { return false };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let endpoint = listener.endpoint;
            match rustix::net::acceptfrom_with(&listener.socket, flags) {
                Ok((fd, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    self.admit(TcpStream::from(fd), peer, endpoint, cx);
                }
                Err(error) if descriptors::is_short(Some(error)) => {
                    self.quota.lower(descriptors::connections_now());
                    if !self.make_room(None, cx) && !self.refuse(key) {
                        self.hold_off(cx);
                        return false;
                    }
                }
                // The client gave up while it waited.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes a new connection, at the cost of the longest idle one if there is no place left: of
    /// the same client or network, if it is that one's places which are taken.
    fn admit(
        &mut self,
        stream: TcpStream,
        peer: Option<SocketAddr>,
        endpoint: u32,
        cx: &mut Context<'_>,
    ) {
        let (Some(peer), Ok(local)) = (peer, stream.local_addr()) else { return };
        let addresses = Addresses::new(peer, local);
        let client = addresses.peer().ip();
        cx.counters.add(cx.counters.accepted, 1);
        let mut place = self.quota.take(client);
        let made = match place {
            Ok(_) => false,
            Err(Full::All) => self.make_room(None, cx),
            Err(Full::Group(group)) => self.make_room(Some(group), cx),
        };
        if made {
            place = self.quota.take(client);
        }
        let Ok(place) = place else {
            // Whoever is idle is with another worker, if anybody is.
            self.presses = true;
            cx.counters.add(cx.counters.evicted, 1);
            return;
        };
        let Some(key) = self.keep(stream, addresses, endpoint, place, cx) else { return };
        self.expect_head(key);
        // Most clients have sent their question by now.
        if !self.puts_off(key) {
            self.read(key, cx);
        }
        // Whoever is idle may be with another worker.
        self.presses |= !self.ease(cx);
        for group in self.quota.clone().crowded_of(client) {
            self.presses |= !self.make_room(Some(group), cx);
        }
        self.presses |= self.begin_sweeps(cx.now);
        if self.quota.is_short() {
            // There are descriptors again.
            self.quota.end_shortage();
        }
    }

    /// Begins to watch a connection that has its place.
    pub(super) fn keep(
        &mut self,
        stream: TcpStream,
        addresses: Addresses,
        endpoint: u32,
        place: Place,
        cx: &mut Context<'_>,
    ) -> Option<Key> {
        let listener = self.endpoint(endpoint)?;
        let few = listener.http.as_ref().and_then(|http| http.few.as_ref());
        let entry = match few {
            None => None,
            Some(few) => Some(self.enter(few, (endpoint, addresses.peer().ip()), cx)?),
        };
        let pipe = Pipe::accepted(&listener, stream)?;
        let http = Http::new(&listener, entry);
        let mut connection = Connection::new(pipe, addresses, endpoint, listener.times, cx.now);
        if http.is_some() {
            connection.rare_mut().http = http;
        }
        let key = self.connections.insert(connection);
        // From here on the place is given back when the connection is taken out.
        place.keep();
        self.idle.enter(key, cx.now.mono_ns);
        if few.is_some() {
            self.idle_by_listener.entry(endpoint).or_default().enter(key, cx.now.mono_ns);
        }
        self.tell_idle();
        self.idle_by_group.enter(addresses.peer().ip(), key, cx.now.mono_ns);
        let connection = self.connections.get_mut(key)?;
        let identity = (Kind::TcpServer, key);
        if connection.pipe.register(cx.poll, identity, Interest::READ).is_err() {
            self.close(key);
            return None;
        }
        Some(key)
    }

    /// Whether the other workers should close idle connections, or such as hold too much; says so
    /// once, and not again at once: while all are busy, each new connection would wake everybody.
    pub(crate) fn take_pressure(&mut self, now: Now) -> bool {
        let is_told = now.mono_ns >= self.press_at && std::mem::take(&mut self.presses);
        if is_told {
            self.press_at = now.mono_ns.saturating_add(PRESS_NS);
        }
        is_told
    }

    /// Closes idle connections until the last places are free again, and those that hold too much.
    pub(crate) fn relieve(&mut self, cx: &mut Context<'_>) {
        // One of the workers is enough.
        if self.quota.end_shortage() && !self.make_room(None, cx) {
            self.quota.note_shortage();
        }
        self.relieve_few(cx);
        self.ease(cx);
        for group in self.quota.crowded() {
            while self.quota.is_crowded(group) && self.make_room(Some(group), cx) {}
        }
        _ = self.begin_sweeps(cx.now);
        self.close_doomed(cx);
    }

    /// Closes idle connections while the last places of all are taken, those first that have been idle for
    /// longest, whichever worker has them. A few at a time, so that queries do not wait. Says `false`
    /// if more should go, and this worker has none that is idle.
    pub(super) fn ease(&mut self, cx: &Context<'_>) -> bool {
        self.eases = false;
        let now_ns = cx.now.mono_ns;
        let mut closed = 0;
        let mut has_one = true;
        while closed < CLOSES_IN_A_ROW && self.quota.is_tight() {
            let idle_since = idle_since(&self.connections, None, cx.now);
            let longest = self.idle.longest(now_ns, idle_since);
            let connection = longest.and_then(|key| Some((key, self.connections.get(key)?)));
            let since = connection.map_or(now_ns, |(_, connection)| connection.active_at);
            has_one = connection.is_some();
            self.asks = self.quota.idle_elsewhere(self.worker, since);
            let Some(key) = longest else { break };
            if self.asks.is_some() {
                self.idle.enter(key, since);
                break;
            }
            cx.counters.add(cx.counters.evicted, 1);
            self.evict(key, cx.now);
            closed += 1;
        }
        if closed > 0 || self.asks.is_some() || !has_one {
            self.tell_idle();
        }
        self.eases = closed == CLOSES_IN_A_ROW;
        has_one || self.asks.is_some()
    }

    /// Tells the others since when connections of this worker may be idle.
    pub(super) fn tell_idle(&self) {
        self.quota.tell_idle(self.worker, self.idle.since().unwrap_or(NEVER));
    }

    /// The worker that is asked to close a connection that has been idle for longer than any here.
    pub(crate) fn take_asked(&mut self) -> Option<usize> {
        self.asks.take()
    }

    /// Gives up idle connections because there is no descriptor for a query to an upstream; says whether
    /// there were any.
    pub(crate) fn make_room_for_upstreams(&mut self, cx: &Context<'_>) -> bool {
        self.quota.lower(descriptors::connections_now());
        let closed = (0..ROOM_FOR_UPSTREAMS).take_while(|_| self.make_room(None, cx)).count();
        if closed == 0 {
            self.quota.note_shortage();
        }
        // The rest goes by and by.
        self.presses |= closed == 0 || self.quota.is_tight();
        self.eases = self.quota.is_tight();
        closed > 0
    }

    /// Closes the longest idle connection, of `group` if one is given; says whether there was one.
    pub(super) fn make_room(&mut self, group: Option<Group>, cx: &Context<'_>) -> bool {
        let connections = &self.connections;
        let idle_since = idle_since(connections, group, cx.now);
        let longest = match group {
            None => self.idle.longest(cx.now.mono_ns, idle_since),
            Some(group) => {
                let all = connections.iter().map(|(key, connection)| {
                    (key, connection.addresses.peer().ip(), connection.active_at)
                });
                self.idle_by_group.longest(group, cx.now.mono_ns, all, idle_since)
            }
        };
        if let Some(key) = longest {
            cx.counters.add(cx.counters.evicted, 1);
            self.evict(key, cx.now);
        }
        self.tell_idle();
        longest.is_some()
    }

    /// Takes a connection off the queue although there is no descriptor for it, and closes it. The
    /// next one may have that of a connection that is idle at another worker. Says `false` if there
    /// is not even a descriptor for that.
    fn refuse(&mut self, key: Key) -> bool {
        self.quota.note_shortage();
        self.presses = true;
        self.reserve = None;
        let Some(listener) = self.listeners.get(key) else { return false };
        let accept = || rustix::net::accept_with(&listener.socket, SocketFlags::CLOEXEC);
        let refused = rustix::io::retry_on_intr(accept);
        let is_possible = !descriptors::is_short(refused.as_ref().err().copied());
        drop(refused);
        self.reserve = Poll::new().ok();
        is_possible
    }

    /// Accepts nothing for a moment. What waits would else be announced without end.
    fn hold_off(&mut self, cx: &Context<'_>) {
        self.pause(true, cx.poll);
        self.accept_at = cx.now.mono_ns.saturating_add(HOLD_OFF_NS);
    }

    /// Accepts again after a moment without descriptors.
    pub(super) fn go_on_accepting(&mut self, now: Now, poll: &Poll) {
        if self.accept_at <= now.mono_ns {
            self.pause(false, poll);
        }
    }
}
