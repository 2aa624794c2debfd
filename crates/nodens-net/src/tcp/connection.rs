//! One client connection: octets in, octets out, deadlines. Decides nothing about sockets.

use super::addresses::Addresses;
use super::endpoint::Times;
use super::frame::{Frame, first_frame_of};
use super::opening::Head;
use super::rare::{Rare, Taking};
use crate::limits::{
    ANSWER_RESERVE, CONNECTION_LEN, IDLE_MIN_NS, IN_FLIGHT_PER_CONNECTION, TAKING_NS, UNSENT_MAX,
    UNSENT_PAUSE, UNSENT_STREAM, WRITE_PROGRESS,
};
use crate::pipe::Pipe;
use crate::poll::Interest;
use nodens_core::{Now, Stream};
use std::io;
use std::sync::Arc;

/// Never.
pub(crate) const NEVER: u64 = u64::MAX;

/// A client connection. There may be a million, most of them idle: what only a busy one needs is
/// elsewhere, and nothing while it is not needed.
pub(crate) struct Connection {
    pub(crate) pipe: Pipe,
    pub(crate) addresses: Addresses,
    pub(crate) endpoint: u32,
    /// Whether a PROXY protocol header may come first.
    pub(super) head: Head,
    /// Its addresses are those that a header named.
    pub(super) proxied: bool,
    /// Octets received that are not a whole question yet, or may not be looked at yet.
    pub(crate) input: Vec<u8>,
    /// Questions that wait for their answer, or for the rest of it.
    pub(crate) in_flight: u32,
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
    times: Arc<Times>,
    /// When the next whole question must have arrived.
    read_deadline: u64,
    /// That is because it has begun to arrive, or is the first one.
    has_begun: bool,
    /// Octets the kernel has taken since it was last asked what it still holds.
    pub(super) unlooked: u32,
    /// Its client has answers to read, and little memory is left for such.
    pub(super) strained: bool,
    /// What it needs while it is not like most.
    pub(super) rare: Option<Box<Rare>>,
    /// The end of the stream is sent, and the client has yet to take what is in front of it, or to end.
    pub(super) lingering: bool,
    /// The client has ended.
    pub(super) ended: bool,
}

const _: () = assert!(size_of::<Connection>() <= CONNECTION_LEN);

impl Connection {
    pub(crate) fn new(
        pipe: Pipe,
        addresses: Addresses,
        endpoint: u32,
        times: Arc<Times>,
        now: Now,
    ) -> Self {
        Self {
            pipe,
            addresses,
            endpoint,
            head: Head::Past,
            proxied: false,
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
            read_deadline: now.mono_ns.saturating_add(times.read),
            has_begun: true,
            times,
            unlooked: 0,
            strained: false,
            rare: None,
            lingering: false,
            ended: false,
        }
    }

