//! One connection to an upstream: what is on it, and what its octets answer.

use super::Places;
use super::waiting::Waiting;
use crate::context::Context;
use crate::fault;
use crate::http::client::{Client, Done, Failure, Speech};
use crate::limits::{
    UNACKNOWLEDGED_MAX, UNSENT_MAX, UPSTREAM_IN_FLIGHT, UPSTREAM_SPREAD, UPSTREAM_UNSENT_MAX,
};
use crate::pipe::{Pipe, take_front};
use crate::poll::Interest;
use foldhash::fast::RandomState;
use nodens_core::Now;
use nodens_core::upstream::{Ask, Fault, Upstream};
use nodens_core::worker::Ticket;
use nodens_wire::framing::first_message;
use nodens_wire::header;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// How good a place for a question a connection is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Made,
    /// It has had its time, and is better than one that may never be made: where the table of
    /// connections of a machine on the way is full, only those go on that there are.
    Old,
    /// Nothing has come since a question was asked whose answer came from elsewhere. Many upstreams
    /// are slow and few are gone, so it is kept, and clear of doubt with the next octet.
    Doubtful,
    InTheMaking,
}

/// A connection to an upstream.
pub(super) struct Stream {
    pub(super) pipe: Pipe,
    pub(super) upstream: Arc<Upstream>,
    pub(super) waiting: HashMap<u16, Waiting, RandomState>,
    /// How many of them each job has asked, so that where an upstream stalls, asking elsewhere
    /// does not mean to go through thousands of questions.
    tickets: HashMap<Ticket, u32, RandomState>,
    /// Questions that somebody waits for.
    pub(super) live: usize,
    /// Questions put on it, and how many of them it answered.
    pub(super) asked: u32,
    pub(super) answers: u32,
    /// Whether the connection of the network is made, which a handshake may follow.
    pub(super) dialled: bool,
    /// Whether the connection is made, and queries may be sent.
    pub(super) connected: bool,
    /// Whether the handshake waits for its turn.
    pub(super) in_turn: bool,
    /// See [`Standing::Doubtful`].
    pub(super) doubtful: bool,
    pub(super) input: Vec<u8>,
    /// What is spoken, where it is HTTP/2.
    pub(super) http: Option<Box<Client>>,
    /// Whether it is noted for what is in its `output` to be sent at the end of the round.
    pub(super) dirty: bool,
    pub(super) opened_at: u64,
    /// [`Peer::generation`](nodens_core::upstream::Peer::generation) when it was opened.
    generation: u64,
    /// When it takes no more questions.
    pub(super) retire_at: u64,
    /// When something was last received.
    pub(super) heard_at: u64,
    /// When the last question was answered or given up.
    pub(super) idle_since: u64,
}

impl Stream {
    /// A connection that is being made.
    pub(super) fn new(pipe: Pipe, upstream: Arc<Upstream>, now: Now, retire_at: u64) -> Self {
        let generation = generation(&upstream);
        let (kind, address, peer) =
            (upstream.key.kind, upstream.key.address, upstream.key.tls.as_deref());
        let speech = Speech::of(kind, address, peer);
        let http = speech.map(|speech| Box::new(Client::new(speech)));
        Self {
            generation,
            http,
            pipe,
            upstream,
            waiting: HashMap::default(),
            tickets: HashMap::default(),
            live: 0,
            asked: 0,
            answers: 0,
            dialled: false,
            connected: false,
            in_turn: false,
            doubtful: false,
            input: Vec::new(),
            dirty: false,
            opened_at: now.mono_ns,
            retire_at,
            heard_at: now.mono_ns,
            idle_since: now.mono_ns,
        }
    }

    /// Whether its handshake has ended and nobody has noted that.
    pub(super) fn is_handshake_over(&self) -> bool {
        self.dialled && !self.connected && !self.pipe.is_handshaking()
    }

    /// Notes that there is no handshake to wait for, when the queries that waited for it leave.
    pub(super) fn note_handshake(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        self.connected = true;
        self.heard_at = now.mono_ns;
        self.doubtful = false;
        let path = self.upstream.path(self.pipe.transport());
        path.connected(now.since(self.opened_at));
        for waiting in self.waiting.values_mut() {
            waiting.sent_at = now.mono_ns;
            if !waiting.forgotten {
                cx.worker.departed(now, waiting.ticket, waiting.attempt);
            }
        }
    }

    /// Whether it can be used: there is no handshake to wait for, and the upstream has begun to speak as it has to.
    pub(super) fn is_made(&self) -> bool {
        self.connected && self.http.as_ref().is_none_or(|http| http.is_greeted())
    }

