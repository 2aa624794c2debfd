//! The QUIC sockets and client connections of one worker.

use super::books::Books;
use super::clock::Clock;
use super::connection::{Connection, Phase, code};
use super::deadlines::{self, Deadlines};
use super::opening::note_untrusted;
use super::site::Site;
use crate::context::Context;
use crate::limits::{QUIC_DATAGRAM_MAX, QUIC_RETRY_NS, QUIC_WAITING_EVENTS};
use crate::poll::{Interest, Poll};
use crate::slots::{Key, Kind, Slots};
use crate::sys::{Batch, Outgoing, Sender};
use crate::tcp::{Endpoint as Listener, NEVER, Place, Unsent};
use nodens_core::Now;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, Dir, EndpointConfig, Event, Incoming,
    StreamEvent,
};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// What the books of memory know the connections of a worker by, beside its number.
const OF_QUIC: usize = 1 << (usize::BITS - 1);

/// QUIC of one worker.
pub(crate) struct QuicServer {
    /// Which worker this is, as the books of memory know it.
    pub(super) place: usize,
    pub(super) books: Arc<Books>,
    /// What all connections of the process may hold.
    pub(super) unsent: Arc<Unsent>,
    endpoints: Arc<EndpointConfig>,
    pub(super) sites: Slots<Site>,
    pub(super) connections: Slots<Connection>,
    /// Connections whose handshake has its next packets.
    pub(super) handshakes: VecDeque<Key>,
    /// Connections that are not opened yet, with their socket.
    pub(super) incoming: VecDeque<(Key, Incoming, Place)>,
    /// How many that began got a packet in answer to this batch, and nothing else.
    pub(super) turned_away: usize,
    pub(super) deadlines: Deadlines,
    /// Connections with something to do at the end of the round.
    pub(super) dirty: Vec<Key>,
    /// Connections whose streams wait for a place among all queries that wait.
    pub(super) row: VecDeque<Key>,
    /// When to look whether another worker has given back a place.
    pub(super) row_at: u64,
    batch: Option<Batch>,
    pub(super) sender: Option<Sender>,
    /// Packets to send, all by the same socket.
    pub(super) queue: Vec<Outgoing>,
    pub(super) queued_at: Option<Key>,
    pub(super) spare: Vec<Vec<u8>>,
    /// What a stream has in front.
    pub(super) message: Vec<u8>,
    pub(super) answer: Vec<u8>,
    pub(super) framed: Vec<u8>,
    /// Memory is short, perhaps for a connection of another worker.
    pub(super) presses: bool,
    pub(super) ending: bool,
    clock: Clock,
}

impl QuicServer {
    pub(crate) fn new(worker: usize, books: Arc<Books>, unsent: Arc<Unsent>) -> Self {
        Self {
            place: OF_QUIC | worker,
            books,
            unsent,
            endpoints: Arc::default(),
            sites: Slots::default(),
            connections: Slots::default(),
            handshakes: VecDeque::new(),
            incoming: VecDeque::new(),
            turned_away: 0,
            deadlines: Deadlines::new(),
            dirty: Vec::new(),
            row: VecDeque::new(),
            row_at: NEVER,
            batch: None,
            sender: None,
            queue: Vec::new(),
            queued_at: None,
            spare: Vec::new(),
            message: Vec::new(),
            answer: Vec::new(),
            framed: Vec::new(),
            presses: false,
            ending: false,
            clock: Clock::new(),
        }
    }

    /// Begins to listen; without `poll` nothing is read until [`QuicServer::pause`] says so. `of` is the
    /// worker that the socket is borrowed from.
    pub(crate) fn listen(
        &mut self,
        (socket, of): (Arc<OwnedFd>, Option<usize>),
        bound: SocketAddr,
        listener: Listener,
        poll: Option<&Poll>,
    ) {
        let site = Site::new((socket, of), bound, listener, &self.endpoints, &self.books);
        let Some(site) = site else { return };
        self.batch.get_or_insert_with(Batch::new);
        self.sender.get_or_insert_with(Sender::new);
        let key = self.sites.insert(site);
        if let (Some(site), Some(poll)) = (self.sites.get(key), poll) {
            _ = poll.add(&site.socket, Kind::QuicServer, key, Interest::READ);
        }
    }

    /// Whether it reads this socket.
    pub(crate) fn has(&self, wanted: &Arc<OwnedFd>) -> bool {
        self.sites.iter().any(|(_, own)| Arc::ptr_eq(&own.socket, wanted))
    }

