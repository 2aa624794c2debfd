//! What only connections need: queries that wait in their client's hand for one (lane 0), are
//! asked on one, go back, or fail with it.

use super::{Loss, Session};
use crate::table::State;

impl Session<'_> {
    /// Whether a query of `client` on `lane` has no outcome yet.
    pub(crate) fn waits(&self, client: usize, lane: u32, id: u16) -> bool {
        self.tables.get(client).is_some_and(|table| table.waits(id, lane).is_some())
    }

    /// Notes which connection a query is asked on.
    pub(crate) fn assign(&mut self, client: usize, id: u16, lane: u32) {
        if let Some(table) = self.tables.get_mut(client) {
            table.assign(id, lane);
        }
    }

    /// Takes a query from its connection and back into hand, and appends its message to `out`;
    /// false if it has its outcome already.
    pub(crate) fn recall(&mut self, client: usize, lane: u32, id: u16, out: &mut Vec<u8>) -> bool {
        let Some(table) = self.tables.get_mut(client) else { return false };
        let Some(slot) = table.waits(id, lane) else { return false };
        table.assign(id, 0);
        self.workload.append(slot.item, id, out);
        true
    }

    /// Notes that the first octet of a query left at `now`.
    pub(crate) fn wrote(&mut self, client: usize, lane: u32, id: u16, now: u64) {
        let Some(table) = self.tables.get_mut(client) else { return };
        let Some(slot) = table.waits(id, lane) else { return };
        table.wrote(id, now);
        self.tally.connections.waited.record(now.saturating_sub(slot.sent));
    }

    /// Gives up a query because its connection failed, or ended; false if it has its outcome.
    pub(crate) fn fail(&mut self, client: usize, lane: u32, id: u16) -> bool {
        let Some(table) = self.tables.get_mut(client) else { return false };
        let Some(slot) = table.waits(id, lane) else { return false };
        table.settle(id, State::Failed);
        self.lose(id, slot, Loss::ConnectionFailed);
        true
    }

    /// Whether an answer at `now` to a query sent at `sent` is not even late: its ID may be issued again.
    pub(crate) fn is_past(&self, sent: u64, now: u64) -> bool {
        now >= sent.saturating_add(self.late_end)
    }

    /// Counts a message on a stream of its own that cannot be the answer.
    pub(crate) fn mismatch_stream(&mut self) {
        self.tally.counts.received += 1;
        self.tally.counts.mismatched += 1;
    }
}
