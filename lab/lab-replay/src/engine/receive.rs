//! What comes back: responses, refusals, and nothing in time.

use super::{Engine, is_answer};
use crate::books;
use crate::flight::{State, Tag};
use crate::lanes::Kind;
use crate::limits::{RECEIVED_MAX, SOCKETS_PER_TURN};
use lab_load::{Loss, REFUSED_LEN, is_refusal};
use lab_workload::recorded::Carrier;
use nodens_wire::{Flags, HEADER_LEN, Header};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

impl Engine<'_> {
    /// Waits for sockets, at most until the next step, and takes what is there.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let pause = self.pause();
        self.take_ready(pause)
    }

    fn take_ready(&mut self, pause: Duration) -> io::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        ready.extend(self.poller.wait(pause)?);
        for (nth, event) in ready.iter().enumerate() {
            // Many responses at once must not delay queries.
            if nth % SOCKETS_PER_TURN == SOCKETS_PER_TURN - 1 {
                self.take_due();
            }
            let at = usize::try_from(event.token).unwrap_or(usize::MAX);
            match self.lanes.get(at).map(|lane| matches!(lane.kind, Kind::Udp(_))) {
                Some(true) => self.receive_datagrams(at),
                Some(false) => self.serve_connection(at, event.writable),
                None => {}
            }
        }
        self.ready = ready;
        Ok(())
    }

    fn receive_datagrams(&mut self, at: usize) {
        loop {
            let Some(lane) = self.lanes.get(at) else { return };
            let (Kind::Udp(socket), serial) = (&lane.kind, lane.serial) else { return };
            match self.into.receive(socket.as_fd()) {
                Ok(count) => {
                    let now = self.now();
                    let into = std::mem::replace(&mut self.into, Self::no_batch());
                    for datagram in 0..count {
                        self.message(at, serial, Carrier::Udp, into.get(datagram), now);
                    }
                    self.into = into;
                    if count < RECEIVED_MAX {
                        return;
                    }
                }
                Err(error) if is_refusal(&error) => self.take_refusals(at),
                Err(_) => return,
            }
        }
    }

    /// Takes a message that came on the socket at `at` with the number `serial`.
    pub(super) fn message(
        &mut self,
        at: usize,
        serial: u64,
        carrier: Carrier,
        message: &[u8],
        now: u64,
    ) {
        let counts = &mut self.books.of(carrier).counts;
        counts.received += 1;
        let Ok(header) = Header::read(message) else {
            counts.malformed += 1;
            return;
        };
        let Some(flying) = self.flight.get_mut(Tag { serial, id: header.id }) else {
            counts.unknown += 1;
            return;
        };
        if !is_answer(flying, header, message) {
            if header.counts[0] > 0 && message.len() <= HEADER_LEN {
                counts.malformed += 1;
                return;
            }
            counts.mismatched += 1;
            counts.not_responses += u64::from(!header.flags.has(Flags::QR));
            return;
        }
        let took = now.saturating_sub(flying.sent);
        match flying.state {
            State::Waiting if took <= self.task.timeout => {
                flying.state = State::Answered;
                let recorded = flying.recorded.take();
                self.comparison.answered(flying.number, recorded.as_deref(), message);
                self.books.answer(flying, now, header, message);
                self.last_answer = now;
                self.settle(at, serial);
            }
            State::Waiting => {
                flying.state = State::AnsweredLate;
                let recorded = flying.recorded.take();
                self.comparison.lost(
                    flying.number,
                    recorded.as_deref(),
                    books::text(Loss::TimedOut),
                );
                self.books.lose(flying, Loss::TimedOut);
                self.late(carrier, took);
                self.settle(at, serial);
            }
            State::GivenUp => {
                flying.state = State::AnsweredLate;
                self.late(carrier, took);
            }
            State::Answered | State::AnsweredLate => counts.duplicate += 1,
            State::Failed => counts.unknown += 1,
        }
    }

    fn late(&mut self, carrier: Carrier, took: u64) {
        let tally = self.books.of(carrier);
        tally.counts.late += 1;
        tally.late.record(took);
    }

    /// Notes that a query of the socket at `at` has its outcome.
    pub(super) fn settle(&mut self, at: usize, serial: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(lane) = self.lanes.same(at, serial) {
            lane.waiting = lane.waiting.saturating_sub(1);
        }
    }

    /// Counts a query in flight as lost.
    pub(super) fn lose(&mut self, tag: Tag, loss: Loss) {
        let found = self.flight.get_mut(tag).filter(|flying| flying.state == State::Waiting);
        let Some(flying) = found else { return };
        flying.state = State::Failed;
        let (at, recorded) = (flying.lane, flying.recorded.take());
        self.comparison.lost(flying.number, recorded.as_deref(), books::text(loss));
        self.books.lose(flying, loss);
        self.settle(at, tag.serial);
    }

    /// Gives every query of the socket at `at` that came back in an ICMP message its outcome.
    pub(super) fn take_refusals(&mut self, at: usize) {
        let mut datagram = [0; REFUSED_LEN];
        loop {
            let Some(lane) = self.lanes.get(at) else { return };
            let (Kind::Udp(socket), serial) = (&lane.kind, lane.serial) else { return };
            let Ok(len) = lab_sys::socket::take_error(socket.as_fd(), &mut datagram) else {
                return;
            };
            if let Ok(header) = Header::read(datagram.get(..len).unwrap_or_default()) {
                self.lose(Tag { serial, id: header.id }, Loss::Refused);
            }
        }
    }

    /// Gives up what was sent longer ago than the timeout, and lets IDs be used again.
    pub(super) fn expire(&mut self, now: u64) {
        if self.flight.is_overdue(now) {
            // A pause of this thread is not the server's fault: what came meanwhile is in the sockets.
            _ = self.take_ready(Duration::ZERO);
        }
        while let Some((tag, flying)) = self.flight.expire(now) {
            self.comparison.lost(
                flying.number,
                flying.recorded.as_deref(),
                books::text(Loss::TimedOut),
            );
            self.books.lose(&flying, Loss::TimedOut);
            self.settle(flying.lane, tag.serial);
            self.close_if_done(flying.lane, now);
        }
        while let Some((tag, at)) = self.flight.release(now) {
            if let Some(lane) = self.lanes.same(at, tag.serial) {
                lane.ids = lane.ids.saturating_sub(1);
            }
        }
        self.give_up_dialling(now);
    }

    /// A batch that takes no memory.
    fn no_batch() -> lab_sys::batch::Batch {
        lab_sys::batch::Batch::connected(0, 1)
    }
}
