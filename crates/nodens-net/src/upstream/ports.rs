//! Questions in datagrams, each from a port that nobody outside can foresee (RFC 5452).
//!
//! Every question opens a fresh port, until there are enough of them open towards an upstream that
//! choosing among them leaves a forger no better off than guessing; a port is used for a bounded
//! number of questions and a bounded time. The sockets are connected: the kernel then passes only
//! the upstream's datagrams, and says if nobody listens there.

use super::waiting::Waiting;
use super::{Places, draw_id};
use crate::context::Context;
use crate::fault;
use crate::limits::{
    FRESH_PORTS, PORT_AGE_MAX, PORTS_PER_UPSTREAM_MIN, REPLIES_IN_A_ROW, USES_PER_PORT,
    WAITING_PER_PORT,
};
use crate::poll::Interest;
use crate::random::Random;
use crate::slots::{Key, Kind, Slots};
use nodens_core::Now;
use nodens_core::upstream::{Ask, Carrier, Fault, Upstream};
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
    by_upstream: HashMap<u32, Vec<Key>>,
    max: usize,
}

impl Ports {
    pub(super) fn new(max: usize) -> Self {
        Self { open: Slots::default(), by_upstream: HashMap::new(), max }
    }

    /// Sends `message` to the upstream of `ask`; gives the port and the ID.
    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        message: &mut [u8],
        waiting: Waiting,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<(Key, u16), Fault> {
        let key = self.choose(ask, random, cx)?;
        let address = ask.upstream.key.address;
        let port = self.open.get_mut(key);
        let port = port.ok_or_else(|| Fault::Send(format!("write udp {address}: no port")))?;
        port.make_room();
        let taken = |id| port.waiting.iter().any(|(other, _)| *other == id);
        let id = draw_id(random, taken)
            .ok_or_else(|| Fault::Send(format!("write udp {address}: no ID")))?;
        header::set_id(message, id);
        port.uses += 1;
        // A first refusal is that of an earlier question; if still nobody listens there, the next
        // one ends all questions of this port.
        let sent = port.socket.send(message).or_else(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => port.socket.send(message),
            _ => Err(error),
        });
        if let Err(error) = sent {
            let text = fault::write("udp", port.local(), address, &error);
            return Err(Fault::Send(text));
        }
        port.waiting.push((id, waiting));
        Ok((key, id))
    }

    /// A port for one more question.
    fn choose(
        &mut self,
        ask: &Ask,
        random: &mut Random,
        cx: &mut Context<'_>,
    ) -> Result<Key, Fault> {
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
            cx.worker.cells().add(series.conn_hits(Carrier::Udp), 1);
            return Ok(key);
        }
        if full {
            let text = format!("dial udp {}: too many open ports", ask.upstream.key.address);
            return Err(Fault::Connect(text));
        }
        cx.worker.cells().add(series.conn_misses(Carrier::Udp), 1);
        self.open_port(&ask.upstream, cx)
    }

    fn open_port(&mut self, upstream: &Arc<Upstream>, cx: &Context<'_>) -> Result<Key, Fault> {
        let address = upstream.key.address;
        let fail = |error: io::Error| Fault::Connect(fault::dial("udp", address, &error));
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
    pub(super) fn ready(
        &mut self,
        key: Key,
        places: &mut Places,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
    ) {
        for _ in 0..REPLIES_IN_A_ROW {
            let Some(port) = self.open.get_mut(key) else { return };
            match port.socket.recv(scratch) {
                Ok(len) => {
                    let message = scratch.get(..len).unwrap_or_default();
                    take_answer(port, message, places, cx);
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
            places.remove(&waiting.attempt);
            cx.worker.failed(cx.now, waiting.ticket, waiting.attempt, &fault);
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
        places.remove(&waiting.attempt);
        cx.worker.reply(cx.now, waiting.ticket, waiting.attempt, &answer);
    }
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
    use nodens_core::upstream::{Key as Identity, Settings};
    use nodens_core::worker::Ticket;
    use nodens_core::{Shared, Worker, build};

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
            let identity = Identity { address, source: None, tls_name: None, settings };
            self.shared.upstreams.get(identity, &self.shared.registry)
        }

        fn ask(&mut self, upstream: &Arc<Upstream>) -> Result<(Key, u16), Fault> {
            self.attempt += 1;
            let (ticket, upstream) = (Ticket::default(), upstream.clone());
            let (attempt, carrier) = (self.attempt, Carrier::Udp);
            let ask = Ask { ticket, attempt, upstream, carrier, elsewhere: false };
            let now = Now { mono_ns: u64::from(attempt), ..Now::default() };
            let mut message = request("example.org A");
            let waiting = Waiting::new(&ask, &message, now).unwrap();
            let (poll, worker) = (&self.poll, &mut self.worker);
            let mut cx = Context { now, poll, worker, counters: &self.counters };
            self.ports.ask(&ask, &mut message, waiting, &mut self.random, &mut cx)
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
