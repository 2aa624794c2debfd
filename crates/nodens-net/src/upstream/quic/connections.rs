//! The connections over QUIC of one worker.

use super::connection::{Connection, News};
use super::fault::text_of;
use super::outcome::{breakage, dial_timeout, give_back, is_farewell, take_answer};
use super::packets::Packets;
use crate::context::Context;
use crate::fault;
use crate::poll::Interest;
use crate::quic::{Clock, Deadlines, code, tidy};
use crate::random::Random;
use crate::slots::{Key, Kind, Slots};
use crate::tcp::NEVER;
use crate::upstream::manners::Manners;
use crate::upstream::pool::{Choice, choose};
use crate::upstream::waiting::Waiting;
use crate::upstream::{Places, Unsent, draw_id};
use foldhash::fast::RandomState;
use nodens_core::upstream::{Ask, Carrier, Fault, Upstream};
use nodens_wire::framing::push_message;
use nodens_wire::header;
use nodens_wire::padding::pad_query;
use quinn_proto::{EndpointConfig, VarInt};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

/// The connections to upstreams over QUIC of one worker.
pub(crate) struct Connections {
    pub(super) open: Slots<Connection>,
    pub(super) by_upstream: HashMap<u32, Vec<Key>, RandomState>,
    /// Connections with something to do at the end of the round.
    dirty: Vec<Key>,
    /// Connections whose handshakes wait for their turn.
    handshakes: VecDeque<Key>,
    pub(super) manners: Manners,
    pub(super) deadlines: Deadlines,
    pub(super) clock: Clock,
    endpoints: Arc<EndpointConfig>,
    /// None before the first connection.
    packets: Option<Packets>,
    /// The query being sent, padded, and the same with its length.
    padded: Vec<u8>,
    framed: Vec<u8>,
}

impl Connections {
    pub(in crate::upstream) fn new() -> Self {
        Self {
            open: Slots::default(),
            by_upstream: HashMap::default(),
            dirty: Vec::new(),
            handshakes: VecDeque::new(),
            manners: Manners::default(),
            deadlines: Deadlines::new(),
            clock: Clock::new(),
            endpoints: Arc::default(),
            packets: None,
            padded: Vec::new(),
            framed: Vec::new(),
        }
    }

