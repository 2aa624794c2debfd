//! The TCP listeners and client connections of one worker.

use super::connection::{Connection, NEVER};
use super::endpoint::Endpoint;
use super::frame::{Frame, refusal};
use super::idle::{IdleByGroup, IdleQueue};
use super::leaving::Departures;
use super::opening::Head;
use super::quota::Quota;
use super::unsent::Unsent;
use crate::context::Context;
use crate::limits::{
    HELD_FREE, RECORD_LEN_MAX, SEND_EARLY, SPARE_BUFFER_LEN, SPARE_BUFFERS, STREAM_READ_LEN,
    UNSENT_MAX,
};
use crate::pipe::{Received, take_front};
use crate::poll::{Poll, Ready};
use crate::slots::{Key, Kind, Slots};
use nodens_core::{Client, Now, Verdict};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(super) struct Listener {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) endpoint: u32,
    /// The worker it is borrowed from.
    pub(super) of: Option<usize>,
}

/// TCP of one worker.
pub(crate) struct TcpServer {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) listeners: Slots<Listener>,
    pub(super) connections: Slots<Connection>,
    pub(super) idle: IdleQueue,
    pub(super) idle_by_group: IdleByGroup,
    /// When idle connections are looked over because few places are left.
    pub(super) sweep_at: u64,
    /// When connections are accepted again, after there was no descriptor at all.
    pub(super) accept_at: u64,
    pub(super) deadlines: BinaryHeap<Reverse<(u64, Key)>>,
    /// Connections with something to do at the end of the round.
    pub(super) dirty: Vec<Key>,
    /// Connections whose turn it is to make the next message of an answer of many.
    pub(super) turns: VecDeque<Key>,
    /// Connections whose handshake has its next octets, which cost much to process.
    pub(super) handshakes: VecDeque<Key>,
    /// Idle connections of listeners that may have few.
    pub(super) idle_by_listener: HashMap<u32, IdleQueue>,
    pub(super) quota: Arc<Quota>,
    /// Which worker this is.
    pub(super) worker: usize,
    /// What all connections of the process may hold.
    pub(super) unsent: Arc<Unsent>,
    /// Places are short, and no connection here is idle.
    pub(super) presses: bool,
    /// Before this time they are not told: they have just been.
    pub(super) press_at: u64,
    /// Places are short, and this worker has a connection that has been idle for longer than any here.
    pub(super) asks: Option<usize>,
    /// More idle connections have to go as soon as other sockets had their turn.
    pub(super) eases: bool,
    /// Where every read goes first; a connection keeps only what is left of it.
    pub(super) scratch: Vec<u8>,
    pub(super) answer: Vec<u8>,
    pub(super) spare: Vec<Vec<u8>>,
    /// A descriptor to give up when there are no others.
    pub(super) reserve: Option<Poll>,
    /// Connections end once they are answered, whoever they come from.
    pub(super) ending: bool,
    /// Set once connections go on elsewhere.
    pub(super) departures: Option<Box<Departures>>,
}

impl TcpServer {
    /// For `worker`, with the bounds of all connections of the process.
    pub(crate) fn new(worker: usize, quota: Arc<Quota>, unsent: Arc<Unsent>) -> Self {
        Self {
            endpoints: Vec::new(),
            listeners: Slots::default(),
            connections: Slots::default(),
            idle: IdleQueue::default(),
            idle_by_group: IdleByGroup::default(),
            sweep_at: NEVER,
            accept_at: NEVER,
            deadlines: BinaryHeap::new(),
            dirty: Vec::new(),
            turns: VecDeque::new(),
            handshakes: VecDeque::new(),
            idle_by_listener: HashMap::new(),
            quota,
            worker,
            unsent,
            presses: false,
            press_at: 0,
            asks: None,
            eases: false,
            // With TLS, two records may follow what is enough.
            scratch: vec![0; STREAM_READ_LEN + 2 * RECORD_LEN_MAX],
            answer: Vec::with_capacity(512),
            spare: Vec::new(),
            reserve: Poll::new().ok(),
            ending: false,
            departures: None,
        }
    }

    /// Takes up the listeners of a new configuration. Those that are not in it close, after the
    /// connections that were waiting to be accepted; their connections end once they are answered,
    /// without the questions that are still behind a long answer.
    pub(crate) fn configure(&mut self, endpoints: Vec<Endpoint>, cx: &mut Context<'_>) {
        let known = |id: u32| endpoints.iter().any(|endpoint| endpoint.id == id);
        self.close_listeners(|id| !known(id), cx);
        self.endpoints = endpoints;
        self.retime();
    }

