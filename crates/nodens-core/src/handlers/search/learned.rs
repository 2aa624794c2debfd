//! What the cluster's own servers have said: which cuts they deny, which they do not, and what
//! their authority records say. Shared by all workers; reading takes no lock and writes nothing.

use crate::limits::SEARCH_TIME;
use crate::time::Now;
use foldhash::fast::RandomState;
use nodens_wire::{Flags, Message, NameRef, Rcode, Type};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Places for cuts: one for each type that a cut was denied for.
const CUTS: usize = 8192;
/// Places for names that are denied here: enough for those of half a minute of 5,000 a second, which
/// are asked for once each.
const NAMES: usize = 1 << 18;
/// Places that a name can be in.
const WAYS: usize = 4;
/// Of the names for which there is no place, one in so many goes on.
const SAMPLE: u64 = 256;
/// A tick in nanoseconds: times are kept in eighths of a second.
const TICK_NS: u64 = 125_000_000;
/// In front of the zone's name in the SOA records that servers of Kubernetes zones give.
const MNAME: &[u8] = b"\x02ns\x03dns";
/// The same for the mailbox.
const RNAME: &[u8] = b"\x0ahostmaster";

/// [`SEARCH_TIME`] in ticks.
const NAME_TICKS: u32 = (SEARCH_TIME.as_nanos() as u64 / TICK_NS) as u32;
/// The part of a name's place that is a time in ticks. It begins anew after more than two hours: a
/// name of then is denied for no longer than a new one.
const NAME_TIME: u32 = u32::MAX >> 16;

/// What has been said of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing, or too long ago.
    Nothing,
    /// That it does not exist.
    Denied,
    /// That something is there after all.
    Populated,
}

/// The authority record of a zone whose servers follow the Kubernetes specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) serial: u32,
    /// TTL of negative answers, in seconds.
    pub(super) negative_ttl: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Learned {
    hasher: RandomState,
    /// Tag, whether something is there, and until when that holds; 0 for an empty place.
    cuts: Box<[AtomicU64]>,
    /// Tag, and since when the name is denied here without its servers having been asked; 0 for an
    /// empty place. Made when the first name is denied.
    names: OnceLock<Box<[AtomicU32]>>,
    /// Serial and negative TTL of each zone; 0 while nothing is known.
    authorities: Box<[AtomicU64]>,
}

/// Parts of a place: 32 bits of tag, one for [`Said::Populated`], 31 for ticks.
const POPULATED: u64 = 1 << 31;
const TICKS: u64 = POPULATED - 1;

/// A cut, or a name, as it is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u64);

