//! The questions that wait, by ticket and by client, so that too many of them cost whoever asks
//! most.

use super::Ticket;
use crate::handler::Job;
use crate::job::Recipient;
use crate::limits::{CLIENTS_LOOKED_AT, LOSERS_REMEMBERED, LOSSES_REMEMBERED};
use fastrand::Rng;
use foldhash::fast::RandomState;
use slab::Slab;
use std::collections::HashMap;
use std::net::IpAddr;

#[cfg(test)]
mod tests;

/// Who asks: an IPv4 address, or the /64 an IPv6 address is in, of which one host may have all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asker(u128);

impl Asker {
    fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(u128::from(u32::from(ip))),
            IpAddr::V6(ip) => Self(ip.to_bits() >> 64 << 64),
        }
    }
}

/// The questions of one asker that wait, oldest first.
#[derive(Clone, Copy, Debug)]
struct Queue {
    len: u32,
    first: u32,
    last: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Parked {
    serial: u32,
    /// Absent only while the job runs.
    job: Option<Box<Job>>,
    /// Whose it is; `None` for those without a client.
    asker: Option<Asker>,
    /// Neighbours in the asker's queue.
    before: u32,
    behind: u32,
}

/// The jobs of a worker that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    jobs: Slab<Parked>,
    queues: HashMap<Asker, Queue, RandomState>,
    serial: u32,
    /// Slots that were ever in use.
    slots: usize,
    /// How many questions clients lost lately, which is what many clients have in common that
    /// together ask too much, and one that asks little has not.
    lost: HashMap<Asker, u32, RandomState>,
    /// Losses since they were last halved.
    losses: u32,
}

impl Pending {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The ticket the next job to be parked will have.
    pub(super) fn next_ticket(&self) -> Ticket {
        let slot = u32::try_from(self.jobs.vacant_key()).unwrap_or(NONE);
        Ticket { slot, serial: self.serial }
    }

    /// The tickets of all.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let ticket =
            |(slot, parked): (usize, &Parked)| Ticket { slot: slot as u32, serial: parked.serial };
        self.jobs.iter().map(ticket).collect()
    }

    fn parked(&mut self, ticket: Ticket) -> Option<&mut Parked> {
        let parked = self.jobs.get_mut(ticket.slot as usize)?;
        (parked.serial == ticket.serial).then_some(parked)
    }

    /// A job, unless it runs.
    pub(super) fn get(&mut self, ticket: Ticket) -> Option<&mut Job> {
        self.parked(ticket)?.job.as_deref_mut()
    }

    /// Takes a job out to run it; its place stays.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Box<Job>> {
        self.parked(ticket)?.job.take()
    }

    /// Puts a job back that was taken out; gives it back if it has no place.
    pub(super) fn put_back(&mut self, ticket: Ticket, job: Box<Job>) -> Option<Box<Job>> {
        let Some(parked) = self.parked(ticket) else { return Some(job) };
        let answered = matches!(job.recipient, Recipient::Nobody(_));
        parked.job = Some(job);
        if answered {
            // Its client has its answer and does not wait any more.
            self.leave_queue(ticket.slot);
        }
        None
    }

    /// Adds a job, under [`Pending::next_ticket`].
    pub(super) fn park(&mut self, job: Box<Job>) {
        let asker = match &job.recipient {
            Recipient::Client(client) => Some(Asker::of(client.peer.ip())),
            Recipient::Nobody(_) => None,
        };
        let serial = self.serial;
        self.serial = self.serial.wrapping_add(1);
        let parked = Parked { serial, job: Some(job), asker, before: NONE, behind: NONE };
        let slot = self.jobs.insert(parked);
        self.slots = self.slots.max(slot + 1);
        let slot = u32::try_from(slot).unwrap_or(NONE);
        let Some(asker) = asker else { return };
        let queue = self.queues.entry(asker).or_insert(Queue { len: 0, first: slot, last: NONE });
        let last = std::mem::replace(&mut queue.last, slot);
        queue.len += 1;
        if let Some(parked) = self.jobs.get_mut(slot as usize) {
            parked.before = last;
        }
        if let Some(parked) = self.jobs.get_mut(last as usize) {
            parked.behind = slot;
        }
    }

    /// Gives up the place of a job.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if self.parked(ticket).is_some() {
            self.leave_queue(ticket.slot);
            self.jobs.remove(ticket.slot as usize);
        }
    }

    fn leave_queue(&mut self, slot: u32) {
        let Some(parked) = self.jobs.get_mut(slot as usize) else { return };
        let Some(asker) = parked.asker.take() else { return };
        let (before, behind) = (parked.before, parked.behind);
        (parked.before, parked.behind) = (NONE, NONE);
        if let Some(parked) = self.jobs.get_mut(before as usize) {
            parked.behind = behind;
        }
        if let Some(parked) = self.jobs.get_mut(behind as usize) {
            parked.before = before;
        }
        let Some(queue) = self.queues.get_mut(&asker) else { return };
        queue.len -= 1;
        if queue.len == 0 {
            self.queues.remove(&asker);
            return;
        }
        queue.first = if queue.first == slot { behind } else { queue.first };
        queue.last = if queue.last == slot { before } else { queue.last };
    }

    /// The question that has to go for another: the oldest of the client that has most waiting or
    /// lost lately, and of clients with as many, the oldest. `None` if no client waits.
    ///
    /// The client is the greatest of a few whose questions are drawn: who has a large part of all
    /// is drawn nearly always, and where nobody has, it matters little who it is.
    pub(super) fn victim(&self, rng: &mut Rng) -> Option<Ticket> {
        let slots = self.slots.max(1);
        let drawn = (0..CLIENTS_LOOKED_AT).filter_map(|_| self.jobs.get(rng.usize(..slots)));
        let queues = drawn.filter_map(|parked| self.queues.get(&parked.asker?));
        let heads = queues.filter_map(|queue| {
            let head = self.jobs.get(queue.first as usize)?;
            let age = self.serial.wrapping_sub(head.serial);
            let lost = self.lost.get(&head.asker?).copied().unwrap_or(0);
            Some((
                (queue.len.saturating_add(lost), age),
                Ticket { slot: queue.first, serial: head.serial },
            ))
        });
        heads.max_by_key(|(rank, _)| *rank).map(|(_, ticket)| ticket)
    }

    /// Notes that the client of this question loses it.
    pub(super) fn note_loss(&mut self, ticket: Ticket) {
        let Some(asker) = self.parked(ticket).and_then(|parked| parked.asker) else { return };
        *self.lost.entry(asker).or_default() += 1;
        self.losses += 1;
        if self.losses >= LOSSES_REMEMBERED || self.lost.len() > LOSERS_REMEMBERED {
            self.losses = 0;
            self.lost.retain(|_, lost| {
                *lost /= 2;
                *lost > 0
            });
        }
    }
}
