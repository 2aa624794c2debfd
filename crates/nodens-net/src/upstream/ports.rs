//! Questions in datagrams, each from a port that nobody outside can foresee (RFC 5452).
//!
//! A question opens a fresh port, until there are enough of them open towards an upstream that
//! choosing among them leaves a forger no better off than guessing; a port is used for a bounded
//! number of questions and a bounded time. Questions that come up in the same round share the port
//! that was drawn, so that the kernel takes them together: whoever forges an answer to one of them
//! has to guess the port all the same. The sockets are connected: the kernel then passes only
//! the upstream's datagrams, and says if nobody listens there.

use super::waiting::Waiting;
use super::{Places, Unsent, draw_id};
use crate::context::Context;
use crate::fault;
use crate::limits::{
    FRESH_PORTS, PORT_AGE_MAX, PORTS_PER_UPSTREAM_MIN, REPLIES_IN_A_ROW, SHARED_PORT,
    SPARE_QUERY_LEN, USES_PER_PORT, WAITING_PER_PORT,
};
use crate::poll::Interest;
use crate::random::Random;
use crate::slots::{Key, Kind, Slots};
use crate::sys::{Outgoing, REPLIES, Replies, Sender};
use foldhash::fast::RandomState;
use nodens_core::Now;
use nodens_core::upstream::{Ask, Fault, Upstream};
use nodens_core::worker::Ticket;
use nodens_wire::header;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Ports looked at for one that is not in use.
const LOOKS: usize = 4;

struct Port {
    socket: UdpSocket,
    upstream: Arc<Upstream>,
    waiting: Vec<(u16, Waiting)>,
    uses: u32,
    opened_at: u64,
}

impl Port {
    fn is_usable(&self, now: Now) -> bool {
        self.uses < USES_PER_PORT && now.since(self.opened_at) < PORT_AGE_MAX
    }

    /// Whether somebody waits for an answer here.
    fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|(_, waiting)| !waiting.forgotten)
    }

    /// Makes room for one more question where many were given up: the oldest of those goes. Its
    /// answer, should it still come, is then a stray.
    fn make_room(&mut self) {
        if self.waiting.len() < WAITING_PER_PORT {
            return;
        }
        let forgotten = self.waiting.iter().enumerate().filter(|(_, (_, w))| w.forgotten);
        let oldest = forgotten.min_by_key(|(_, (_, waiting))| waiting.sent_at);
        if let Some(at) = oldest.map(|(at, _)| at) {
            self.waiting.swap_remove(at);
        }
    }

    fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }
}

/// The UDP ports of one worker.
pub(crate) struct Ports {
    open: Slots<Port>,
    by_upstream: HashMap<u32, Vec<Key>, RandomState>,
    max: usize,
    /// What goes out at the end of the round, by upstream.
    drawn: Vec<Drawn>,
    /// Rounds that are over, for their buffers.
    rested: Vec<Drawn>,
    /// Buffers for questions.
    spare: Vec<Vec<u8>>,
    sender: Sender,
    replies: Replies,
}

/// The port that was drawn in this round for an upstream.
struct Drawn {
    upstream: u32,
    key: Key,
    /// Questions that go out by it.
    questions: Vec<Outgoing>,
    /// Whose they are, and their IDs.
    askers: Vec<(Ticket, u32, u16)>,
}

impl Ports {
    pub(super) fn new(max: usize) -> Self {
        Self {
            open: Slots::default(),
            by_upstream: HashMap::default(),
            max,
            drawn: Vec::new(),
            rested: Vec::new(),
            spare: Vec::new(),
            sender: Sender::new(),
            replies: Replies::new(),
        }
    }

