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
use crate::limits::{FRESH_PORTS, PORT_AGE_MAX, REPLIES_IN_A_ROW, USES_PER_PORT};
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
        let full = open.len() >= self.max;
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
