//! One connection to an upstream: what is on it, and what its octets answer.

use super::Places;
use super::waiting::Waiting;
use crate::context::Context;
use crate::limits::{UNACKNOWLEDGED_MAX, UNSENT_MAX, UPSTREAM_IN_FLIGHT};
use crate::poll::Interest;
use crate::tcp::{Outbox, first_message};
use nodens_core::Now;
use nodens_core::upstream::Upstream;
use nodens_core::worker::Ticket;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A connection to an upstream.
pub(super) struct Stream {
    pub(super) stream: TcpStream,
    pub(super) upstream: Arc<Upstream>,
    pub(super) waiting: HashMap<u16, Waiting>,
    /// Questions that somebody waits for.
    pub(super) live: usize,
    /// Whether the connection is made.
    pub(super) connected: bool,
    /// It takes no more questions.
    pub(super) retiring: bool,
    pub(super) input: Vec<u8>,
    pub(super) output: Outbox,
    pub(super) interest: Interest,
    /// Whether it is noted for what is in `output` to be sent at the end of the round.
    pub(super) dirty: bool,
    pub(super) opened_at: u64,
    /// When it takes no more questions.
    pub(super) retire_at: u64,
    /// When something was last received.
    pub(super) heard_at: u64,
    /// When the last question was answered or given up.
    pub(super) idle_since: u64,
}

impl Stream {
    pub(super) fn takes_questions(&self, now: Now) -> bool {
        !self.retiring
            && now.mono_ns < self.retire_at
            && self.waiting.len() < UPSTREAM_IN_FLIGHT
            && self.output.len() < UNSENT_MAX
    }

    pub(super) fn has_asked_for(&self, ticket: Ticket) -> bool {
        self.waiting.values().any(|waiting| waiting.ticket == ticket)
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    pub(super) fn wanted(&self) -> Interest {
        Interest { read: self.connected, write: !self.connected || !self.output.is_empty() }
    }

    /// A question needs no answer any more, for whatever reason.
    pub(super) fn settled(&mut self, now: Now) {
        self.live = self.live.saturating_sub(1);
        self.idle_since = now.mono_ns;
    }
}

/// Hands the whole messages among `octets` and what was left before to their questions.
pub(super) fn take_octets(
    stream: &mut Stream,
    octets: &[u8],
    places: &mut Places,
    cx: &mut Context<'_>,
) {
    let mut kept = std::mem::take(&mut stream.input);
    let fresh = kept.is_empty();
    if !fresh {
        kept.extend_from_slice(octets);
    }
    let all = if fresh { octets } else { kept.as_slice() };
    let mut taken = 0;
    while let Some((message, len)) = all.get(taken..).and_then(first_message) {
        take_answer(stream, message, places, cx);
        taken += len;
    }
    if fresh {
        kept.extend_from_slice(octets.get(taken..).unwrap_or_default());
    } else {
        kept.drain(..taken);
    }
    stream.input = kept;
}

/// Hands a message to the question it answers, if there is one.
fn take_answer(stream: &mut Stream, message: &[u8], places: &mut Places, cx: &mut Context<'_>) {
    let id = message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let answer = stream.waiting.get(&id).and_then(|waiting| waiting.answer(message));
    let Some((answer, waiting)) =
        answer.and_then(|answer| Some((answer, stream.waiting.remove(&id)?)))
    else {
        cx.counters.add(cx.counters.strays, 1);
        return;
    };
    if !waiting.forgotten {
        stream.settled(cx.now);
        places.remove(&waiting.attempt);
        cx.worker.reply(cx.now, waiting.ticket, waiting.attempt, &answer);
    }
}

/// Starts to connect to the upstream.
pub(super) fn connect(upstream: &Upstream) -> io::Result<TcpStream> {
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
        _ => Ok(socket.into()),
    }
}
