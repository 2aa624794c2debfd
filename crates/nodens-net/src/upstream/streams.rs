//! Questions in streams: a few connections per upstream, many questions on each, answers in any
//! order (RFC 7766 sections 6.2.1.1 and 7).

use super::manners::Manners;
use super::pool::{self, Choice, is_second_best};
use super::stream::{Standing, Stream, connect, take_octets};
use super::waiting::Waiting;
use super::{Places, Unsent, draw_id};
use crate::context::Context;
use crate::fault;
use crate::limits::{
    CONNECT_TIMEOUT, UPSTREAM_AGE, UPSTREAM_CONNECTIONS, UPSTREAM_CONNECTIONS_SHORT,
};
use crate::pipe::Received;
use crate::poll::{Interest, Ready};
use crate::random::Random;
use crate::slots::{Key, Kind, Slots};
use foldhash::fast::RandomState;
use nodens_core::Now;
use nodens_core::upstream::{Ask, Fault, Upstream};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The connections to upstreams of one worker.
#[derive(Default)]
pub(crate) struct Streams {
    pub(super) open: Slots<Stream>,
    pub(super) by_upstream: HashMap<u32, Vec<Key>, RandomState>,
    dirty: Vec<Key>,
    /// Connections whose handshakes wait for their turn.
    pub(super) handshakes: VecDeque<Key>,
    spare: Vec<Vec<u8>>,
    pub(super) manners: Manners,
}

impl Streams {
    /// Puts `message` on a connection to the upstream of `ask`; gives the connection and the ID.
    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        message: &mut [u8],
        waiting: Waiting,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<(Key, u16), Unsent> {
        let key = self.choose(ask, random, cx)?;
        let address = ask.upstream.key.address;
        let refuse = |what: &str| Fault::Send(format!("write tcp {address}: {what}"));
        let stream = self.open.get_mut(key).ok_or_else(|| refuse("no connection"))?;
        let id = draw_id(random, |id| stream.waiting.contains_key(&id));
        let id = id.ok_or_else(|| refuse("no ID"))?;
        if !stream.put(ask, id, message, &mut self.spare) {
            return Err(refuse("the upstream takes no more queries").into());
        }
        stream.await_answer(id, waiting);
        if !stream.connected {
            cx.worker.connects(ask.ticket, ask.attempt);
        }
        if !stream.dirty {
            stream.dirty = true;
            self.dirty.push(key);
        }
        Ok((key, id))
    }