    /// Why it can never be used, although the handshake was done: nobody has agreed to speak HTTP/2.
    pub(super) fn mismatch(&self) -> Option<String> {
        let is_agreed = self.pipe.agreed().is_none_or(|protocol| protocol == Some(b"h2"));
        let address = self.upstream.key.address;
        (self.http.is_some() && !is_agreed)
            .then(|| format!("dial tcp {address}: the upstream does not offer HTTP/2 (ALPN h2)"))
    }

    /// Puts a query on it; with `ID` 0 where the ID is of no use (RFC 8484 section 4.1). False if it takes none.
    pub(super) fn put(
        &mut self,
        ask: &Ask,
        id: u16,
        message: &mut [u8],
        spare: &mut Vec<Vec<u8>>,
    ) -> bool {
        let Some(http) = &mut self.http else {
            header::set_id(message, id);
            self.pipe.output.push(message, spare);
            return true;
        };
        header::set_id(message, 0);
        // A response to a health check must come from the upstream itself.
        let in_target = ask.upstream.key.settings.doh_get && !ask.is_check();
        http.ask(id, message, in_target)
    }

    /// Makes ready what is to be sent. An error means that the connection is of no more use.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        let Some(http) = &mut self.http else { return Ok(()) };
        let octets = http.take_output();
        if !octets.is_empty() {
            self.pipe.output.append(octets);
        }
        match self.end() {
            Some(why) => Err(why),
            None if self.pipe.output.len() > UNSENT_MAX => {
                let address = self.upstream.key.address;
                Err(format!("write tcp {address}: it takes none of what it asks for"))
            }
            None => Ok(()),
        }
    }

    /// Why nothing more comes of it, if so.
    pub(super) fn end(&self) -> Option<String> {
        let why = self.http.as_ref()?.end()?;
        let address = self.upstream.key.address;
        Some(match self.local() {
            Some(local) => format!("read tcp {local}->{address}: {why}"),
            None => format!("read tcp {address}: {why}"),
        })
    }

    /// Whether the upstream takes no more queries on it.
    pub(super) fn is_leaving(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.is_leaving())
    }

    /// Whether the upstream takes so few queries at a time that it needs more connections than others.
    pub(super) fn is_narrow(&self) -> bool {
        let streams = self.http.as_ref().and_then(|http| http.streams());
        streams.is_some_and(|streams| streams < UPSTREAM_SPREAD)
    }

    /// How many queries it answered, if the upstream has closed it without an answer to others that it had
    /// by then. One that it had not may have crossed a close for idleness.
    pub(super) fn answers_before_close(&self) -> Option<u32> {
        let is_left = |own: &Waiting| !own.forgotten && own.sent_at < self.heard_at;
        let left = self.waiting.values().any(is_left);
        (self.connected && self.answers > 0 && left).then_some(self.answers)
    }

    /// What it means that it broke: before it is made, no query has left.
    pub(super) fn breakage(&self, text: String) -> Fault {
        if self.is_made() { Fault::Broken(text) } else { Fault::Connect(text) }
    }

    /// That it was not made in time.
    pub(super) fn dial_timeout(&self) -> String {
        let address = self.upstream.key.address;
        match (self.dialled, self.connected) {
            (false, _) => fault::dial_timeout("tcp", address),
            (true, false) => fault::handshake_timeout("tcp", address),
            (true, true) => fault::settings_timeout("tcp", address),
        }
    }

    /// How good a place for another question it is; none if it takes no more, as after `queries_max`.
    pub(super) fn standing(&self, now: Now, queries_max: Option<u32>) -> Option<Standing> {
        let full = self.waiting.len() >= UPSTREAM_IN_FLIGHT
            || self.pipe.output.len() >= UPSTREAM_UNSENT_MAX
            || queries_max.is_some_and(|most| self.asked >= most)
            || self.http.as_ref().is_some_and(|http| !http.has_room());
        match (self.is_made(), self.is_old(now)) {
            _ if full => None,
            (_, true) if !self.is_made() || !self.may_outlast() => None,
            (false, _) => Some(Standing::InTheMaking),
            (true, _) if self.doubtful => Some(Standing::Doubtful),
            (true, false) => Some(Standing::Made),
            (true, true) => Some(Standing::Old),
        }
    }

    /// Whether it has had its time, or began with files that have changed since.
    pub(super) fn is_old(&self, now: Now) -> bool {
        now.mono_ns >= self.retire_at || self.is_outdated()
    }

    fn is_outdated(&self) -> bool {
        self.generation != generation(&self.upstream)
    }

    /// Whether it may go on after its time while there is no other; not where the Corefile limits it, nor
    /// with keys that were replaced.
    pub(super) fn may_outlast(&self) -> bool {
        self.upstream.key.settings.max_age.is_zero() && !self.is_outdated()
    }

    pub(super) fn has_asked_for(&self, ticket: Ticket) -> bool {
        self.tickets.contains_key(&ticket)
    }

    /// Notes a question that is on its way.
    pub(super) fn await_answer(&mut self, id: u16, waiting: Waiting) {
        *self.tickets.entry(waiting.ticket).or_default() += 1;
        self.waiting.insert(id, waiting);
        self.live += 1;
        self.asked = self.asked.saturating_add(1);
    }

    /// The question with this ID has its answer.
    pub(super) fn take(&mut self, id: u16) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        if let Entry::Occupied(mut count) = self.tickets.entry(waiting.ticket) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(waiting)
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.pipe.local_addr()
    }

    pub(super) fn wanted(&self) -> Interest {
        // What waits for a handshake is not written before its end.
        let write = if self.connected { !self.pipe.output.is_empty() } else { !self.dialled };
        Interest { read: self.dialled, write }
    }

    /// A question needs no answer any more, for whatever reason.
    pub(super) fn settled(&mut self, now: Now) {
        self.live = self.live.saturating_sub(1);
        self.idle_since = now.mono_ns;
    }
}

