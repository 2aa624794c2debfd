//! The questions that wait, by ticket and by client, so that too many of them cost whoever asks
//! most. They are counted in places, of which a question with many octets takes several.

use super::Ticket;
use crate::handler::Job;
use crate::job::Recipient;
use crate::limits::{
    CLIENTS_LOOKED_AT, LOSERS_REMEMBERED, LOSSES_REMEMBERED, PLACES_FEW_SHARE, PLACES_MANY,
    SPARE_JOBS_MAX,
};
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
    places: u32,
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
    /// How many places it takes, [`Job::places`].
    places: u32,
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
    /// Places that all take together.
    places: usize,
    /// The most that it was since [`Pending::has_ebbed`].
    most_places: usize,
    /// Slots that were ever in use.
    slots: usize,
    /// The client that had to give up a question last: it may well have most of them still.
    last_loser: Option<Asker>,
    /// How many places clients lost lately, which is what many clients have in common that
    /// together ask too much, and one that asks little has not.
    lost: HashMap<Asker, u32, RandomState>,
    /// The same of all since they were last halved.
    losses: u32,
}

impl Pending {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// How many places they take.
    pub(super) fn places(&self) -> usize {
        self.places
    }

    /// Whether few places are taken after many were, once each time.
    pub(super) fn has_ebbed(&mut self) -> bool {
        let most = self.most_places;
        let has = most >= PLACES_MANY && self.places <= most / PLACES_FEW_SHARE;
        if has {
            self.most_places = self.places;
        }
        has
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
        let places = places_of(&job);
        parked.job = Some(job);
        if parked.places != places {
            self.note_places(ticket.slot, places);
        }
        if answered {
            // Its client has its answer and does not wait any more.
            self.leave_queue(ticket.slot);
        }
        None
    }

    /// A job takes more or fewer places than before.
    fn note_places(&mut self, slot: u32, places: u32) {
        let Some(parked) = self.jobs.get_mut(slot as usize) else { return };
        let before = std::mem::replace(&mut parked.places, places);
        self.places = self.places - before as usize + places as usize;
        self.most_places = self.most_places.max(self.places);
        let queue = parked.asker.and_then(|asker| self.queues.get_mut(&asker));
        if let Some(queue) = queue {
            queue.places = queue.places - before + places;
        }
    }

    /// Adds a job; gives its ticket, which is [`Pending::next_ticket`].
    pub(super) fn park(&mut self, job: Box<Job>) -> Ticket {
        let asker = match &job.recipient {
            Recipient::Client(client) => Some(Asker::of(client.peer.ip())),
            Recipient::Nobody(_) => None,
        };
        let serial = self.serial;
        self.serial = self.serial.wrapping_add(1);
        let places = places_of(&job);
        self.places += places as usize;
        self.most_places = self.most_places.max(self.places);
        let parked = Parked { serial, job: Some(job), asker, places, before: NONE, behind: NONE };
        let slot = self.jobs.insert(parked);
        self.slots = self.slots.max(slot + 1);
        let slot = u32::try_from(slot).unwrap_or(NONE);
        let ticket = Ticket { slot, serial };
        let Some(asker) = asker else { return ticket };
        let empty = Queue { len: 0, places: 0, first: slot, last: NONE };
        let queue = self.queues.entry(asker).or_insert(empty);
        let last = std::mem::replace(&mut queue.last, slot);
        queue.len += 1;
        queue.places += places;
        if let Some(parked) = self.jobs.get_mut(slot as usize) {
            parked.before = last;
        }
        if let Some(parked) = self.jobs.get_mut(last as usize) {
            parked.behind = slot;
        }
        ticket
    }

    /// Gives up the place of a job.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if self.parked(ticket).is_some() {
            self.leave_queue(ticket.slot);
            self.places -= self.jobs.remove(ticket.slot as usize).places as usize;
            if self.jobs.is_empty() && self.slots > SPARE_JOBS_MAX {
                self.jobs.shrink_to_fit();
                self.queues.shrink_to(0);
                self.slots = 0;
            }
        }
    }

    fn leave_queue(&mut self, slot: u32) {
        let Some(parked) = self.jobs.get_mut(slot as usize) else { return };
        let Some(asker) = parked.asker.take() else { return };
        let (before, behind, places) = (parked.before, parked.behind, parked.places);
        (parked.before, parked.behind) = (NONE, NONE);
        if let Some(parked) = self.jobs.get_mut(before as usize) {
            parked.behind = behind;
        }
        if let Some(parked) = self.jobs.get_mut(behind as usize) {
            parked.before = before;
        }
        let Some(queue) = self.queues.get_mut(&asker) else { return };
        queue.len -= 1;
        queue.places -= places;
        if queue.len == 0 {
            self.queues.remove(&asker);
            return;
        }
        queue.first = if queue.first == slot { behind } else { queue.first };
        queue.last = if queue.last == slot { before } else { queue.last };
    }

    /// The question that has to go for `newcomer`: the oldest of the client that has most places or
    /// lost most lately, and of clients with as many, the oldest. `None` if no client waits.
    ///
    /// The client is the greatest of a few: that of the newcomer, the last loser, and those of questions
    /// that are drawn. Who has a large part of all is among them nearly always, and where nobody has, it
    /// matters little who it is.
    pub(super) fn victim(&mut self, newcomer: Ticket, rng: &mut Rng) -> Option<Ticket> {
        let slots = self.slots.max(1);
        let own = self.parked(newcomer).and_then(|parked| parked.asker);
        let drawn = (0..CLIENTS_LOOKED_AT).filter_map(|_| self.jobs.get(rng.usize(..slots))?.asker);
        let heads = drawn.chain(own).chain(self.last_loser).filter_map(|asker| {
            let queue = self.queues.get(&asker)?;
            let head = self.jobs.get(queue.first as usize)?;
            let age = self.serial.wrapping_sub(head.serial);
            let lost = self.lost.get(&asker).copied().unwrap_or(0);
            let ticket = Ticket { slot: queue.first, serial: head.serial };
            Some(((queue.places.saturating_add(lost), age), ticket, asker))
        });
        let (_, ticket, asker) = heads.max_by_key(|(rank, ..)| *rank)?;
        self.last_loser = Some(asker);
        Some(ticket)
    }

    /// Notes that the client of this question loses it.
    pub(super) fn note_loss(&mut self, ticket: Ticket) {
        let Some(parked) = self.parked(ticket) else { return };
        let (Some(asker), places) = (parked.asker, parked.places) else { return };
        let lost = self.lost.entry(asker).or_default();
        *lost = lost.saturating_add(places);
        self.losses = self.losses.saturating_add(places);
        if self.losses >= LOSSES_REMEMBERED || self.lost.len() > LOSERS_REMEMBERED {
            self.losses = 0;
            self.lost.retain(|_, lost| {
                *lost /= 2;
                *lost > 0
            });
        }
    }
}

fn places_of(job: &Job) -> u32 {
    u32::try_from(job.places()).unwrap_or(u32::MAX)
}
