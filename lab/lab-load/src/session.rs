//! One thread's clients: queries issued, messages matched, timeouts. No I/O and no clock.

use crate::fates::{End, Fate, Fates};
use crate::loss::Loss;
use crate::table::{Rest, Slot, State, Table};
use crate::tally::{Cohort, Span, Tally, final_time};
use crate::{SECOND, Workload};
use nodens_wire::reader::Reader;
use nodens_wire::{Flags, HEADER_LEN, Header, Opcode, Type};

pub(crate) struct Session<'w> {
    workload: &'w Workload,
    tables: Vec<Table>,
    ids_max: usize,
    timeout: u64,
    /// The latest time after sending at which an answer is late and not unknown.
    late_end: u64,
    /// When the schedule started, in seconds since 1970: what signatures need.
    pub(crate) started_unix_s: u64,
    pub(crate) fates: Option<Fates>,
    pub(crate) tally: Tally,
}

/// Sizes and times that all tables of a session share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// IDs of one socket to begin with.
    pub(crate) ids: usize,
    /// IDs of a socket whose client asks more than others.
    pub(crate) ids_max: usize,
    /// Nanoseconds until a query is given up.
    pub(crate) timeout: u64,
    pub(crate) rest: Rest,
    pub(crate) seed: u64,
}

impl<'w> Session<'w> {
    pub(crate) fn new(workload: &'w Workload, clients: usize, limits: Limits) -> Self {
        let tables = (0..clients as u64)
            .map(|client| Table::new(limits.ids, limits.rest, limits.seed ^ client << 32));
        let (tables, tally) = (tables.collect(), Tally::default());
        let (timeout, late_end) = (limits.timeout, limits.rest.given_up);
        let ids_max = limits.ids_max;
        let (started_unix_s, fates) = (0, None);
        Self { workload, tables, ids_max, timeout, late_end, started_unix_s, fates, tally }
    }

    /// Queries of `client` in flight.
    pub(crate) fn waiting(&self, client: usize) -> usize {
        self.tables.get(client).map_or(0, Table::waiting)
    }

    /// Queries of all clients in flight.
    pub(crate) fn all_waiting(&self) -> usize {
        self.tables.iter().map(Table::waiting).sum()
    }

    /// Notes that an item's intended time has come.
    pub(crate) fn schedule(&mut self, intended: u64) {
        self.tally.counts.scheduled += 1;
        if let Some(cohort) = self.tally.cohort(intended) {
            cohort.scheduled += 1;
        }
        if let Some(step) = self.tally.rate_step(intended) {
            step.planned += 1;
        }
    }

    /// Notes that an item had not been sent when the run was over.
    pub(crate) fn overdue(&mut self, intended: u64) {
        self.tally.counts.overdue += 1;
        self.skip(intended);
    }

    /// Notes that an item is not sent for want of an ID, or because the run was stopped.
    pub(crate) fn skip(&mut self, intended: u64) {
        self.tally.counts.skipped += 1;
        if let Some(cohort) = self.tally.cohort(intended) {
            cohort.skipped += 1;
        }
    }

    /// Notes that the operating system refuses to send an item.
    pub(crate) fn send_error(&mut self, intended: u64) {
        self.tally.counts.send_errors += 1;
        if let Some(cohort) = self.tally.cohort(intended) {
            cohort.send_errors += 1;
        }
    }

    /// Appends the message of `item` to `out` with an ID of `client`; `None` if none is free.
    pub(crate) fn issue(
        &mut self,
        client: usize,
        now: u64,
        (item, intended): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        let table = self.tables.get_mut(client)?;
        let id = match table.issue(now, item, intended) {
            Some(id) => id,
            None if table.grow(self.ids_max) => table.issue(now, item, intended)?,
            None => return None,
        };
        let start = out.len();
        self.workload.append_at(item, id, self.started_unix_s + now / SECOND, out);
        let message = out.get(start..).unwrap_or_default();
        table.describe(id, qtype(message), u16::try_from(message.len()).unwrap_or(u16::MAX));
        Some(id)
    }

    /// Takes back a query that could not be sent.
    pub(crate) fn withdraw(&mut self, client: usize, id: u16) {
        if let Some(table) = self.tables.get_mut(client) {
            table.withdraw(id);
        }
    }

    /// Notes that a query was sent at `now`.
    pub(crate) fn sent(&mut self, client: usize, id: u16, now: u64) {
        let Some(table) = self.tables.get_mut(client) else { return };
        let Some(slot) = table.find(id) else { return };
        table.sent(id, now);
        self.tally.counts.sent += 1;
        self.tally.counts.question_octets += u64::from(slot.octets);
        self.tally.lateness.record(now.saturating_sub(slot.intended));
        let intended = (slot.intended, slot.intended);
        self.tally.stretch(Span { intended, sent: (now, now) });
        if let Some(cohort) = self.tally.cohort(slot.intended) {
            cohort.sent += 1;
            cohort.lateness.record(now.saturating_sub(slot.intended));
        }
        if let Some(group) = self.tally.by_qtype.entry(slot.qtype.0) {
            group.sent += 1;
        }
        if let Some(step) = self.tally.rate_step(now) {
            step.sent += 1;
        }
    }