    /// What its octets have at this place.
    pub(super) fn frame<'o>(&self, octets: &'o [u8], at: usize) -> Option<Frame<'o>> {
        first_frame_of(octets.get(at..)?, self.times.updates)
    }

    /// Whether it has to answer before it may ask more.
    pub(crate) fn is_full(&self) -> bool {
        let (under_way, unsent) = match self.last_call {
            _ if self.awaits_response() => return true,
            false if self.strained => return true,
            false => (IN_FLIGHT_PER_CONNECTION, UNSENT_PAUSE),
            true => (usize::MAX, UNSENT_MAX / 2),
        };
        // What is under way will be held too.
        let in_flight = self.in_flight as usize;
        let owed = self.pipe.output.len() + in_flight.saturating_mul(ANSWER_RESERVE);
        in_flight >= under_way || owed >= unsent || self.rest.is_some()
    }

    /// Whether there is room for the next message of an answer of many.
    pub(crate) fn wants_message(&self) -> bool {
        self.rest.is_some() && self.pipe.output.len() < UNSENT_STREAM
    }

    /// Whether nothing is owed to the client.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.pipe.output.is_empty() && self.held() == 0
    }

    /// Whether its client may still be taking what it was sent a moment ago: there was much of it.
    pub(crate) fn is_taking(&self, now: Now) -> bool {
        self.is_entered() && now.mono_ns.saturating_sub(self.active_at) < TAKING_NS
    }

    /// What to watch for in this state.
    pub(crate) fn wanted(&self) -> Interest {
        // What waits for its turn would be announced again and again.
        let waits = self.in_turn && self.pipe.is_handshaking();
        let read = self.awaits_end() || (!self.is_deaf() && !self.is_full() && !waits);
        // Before its end a handshake says itself whether it has something to send.
        Interest { read, write: !self.pipe.output.is_empty() && !self.pipe.is_handshaking() }
    }

    /// A whole question has arrived, or the last answer is out: the client has `idle` for the next.
    pub(crate) fn refresh(&mut self, now: Now) {
        self.active_at = now.mono_ns;
        self.read_deadline = now.mono_ns.saturating_add(self.times.idle);
        self.has_begun = false;
    }

    /// Takes up other times. What it waits for by now has those that it began with, but an idle one
    /// stays for no longer than `times` allow.
    pub(super) fn retime(&mut self, times: &Arc<Times>) {
        if *self.times == **times {
            return;
        }
        let asked = self.asked();
        // invariant: a connection that may ask no more closes, and stays so.
        let was_spent = self.is_spent();
        self.times = times.clone();
        self.left = times.questions;
        self.has_asked(asked);
        if was_spent {
            self.left = 0;
        }
        let most = self.active_at.saturating_add(times.idle);
        self.read_deadline = self.read_deadline.min(most);
    }

    /// Until when it may be idle if it may be so for one part in `divisor` of the time for it.
    pub(super) fn may_idle_until(&self, divisor: u64) -> u64 {
        let idle = (self.times.idle / divisor.max(1)).max(IDLE_MIN_NS.min(self.times.idle));
        self.active_at.saturating_add(idle)
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

    /// A question has begun to arrive, so the rest must not take long, however long it was idle before;
    /// single octets do not buy more time.
    pub(crate) fn began(&mut self, now: Now) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.read_deadline = now.mono_ns.saturating_add(self.times.read);
        }
    }

    /// When to close unless something happens.
    pub(crate) fn deadline(&self) -> u64 {
        let reads = self.is_idle() && !self.lingering;
        let reading = if reads { self.read_deadline } else { NEVER };
        let streaming = self.rest.as_ref().map_or(NEVER, |rest| rest.deadline_ns());
        let taking = self.taking().map_or(NEVER, |taking| taking.deadline);
        reading.min(taking).min(streaming).min(self.http_deadline())
    }

    /// Sends what the client takes now. An error means that the connection is of no more use.
    pub(crate) fn flush(&mut self, now: Now) -> io::Result<()> {
        let written = self.pipe.write()?;
        self.unlooked = self.unlooked.saturating_add(u32::try_from(written).unwrap_or(u32::MAX));
        let taking = self.rare.as_mut().and_then(|rare| rare.taking.as_mut());
        let is_awaited = taking.is_some();
        if let Some(taking) = taking {
            taking.written += written as u64;
        }
        if self.lingering {
            // What is written has the deadline that it had.
        } else if !is_awaited {
            if !self.pipe.output.is_empty() {
                self.await_client(now);
            }
        } else if self.pipe.output.is_empty() {
            self.rare_mut().taking = None;
            self.tidy_rare();
        }
        Ok(())
    }

    /// A client that has taken enough in time gets the same time again.
    ///
    /// The kernel tells of room for more only once a large part of its buffer is empty, for which a
    /// slow reader takes long. So it is asked what the client has taken before it is given up.
    pub(crate) fn look_at_client(&mut self, now: Now) {
        let taking = self.rare.as_mut().and_then(|rare| rare.taking.as_mut());
        let Some(taking) = taking else { return };
        if taking.deadline > now.mono_ns {
            return;
        }
        let taken = taking.written.saturating_sub(self.pipe.unacknowledged().unwrap_or(0));
        if taken >= taking.taken + WRITE_PROGRESS {
            (taking.deadline, taking.taken) = (now.mono_ns.saturating_add(self.times.write), taken);
        }
    }

    /// The client has as long as for any answer to take what the kernel holds for it.
    pub(super) fn await_client(&mut self, now: Now) {
        let deadline = now.mono_ns.saturating_add(self.times.write);
        // Of what the kernel holds now, the client has taken nothing.
        let written = self.pipe.unacknowledged().unwrap_or(0);
        self.rare_mut().taking = Some(Taking { deadline, written, taken: 0, dropped: None });
    }
}
