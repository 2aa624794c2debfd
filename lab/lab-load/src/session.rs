//! One thread's clients: questions issued, messages matched, timeouts. No I/O and no clock.

use crate::Workload;
use crate::table::{Rest, State, Table};
use crate::tally::Tally;
use nodens_wire::{Flags, HEADER_LEN, Header};

pub(crate) struct Session<'w> {
    workload: &'w Workload,
    tables: Vec<Table>,
    timeout: u64,
    pub(crate) tally: Tally,
}

/// Sizes and times that all tables of a session share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// IDs of one socket.
    pub(crate) ids: usize,
    /// Nanoseconds until a question is given up.
    pub(crate) timeout: u64,
    pub(crate) rest: Rest,
    pub(crate) seed: u64,
}

impl<'w> Session<'w> {
    pub(crate) fn new(workload: &'w Workload, clients: usize, limits: Limits) -> Self {
        let tables = (0..clients as u64)
            .map(|client| Table::new(limits.ids, limits.rest, limits.seed ^ client << 32));
        let (tables, tally) = (tables.collect(), Tally::default());
        Self { workload, tables, timeout: limits.timeout, tally }
    }

    /// Questions of `client` in flight.
    pub(crate) fn waiting(&self, client: usize) -> usize {
        self.tables.get(client).map_or(0, Table::waiting)
    }

    /// Questions of all clients in flight.
    pub(crate) fn all_waiting(&self) -> usize {
        self.tables.iter().map(Table::waiting).sum()
    }

    /// Notes that an item's intended time has come.
    pub(crate) fn schedule(&mut self, intended: u64) {
        self.tally.counts.scheduled += 1;
        if let Some(step) = self.tally.rate_step(intended) {
            step.planned += 1;
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
        let id = self.tables.get_mut(client)?.issue(now, item, intended)?;
        self.workload.append(item, id, out);
        Some(id)
    }

    /// Takes back a question that could not be sent.
    pub(crate) fn withdraw(&mut self, client: usize, id: u16) {
        if let Some(table) = self.tables.get_mut(client) {
            table.withdraw(id);
        }
    }

    /// Notes that a question was sent at `now`.
    pub(crate) fn sent(&mut self, client: usize, id: u16, now: u64) {
        let Some(table) = self.tables.get_mut(client) else { return };
        let Some(slot) = table.find(id) else { return };
        table.sent(id, now);
        self.tally.counts.sent += 1;
        self.tally.lateness.record(now.saturating_sub(slot.intended));
        if let Some(cohort) = self.tally.cohort(slot.intended) {
            cohort.sent += 1;
        }
        if let Some(step) = self.tally.rate_step(now) {
            step.sent += 1;
        }
    }

    /// Takes a message that `client` received at `now`.
    pub(crate) fn receive(&mut self, client: usize, message: &[u8], now: u64) {
        self.tally.counts.received += 1;
        let Some(table) = self.tables.get_mut(client) else { return };
        let Ok(header) = Header::read(message) else {
            self.tally.counts.malformed += 1;
            return;
        };
        let Some(slot) = table.find(header.id) else {
            self.tally.counts.unknown += 1;
            return;
        };
        if !is_answer(self.workload, slot.item, header, message) {
            let cut = header.counts[0] > 0 && message.len() <= HEADER_LEN;
            *(if cut {
                &mut self.tally.counts.malformed
            } else {
                &mut self.tally.counts.mismatched
            }) += 1;
            return;
        }
        let took = now.saturating_sub(slot.sent);
        match slot.state {
            State::Waiting if took <= self.timeout => {
                table.settle(header.id, State::Answered);
                self.answer(slot.intended, took, now, header, message.len());
            }
            State::Waiting => {
                table.settle(header.id, State::AnsweredLate);
                self.tally.counts.timed_out += 1;
                self.lose(slot.intended);
                self.late(took);
            }
            State::GivenUp => {
                table.settle(header.id, State::AnsweredLate);
                self.late(took);
            }
            State::Answered | State::AnsweredLate | State::Free => self.tally.counts.duplicate += 1,
        }
    }

    fn answer(&mut self, intended: u64, took: u64, now: u64, header: Header, len: usize) {
        let tally = &mut self.tally;
        tally.counts.answered += 1;
        tally.counts.answer_octets += len as u64;
        tally.counts.truncated += u64::from(header.flags.has(Flags::TC));
        if let Some(count) = tally.rcodes.get_mut(usize::from(header.flags.rcode().0)) {
            *count += 1;
        }
        let response = now.saturating_sub(intended);
        tally.response.record(response);
        tally.service.record(took);
        if let Some(cohort) = tally.cohort(intended) {
            cohort.answered += 1;
            cohort.response.record(response);
        }
    }

    fn late(&mut self, took: u64) {
        self.tally.counts.late += 1;
        self.tally.late.record(took);
    }

    /// Notes a lost item in every histogram.
    fn lose(&mut self, intended: u64) {
        self.tally.response.record_censored(self.timeout);
        self.tally.service.record_censored(self.timeout);
        let timeout = self.timeout;
        if let Some(cohort) = self.tally.cohort(intended) {
            cohort.lost += 1;
            cohort.response.record_censored(timeout);
        }
    }

    /// Takes a datagram of `client` that came back as refused.
    pub(crate) fn refuse(&mut self, client: usize, message: &[u8]) {
        let Ok(header) = Header::read(message) else { return };
        let Some(table) = self.tables.get_mut(client) else { return };
        let Some(slot) = table.find(header.id).filter(|slot| slot.state == State::Waiting) else {
            return;
        };
        table.settle(header.id, State::GivenUp);
        self.tally.counts.refused += 1;
        self.lose(slot.intended);
    }

    /// Gives up what `client` has in flight because its connection ended.
    pub(crate) fn disconnect(&mut self, client: usize) {
        while let Some((_, slot)) = self.tables.get_mut(client).and_then(|t| t.expire(u64::MAX)) {
            self.tally.counts.connection_failed += 1;
            self.lose(slot.intended);
        }
    }

    /// Gives up what was sent longer than the timeout before `now`.
    pub(crate) fn expire(&mut self, now: u64) {
        // An answer after exactly the timeout is still in time.
        let deadline = now.saturating_sub(self.timeout);
        for client in 0..self.tables.len() {
            while let Some((_, slot)) = self.tables.get_mut(client).and_then(|t| t.expire(deadline))
            {
                self.tally.counts.timed_out += 1;
                self.lose(slot.intended);
            }
        }
    }

    /// Ends the run early: what is in flight is neither answered nor lost.
    pub(crate) fn interrupt(&mut self) {
        for table in &mut self.tables {
            while table.expire(u64::MAX).is_some() {
                self.tally.counts.interrupted += 1;
            }
        }
    }
}

/// Whether `message` is a response to `item`.
///
/// A server may leave the question out of an error (RFC 8906 section 3.1.4 saw many that do).
fn is_answer(workload: &Workload, item: u64, header: Header, message: &[u8]) -> bool {
    if !header.flags.has(Flags::QR) {
        return false;
    }
    match header.counts[0] {
        0 => header.flags.rcode().0 != 0,
        1 => workload.is_question_of(item, message),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