    /// The bounds of all connections.
    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Whether no connection is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.len() == 0
    }

    /// Closes all connections, whatever they wait for.
    pub(crate) fn close_all(&mut self) {
        for key in self.connections.keys(|_| true) {
            self.close(key);
        }
    }

    /// A listener of the configuration at work.
    pub(crate) fn endpoint(&self, id: u32) -> Option<Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.id == id).cloned()
    }

    /// Handles what epoll says about a connection.
    pub(crate) fn ready(&mut self, key: Key, ready: Ready, cx: &mut Context<'_>) {
        let awaits_end = self.connections.get(key).is_some_and(Connection::awaits_end);
        if ready.broken && !awaits_end {
            // Reset, or shut both ways: no answer can reach the client.
            self.close(key);
        } else if ready.readable && !self.puts_off(key) {
            self.read(key, cx);
        }
        if let Some(connection) = self.connections.get_mut(key) {
            mark(&mut self.dirty, connection, key);
        }
    }

    /// Reads once and takes the questions that have arrived whole; what is left over in the socket
    /// is announced again. Says whether there may be something left.
    pub(super) fn read(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if connection.awaits_end() {
            return self.drop_input(key);
        }
        if connection.is_deaf() || connection.is_full() {
            // Full: closed and broken connections are announced whether watched for or not.
            mark(&mut self.dirty, connection, key);
            return false;
        }
        if connection.head != Head::Past && !self.open(key, cx) {
            if let Some(connection) = self.connections.get_mut(key) {
                mark(&mut self.dirty, connection, key);
            }
            return false;
        }
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let mut more = false;
        match connection.pipe.read(&mut self.scratch) {
            Ok(Received::End) => connection.end_input(),
            Ok(Received::Octets(len)) => {
                more = len >= STREAM_READ_LEN;
                let scratch = std::mem::take(&mut self.scratch);
                self.take_octets(key, scratch.get(..len).unwrap_or_default(), cx);
                self.scratch = scratch;
                let connection = self.connections.get_mut(key);
                if let Some(ended) = connection.filter(|own| own.pipe.has_ended()) {
                    ended.end_input();
                }
            }
            Ok(Received::Nothing) => {}
            Err(error) => {
                self.note_untrusted(key, &error, cx);
                self.close(key);
                return false;
            }
        }
        let Some(connection) = self.connections.get_mut(key) else { return false };
        mark(&mut self.dirty, connection, key);
        if connection.pipe.output.len() >= SEND_EARLY && !self.send_early(key, cx) {
            return false;
        }
        more
    }

    /// Takes the questions among the octets that are kept and those that follow them.
    pub(super) fn take_octets(&mut self, key: Key, octets: &[u8], cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.speaks_http() {
            return self.take_requests(key, octets, cx);
        }
        let mut kept = std::mem::take(&mut connection.input);
        if kept.capacity() == 0 {
            kept = self.spare.pop().unwrap_or_default();
        }
        let kept = take_front(kept, octets, |all| self.take_questions(key, all, cx));
        match self.connections.get_mut(key).filter(|_| !kept.is_empty()) {
            Some(connection) => connection.input = kept,
            None => keep_buffer(&mut self.spare, kept),
        }
    }

    /// Answers the whole questions in `octets` as far as the connection may; gives the number of
    /// octets they had.
    fn take_questions(&mut self, key: Key, octets: &[u8], cx: &mut Context<'_>) -> usize {
        let Some(connection) = self.connections.get_mut(key) else { return 0 };
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.id == connection.endpoint);
        let Some(endpoint) = endpoint else { return octets.len() };
        let client = Client {
            peer: connection.addresses.peer(),
            local: connection.addresses.local(),
            transport: connection.pipe.transport(),
            listener: endpoint.listener,
            connection: key.bits(),
            stream: 0,
            old_tls: connection.pipe.is_old_tls(),
        };
        if connection.tlvs().is_some() {
            cx.worker.announce(connection.tlvs());
        }
        let mut taken = 0;
        let mut heard = false;
        while !connection.is_full()
            && !connection.is_spent()
            && let Some(Frame::Message(message, len)) = connection.frame(octets, taken)
        {
            let verdict = cx.worker.receive(cx.now, client, message, &mut self.answer);
            heard |= verdict != Verdict::Silent;
            match verdict {
                Verdict::Answered => {
                    connection.pipe.output.push(&self.answer, &mut self.spare);
                }
                Verdict::Streaming => {
                    connection.pipe.output.push(&self.answer, &mut self.spare);
                    connection.in_flight += 1;
                    connection.rest = cx.worker.take_stream();
                }
                Verdict::Pending => connection.in_flight += 1,
                Verdict::Silent => {}
            }
            taken += len;
            connection.count_question();
        }
        if connection.tlvs().is_some() {
            cx.worker.announce(None);
        }
        // What is not answered, such as an empty message, buys no time.
        if heard {
            connection.refresh(cx.now);
        }
        if !connection.is_full()
            && let Some(Frame::TooLong(header)) = connection.frame(octets, taken)
        {
            // What it would take to hear it out is more than any question is worth.
            cx.counters.add(cx.counters.oversized, 1);
            connection.closing = true;
            if let Some(answer) = refusal(header) {
                connection.pipe.output.push(&answer, &mut self.spare);
            }
            return octets.len();
        }
        if connection.is_spent() {
            return octets.len();
        }
        if taken < octets.len() {
            connection.began(cx.now);
        }
        taken
    }

    /// Sends an answer that had to be waited for, at the end of the round. Closes the connection and
    /// says `false` if there is no memory for a long one.
    pub(crate) fn send(&mut self, client: &Client, wire: &[u8], now: Now) -> bool {
        let key = Key::from_bits(client.connection);
        let Some(connection) = self.connections.get_mut(key) else { return true };
        let holds = connection.is_entered() || !connection.pipe.output.is_empty();
        if wire.len() > HELD_FREE && self.unsent.is_overdrawn(holds) {
            self.reset(key);
            return false;
        }
        if connection.speaks_http() {
            self.respond(client, Some(wire), now);
        } else {
            connection.pipe.output.push(wire, &mut self.spare);
        }
        self.settle_one(key);
        true
    }

    /// A question that waited gets no answer.
    pub(crate) fn forget(&mut self, client: &Client, now: Now) {
        self.respond(client, None, now);
        self.settle_one(Key::from_bits(client.connection));
    }

    /// A question that waited waits no more.
    fn settle_one(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.in_flight = connection.in_flight.saturating_sub(1);
        mark(&mut self.dirty, connection, key);
    }

    /// Ends the round: sends what is to be sent, takes questions that had to wait for it, watches
    /// for what comes next.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        while let Some(key) = self.dirty.pop() {
            self.settle(key, cx);
        }
        if self.presses {
            self.close_doomed(cx);
        }
    }

    fn settle(&mut self, key: Key, cx: &mut Context<'_>) {
        self.go_on_with_requests(key, cx);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.dirty = false;
        let owed = !connection.pipe.output.is_empty();
        if connection.flush(cx.now).is_err() {
            self.close(key);
            return;
        }
        if connection.pipe.output.len() + connection.held() > UNSENT_MAX {
            cx.counters.add(cx.counters.unread, 1);
            self.reset(key);
            return;
        }
        self.presses |= connection.account((&self.unsent, self.worker, key));
        if connection.is_idle() && connection.has_responded(owed) {
            connection.refresh(cx.now);
        }
        if connection.wants_message() && !connection.in_turn {
            connection.in_turn = true;
            self.turns.push_back(key);
        }
        if !connection.is_full() && connection.frame(&connection.input, 0).is_some() {
            self.take_octets(key, &[], cx);
            let Some(connection) = self.connections.get_mut(key) else { return };
            mark(&mut self.dirty, connection, key);
            return;
        }
        let is_over = connection.closing && connection.is_idle();
        if (!connection.is_full() && connection.has_more_requests())
            || (is_over && connection.say_goodbye(cx.now))
        {
            mark(&mut self.dirty, connection, key);
            return;
        }
        if is_over {
            self.end(key, cx.now, cx.poll);
            return;
        }
        if let Some(buffer) = connection.pipe.output.take_buffer() {
            keep_buffer(&mut self.spare, buffer);
        }
        self.rearm(key, cx.poll);
    }

    /// Brings epoll and the deadlines in line with the connection's state.
    pub(super) fn rearm(&mut self, key: Key, poll: &Poll) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.pipe.watch(poll, (Kind::TcpServer, key), connection.wanted());
        let deadline = connection.deadline();
        if deadline < connection.queued {
            connection.queued = deadline;
            self.deadlines.push(Reverse((deadline, key)));
        }
    }
}

pub(super) fn mark(dirty: &mut Vec<Key>, connection: &mut Connection, key: Key) {
    if !connection.dirty {
        connection.dirty = true;
        dirty.push(key);
    }
}

pub(super) fn keep_buffer(spare: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if (1..=SPARE_BUFFER_LEN).contains(&buffer.capacity()) && spare.len() < SPARE_BUFFERS {
        buffer.clear();
        spare.push(buffer);
    }
}