    /// Puts `message` on a connection to the upstream of `ask`; gives the connection, and the ID of the query
    /// there. In the message the ID is 0 (RFC 9250 section 4.2.1).
    pub(in crate::upstream) fn ask(
        &mut self,
        ask: &Ask,
        message: &mut [u8],
        waiting: Waiting,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<(Key, u16), Unsent> {
        let key = self.choose(ask, random, cx)?;
        let address = ask.upstream.key.address;
        let refuse = |what: &str| Fault::Send(format!("write udp {address}: {what}"));
        let connection = self.open.get_mut(key).ok_or_else(|| refuse("no connection"))?;
        let id = draw_id(random, |id| connection.record.waiting.contains_key(&id));
        let id = id.ok_or_else(|| refuse("no ID"))?;
        header::set_id(message, 0);
        self.padded.clear();
        self.padded.extend_from_slice(message);
        // Its length must not say what is asked (RFC 9250 section 5.4).
        pad_query(&mut self.padded);
        self.framed.clear();
        push_message(&mut self.framed, &self.padded);
        connection.put(id, &self.framed, waiting);
        if !connection.record.connected {
            cx.worker.connects(ask.ticket, ask.attempt);
        }
        self.mark(key);
        Ok((key, id))
    }

    fn choose(
        &mut self,
        ask: &Ask,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<Key, Unsent> {
        let (upstream, series) = (&ask.upstream, &ask.upstream.series);
        let keys = self.by_upstream.get(&upstream.id).map(Vec::as_slice).unwrap_or_default();
        let queries_max = self.manners.queries_max(upstream.id, cx.now);
        let choice = choose(&self.open, keys, ask, queries_max, cx.now);
        let refusal = self.manners.refusal(upstream, cx.now);
        match choice {
            Choice::Known(key) | Choice::Replaced(key) => {
                cx.worker.cells().add(series.conn_hits(ask.carrier), 1);
                if matches!(choice, Choice::Replaced(_)) && refusal.is_none() {
                    _ = self.dial(upstream, random, cx);
                }
                Ok(key)
            }
            Choice::New(Some(key)) if refusal.is_some() => {
                cx.worker.cells().add(series.conn_hits(ask.carrier), 1);
                Ok(key)
            }
            Choice::New(known) => {
                // Health checks have a rhythm of their own.
                if let Some(fault) = refusal.filter(|_| !ask.is_check()) {
                    return Err(fault.into());
                }
                match (self.dial(upstream, random, cx), known) {
                    // The failure to make another is none of the query's.
                    (Err(_), Some(key)) => {
                        cx.worker.cells().add(series.conn_hits(ask.carrier), 1);
                        Ok(key)
                    }
                    (dialled, _) => {
                        cx.worker.cells().add(series.conn_misses(ask.carrier), 1);
                        dialled
                    }
                }
            }
            Choice::None => {
                let text = format!("dial udp {}: too many connections", upstream.key.address);
                Err(Fault::Full(text).into())
            }
        }
    }

    /// Begins a connection.
    fn dial(
        &mut self,
        upstream: &Arc<Upstream>,
        random: &mut Random,
        cx: &Context<'_>,
    ) -> Result<Key, Unsent> {
        let address = upstream.key.address;
        let fail = |error: io::Error| Unsent::no_socket("udp", address, &error);
        let at = self.clock.instant(cx.now);
        let connection = Connection::new(upstream, &self.endpoints, random, cx.now, at);
        let key = self.open.insert(connection.map_err(fail)?);
        if let Some(connection) = self.open.get(key)
            && let Err(error) =
                cx.poll.add(&connection.socket, Kind::QuicUpstream, key, Interest::READ)
        {
            self.open.remove(key);
            return Err(fail(error));
        }
        self.packets.get_or_insert_with(Packets::new);
        self.by_upstream.entry(upstream.id).or_default().push(key);
        self.mark(key);
        Ok(key)
    }

    /// Nobody waits for this response any more; gives the text of its timeout.
    ///
    /// If nothing at all has been heard since the query was sent, the connection may lead nowhere: others are
    /// better until something is heard.
    pub(in crate::upstream) fn forget(
        &mut self,
        key: Key,
        id: u16,
        cx: &Context<'_>,
    ) -> Option<String> {
        let connection = self.open.get_mut(key)?;
        let waiting = connection.cancel(id, cx.now)?;
        connection.record.doubtful |= connection.record.heard_at <= waiting.sent_at;
        let address = connection.record.upstream.key.address;
        let text = match connection.local().filter(|_| connection.record.connected) {
            Some(local) => format!("read udp {local}->{address}: i/o timeout"),
            None => dial_timeout(connection),
        };
        self.mark(key);
        Some(text)
    }

    /// The same for a response that did not come in time. A connection on which nothing has come in all that
    /// time is closed, so that the others who wait for it can ask elsewhere at once.
    pub(in crate::upstream) fn give_up(
        &mut self,
        key: Key,
        id: u16,
        places: &mut Places,
        cx: &mut Context<'_>,
    ) -> Option<String> {
        let text = self.forget(key, id, cx)?;
        let connection = self.open.get(key)?;
        // One that is being made has a time of its own, and others may wait for it.
        if connection.record.connected && connection.record.doubtful {
            self.fail(key, &Fault::Broken(text.clone()), (code::NO_ERROR, ""), places, cx);
        }
        Some(text)
    }

    /// Takes what has arrived for a connection.
    pub(in crate::upstream) fn ready(&mut self, key: Key, cx: &Context<'_>) {
        let at = self.clock.instant(cx.now);
        let Some(connection) = self.open.get_mut(key) else { return };
        let Some(packets) = &mut self.packets else { return };
        if packets.receive(connection, at) && !connection.in_turn {
            connection.in_turn = true;
            self.handshakes.push_back(key);
        }
        self.mark(key);
    }

    /// Whether [`Connections::take_handshake`] has something to do now.
    pub(in crate::upstream) fn has_handshakes(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// Goes on with the handshake whose turn it is by one step. A connection that has closed was no turn.
    pub(in crate::upstream) fn take_handshake(&mut self) {
        while let Some(key) = self.handshakes.pop_front() {
            let Some(connection) = self.open.get_mut(key) else { continue };
            connection.in_turn = false;
            connection.go_on();
            return self.mark(key);
        }
    }

    /// Notes that a connection has something to do at the end of the round.
    pub(super) fn mark(&mut self, key: Key) {
        if let Some(connection) = self.open.get_mut(key).filter(|own| !own.dirty) {
            connection.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Ends the round: takes the responses that are whole, sends what is to be sent.
    pub(in crate::upstream) fn flush(&mut self, places: &mut Places, cx: &mut Context<'_>) {
        while let Some(key) = self.dirty.pop() {
            if let Some(connection) = self.open.get_mut(key) {
                connection.dirty = false;
            }
            self.settle(key, places, cx);
        }
    }

    fn settle(&mut self, key: Key, places: &mut Places, cx: &mut Context<'_>) {
        let at = self.clock.instant(cx.now);
        let Some(connection) = self.open.get_mut(key) else { return };
        if connection.has_heard() {
            connection.record.note_heard(cx.now);
        }
        while let Some(news) = self.open.get_mut(key).and_then(Connection::news) {
            self.hear(key, news, places, cx);
        }
        let Some(connection) = self.open.get_mut(key) else { return };
        connection.write_rest();
        if let Some(packets) = &mut self.packets {
            packets.send(connection, at);
        }
        if connection.refusal.is_some() {
            self.refused(key, places, cx);
        }
        self.rearm(key);
    }

    fn hear(&mut self, key: Key, news: News, places: &mut Places, cx: &mut Context<'_>) {
        let Some(connection) = self.open.get_mut(key) else { return };
        match news {
            News::Made => {
                connection.record.note_made(Carrier::Quic, cx);
                self.manners.made(&connection.record.upstream, cx.now);
            }
            News::Lost(error) => {
                let peer = connection.record.upstream.key.tls.as_deref();
                let text = peer.map(|peer| text_of(&error, peer)).unwrap_or_default();
                let fault = breakage(connection, text);
                let answers = connection.record.answers_before_close();
                if let Some(answers) = answers.filter(|_| is_farewell(&error)) {
                    self.manners.closed(connection.record.upstream.id, answers, cx.now);
                }
                self.fail_closed(key, &fault, places, cx);
            }
            News::Response(id, octets) => take_answer(connection, id, &octets, places, cx),
            News::NoResponse(id, text) => give_back(connection, id, &text, places, cx),
            News::Violation(id, text) => {
                give_back(connection, id, &text, places, cx);
                let closing = (code::PROTOCOL_ERROR, text.as_str());
                self.fail(key, &Fault::Broken(text.clone()), closing, places, cx);
            }
        }
    }

    /// The system says that nobody can be reached there. Whoever forges that has to know the port, and may close
    /// no connection with it that is made: that one is in doubt.
    fn refused(&mut self, key: Key, places: &mut Places, cx: &mut Context<'_>) {
        let Some(connection) = self.open.get_mut(key) else { return };
        let Some(error) = connection.refusal.take() else { return };
        if connection.record.connected {
            connection.record.doubtful = true;
            return;
        }
        let upstream = connection.record.upstream.clone();
        let fault = Fault::Connect(fault::dial("udp", upstream.key.address, &error));
        self.fail_closed(key, &fault, places, cx);
        // Nor can those be reached that are in doubt: a forger would have to know the ports of all.
        let keys = self.by_upstream.get(&upstream.id).cloned().unwrap_or_default();
        let in_doubt = |key: &Key| self.open.get(*key).is_some_and(|own| own.record.doubtful);
        for key in keys.into_iter().filter(in_doubt).collect::<Vec<_>>() {
            self.fail(key, &fault, (code::NO_ERROR, ""), places, cx);
        }
    }

    /// Brings the deadline in line with a connection's state.
    fn rearm(&mut self, key: Key) {
        let Some(connection) = self.open.get_mut(key) else { return };
        let deadline = connection.timeout().map_or(NEVER, |at| self.clock.nanoseconds(at));
        if deadline < connection.queued {
            connection.queued = deadline;
            self.deadlines.push(Reverse((deadline, key)));
            tidy(&mut self.deadlines, &self.open, |own| own.queued);
        }
    }

    /// [`Connections::fail`] for a connection that the upstream closed, or that was not made, with a note of what
    /// that says of others.
    pub(super) fn fail_closed(
        &mut self,
        key: Key,
        fault: &Fault,
        places: &mut Places,
        cx: &mut Context<'_>,
    ) {
        if let Some(connection) = self.open.get(key) {
            let upstream = connection.record.upstream.id;
            if !connection.record.connected {
                self.manners.handshake_failed(upstream, &fault.to_string(), cx.now);
            }
        }
        self.fail(key, fault, (code::NO_ERROR, ""), places, cx);
    }

    /// Closes a connection and tells all who wait for it.
    pub(super) fn fail(
        &mut self,
        key: Key,
        fault: &Fault,
        (code, reason): (VarInt, &str),
        places: &mut Places,
        cx: &mut Context<'_>,
    ) {
        let at = self.clock.instant(cx.now);
        let Some(mut connection) = self.open.remove(key) else { return };
        connection.close(code, reason, at);
        if let Some(packets) = &mut self.packets {
            packets.send(&mut connection, at);
        }
        if let Some(keys) = self.by_upstream.get_mut(&connection.record.upstream.id) {
            keys.retain(|other| *other != key);
        }
        for waiting in connection.record.waiting.into_values() {
            places.remove(waiting.attempt);
            cx.worker.failed(cx.now, waiting.ticket, waiting.attempt, fault);
            places.reuse(waiting);
        }
    }
}

#[cfg(test)]
mod tests;
