//! One client connection: octets in, octets out, deadlines. Decides nothing about sockets.

use super::endpoint::Times;
use super::opening::Head;
use super::quota::Place;
use super::unsent::Holding;
use crate::limits::{
    ANSWER_RESERVE, IN_FLIGHT_PER_CONNECTION, UNSENT_MAX, UNSENT_PAUSE, UNSENT_STREAM,
    WRITE_PROGRESS,
};
use crate::pipe::Pipe;
use crate::poll::Interest;
use nodens_core::{Now, Stream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Never.
pub(crate) const NEVER: u64 = u64::MAX;

/// A client connection.
pub(crate) struct Connection {
    pub(crate) pipe: Pipe,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) endpoint: u32,
    /// Whether a PROXY protocol header may come first.
    pub(super) head: Head,
    /// Its addresses are those that a header named.
    pub(super) proxied: bool,
    /// The header's TLVs, if they are wanted.
    pub(super) tlvs: Option<Arc<[u8]>>,
    /// Octets received that are not a whole question yet, or may not be looked at yet.
    pub(crate) input: Vec<u8>,
    /// Questions that wait for their answer, or for the rest of it.
    pub(crate) in_flight: usize,
    /// What is still to come of an answer of many messages. Meanwhile no questions are taken.
    pub(crate) rest: Option<Box<Stream>>,
    /// Whether it waits for its turn to make the next message.
    pub(crate) in_turn: bool,
    /// No more questions will come, or be taken.
    pub(crate) closing: bool,
    /// Its listener goes: what has arrived is taken at once, however much is under way.
    pub(crate) last_call: bool,
    /// Whether it is noted for [`Pipe::output`] to be sent at the end of the round.
    pub(crate) dirty: bool,
    /// When it was accepted, its last question came or its last answer went, whichever is latest.
    pub(crate) active_at: u64,
    /// The earliest deadline that is queued for it.
    pub(crate) queued: u64,
    /// Questions it may still ask.
    left: u32,
    times: Times,
    /// When the next whole question must have arrived.
    read_deadline: u64,
    /// When what is being sent must have been taken.
    write_deadline: u64,
    /// Octets the kernel has taken in all.
    pub(super) written: u64,
    /// How many those were when it was last asked what of them it still holds.
    pub(super) looked_at: u64,
    /// Its client has answers to read, and little memory is left for such.
    pub(super) strained: bool,
    /// What is entered for it in the books of the process.
    pub(super) holding: Holding,
    /// The end of the stream is sent, and the client has yet to take what is in front of it.
    pub(super) lingering: bool,
    /// Octets the client had taken when `write_deadline` was set.
    taken: u64,
    /// Its place in the quota, given back when it closes.
    pub(super) place: Place,
}

impl Connection {
    pub(crate) fn new(
        pipe: Pipe,
        (peer, local): (SocketAddr, SocketAddr),
        endpoint: u32,
        times: Times,
        now: Now,
        (place, holding): (Place, Holding),
    ) -> Self {
        Self {
            pipe,
            peer,
            local,
            endpoint,
            head: Head::Past,
            proxied: false,
            tlvs: None,
            input: Vec::new(),
            in_flight: 0,
            rest: None,
            in_turn: false,
            closing: false,
            last_call: false,
            dirty: false,
            active_at: now.mono_ns,
            queued: NEVER,
            left: times.questions,
            times,
            read_deadline: now.mono_ns.saturating_add(times.read),
            write_deadline: NEVER,
            written: 0,
            looked_at: 0,
            strained: false,
            holding,
            lingering: false,
            taken: 0,
            place,
        }
    }