fn generation(upstream: &Upstream) -> u64 {
    upstream.key.tls.as_ref().map_or(0, |peer| peer.generation())
}

/// Hands the whole messages among `octets` and what was left before to their questions.
pub(super) fn take_octets(
    stream: &mut Stream,
    octets: &[u8],
    places: &mut Places,
    cx: &mut Context<'_>,
) {
    if let Some(http) = &mut stream.http {
        http.receive(octets);
        return take_responses(stream, places, cx);
    }
    let kept = std::mem::take(&mut stream.input);
    stream.input = take_front(kept, octets, |all| {
        let mut taken = 0;
        while let Some((message, len)) = all.get(taken..).and_then(first_message) {
            let id = message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
            if !take_answer(stream, id, message, places, cx) {
                cx.counters.add(cx.counters.strays, 1);
            }
            taken += len;
        }
        taken
    });
}

/// Hands what has come of requests to their questions.
fn take_responses(stream: &mut Stream, places: &mut Places, cx: &mut Context<'_>) {
    while let Some(Done { id, result }) = stream.http.as_mut().and_then(|http| http.next()) {
        let failure = match result {
            Ok(message) if take_answer(stream, id, &message, places, cx) => continue,
            Ok(_) => Failure::Refused("its response is not to the query".to_owned()),
            Err(failure) => failure,
        };
        let address = stream.upstream.key.address;
        let fault = match failure {
            Failure::Unseen(why) => Fault::Broken(format!("upstream {address} failed: {why}")),
            Failure::Refused(why) => Fault::Refused(format!("upstream {address} failed: {why}")),
        };
        let Some(waiting) = stream.take(id) else { continue };
        if !waiting.forgotten {
            stream.settled(cx.now);
            places.remove(waiting.attempt);
            cx.worker.failed(cx.now, waiting.ticket, waiting.attempt, &fault);
        }
        places.reuse(waiting);
    }
}

/// Hands a message to the question with this ID, if it answers that.
fn take_answer(
    stream: &mut Stream,
    id: u16,
    message: &[u8],
    places: &mut Places,
    cx: &mut Context<'_>,
) -> bool {
    let answer = stream.waiting.get(&id).and_then(|waiting| waiting.answer(message));
    let Some((answer, waiting)) = answer.and_then(|answer| Some((answer, stream.take(id)?))) else {
        return false;
    };
    stream.answers = stream.answers.saturating_add(1);
    if !waiting.forgotten {
        stream.settled(cx.now);
        places.remove(waiting.attempt);
        cx.worker.reply(cx.now, waiting.ticket, waiting.attempt, &answer);
    }
    drop(answer);
    places.reuse(waiting);
    true
}