    /// The connection that the question goes to, which may be a new one. As long as there is one that works, the
    /// failure to make another is none of the question's.
    fn choose(
        &mut self,
        ask: &Ask,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<Key, Unsent> {
        let (upstream, series) = (&ask.upstream, &ask.upstream.series);
        let refusal = self.manners.refusal(upstream, cx.now);
        // Health checks have a rhythm of their own.
        let bars = refusal.is_some() && !ask.is_check();
        let mut choice = self.survey(ask, cx.now);
        let is_stuck = matches!(choice, Choice::None) || bars && choice == Choice::New(None);
        if is_stuck && self.make_room(ask, cx.now) {
            choice = self.survey(ask, cx.now);
        }
        let chosen = match choice {
            Choice::Known(key) => Some(key),
            Choice::Replaced(key) => {
                if refusal.is_none() {
                    // It takes the place of this one as soon as it is made, if it ever is.
                    _ = self.open_stream(upstream, random, cx);
                }
                Some(key)
            }
            Choice::New(Some(key)) if refusal.is_some() => Some(key),
            Choice::New(known) => {
                if let Some(fault) = refusal.filter(|_| bars) {
                    return Err(fault.into());
                }
                match self.open_stream(upstream, random, cx) {
                    Err(_) if known.is_some() => known,
                    opened => {
                        cx.worker.cells().add(series.conn_misses(ask.carrier), 1);
                        return opened;
                    }
                }
            }
            Choice::None => None,
        };
        let Some(key) = chosen else {
            let text = format!("dial tcp {}: too many connections", upstream.key.address);
            return Err(Fault::Full(text).into());
        };
        cx.worker.cells().add(series.conn_hits(ask.carrier), 1);
        Ok(key)
    }

    /// The connection with the fewest questions of the best there are, or a new one if all have many
    /// or have had their time.
    fn survey(&self, ask: &Ask, now: Now) -> Choice {
        let keys = self.by_upstream.get(&ask.upstream.id).map(Vec::as_slice).unwrap_or_default();
        let mut best: Option<((Standing, usize), Key)> = None;
        let (mut usable, mut is_narrow) = (0, false);
        let queries_max = self.manners.queries_max(ask.upstream.id, now);
        for key in keys {
            let Some(stream) = self.open.get(*key) else { continue };
            is_narrow |= stream.is_narrow();
            let Some(standing) = stream.standing(now, queries_max) else { continue };
            usable += usize::from(!is_second_best(standing));
            let avoided = ask.elsewhere && stream.has_asked_for(ask.ticket);
            let rank = (standing, stream.live);
            if !avoided && best.is_none_or(|(known, _)| rank < known) {
                best = Some((rank, *key));
            }
        }
        let most = match queries_max.is_some() || is_narrow {
            true => UPSTREAM_CONNECTIONS_SHORT,
            false => 2 * UPSTREAM_CONNECTIONS,
        };
        pool::choice(best, usable, keys.len() < most)
    }

    fn open_stream(
        &mut self,
        upstream: &Arc<Upstream>,
        random: &mut Random,
        cx: &Context<'_>,
    ) -> Result<Key, Unsent> {
        let address = upstream.key.address;
        let fail = |error: io::Error| Unsent::no_socket("tcp", address, &error);
        let pipe = connect(upstream).map_err(fail)?;
        let age = match upstream.key.settings.max_age {
            Duration::ZERO => UPSTREAM_AGE,
            age => age,
        };
        let jitter = Duration::from_millis(random.below((age / 2).as_millis() as usize) as u64);
        let retire_at = cx.now.plus(age - jitter);
        let key = self.open.insert(Stream::new(pipe, upstream.clone(), cx.now, retire_at));
        let identity = (Kind::TcpUpstream, key);
        if let Some(stream) = self.open.get_mut(key)
            && let Err(error) = stream.pipe.register(cx.poll, identity, Interest::WRITE)
        {
            self.open.remove(key);
            return Err(fail(error));
        }
        self.by_upstream.entry(upstream.id).or_default().push(key);
        Ok(key)
    }

    /// Nobody waits for this answer any more; gives the text of its timeout.
    ///
    /// If nothing at all has been heard since the question was sent, the connection may lead
    /// nowhere (a NAT that forgot it, a host that is gone): others are better until it is heard.
    pub(super) fn forget(&mut self, key: Key, id: u16) -> Option<String> {
        let stream = self.open.get_mut(key)?;
        let waiting = stream.waiting.get_mut(&id)?;
        waiting.forgotten = true;
        stream.doubtful |= stream.heard_at <= waiting.sent_at;
        stream.live = stream.live.saturating_sub(1);
        let upstream = stream.upstream.key.address;
        match stream.local().filter(|_| stream.connected) {
            Some(local) => Some(format!("read tcp {local}->{upstream}: i/o timeout")),
            None => Some(stream.dial_timeout()),
        }
    }

    /// The same for an answer that did not come in time. A connection on which nothing has come in
    /// all that time is closed, so that the others who wait for it can ask elsewhere at once.
    pub(super) fn give_up(
        &mut self,
        key: Key,
        id: u16,
        places: &mut Places,
        cx: &mut Context<'_>,
    ) -> Option<String> {
        let text = self.forget(key, id)?;
        let stream = self.open.get(key)?;
        let waiting = stream.waiting.get(&id)?;
        // One that is being made has a time of its own, and others may wait for it.
        if stream.connected && stream.heard_at <= waiting.sent_at {
            self.fail(key, &Fault::Broken(text.clone()), places, cx);
        }
        Some(text)
    }

    /// Handles what epoll says about a connection.
    pub(super) fn ready(
        &mut self,
        ready: Ready,
        places: &mut Places,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
    ) {
        let Some(stream) = self.open.get_mut(ready.key) else { return };
        if !stream.dialled {
            if let Some(error) = stream.pipe.connect_error() {
                let text = fault::dial("tcp", stream.upstream.key.address, &error);
                self.fail(ready.key, &Fault::Connect(text), places, cx);
                return;
            }
            stream.dialled = true;
            self.note_handshake(ready.key, places, cx);
        }
        if ready.readable && !self.puts_off(ready.key) {
            self.read(ready.key, places, scratch, cx);
        }
        self.mark(ready.key);
    }

    pub(super) fn read(
        &mut self,
        key: Key,
        places: &mut Places,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
    ) {
        let Some(stream) = self.open.get_mut(key) else { return };
        match stream.pipe.read(scratch) {
            Ok(Received::End) => {
                let fault = stream.breakage("EOF".to_owned());
                self.fail_closed(key, &fault, places, cx);
            }
            Ok(Received::Octets(len)) => {
                stream.heard_at = cx.now.mono_ns;
                stream.doubtful = false;
                let octets = scratch.get(..len).unwrap_or_default();
                let was_made = stream.is_made();
                take_octets(stream, octets, places, cx);
                if let Some(why) = stream.end() {
                    let fault = stream.breakage(why);
                    return self.fail_closed(key, &fault, places, cx);
                }
                if !was_made && stream.is_made() {
                    self.manners.made(&stream.upstream, cx.now);
                }
                if stream.pipe.has_ended() {
                    // Its next read says how.
                    self.read(key, places, scratch, cx);
                }
            }
            Ok(Received::Nothing) => {}
            Err(error) => {
                let address = stream.upstream.key.address;
                let fault =
                    stream.breakage(fault::received("tcp", stream.local(), address, &error));
                self.fail_closed(key, &fault, places, cx);
            }
        }
    }

    /// [`Streams::fail`] for a connection that the upstream closed or broke, with a note of what that says
    /// of others.
    pub(super) fn fail_closed(
        &mut self,
        key: Key,
        fault: &Fault,
        places: &mut Places,
        cx: &mut Context<'_>,
    ) {
        if let Some(stream) = self.open.get(key) {
            let upstream = stream.upstream.id;
            if let Some(answers) = stream.answers_before_close() {
                self.manners.closed(upstream, answers, cx.now);
            }
            if stream.dialled && !stream.is_made() {
                self.manners.handshake_failed(upstream, &fault.to_string(), cx.now);
            }
        }
        self.fail(key, fault, places, cx);
    }

    pub(super) fn mark(&mut self, key: Key) {
        if let Some(stream) = self.open.get_mut(key).filter(|stream| !stream.dirty) {
            stream.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Sends what has come together, and watches for what comes next.
    pub(super) fn flush(&mut self, places: &mut Places, cx: &mut Context<'_>) {
        while let Some(key) = self.dirty.pop() {
            let Some(stream) = self.open.get_mut(key) else { continue };
            stream.dirty = false;
            if let Err(why) = stream.prepare() {
                let fault = stream.breakage(why);
                self.fail_closed(key, &fault, places, cx);
                continue;
            }
            if stream.dialled
                && let Err(error) = stream.pipe.write()
            {
                let address = stream.upstream.key.address;
                let fault = stream.breakage(fault::write("tcp", stream.local(), address, &error));
                self.fail_closed(key, &fault, places, cx);
                continue;
            }
            stream.pipe.watch(cx.poll, (Kind::TcpUpstream, key), stream.wanted());
        }
    }

    /// Closes a connection and tells all who wait for it.
    fn fail(&mut self, key: Key, fault: &Fault, places: &mut Places, cx: &mut Context<'_>) {
        let Some(stream) = self.open.remove(key) else { return };
        if let Some(keys) = self.by_upstream.get_mut(&stream.upstream.id) {
            keys.retain(|other| *other != key);
        }
        for waiting in stream.waiting.into_values().filter(|waiting| !waiting.forgotten) {
            places.remove(waiting.attempt);
            cx.worker.failed(cx.now, waiting.ticket, waiting.attempt, fault);
            places.reuse(waiting);
        }
    }

    /// Closes connections that were not made in time, are idle, or have had their time.
    pub(super) fn sweep(&mut self, places: &mut Places, cx: &mut Context<'_>) {
        let now = cx.now;
        let late =
            |stream: &Stream| !stream.is_made() && now.since(stream.opened_at) >= CONNECT_TIMEOUT;
        for key in self.open.keys(late) {
            if let Some(text) = self.open.get(key).map(Stream::dial_timeout) {
                self.fail_closed(key, &Fault::Connect(text), places, cx);
            }
        }
        let made = |stream: &Stream| stream.standing(now, None) == Some(Standing::Made);
        let made: HashSet<u32> = self
            .open
            .keys(made)
            .into_iter()
            .filter_map(|key| self.open.get(key).map(|stream| stream.upstream.id))
            .collect();
        let over = |stream: &Stream| {
            let replaced = !stream.may_outlast() || made.contains(&stream.upstream.id);
            let retired = stream.is_old(now) && replaced;
            // A little earlier than asked for: many upstreams close after the same time, and a
            // question that meets their FIN on the way has to be asked again.
            let expire = stream.upstream.key.settings.expire.mul_f64(0.8);
            stream.live == 0
                && (retired || stream.is_leaving() || now.since(stream.idle_since) >= expire)
        };
        for key in self.open.keys(over) {
            self.fail(key, &Fault::Broken(String::new()), places, cx);
        }
        for key in self.open.keys(|_| true) {
            if self.open.get_mut(key).is_some_and(|stream| stream.cancel_forgotten(now)) {
                self.mark(key);
            }
        }
        self.manners.sweep(now);
        for keys in self.by_upstream.values() {
            close_surplus(&mut self.open, keys);
        }
        let open = &self.open;
        self.by_upstream.retain(|_, keys| {
            keys.retain(|key| open.get(*key).is_some());
            !keys.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.len() == 0
    }
}

/// Closes idle connections to one upstream beyond the number it wants kept.
fn close_surplus(open: &mut Slots<Stream>, keys: &[Key]) {
    let idle = |key: &&Key| open.get(**key).is_some_and(|stream| stream.live == 0);
    let idle: Vec<Key> = keys.iter().filter(idle).copied().collect();
    let first = idle.first().and_then(|key| open.get(*key));
    let max = first.map_or(0, |stream| stream.upstream.key.settings.idle_max);
    if max > 0 {
        for key in idle.into_iter().skip(max) {
            open.remove(key);
        }
    }
}
