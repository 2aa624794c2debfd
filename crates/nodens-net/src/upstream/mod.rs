//! Questions to upstreams, and the messages that answer them.
//!
//! When to ask whom, how long to wait and what to do about a fault is the core's business; here
//! is what it takes to ask: ports, connections, IDs, and not believing every message.

mod forgotten;
mod handshakes;
mod manners;
mod pool;
mod ports;
pub(crate) mod quic;
mod record;
mod stream;
mod streams;
mod waiting;

use crate::context::Context;
use crate::limits::{SPARE_BUFFERS, SWEEP};
use crate::poll::Ready;
use crate::random::Random;
use crate::slots::{Key, Kind};
use crate::{descriptors, fault};
use foldhash::fast::RandomState;
use nodens_core::upstream::{Ask, Carrier, Fault};
use nodens_core::worker::Ticket;
use ports::Ports;
use quic::Connections;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use streams::Streams;
use waiting::Waiting;

/// Where a question went.
#[derive(Clone, Copy, Debug)]
struct Place {
    carrier: Carrier,
    key: Key,
    id: u16,
}

/// Which attempts are under way, and where.
#[derive(Default)]
struct Places {
    by_attempt: HashMap<u32, Place, RandomState>,
    /// Buffers for the questions that are waited for.
    buffers: Vec<Vec<u8>>,
}

impl Places {
    fn remove(&mut self, attempt: u32) -> Option<Place> {
        self.by_attempt.remove(&attempt)
    }

    /// Nobody waits for this question any more.
    fn reuse(&mut self, waiting: Waiting) {
        if self.buffers.len() < SPARE_BUFFERS {
            self.buffers.push(waiting.into_buffer());
        }
    }
}

/// Why a question is not sent.
#[derive(Debug)]
struct Unsent {
    fault: Fault,
    /// There is no descriptor for a socket.
    is_short: bool,
}

impl Unsent {
    /// There is no socket for a question to this upstream.
    fn no_socket(network: &str, upstream: SocketAddr, error: &io::Error) -> Self {
        let fault = Fault::Connect(fault::dial(network, upstream, error));
        Self { fault, is_short: descriptors::is_short(Errno::from_io_error(error)) }
    }
}

impl From<Fault> for Unsent {
    fn from(fault: Fault) -> Self {
        Self { fault, is_short: false }
    }
}

/// Asks upstreams for one worker.
pub(crate) struct Asker {
    random: Random,
    ports: Ports,
    streams: Streams,
    quic: Connections,
    places: Places,
    /// The question being sent, with its ID.
    message: Vec<u8>,
    /// Where connections are read to.
    scratch: Vec<u8>,
    next_sweep: u64,
    /// Whether the next step of a handshake is one over QUIC, if there is any.
    quics_turn: bool,
}

impl Asker {
    /// With at most `ports_max` UDP ports.
    pub(crate) fn new(ports_max: usize) -> Self {
        Self {
            random: Random::new(),
            ports: Ports::new(ports_max),
            streams: Streams::default(),
            quic: Connections::new(),
            places: Places::default(),
            message: Vec::with_capacity(512),
            scratch: vec![0; 1 << 16],
            next_sweep: 0,
            quics_turn: true,
        }
    }

    /// A number nobody can foresee, for random numbers that may be foreseen.
    pub(crate) fn seed(&mut self) -> u64 {
        self.random.u64()
    }