impl Place {
    /// The same for one type. A name can be served for one type by whoever else answers below the
    /// zone, and be denied for all others: what is said of one type says nothing about another.
    pub(super) fn of_type(self, qtype: Type) -> Self {
        Self(self.0 ^ (u64::from(qtype.0) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Where it may be among cuts.
    fn places(self) -> [usize; 2] {
        let place = self.0 as usize % CUTS;
        [place, place ^ 1]
    }

    /// The first place where it may be among names.
    fn ways(self) -> usize {
        self.0 as usize % NAMES / WAYS * WAYS
    }

    /// The tag where it stands in a place; never 0.
    fn tag(self) -> u64 {
        (self.0 >> 32 | 1) << 32
    }

    /// The same among names.
    fn name_tag(self) -> u32 {
        (self.0 >> 32) as u32 & !NAME_TIME | 1 << 31
    }
}

impl Learned {
    /// Nothing yet, of so many zones.
    pub(super) fn new(zones: usize) -> Self {
        Self {
            hasher: RandomState::default(),
            cuts: (0..CUTS).map(|_| AtomicU64::new(0)).collect(),
            names: OnceLock::new(),
            authorities: (0..zones).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The authority of a zone; `None` if it has not been heard of, or is of another kind.
    pub(super) fn authority(&self, zone: usize) -> Option<Authority> {
        let word = self.authorities.get(zone)?.load(Ordering::Relaxed);
        let (serial, negative_ttl) = ((word >> 32) as u32, word as u32);
        (word != 0).then_some(Authority { serial, negative_ttl })
    }

    fn set_authority(&self, zone: usize, Authority { serial, negative_ttl }: Authority) {
        if let Some(place) = self.authorities.get(zone) {
            let word = u64::from(serial) << 32 | u64::from(negative_ttl);
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Where something is known of a cut or of a name, both up to the zone.
    pub(super) fn place(&self, zone: usize, labels: &[u8]) -> Place {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(labels);
        Place(hasher.finish().wrapping_add((zone as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// What has been said of `cut` for one type. The tag can be that of another cut once in two
    /// billion cases; what is judged of a name does not depend on it.
    pub(super) fn look(&self, cut: Place, qtype: Type, now: Now) -> Said {
        let now = ticks(now.mono_ns);
        let is_held = |word: u64| word & TICKS > now;
        if self.find(cut).is_some_and(is_held) {
            return Said::Populated;
        }
        if self.find(cut.of_type(qtype)).is_some_and(is_held) { Said::Denied } else { Said::Nothing }
    }

    /// Whether `cut` was denied for a type until not longer than `ago` before now, and nothing else
    /// was said.
    pub(super) fn was_denied(&self, cut: Place, qtype: Type, now: Now, ago: Duration) -> bool {
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        let since = ticks(now.mono_ns.saturating_sub(ago));
        let denied = self.find(cut.of_type(qtype)).is_some_and(|word| word & TICKS >= since);
        denied && self.look(cut, qtype, now) != Said::Populated
    }

    fn find(&self, place: Place) -> Option<u64> {
        place.places().into_iter().find_map(|at| {
            let word = self.cuts.get(at)?.load(Ordering::Relaxed);
            (word & !TICKS & !POPULATED == place.tag()).then_some(word)
        })
    }

    /// Something is at or below `cut` after all, whatever type it has.
    pub(super) fn note_populated(&self, cut: Place, until_ns: u64) {
        self.note(cut, POPULATED | ticks(until_ns));
    }

    /// A name at or below `cut` was denied for a type.
    pub(super) fn note_denied(&self, cut: Place, qtype: Type, until_ns: u64) {
        self.note(cut.of_type(qtype), ticks(until_ns));
    }

    /// Remembers what was said; what ends earliest makes room.
    fn note(&self, place: Place, said: u64) {
        let read = |at: usize| self.cuts.get(at).map(|cell| cell.load(Ordering::Relaxed));
        let mut places = place.places();
        places.sort_by_key(|at| {
            let known = read(*at).unwrap_or_default();
            (known & !TICKS & !POPULATED != place.tag(), known & TICKS)
        });
        let [at, _] = places;
        if let Some(cell) = self.cuts.get(at) {
            cell.store(place.tag() | said, Ordering::Relaxed);
        }
    }

    /// Whether a name may be denied here for a type once more: not when that has been done for
    /// [`SEARCH_TIME`] without its servers having been asked for it. So whatever else is asked, and
    /// whatever follows from that, a name that they have is asked for after that time.
    ///
    /// Where so many new names come that not all can be remembered, a part of those goes on.
    pub(super) fn may_deny(&self, name: Place, now: Now) -> bool {
        let now = name_time(now);
        let names = self.names.get_or_init(|| (0..NAMES).map(|_| AtomicU32::new(0)).collect());
        let age = |word: u32| now.wrapping_sub(word) & NAME_TIME;
        let mut oldest: Option<(&AtomicU32, u32)> = None;
        for cell in names.get(name.ways()..).unwrap_or_default().iter().take(WAYS) {
            let word = cell.load(Ordering::Relaxed);
            if word & !NAME_TIME == name.name_tag() {
                return age(word) < NAME_TICKS;
            }
            let age = if word == 0 { NAME_TIME } else { age(word) };
            if oldest.is_none_or(|(_, known)| age > known) {
                oldest = Some((cell, age));
            }
        }
        match oldest {
            Some((cell, NAME_TICKS..)) => {
                cell.store(name.name_tag() | now, Ordering::Relaxed);
                true
            }
            _ => !(name.0 >> 8).wrapping_add(u64::from(now)).is_multiple_of(SAMPLE),
        }
    }

    /// A name's servers have denied it now, for a type.
    pub(super) fn heard_denied(&self, name: Place, now: Now) {
        let Some(names) = self.names.get() else { return };
        for cell in names.get(name.ways()..).unwrap_or_default().iter().take(WAYS) {
            if cell.load(Ordering::Relaxed) & !NAME_TIME == name.name_tag() {
                cell.store(name.name_tag() | name_time(now), Ordering::Relaxed);
            }
        }
    }

    /// Learns from a denial of a name in `zone`: how long it may be gone by. `None` if the zone's servers are not known to follow the specification, or do more
    /// than that: if their records are signed.
    pub(super) fn denial(&self, zone: usize, apex: NameRef<'_>, wire: &[u8]) -> Option<Duration> {
        let message = Message::parse(wire).ok()?;
        let [soa] = &*message.authority else { return None };
        if soa.rtype != Type::SOA || soa.owner.view() != apex || !message.answer.is_empty() {
            return None;
        }
        let apex = apex.as_wire();
        let (names, numbers) = soa.rdata.split_last_chunk::<20>()?;
        let (mname, rname) = names.split_at_checked(MNAME.len() + apex.len())?;
        let is = |name: &[u8], front: &[u8]| {
            let (own, rest) = name.split_at_checked(front.len()).unwrap_or((name, &[]));
            own.eq_ignore_ascii_case(front) && rest.eq_ignore_ascii_case(apex)
        };
        if !is(mname, MNAME) || !is(rname, RNAME) {
            return None;
        }
        let number = |at: usize| {
            let octets = numbers.get(at..at + 4).and_then(|octets| octets.try_into().ok());
            octets.map(u32::from_be_bytes)
        };
        let (serial, negative_ttl) = (number(0)?, number(16)?);
        if message.flags.rcode() == Rcode::NXDOMAIN && !message.flags.has(Flags::TC) {
            self.set_authority(zone, Authority { serial, negative_ttl });
            return Some(Duration::from_secs(soa.ttl.min(negative_ttl).into()));
        }
        None
    }
}

/// The SOA record's names as [`crate::lookup::records::Soa`] wants them.
pub(super) const SOA_NAMES: (&[u8], &[u8]) = (MNAME, RNAME);

fn name_time(now: Now) -> u32 {
    (now.mono_ns / TICK_NS) as u32 & NAME_TIME
}

/// At most the time, so that nothing is remembered for longer than was said.
fn ticks(ns: u64) -> u64 {
    (ns / TICK_NS).min(TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { mono_ns: ms * 1_000_000, unix_s: 0 }
    }

    #[test]
    fn what_was_said_holds_for_its_time_and_its_type() {
        let learned = Learned::new(1);
        let com = learned.place(0, b"\x03com");
        let look = |place, qtype, ms| learned.look(place, qtype, at(ms));
        assert_eq!(look(com, Type::A, 0), Said::Nothing);
        learned.note_denied(com, Type::A, at(5_000).mono_ns);
        assert_eq!(look(com, Type::A, 4_874), Said::Denied);
        assert_eq!(look(com, Type::A, 5_000), Said::Nothing);
        assert_eq!(look(com, Type::AAAA, 0), Said::Nothing);
        assert_eq!(look(learned.place(1, b"\x03com"), Type::A, 0), Said::Nothing);
        assert_eq!(look(learned.place(0, b"\x03org"), Type::A, 0), Said::Nothing);
        learned.note_populated(com, at(9_000).mono_ns);
        for qtype in [Type::A, Type::AAAA] {
            assert_eq!(look(com, qtype, 4_000), Said::Populated);
        }
        assert_eq!(look(com, Type::A, 9_000), Said::Nothing);
    }

    #[test]
    fn a_name_is_denied_for_a_while_and_then_asked_for() {
        let learned = Learned::new(1);
        let name = |text: &[u8]| learned.place(0, text).of_type(Type::A);
        let ask = |text: &[u8], ms| learned.may_deny(name(text), at(ms));
        assert!(ask(b"a", 1_000) && ask(b"a", 30_900));
        // Until the servers have been heard.
        assert!(!ask(b"a", 31_000) && !ask(b"a", 90_000));
        learned.heard_denied(name(b"a"), at(90_000));
        assert!(ask(b"a", 90_000) && ask(b"a", 119_900) && !ask(b"a", 120_000));
        assert!(ask(b"b", 120_000));
    }

    #[test]
    fn a_part_of_the_names_that_cannot_be_remembered_goes_on() {
        let learned = Learned::new(1);
        let passed = |ms, from: u32, count: u32| {
            let names = (from..from + count).map(|n| learned.place(0, &n.to_be_bytes()));
            names.filter(|name| !learned.may_deny(*name, at(ms))).count()
        };
        // Half a minute of 5,000 a second.
        assert!(passed(1_000, 0, 150_000) < 150);
        let many = passed(2_000, 1_000_000, 1_000_000);
        assert!((2_000..5_000).contains(&many), "{many}");
        // There are places again when those are old.
        assert!(passed(32_000, 2_000_000, 100_000) < 100);
    }

    #[test]
    fn many_cuts_forget_the_oldest_and_never_say_what_was_not_said() {
        let learned = Learned::new(1);
        let cut = |number: u32| learned.place(0, &number.to_be_bytes());
        for number in 0..100_000 {
            let until = at(1_000_000 + u64::from(number) * 1_000).mono_ns;
            learned.note_denied(cut(number), Type::A, until);
        }
        let known = |from: u32, to: u32| {
            let is_denied = |n: &u32| learned.look(cut(*n), Type::A, at(1)) == Said::Denied;
            (from..to).filter(is_denied).count()
        };
        assert!(known(99_000, 100_000) > 600, "{}", known(99_000, 100_000));
        assert!(known(0, 50_000) < 400, "{}", known(0, 50_000));
        assert_eq!(known(200_000, 300_000), 0);
    }
}
