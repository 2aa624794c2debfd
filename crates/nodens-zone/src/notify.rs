//! Who is told that a zone has changed, when, and how often (RFC 1996).

use crate::limits::{NOTIFY_ATTEMPTS, NOTIFY_INTERVAL, NOTIFY_TIMEOUT};
use crate::serial::Serial;
use crate::table::{Changes, ZoneTable};
use crate::zone::{Soa, Zone};
use foldhash::fast::RandomState;
use nodens_wire::{
    Builder, Class, Flags, HEADER_LEN, Header, Name, Opcode, Rcode, Reader, Section, Type,
};
use queue::{Due, Place, Queue, Rank};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

mod queue;
mod rules;
#[cfg(test)]
mod tests;

pub use rules::{NotifyRules, Secondaries};

/// Zones, and who is told of them.
#[derive(Clone, Debug)]
pub struct NotifyService {
    /// The zones.
    pub zones: Arc<ZoneTable>,
    /// Who is told.
    pub rules: Arc<dyn NotifyRules>,
}

/// How the telling of one version to one server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server knows.
    Accepted,
    /// It was told as often as it is told; this is the RCODE of its last answer, if any came.
    GivenUp(Option<Rcode>),
    /// It would have been told as often, but no message could be sent.
    Unsent,
}

/// A message to be sent.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The zone it is about.
    pub zone: &'a Name,
    /// The address to send it from; nothing for any.
    pub from: Option<IpAddr>,
    /// Where it goes.
    pub to: SocketAddr,
    /// Its octets.
    pub message: &'a [u8],
}

/// A server that is not told any more although it has not accepted.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// The zone.
    pub zone: Name,
    /// The server.
    pub server: SocketAddr,
    /// Why.
    pub outcome: Outcome,
}

/// Notification state for one secondary of a zone.
#[derive(Debug, Default)]
struct Target {
    /// The version it was told of last, whatever came of it.
    told: Option<Serial>,
    /// Times it was told of that version; 0 if no answer is waited for.
    attempt: u32,
    /// Identifier of the last message.
    id: u16,
    /// Whether a message about this version was sent.
    is_sent: bool,
    /// What it last said to this version.
    said: Option<Rcode>,
    /// When it is told again, monotonic nanoseconds.
    again_at: u64,
    /// When it may be told of another version.
    rested_at: u64,
    rank: Rank,
    /// Where it stands in [`Notifier::queue`].
    due: Option<Due>,
}

impl Target {
    /// When there is something to do while `serial` is the zone's.
    fn due(&self, serial: Serial) -> Option<Due> {
        let again = (self.attempt > 0).then_some(self.again_at);
        let anew = (self.told != Some(serial)).then_some(self.rested_at);
        again.into_iter().chain(anew).min().map(|at| (self.rank, at))
    }
}

/// One zone and its secondaries.
#[derive(Debug)]
struct Notice {
    service: u32,
    zone: Name,
    source: Arc<dyn Zone>,
    secondaries: Arc<Secondaries>,
    /// One for each server.
    targets: Vec<Target>,
}

/// Tells secondaries of new versions of zones: each version once it is there, again and again at
/// growing intervals until it is accepted or has been told often enough. A newer version takes the
/// place of one that is being told. A zone costs nothing while it does not change.
#[derive(Debug)]
pub struct Notifier {
    services: Vec<NotifyService>,
    notices: HashMap<u32, Notice, RandomState>,
    next_notice: u32,
    by_zone: HashMap<Name, Vec<u32>, RandomState>,
    queue: Queue,
    /// Whether the zones that there were at the beginning are known.
    has_begun: bool,
    /// Who may answer with which identifier.
    in_flight: HashMap<(SocketAddr, u16), Place, RandomState>,
}

impl Notifier {
    /// Tells the secondaries of `services` of all zones there are, and of changes as they come.
    pub fn new(services: &[NotifyService]) -> Self {
        Self {
            services: services.to_vec(),
            notices: HashMap::default(),
            next_notice: 0,
            by_zone: HashMap::default(),
            queue: Queue::default(),
            has_begun: false,
            in_flight: HashMap::default(),
        }
    }

    /// Has changes noted in `changes`, for [`Notifier::take`]; all zones that there are first.
    pub fn listen(&self, changes: &Arc<Changes>) {
        for (service, index) in self.services.iter().zip(0..) {
            service.zones.listen(changes, index);
        }
    }

    /// Looks at the zones that have changed.
    pub fn take(&mut self, changes: &Changes) {
        changes.take().for_each(|(service, zone)| self.changed(service, zone));
        self.has_begun = true;
    }