    /// Sends a question; if that fails, the worker is told. `make_room` is called when there is no
    /// descriptor for it, and says whether there may be one now.
    pub(crate) fn ask(
        &mut self,
        ask: &Ask,
        make_room: impl FnOnce(&Context<'_>) -> bool,
        cx: &mut Context<'_>,
    ) {
        // No message: the job is gone.
        let Some(message) = cx.worker.ask_message(ask.ticket) else { return };
        self.message.clone_from(message);
        let mut sent = self.send(ask, cx);
        if matches!(&sent, Some(Err(unsent)) if unsent.is_short) && make_room(cx) {
            sent = self.send(ask, cx);
        }
        match sent {
            Some(Ok((key, id))) => {
                let place = Place { carrier: ask.carrier, key, id };
                self.places.by_attempt.insert(ask.attempt, place);
            }
            Some(Err(unsent)) => {
                cx.worker.failed(cx.now, ask.ticket, ask.attempt, &unsent.fault);
            }
            None => {}
        }
    }

    /// Sends the message; gives where, and the ID. Nothing if it is no question.
    fn send(&mut self, ask: &Ask, cx: &mut Context<'_>) -> Option<Result<(Key, u16), Unsent>> {
        let buffer = self.places.buffers.pop().unwrap_or_default();
        let waiting = Waiting::new(ask, &self.message, cx.now, buffer)?;
        let (message, random) = (&mut self.message, &mut self.random);
        Some(match ask.carrier {
            Carrier::Udp => self.ports.ask(ask, message, waiting, (random, &mut self.places), cx),
            Carrier::Quic => self.quic.ask(ask, message, waiting, random, cx),
            _ => self.streams.ask(ask, message, waiting, random, cx),
        })
    }

    /// Nobody waits for this attempt any more.
    pub(crate) fn forget(&mut self, attempt: u32, cx: &Context<'_>) {
        let Some(place) = self.places.remove(attempt) else { return };
        match place.carrier {
            Carrier::Udp => _ = self.ports.forget(place.key, place.id),
            Carrier::Quic => _ = self.quic.forget(place.key, place.id, cx),
            _ => _ = self.streams.forget(place.key, place.id),
        }
    }

    /// This attempt took too long: the worker is told what for.
    pub(crate) fn give_up(&mut self, ticket: Ticket, attempt: u32, cx: &mut Context<'_>) {
        let Some(place) = self.places.remove(attempt) else { return };
        let (key, id, places) = (place.key, place.id, &mut self.places);
        let text = match place.carrier {
            Carrier::Udp => self.ports.forget(key, id),
            Carrier::Quic => self.quic.give_up(key, id, places, cx),
            _ => self.streams.give_up(key, id, places, cx),
        };
        if let Some(text) = text {
            cx.worker.failed(cx.now, ticket, attempt, &Fault::Timeout(text));
        }
    }

    /// Handles what epoll says about a port or connection.
    pub(crate) fn ready(&mut self, ready: Ready, cx: &mut Context<'_>) {
        let (places, scratch) = (&mut self.places, &mut self.scratch);
        match ready.kind {
            Kind::UdpUpstream => self.ports.ready(ready.key, places, cx),
            Kind::TcpUpstream => self.streams.ready(ready, places, scratch, cx),
            Kind::QuicUpstream => self.quic.ready(ready.key, cx),
            _ => {}
        }
    }

    /// Whether [`Asker::take_turn`] has something to do now.
    pub(crate) fn has_turn(&self) -> bool {
        self.streams.has_handshakes() || self.quic.has_handshakes()
    }

    /// Goes on with a handshake by one step.
    pub(crate) fn take_turn(&mut self, cx: &mut Context<'_>) {
        let of_quic =
            self.quic.has_handshakes() && (self.quics_turn || !self.streams.has_handshakes());
        self.quics_turn = !of_quic;
        if of_quic {
            return self.quic.take_handshake();
        }
        self.streams.take_handshake(&mut self.places, &mut self.scratch, cx);
    }

    /// Sends what has come together for ports and connections.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        self.ports.flush(&mut self.places, cx);
        self.streams.flush(&mut self.places, cx);
        self.quic.flush(&mut self.places, cx);
    }

    /// When [`Asker::tick`] has something to look at.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let idle = self.ports.is_empty() && self.streams.is_empty() && self.quic.is_empty();
        let sweep = (!idle).then_some(self.next_sweep);
        [sweep, self.quic.next_deadline()].into_iter().flatten().min()
    }

    /// Closes ports and connections that are too old, idle, or not made in time.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        self.quic.tick(cx);
        if cx.now.mono_ns < self.next_sweep {
            return;
        }
        self.next_sweep = cx.now.plus(SWEEP);
        self.ports.sweep(cx.now);
        self.streams.sweep(&mut self.places, cx);
        self.quic.sweep(&mut self.places, cx);
    }

    /// Closes connections whose upstreams would else wait for more on them. Others end with their sockets.
    pub(crate) fn close_all(&mut self, cx: &mut Context<'_>) {
        self.quic.close_all(&mut self.places, cx);
    }
}

/// Draws an ID that `taken` does not say is in use; `None` if luck or IDs have run out.
fn draw_id(random: &mut Random, taken: impl Fn(u16) -> bool) -> Option<u16> {
    (0..64).map(|_| random.u16()).find(|id| !taken(*id))
}