    /// Whether no connection is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.iter().all(|(_, own)| own.phase == Phase::Closed)
    }

    /// The time on quinn's clock.
    pub(super) fn instant(&self, now: Now) -> Instant {
        self.clock.instant(now)
    }

    /// Takes a batch of what has arrived at a socket. The rest has its turn behind what others have sent: a
    /// packet here costs as much as many hits.
    pub(crate) fn receive(&mut self, site: Key, cx: &mut Context<'_>) {
        _ = self.receive_batch(site, cx);
    }

    pub(super) fn receive_batch(&mut self, key: Key, cx: &mut Context<'_>) -> usize {
        let Some(mut batch) = self.batch.take() else { return 0 };
        self.turned_away = 0;
        let count = self.sites.get(key).map_or(0, |site| {
            let wild = site.bound.ip().is_unspecified();
            // An error is that of an earlier packet (an ICMP message); QUIC finds out by itself.
            batch.receive(&*site.socket, wild).unwrap_or(0)
        });
        for index in 0..count {
            let Some(datagram) = batch.datagram(index) else { break };
            let is_short = !datagram.cut && datagram.octets.len() <= QUIC_DATAGRAM_MAX;
            match datagram.peer.filter(|peer| peer.port() != 0 && is_short) {
                Some(peer) => self.take((key, peer, datagram.local), datagram.octets, cx),
                None => cx.counters.add(cx.counters.datagrams_refused, 1),
            }
        }
        self.batch = Some(batch);
        count
    }

    fn take(
        &mut self,
        (key, peer, local): (Key, SocketAddr, Option<IpAddr>),
        octets: &[u8],
        cx: &mut Context<'_>,
    ) {
        let at = self.instant(cx.now);
        let mut reply = self.spare.pop().unwrap_or_default();
        let Some(site) = self.sites.get_mut(key) else { return };
        let event = site.endpoint.handle(at, peer, local, None, octets.into(), &mut reply);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.hear((key, handle), (event, octets.len()), cx);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.consider(key, incoming, cx),
            Some(DatagramEvent::Response(transmit)) => {
                return self.queue(key, &transmit, reply, cx);
            }
            None => {}
        }
        self.give_back(reply);
    }

    /// A packet of a connection has come.
    fn hear(
        &mut self,
        (site, handle): (Key, ConnectionHandle),
        (event, len): (ConnectionEvent, usize),
        cx: &mut Context<'_>,
    ) {
        let known = self.sites.get(site).and_then(|site| site.connections.get(&handle));
        let Some(key) = known.copied() else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase != Phase::Handshake {
            connection.hear(event, len);
            return mark(&mut self.dirty, connection, key);
        }
        if connection.events.len() >= QUIC_WAITING_EVENTS {
            // It is sent again.
            return cx.counters.add(cx.counters.overflowed, 1);
        }
        connection.events.push((event, len));
        if !connection.in_turn {
            connection.in_turn = true;
            self.handshakes.push_back(key);
        }
    }

    /// Notes that a connection has something to do at the end of the round.
    pub(super) fn mark(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            mark(&mut self.dirty, connection, key);
        }
    }

    /// Ends the round: takes what has come whole, sends what is to be sent.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        loop {
            while let Some(key) = self.dirty.pop() {
                self.settle(key, cx);
            }
            if !self.call_next() {
                break;
            }
        }
        self.row_at = match self.row.is_empty() {
            true => NEVER,
            false => cx.now.mono_ns.saturating_add(QUIC_RETRY_NS),
        };
        self.send_queue(cx);
        if self.sites.iter().any(|(_, site)| site.retired) {
            self.tidy(cx.poll);
        }
        if self.presses {
            self.close_doomed(cx);
        }
    }

    fn settle(&mut self, key: Key, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.dirty = false;
        self.hear_events(key, cx);
        self.take_side_streams(key, cx);
        self.take_queries(key, cx);
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.write_rest();
        let (site, turn) = (connection.site, connection.go_on_sending(cx.now, &mut self.answer));
        let is_over = connection.ending && connection.is_answered();
        if connection.is_clogged() {
            cx.counters.add(cx.counters.greedy, 1);
            connection.close(code::EXCESSIVE_LOAD, "", at);
        }
        self.count_turn(site, turn, cx);
        self.transmit(key, cx);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if is_over && connection.phase != Phase::Closed && self.may_end(key) {
            let Some(connection) = self.connections.get_mut(key) else { return };
            connection.part(at);
            self.transmit(key, cx);
        }
        self.rearm(key);
    }

    fn hear_events(&mut self, key: Key, cx: &mut Context<'_>) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            let Some(event) = connection.quinn.poll() else { return };
            match event {
                Event::Connected => self.connected(key, cx),
                Event::ConnectionLost { reason } => {
                    connection.end();
                    note_untrusted(connection.peer, &reason, cx);
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                    self.read_side_stream(key, id, cx);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(key, id, cx),
                Event::Stream(StreamEvent::Finished { id }) => {
                    connection.acknowledged(id, cx.now);
                }
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    connection.take_partial(id);
                    connection.abandon(id, code::REQUEST_CANCELLED);
                    self.given_up(key, cx);
                }
                // New streams and room on old ones are looked for in each round.
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// The handshake is over.
    fn connected(&mut self, key: Key, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase != Phase::Handshake {
            return;
        }
        connection.open();
        if !self.seat(key, cx)
            && let Some(connection) = self.connections.get_mut(key)
        {
            cx.counters.add(cx.counters.quic_refused, 1);
            connection.close(code::NO_ERROR, "too many connections", at);
        }
        self.greet(key, cx);
    }

    /// Brings the deadlines and the books in line with a connection's state.
    fn rearm(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let quinn = connection.quinn.poll_timeout();
        let own = connection.deadline();
        let held = connection.held();
        self.presses |= connection.holding.set(held);
        let deadline = quinn.map_or(NEVER, |at| self.clock.nanoseconds(at)).min(own);
        let Some(connection) = self.connections.get_mut(key) else { return };
        // Others have their turn in between.
        let deadline = if connection.wants_turn() { 0 } else { deadline };
        if deadline < connection.queued {
            connection.queued = deadline;
            self.deadlines.push(Reverse((deadline, key)));
            deadlines::tidy(&mut self.deadlines, &self.connections, |own| own.queued);
        }
    }

    /// Takes a connection out of the table.
    pub(super) fn remove(&mut self, key: Key) {
        let Some(connection) = self.connections.remove(key) else { return };
        if connection.in_flight > 0
            && let Some(site) = self.sites.get(connection.site)
        {
            // Their responses find nobody.
            site.counts.end(connection.in_flight);
        }
    }
}

pub(super) fn mark(dirty: &mut Vec<Key>, connection: &mut Connection, key: Key) {
    if !connection.dirty {
        connection.dirty = true;
        dirty.push(key);
    }
}