    /// Queues `message` for the upstream of `ask`; gives the port and the ID. It is sent by
    /// [`Ports::flush`] at the latest.
    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        message: &mut [u8],
        waiting: Waiting,
        (random, places): (&mut Random, &mut Places),
        cx: &mut Context<'_>,
    ) -> Result<(Key, u16), Unsent> {
        let at = self.draw(ask, (random, places), cx)?;
        let drawn = self.drawn.get_mut(at);
        let address = ask.upstream.key.address;
        let drawn = drawn.and_then(|drawn| Some((self.open.get_mut(drawn.key)?, drawn)));
        let no_port = || Fault::Send(format!("write udp {address}: no port"));
        let (port, drawn) = drawn.ok_or_else(no_port)?;
        port.make_room();
        let taken = |id| port.waiting.iter().any(|(other, _)| *other == id);
        let id = draw_id(random, taken)
            .ok_or_else(|| Fault::Send(format!("write udp {address}: no ID")))?;
        header::set_id(message, id);
        port.uses += 1;
        port.waiting.push((id, waiting));
        let mut wire = self.spare.pop().unwrap_or_default();
        wire.clear();
        wire.extend_from_slice(message);
        drawn.questions.push(Outgoing { wire, peer: None, source: None });
        drawn.askers.push((ask.ticket, ask.attempt, id));
        Ok((drawn.key, id))
    }

    /// The place in `drawn` of the port for one more question to the upstream of `ask`.
    fn draw(
        &mut self,
        ask: &Ask,
        (random, places): (&mut Random, &mut Places),
        cx: &mut Context<'_>,
    ) -> Result<usize, Unsent> {
        let upstream = ask.upstream.id;
        if let Some(at) = self.drawn.iter().position(|drawn| drawn.upstream == upstream) {
            let takes_more = self.drawn.get(at).is_some_and(|drawn| {
                let port = self.open.get(drawn.key);
                drawn.questions.len() < SHARED_PORT && port.is_some_and(|p| p.is_usable(cx.now))
            });
            if takes_more {
                cx.worker.cells().add(ask.upstream.series.conn_hits(ask.carrier), 1);
                return Ok(at);
            }
            let full = self.drawn.swap_remove(at);
            self.send(full, places, cx);
        }
        let key = self.choose(ask, random, cx)?;
        let new = || Drawn { upstream, key, questions: Vec::new(), askers: Vec::new() };
        let rested = self.rested.pop().unwrap_or_else(new);
        self.drawn.push(Drawn { upstream, key, ..rested });
        Ok(self.drawn.len() - 1)
    }

    /// Sends the questions that have come together; the worker is told of those the kernel did
    /// not take.
    pub(super) fn flush(&mut self, places: &mut Places, cx: &mut Context<'_>) {
        while let Some(drawn) = self.drawn.pop() {
            self.send(drawn, places, cx);
        }
    }

    fn send(&mut self, mut drawn: Drawn, places: &mut Places, cx: &mut Context<'_>) {
        let mut failed: Vec<(usize, io::Error)> = Vec::new();
        if let Some(port) = self.open.get(drawn.key) {
            let fail = |place, error| failed.push((place, error));
            self.sender.send_all(&port.socket, &drawn.questions, false, fail);
        }
        for (place, error) in failed {
            self.fail_to_send(&drawn, place, &error, places, cx);
        }
        drawn.askers.clear();
        let wires = drawn.questions.drain(..).map(|question| question.wire);
        self.spare.extend(wires.filter(|wire| wire.capacity() <= SPARE_QUERY_LEN));
        self.rested.push(drawn);
    }

    /// Tries again to send the question at `place`, or tells the worker.
    fn fail_to_send(
        &mut self,
        drawn: &Drawn,
        place: usize,
        error: &io::Error,
        places: &mut Places,
        cx: &mut Context<'_>,
    ) {
        let question = drawn.questions.get(place).zip(drawn.askers.get(place).copied());
        let Some((question, (ticket, attempt, id))) = question else { return };
        let Some(port) = self.open.get_mut(drawn.key) else { return };
        // A first refusal is that of an earlier question; if still nobody listens there, the next
        // one ends all questions of this port.
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        let again = if refused { port.socket.send(&question.wire).err() } else { None };
        let error = match (&again, refused) {
            (None, true) => return,
            (Some(again), _) => again,
            (None, false) => error,
        };
        if let Some(at) = port.waiting.iter().position(|(other, _)| *other == id) {
            let (_, waiting) = port.waiting.swap_remove(at);
            places.reuse(waiting);
        }
        let text = fault::write("udp", port.local(), port.upstream.key.address, error);
        // A question given up meanwhile is not in any place any more.
        if places.remove(attempt).is_some() {
            cx.worker.failed(cx.now, ticket, attempt, &Fault::Send(text));
        }
    }

    /// A port for one more question.
    fn choose(
        &mut self,
        ask: &Ask,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<Key, Unsent> {
        let series = &ask.upstream.series;
        let open = &self.open;
        let keys = self.by_upstream.get(&ask.upstream.id).map(Vec::as_slice).unwrap_or_default();
        // An upstream that never answers must not keep the others from being asked.
        let full = open.len() >= self.max && keys.len() >= PORTS_PER_UPSTREAM_MIN;
        let usable = |key: &Key| open.get(*key).is_some_and(|port| port.is_usable(cx.now));
        let choices: &[Key] = if full || keys.len() >= FRESH_PORTS { keys } else { &[] };
        let drawn = (0..LOOKS).filter_map(|_| choices.get(random.below(choices.len())).copied());
        let free = |key: &Key| usable(key) && open.get(*key).is_some_and(|port| !port.is_awaited());
        // Without room for another port, one that is in use or worn out has to do.
        let chosen = if full {
            let drawn: Vec<Key> = drawn.collect();
            drawn.iter().copied().find(free).or(drawn.first().copied())
        } else {
            drawn.into_iter().find(free)
        };
        if let Some(key) = chosen {
            cx.worker.cells().add(series.conn_hits(ask.carrier), 1);
            return Ok(key);
        }
        if full {
            let text = format!("dial udp {}: too many open ports", ask.upstream.key.address);
            return Err(Fault::Connect(text).into());
        }
        cx.worker.cells().add(series.conn_misses(ask.carrier), 1);
        self.open_port(&ask.upstream, cx)
    }

    fn open_port(&mut self, upstream: &Arc<Upstream>, cx: &Context<'_>) -> Result<Key, Unsent> {
        let address = upstream.key.address;
        let fail = |error: io::Error| Unsent::no_socket("udp", address, &error);
        let socket = connect(upstream).map_err(fail)?;
        let upstream = upstream.clone();
        let id = upstream.id;
        let (waiting, uses, opened_at) = (Vec::new(), 0, cx.now.mono_ns);
        let key = self.open.insert(Port { socket, upstream, waiting, uses, opened_at });
        if let Some(port) = self.open.get(key)
            && let Err(error) = cx.poll.add(&port.socket, Kind::UdpUpstream, key, Interest::READ)
        {
            self.open.remove(key);
            return Err(fail(error));
        }
        self.by_upstream.entry(id).or_default().push(key);
        Ok(key)
    }

    /// Nobody waits for this answer any more; gives the text of its timeout.
    pub(super) fn forget(&mut self, key: Key, id: u16) -> Option<String> {
        let port = self.open.get_mut(key)?;
        let (_, waiting) = port.waiting.iter_mut().find(|(other, _)| *other == id)?;
        waiting.forgotten = true;
        let local = port.local().map_or_else(String::new, |local| format!("{local}->"));
        Some(format!("read udp {local}{}: i/o timeout", port.upstream.key.address))
    }

    /// Takes the answers that have arrived at a port.
    pub(super) fn ready(&mut self, key: Key, places: &mut Places, cx: &mut Context<'_>) {
        for _ in 0..REPLIES_IN_A_ROW {
            let Some(port) = self.open.get_mut(key) else { return };
            match self.replies.receive(&port.socket) {
                Ok(count) => {
                    for index in 0..count {
                        take_answer(port, self.replies.get(index), places, cx);
                    }
                    if count < REPLIES {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.fail(key, &error, places, cx);
                    return;
                }
            }
        }
        let done = |port: &Port| !port.is_usable(cx.now) && !port.is_awaited();
        if self.open.get(key).is_some_and(done) {
            self.close(key);
        }
    }

    /// The kernel says that the upstream cannot be reached, or that nobody listens there.
    fn fail(&mut self, key: Key, error: &io::Error, places: &mut Places, cx: &mut Context<'_>) {
        let Some(port) = self.close(key) else { return };
        let text = fault::read("udp", port.local(), port.upstream.key.address, error);
        let fault = Fault::Broken(text);
        for (_, waiting) in port.waiting.into_iter().filter(|(_, waiting)| !waiting.forgotten) {
            places.remove(waiting.attempt);
            cx.worker.failed(cx.now, waiting.ticket, waiting.attempt, &fault);
            places.reuse(waiting);
        }
    }

    /// Closes ports that take no more questions and owe no answer.
    pub(super) fn sweep(&mut self, now: Now) {
        for key in self.open.keys(|port| !port.is_usable(now) && !port.is_awaited()) {
            self.close(key);
        }
    }

    fn close(&mut self, key: Key) -> Option<Port> {
        let port = self.open.remove(key)?;
        if let Some(keys) = self.by_upstream.get_mut(&port.upstream.id) {
            if let Some(at) = keys.iter().position(|other| *other == key) {
                keys.swap_remove(at);
            }
            if keys.is_empty() {
                self.by_upstream.remove(&port.upstream.id);
            }
        }
        Some(port)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.len() == 0
    }
}

/// Hands a message to the question it answers, if there is one: what matches none is ignored, so
/// that a forger with a wrong guess does not even cost us the true answer.
fn take_answer(port: &mut Port, message: &[u8], places: &mut Places, cx: &mut Context<'_>) {
    let id = message.first_chunk().map(|id| u16::from_be_bytes(*id));
    let place = port.waiting.iter().position(|(other, _)| Some(*other) == id);
    let answer = place.and_then(|place| {
        let answer = port.waiting.get(place)?.1.answer(message)?;
        Some((port.waiting.swap_remove(place).1, answer))
    });
    let Some((waiting, answer)) = answer else {
        cx.counters.add(cx.counters.strays, 1);
        return;
    };
    if !waiting.forgotten {
        places.remove(waiting.attempt);
        cx.worker.reply(cx.now, waiting.ticket, waiting.attempt, &answer);
    }
    drop(answer);
    places.reuse(waiting);
}

/// A socket on a port of the kernel's random choice, connected to the upstream.
fn connect(upstream: &Upstream) -> io::Result<UdpSocket> {
    let address = upstream.key.address;
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if let Some(source) = upstream.key.source {
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    socket.connect(&SockAddr::from(address))?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::poll::Poll;
    use nodens_core::config::BuildOptions;
    use nodens_core::log::Sink;
    use nodens_core::testing::request;
    use nodens_core::upstream::{Carrier, Key as Identity, Settings};
    use nodens_core::worker::Ticket;
    use nodens_core::{ListenerKind, Shared, Worker, build};

    /// Ports, what they need, and silent upstreams to ask.
    struct Asking {
        ports: Ports,
        poll: Poll,
        worker: Worker,
        counters: Counters,
        random: Random,
        shared: Arc<Shared>,
        attempt: u32,
    }

    impl Asking {
        fn new(max: usize) -> Self {
            let (sender, _) = std::sync::mpsc::sync_channel(1);
            let shared = Arc::new(Shared::new(1, Sink::new(sender)));
            let tree = nodens_corefile::parse("", ".:0 {}", &nodens_corefile::NoSources);
            let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
            Self {
                ports: Ports::new(max),
                poll: Poll::new().unwrap(),
                worker: Worker::new(0, shared.clone(), Arc::new(config), 0),
                counters: Counters::new(&shared, 0),
                random: Random::new(),
                shared,
                attempt: 0,
            }
        }

        fn upstream(&self, silent: &UdpSocket) -> Arc<Upstream> {
            let (address, settings) = (silent.local_addr().unwrap(), Settings::default());
            let kind = ListenerKind::Dns;
            let identity = Identity { address, kind, source: None, tls: None, settings };
            self.shared.upstreams.get(identity, &self.shared.registry)
        }

        fn ask(&mut self, upstream: &Arc<Upstream>) -> Result<(Key, u16), Unsent> {
            self.attempt += 1;
            let (ticket, upstream) = (Ticket::default(), upstream.clone());
            let (attempt, carrier) = (self.attempt, Carrier::Udp);
            let ask = Ask { ticket, attempt, upstream, carrier, elsewhere: false };
            let now = Now { mono_ns: u64::from(attempt), ..Now::default() };
            let mut message = request("example.org A");
            let waiting = Waiting::new(&ask, &message, now, Vec::new()).unwrap();
            let (poll, worker) = (&self.poll, &mut self.worker);
            let mut cx = Context { now, poll, worker, counters: &self.counters };
            let mut places = Places::default();
            let supplies = (&mut self.random, &mut places);
            let asked = self.ports.ask(&ask, &mut message, waiting, supplies, &mut cx);
            self.ports.flush(&mut places, &mut cx);
            asked
        }
    }

    fn silent() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn an_upstream_that_never_answers_leaves_ports_for_the_others() {
        let (dead, well) = (silent(), silent());
        let mut asking = Asking::new(FRESH_PORTS);
        let [dead, well] = [&dead, &well].map(|socket| asking.upstream(socket));
        for _ in 0..3 * FRESH_PORTS {
            asking.ask(&dead).unwrap();
        }
        assert_eq!(asking.ports.open.len(), FRESH_PORTS);
        for _ in 0..3 * FRESH_PORTS {
            asking.ask(&well).unwrap();
        }
        assert_eq!(asking.ports.open.len(), FRESH_PORTS + PORTS_PER_UPSTREAM_MIN);
    }

    #[test]
    fn questions_given_up_do_not_pile_up_at_a_port_that_never_rests() {
        let dead = silent();
        let mut asking = Asking::new(1);
        let upstream = asking.upstream(&dead);
        let awaited: Vec<(Key, u16)> =
            (0..PORTS_PER_UPSTREAM_MIN).map(|_| asking.ask(&upstream).unwrap()).collect();
        for _ in 0..4 * PORTS_PER_UPSTREAM_MIN * WAITING_PER_PORT {
            let (key, id) = asking.ask(&upstream).unwrap();
            assert!(asking.ports.forget(key, id).is_some());
        }
        for (key, id) in awaited {
            let port = asking.ports.open.get(key).unwrap();
            assert!(port.waiting.len() <= WAITING_PER_PORT, "{}", port.waiting.len());
            assert!(port.waiting.iter().any(|(other, w)| *other == id && !w.forgotten));
        }
    }
}