    fn changed(&mut self, service: u32, zone: Name) {
        let Some(known) = self.services.get(service as usize) else { return };
        let source = known.zones.load().get(zone.view()).cloned();
        let wanted = source.and_then(|source| {
            let secondaries = known.rules.secondaries(zone.view())?;
            Some((source, secondaries))
        });
        let notices = self.by_zone.get(&zone).map(Vec::as_slice).unwrap_or_default();
        let own = |number: &u32| self.notices.get(number).is_some_and(|n| n.service == service);
        let own = notices.iter().copied().find(own);
        let Some((source, secondaries)) = wanted else {
            if let Some(number) = own {
                self.forget(number);
                // Others that name the same servers have left it to this one. They tell them anew.
                let others = (0..self.services.len() as u32).filter(|other| *other != service);
                others.for_each(|other| self.changed(other, zone.clone()));
            }
            return;
        };
        let same = |number: &u32| {
            self.notices.get(number).is_some_and(|notice| notice.secondaries == secondaries)
        };
        let number = match own {
            Some(number) => number,
            // Another service tells the same servers.
            None if notices.iter().any(same) => return,
            None => self.add(service, zone, source.clone(), secondaries),
        };
        if let Some(notice) = self.notices.get_mut(&number) {
            notice.source = source;
        }
        self.schedule(number, own.is_some());
    }

    fn add(
        &mut self,
        service: u32,
        zone: Name,
        source: Arc<dyn Zone>,
        secondaries: Arc<Secondaries>,
    ) -> u32 {
        let number = self.next_notice;
        self.next_notice = self.next_notice.wrapping_add(1);
        let rank = if self.has_begun { Rank::Change } else { Rank::Initial };
        let target = |_| Target { rank, ..Target::default() };
        let targets = secondaries.servers.iter().map(target).collect();
        self.by_zone.entry(zone.clone()).or_default().push(number);
        self.notices.insert(number, Notice { service, zone, source, secondaries, targets });
        number
    }

    fn forget(&mut self, number: u32) {
        let Some(mut notice) = self.notices.remove(&number) else { return };
        for (index, (target, to)) in
            notice.targets.iter_mut().zip(&notice.secondaries.servers).enumerate()
        {
            let place = (number, index);
            self.queue.put(*to, &mut target.due, place, None);
            release(&mut self.in_flight, (*to, target.id), place);
        }
        if let Some(notices) = self.by_zone.get_mut(&notice.zone) {
            notices.retain(|other| *other != number);
            if notices.is_empty() {
                self.by_zone.remove(&notice.zone);
            }
        }
    }

    /// Looks when there is something to do for the secondaries of a zone, which may have changed.
    fn schedule(&mut self, number: u32, may_be_new: bool) {
        let Some(notice) = self.notices.get_mut(&number) else { return };
        let serial = notice.source.soa().map(|soa| soa.serial());
        let servers = &notice.secondaries.servers;
        for (index, (target, to)) in notice.targets.iter_mut().zip(servers).enumerate() {
            if may_be_new && target.told != serial {
                target.rank = Rank::Change;
            }
            let due = serial.and_then(|serial| target.due(serial));
            self.queue.put(*to, &mut target.due, (number, index), due);
        }
    }