    /// Takes a datagram that `client` received at `now`.
    pub(crate) fn receive(&mut self, client: usize, message: &[u8], now: u64) {
        self.receive_on(client, 0, message, now);
    }

    /// Takes a message that `client` received at `now` on its connection `lane`; 0 for a datagram.
    pub(crate) fn receive_on(&mut self, client: usize, lane: u32, message: &[u8], now: u64) {
        self.tally.counts.received += 1;
        let Some(table) = self.tables.get_mut(client) else { return };
        let Ok(header) = Header::read(message) else {
            self.tally.counts.malformed += 1;
            return;
        };
        let Some(slot) = table.find(header.id).filter(|slot| slot.lane == lane) else {
            self.tally.counts.unknown += 1;
            return;
        };
        if !is_answer(self.workload, slot.item, header, message) {
            self.mismatch(header, message.len());
            return;
        }
        let took = now.saturating_sub(slot.sent);
        match slot.state {
            State::Waiting if took <= self.timeout => {
                table.settle(header.id, State::Answered);
                self.answer(slot, now, header, message);
            }
            State::Waiting => {
                table.settle(header.id, State::AnsweredLate);
                self.lose(header.id, slot, Loss::TimedOut);
                self.late(took);
            }
            State::GivenUp => {
                table.settle(header.id, State::AnsweredLate);
                self.late(took);
            }
            State::Answered | State::AnsweredLate => self.tally.counts.duplicate += 1,
            State::Failed | State::Free => self.tally.counts.unknown += 1,
        }
    }

    /// Counts a message with a known ID that does not answer its query.
    fn mismatch(&mut self, header: Header, len: usize) {
        let counts = &mut self.tally.counts;
        if header.counts[0] > 0 && len <= HEADER_LEN {
            counts.malformed += 1;
            return;
        }
        counts.mismatched += 1;
        counts.not_responses += u64::from(!header.flags.has(Flags::QR));
    }

    fn answer(&mut self, slot: Slot, now: u64, header: Header, message: &[u8]) {
        let (rcode, tally) = (extended_rcode(header, message), &mut self.tally);
        let no_error = rcode == 0;
        tally.counts.answered += 1;
        tally.counts.answer_octets += message.len() as u64;
        tally.counts.truncated += u64::from(header.flags.has(Flags::TC));
        tally.counts.empty += u64::from(no_error && header.counts[1] == 0);
        tally.counts.without_question += u64::from(header.counts[0] == 0);
        tally.rcodes.add(rcode, 1);
        let response = now.saturating_sub(slot.intended);
        let service = now.saturating_sub(slot.wrote);
        tally.response.record(response);
        tally.service.record(service);
        if let Some(cohort) = tally.cohort(slot.intended) {
            cohort.answered += 1;
            cohort.rcodes.add(rcode, 1);
            cohort.response.record(response);
            cohort.service.record(service);
        }
        if let Some(group) = tally.by_qtype.entry(slot.qtype.0) {
            group.answered += 1;
            group.response.record(response);
        }
        if let Some(times) = tally.by_rcode.entry(rcode) {
            times.record(response);
        }
        self.tell(header.id, slot, End::Answered { rcode, service });
    }

    /// Counts an answer to an item that has timed out.
    fn late(&mut self, took: u64) {
        if took > self.late_end {
            self.tally.counts.unknown += 1;
            return;
        }
        self.tally.counts.late += 1;
        self.tally.late.record(took);
    }

    fn tell(&self, id: u16, slot: Slot, end: End) {
        if let Some(fates) = &self.fates {
            fates.tell(Fate { item: slot.item, id, end });
        }
    }

    /// Notes a lost item in every count and histogram.
    fn lose(&mut self, id: u16, slot: Slot, loss: Loss) {
        self.tell(id, slot, End::Lost);
        let (timeout, tally) = (self.timeout, &mut self.tally);
        *loss.of_run(&mut tally.counts) += 1;
        tally.response.record_censored(timeout);
        tally.service.record_censored(timeout);
        if let Some(cohort) = tally.cohort(slot.intended) {
            *loss.of_second(cohort) += 1;
            cohort.response.record_censored(timeout);
            cohort.service.record_censored(timeout);
        }
        if let Some(group) = tally.by_qtype.entry(slot.qtype.0) {
            group.lost += 1;
            group.response.record_censored(timeout);
        }
    }