/// Starts to connect to the upstream.
pub(super) fn connect(upstream: &Upstream) -> io::Result<Pipe> {
    let address = upstream.key.address;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    if let Some(source) = upstream.key.source {
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Pipe::dialled(socket.into(), upstream.key.tls.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::REQUEST_LEN_MAX;
    use nodens_core::log::Sink;
    use nodens_core::testing::request;
    use nodens_core::upstream::{Carrier, Key, Settings};
    use nodens_core::{ListenerKind, Shared};
    use std::net::TcpListener;
    use std::time::Duration;

    /// A connection that has its time until the monotonic nanosecond 1.
    fn stream(settings: Settings) -> (TcpListener, Stream) {
        stream_of(ListenerKind::Dns, settings)
    }

    fn stream_of(kind: ListenerKind, settings: Settings) -> (TcpListener, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(1).0));
        let address = listener.local_addr().unwrap();
        let key = Key { address, kind, source: None, tls: None, settings };
        let upstream = shared.upstreams.get(key, &shared.registry);
        let pipe = connect(&upstream).unwrap();
        (listener, Stream::new(pipe, upstream, Now::default(), 1))
    }

    #[test]
    fn a_connection_that_has_had_its_time_is_better_than_one_that_is_not_made() {
        let (then, later) = (Now::default(), Now { mono_ns: 1, ..Now::default() });
        let max_age = Duration::from_secs(60);
        for (settings, old) in [
            (Settings::default(), Some(Standing::Old)),
            (Settings { max_age, ..Settings::default() }, None),
        ] {
            let (_listener, mut stream) = stream(settings);
            assert_eq!(stream.standing(then, None), Some(Standing::InTheMaking));
            assert_eq!(stream.standing(later, None), None);
            stream.connected = true;
            assert_eq!(stream.standing(then, None), Some(Standing::Made));
            assert_eq!(stream.standing(later, None), old);
            stream.doubtful = true;
            assert_eq!(stream.standing(then, None), Some(Standing::Doubtful));
            assert_eq!(stream.standing(later, None), old.map(|_| Standing::Doubtful));
        }
        use Standing::{Doubtful, InTheMaking, Made, Old};
        assert!(Made < Old && Old < Doubtful && Doubtful < InTheMaking);
    }

    #[test]
    fn an_upstream_that_reads_nothing_gets_few_long_queries_on_a_connection() {
        let (_listener, mut stream) = stream(Settings::default());
        stream.connected = true;
        let mut queries = 0;
        while stream.standing(Now::default(), None).is_some() {
            stream.pipe.output.push(&[0; REQUEST_LEN_MAX], &mut Vec::new());
            queries += 1;
        }
        assert!(queries <= UPSTREAM_UNSENT_MAX / REQUEST_LEN_MAX, "{queries}");
    }

    #[test]
    fn no_connection_is_made_before_the_upstream_speaks_http2() {
        let (_listener, mut stream) = stream_of(ListenerKind::Https, Settings::default());
        stream.connected = true;
        assert_eq!(stream.standing(Now::default(), None), Some(Standing::InTheMaking));
        stream.http.as_mut().unwrap().receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        assert_eq!(stream.standing(Now::default(), None), Some(Standing::Made));
    }

    #[test]
    fn an_upstream_that_does_not_speak_is_not_said_to_fail_at_tls() {
        let (_listener, mut stream) = stream_of(ListenerKind::Grpc, Settings::default());
        let text = |stream: &Stream| stream.dial_timeout();
        let address = stream.upstream.key.address;
        assert_eq!(text(&stream), format!("dial tcp {address}: i/o timeout"));
        stream.dialled = true;
        assert_eq!(text(&stream), format!("dial tcp {address}: tls handshake: i/o timeout"));
        stream.connected = true;
        assert_eq!(text(&stream), format!("dial tcp {address}: http2 settings: i/o timeout"));
    }

    #[test]
    fn a_close_with_a_query_that_was_given_up_says_nothing_of_others() {
        let (_listener, mut stream) = stream(Settings::default());
        let (upstream, carrier) = (stream.upstream.clone(), Carrier::Tcp);
        let ticket = Ticket::default();
        let ask = Ask { ticket, attempt: 1, upstream, carrier, elsewhere: false };
        let waiting = Waiting::new(&ask, &request("example.org A"), Now::default(), Vec::new());
        stream.await_answer(1, waiting.unwrap());
        (stream.connected, stream.answers, stream.heard_at) = (true, 7, 1);
        assert_eq!(stream.answers_before_close(), Some(7));
        stream.waiting.get_mut(&1).unwrap().forgotten = true;
        assert_eq!(stream.answers_before_close(), None);
    }

    #[test]
    fn a_stream_knows_whose_questions_it_has_until_the_last_is_answered() {
        let (_listener, mut stream) = stream(Settings::default());
        let upstream = stream.upstream.clone();
        let tickets = [0, 1].map(|slot| Ticket { slot, serial: 0 });
        for (id, ticket) in [(1, tickets[0]), (2, tickets[0]), (3, tickets[1])] {
            let (upstream, carrier) = (upstream.clone(), Carrier::Tcp);
            let ask = Ask { ticket, attempt: id, upstream, carrier, elsewhere: false };
            let waiting = Waiting::new(&ask, &request("example.org A"), Now::default(), Vec::new());
            let waiting = waiting.unwrap();
            stream.await_answer(id as u16, waiting);
        }
        assert_eq!(stream.live, 3);
        for (id, expected) in [(1, [true, true]), (2, [false, true]), (3, [false, false])] {
            assert_eq!(stream.take(id).unwrap().attempt, u32::from(id));
            assert_eq!(tickets.map(|ticket| stream.has_asked_for(ticket)), expected);
        }
        assert!(stream.take(3).is_none() && stream.tickets.is_empty());
    }
}