    /// Writes what is due: `send` is given each message and says whether it could be sent; `id` draws
    /// unpredictable identifiers. At most [`NOTIFY_BURST`](crate::limits::NOTIFY_BURST) messages go to a server at once.
    pub fn poll(
        &mut self,
        now_ns: u64,
        mut id: impl FnMut() -> u16,
        mut send: impl FnMut(Outgoing<'_>) -> bool,
    ) -> Vec<Ended> {
        let mut ended = Vec::new();
        for server in self.queue.begin(now_ns) {
            while let Some(place) = self.queue.pop(server, now_ns) {
                ended.extend(self.tell(place, now_ns, &mut id, &mut send));
            }
        }
        ended
    }

    fn tell(
        &mut self,
        place: Place,
        now_ns: u64,
        id: &mut impl FnMut() -> u16,
        send: &mut impl FnMut(Outgoing<'_>) -> bool,
    ) -> Option<Ended> {
        let notice = self.notices.get_mut(&place.0)?;
        let to = *notice.secondaries.servers.get(place.1)?;
        let target = notice.targets.get_mut(place.1)?;
        target.due = None;
        // Without a SOA record there is nothing to tell until the zone says that it has one.
        let soa = notice.source.soa()?;
        release(&mut self.in_flight, (to, target.id), place);
        let is_new = target.told != Some(soa.serial()) && now_ns >= target.rested_at;
        if !is_new && target.attempt >= NOTIFY_ATTEMPTS {
            target.attempt = 0;
            let due = target.due(soa.serial());
            self.queue.put(to, &mut target.due, place, due);
            let given_up = Outcome::GivenUp(target.said);
            let outcome = if target.is_sent { given_up } else { Outcome::Unsent };
            return Some(Ended { zone: notice.zone.clone(), server: to, outcome });
        }
        if !is_new && target.attempt == 0 {
            let due = target.due(soa.serial());
            self.queue.put(to, &mut target.due, place, due);
            return None;
        }
        self.queue.count(to);
        let Some(id) = free_id(&self.in_flight, to, id) else {
            // Responses to other messages, or their ends, make room.
            let later = now_ns.saturating_add(nanoseconds(NOTIFY_TIMEOUT));
            self.queue.put(to, &mut target.due, place, Some((target.rank, later)));
            return None;
        };
        if is_new {
            target.told = Some(soa.serial());
            target.attempt = 0;
            (target.said, target.is_sent) = (None, false);
            target.rested_at = now_ns.saturating_add(nanoseconds(NOTIFY_INTERVAL));
        }
        let wait = nanoseconds(NOTIFY_TIMEOUT) << target.attempt;
        target.again_at = now_ns.saturating_add(wait);
        target.attempt += 1;
        target.id = id;
        self.in_flight.insert((to, target.id), place);
        let due = target.due(soa.serial());
        self.queue.put(to, &mut target.due, place, due);
        let message = message(&notice.zone, target.id, &soa);
        let from = notice.secondaries.source_for(to);
        target.is_sent |= send(Outgoing { zone: &notice.zone, from, to, message: &message });
        None
    }

    /// Takes a message that came from `from`; says whether a server accepted with it. Anything but
    /// NOERROR is taken as "not yet": a server that starts up knows its zones after a while. A
    /// question in it has to be that of the message it responds to; some servers send none.
    pub fn receive(&mut self, from: SocketAddr, message: &[u8]) -> Option<Outcome> {
        let header = Header::read(message).ok()?;
        let flags = header.flags;
        if !flags.has(Flags::QR) || flags.opcode() != Opcode::NOTIFY {
            return None;
        }
        let place = *self.in_flight.get(&(from, header.id))?;
        let notice = self.notices.get_mut(&place.0)?;
        if header.counts[0] > 0 && !asks_for(message, &notice.zone) {
            return None;
        }
        let target = notice.targets.get_mut(place.1)?;
        target.said = Some(flags.rcode());
        if flags.rcode() != Rcode::NOERROR {
            return None;
        }
        target.attempt = 0;
        self.in_flight.remove(&(from, header.id));
        self.schedule(place.0, false);
        Some(Outcome::Accepted)
    }

    /// When [`Notifier::poll`] has something to do even if no zone changes.
    pub fn next_deadline(&self) -> Option<u64> {
        self.queue.next_deadline()
    }
}

/// Forgets what `place` sent with that identifier, unless another uses it now.
fn release(
    in_flight: &mut HashMap<(SocketAddr, u16), Place, RandomState>,
    sent: (SocketAddr, u16),
    place: Place,
) {
    if in_flight.get(&sent) == Some(&place) {
        in_flight.remove(&sent);
    }
}

/// Whether the first question is about `zone`.
fn asks_for(message: &[u8], zone: &Name) -> bool {
    let mut qname = Vec::new();
    let read = Reader::new(message, HEADER_LEN).name(&mut qname);
    read.is_ok() && qname.eq_ignore_ascii_case(zone.as_wire())
}

/// An identifier that no message to this server has; none after a few vain attempts.
fn free_id(
    in_flight: &HashMap<(SocketAddr, u16), Place, RandomState>,
    to: SocketAddr,
    id: &mut impl FnMut() -> u16,
) -> Option<u16> {
    const DRAWS: usize = 8;
    (0..DRAWS).map(|_| id()).find(|drawn| !in_flight.contains_key(&(to, *drawn)))
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// NOTIFY with the SOA record as it is now (RFC 1996 section 3.7).
fn message(zone: &Name, id: u16, soa: &Soa) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let flags = Flags(0).with_opcode(Opcode::NOTIFY).with(Flags::AA, true);
    let mut builder = Builder::new(&mut out, id, flags);
    builder.question(zone.view(), Type::SOA, Class::IN);
    let fits = builder.push(Section::Answer, soa.record());
    debug_assert!(fits.is_ok(), "one record fits any message");
    out
}