    /// Takes a datagram of `client` that came back as refused.
    pub(crate) fn refuse(&mut self, client: usize, message: &[u8]) {
        let Ok(header) = Header::read(message) else { return };
        let Some(table) = self.tables.get_mut(client) else { return };
        let Some(slot) = table.find(header.id).filter(|slot| slot.state == State::Waiting) else {
            return;
        };
        table.settle(header.id, State::Failed);
        self.lose(header.id, slot, Loss::Refused);
    }

    /// Whether `client` has a query that would be given up at `now`.
    pub(crate) fn is_overdue(&mut self, client: usize, now: u64) -> bool {
        let timeout = self.timeout;
        let table = self.tables.get_mut(client);
        table.is_some_and(|table| table.is_overdue(now.saturating_sub(timeout)))
    }

    /// Gives up what was sent longer than the timeout before `now`, and tells `note` the client, ID and use of
    /// each; whether there was any.
    pub(crate) fn expire(&mut self, now: u64, mut note: impl FnMut(usize, u16, Slot)) -> bool {
        // An answer after exactly the timeout is still in time.
        let deadline = now.saturating_sub(self.timeout);
        let before = self.tally.counts.timed_out;
        for client in 0..self.tables.len() {
            while let Some((id, slot)) =
                self.tables.get_mut(client).and_then(|t| t.expire(deadline))
            {
                self.lose(id, slot, Loss::TimedOut);
                note(client, id, slot);
            }
        }
        self.tally.counts.timed_out > before
    }

    /// Ends the run early: queries in flight are neither answered nor lost.
    pub(crate) fn interrupt(&mut self) {
        for client in 0..self.tables.len() {
            while let Some((id, slot)) =
                self.tables.get_mut(client).and_then(|t| t.expire(u64::MAX))
            {
                self.tell(id, slot, End::Interrupted);
                self.tally.counts.interrupted += 1;
                if let Some(cohort) = self.tally.cohort(slot.intended) {
                    cohort.interrupted += 1;
                }
                if let Some(group) = self.tally.by_qtype.entry(slot.qtype.0) {
                    group.interrupted += 1;
                }
            }
        }
    }

    /// The second, if it is final `now`: no answer can come in time and every item has its outcome.
    pub(crate) fn final_cohort(&self, second: u64, now: u64) -> Option<Cohort> {
        if now < final_time(second, self.timeout) {
            return None;
        }
        let cohort = self.tally.cohorts.get(second as usize).cloned().unwrap_or_default();
        cohort.is_settled().then_some(Cohort { is_final: true, ..cohort })
    }
}

/// The QTYPE of `message`; 0 if it has no query.
fn qtype(message: &[u8]) -> Type {
    let mut reader = Reader::new(message, HEADER_LEN);
    let read = reader.skip_name().and_then(|()| reader.u16("QTYPE"));
    Type(read.unwrap_or(0))
}

/// The RCODE with the upper bits that an OPT record may have (RFC 6891 section 6.1.3).
fn extended_rcode(header: Header, message: &[u8]) -> u16 {
    let low = header.flags.rcode().0;
    if header.counts[3] == 0 {
        return low;
    }
    low | upper_rcode(header, message).unwrap_or(0) << 4
}

/// The upper bits of the RCODE; `None` if there is no OPT record that can be read.
fn upper_rcode(header: Header, message: &[u8]) -> Option<u16> {
    let mut reader = Reader::new(message, HEADER_LEN);
    let [questions, records @ ..] = header.counts.map(usize::from);
    for _ in 0..questions {
        reader.skip_name().ok()?;
        reader.take(4, "question").ok()?;
    }
    for _ in 0..records.iter().sum() {
        reader.skip_name().ok()?;
        let rtype = reader.u16("TYPE").ok()?;
        reader.u16("CLASS").ok()?;
        let ttl = reader.u32("TTL").ok()?;
        if rtype == Type::OPT.0 {
            return u16::try_from(ttl >> 24).ok();
        }
        let len = reader.u16("length").ok()?;
        reader.take(usize::from(len), "RDATA").ok()?;
    }
    None
}

/// Whether `message` is a response to `item`.
///
/// A server may leave the question out of an error (RFC 8906 section 3.1.4 saw many that do), and
/// the zone out of the response to an update (RFC 2136 section 3.8).
fn is_answer(workload: &Workload, item: u64, header: Header, message: &[u8]) -> bool {
    if !header.flags.has(Flags::QR) {
        return false;
    }
    match header.counts[0] {
        0 => header.flags.rcode().0 != 0 || header.flags.opcode() == Opcode::UPDATE,
        1 => workload.is_question_of(item, message),
        _ => false,
    }
}

mod streams;

#[cfg(test)]
mod tests;