    /// Whether it has to answer before it may ask more.
    pub(crate) fn is_full(&self) -> bool {
        let (under_way, unsent) = match self.last_call {
            false if self.strained => return true,
            false => (IN_FLIGHT_PER_CONNECTION, UNSENT_PAUSE),
            true => (usize::MAX, UNSENT_MAX / 2),
        };
        // What is under way will be held too.
        let owed = self.pipe.output.len() + self.in_flight.saturating_mul(ANSWER_RESERVE);
        self.in_flight >= under_way || owed >= unsent || self.rest.is_some()
    }

    /// Whether there is room for the next message of an answer of many.
    pub(crate) fn wants_message(&self) -> bool {
        self.rest.is_some() && self.pipe.output.len() < UNSENT_STREAM
    }

    /// Whether nothing is owed to the client.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.pipe.output.is_empty()
    }

    /// What to watch for in this state.
    pub(crate) fn wanted(&self) -> Interest {
        // What waits for its turn would be announced again and again.
        let waits = self.in_turn && self.pipe.is_handshaking();
        let read = !self.closing && !self.is_full() && !waits;
        Interest { read, write: !self.pipe.output.is_empty() }
    }

    /// A whole question has arrived, or the last answer is out: the client has `idle` for the next.
    pub(crate) fn refresh(&mut self, now: Now) {
        self.active_at = now.mono_ns;
        self.read_deadline = now.mono_ns.saturating_add(self.times.idle);
    }

    /// Counts a question; after the last one allowed the connection closes once all are answered.
    pub(crate) fn count_question(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.closing |= self.left == 0;
    }

    /// Whether it may ask no more, however much has arrived.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Questions it has asked.
    pub(crate) fn asked(&self) -> u32 {
        self.times.questions.saturating_sub(self.left)
    }

    /// It has asked so many questions elsewhere.
    pub(crate) fn has_asked(&mut self, questions: u32) {
        if self.times.questions != u32::MAX {
            self.left = self.times.questions.saturating_sub(questions).max(1);
        }
    }

    /// A question has begun to arrive, so the rest must not take long; single octets do not
    /// buy more time.
    pub(crate) fn began(&mut self, now: Now) {
        self.read_deadline = self.read_deadline.min(now.mono_ns.saturating_add(self.times.read));
    }

    /// When to close unless something happens.
    pub(crate) fn deadline(&self) -> u64 {
        let reads = self.is_idle() && !self.lingering;
        let reading = if reads { self.read_deadline } else { NEVER };
        let streaming = self.rest.as_ref().map_or(NEVER, |rest| rest.deadline_ns());
        reading.min(self.write_deadline).min(streaming)
    }

    /// Sends what the client takes now. An error means that the connection is of no more use.
    pub(crate) fn flush(&mut self, now: Now) -> io::Result<()> {
        self.written += self.pipe.write()? as u64;
        if self.lingering {
            // What is written has the deadline that it had.
        } else if self.pipe.output.is_empty() {
            self.write_deadline = NEVER;
        } else if self.write_deadline == NEVER {
            self.await_client(now, self.taken());
        }
        Ok(())
    }

    /// A client that has taken enough in time gets the same time again.
    ///
    /// The kernel tells of room for more only once a large part of its buffer is empty, for which a
    /// slow reader takes long. So it is asked what the client has taken before it is given up.
    pub(crate) fn look_at_client(&mut self, now: Now) {
        if self.write_deadline > now.mono_ns {
            return;
        }
        let taken = self.taken();
        if taken >= self.taken + WRITE_PROGRESS {
            self.await_client(now, taken);
        }
    }

    /// The client has as long as for any answer to take what the kernel holds for it.
    pub(super) fn await_rest(&mut self, now: Now) {
        self.await_client(now, self.taken());
    }

    fn await_client(&mut self, now: Now, taken: u64) {
        self.write_deadline = now.mono_ns.saturating_add(self.times.write);
        self.taken = taken;
    }

    /// Octets the client's host has acknowledged.
    fn taken(&self) -> u64 {
        let unsent = self.pipe.unacknowledged().unwrap_or(0);
        self.written.saturating_sub(unsent)
    }
}
