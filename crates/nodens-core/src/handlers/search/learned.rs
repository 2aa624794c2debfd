//! What the cluster's own servers have said: which cuts they deny, which they do not, and what
//! their authority records say. Shared by all workers; reading takes no lock and writes nothing.

use crate::time::Now;
use arc_swap::{ArcSwapOption, Guard};
use foldhash::fast::RandomState;
use nodens_wire::{Flags, Message, NameRef, Rcode, Type};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Cuts that are remembered, each in one of two places.
const CUTS: usize = 4096;
/// A tick in nanoseconds: times are kept in eighths of a second.
const TICK_NS: u64 = 125_000_000;
/// In front of the zone's name in the SOA records that servers of Kubernetes zones give.
const MNAME: &[u8] = b"\x02ns\x03dns";
/// The same for the mailbox.
const RNAME: &[u8] = b"\x0ahostmaster";

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
    authorities: Box<[ArcSwapOption<Authority>]>,
}

/// Parts of a place: 32 bits of tag, one for [`Said::Populated`], 31 for ticks.
const POPULATED: u64 = 1 << 31;
const TICKS: u64 = POPULATED - 1;

impl Learned {
    /// Nothing yet, of so many zones.
    pub(super) fn new(zones: usize) -> Self {
        Self {
            hasher: RandomState::default(),
            cuts: (0..CUTS).map(|_| AtomicU64::new(0)).collect(),
            authorities: (0..zones).map(|_| ArcSwapOption::empty()).collect(),
        }
    }

    /// The authority of a zone; `None` if it has not been heard of, or is of another kind.
    pub(super) fn authority(&self, zone: usize) -> Option<Authority> {
        let authority: Guard<Option<Arc<Authority>>> = self.authorities.get(zone)?.load();
        authority.as_deref().copied()
    }

    fn set_authority(&self, zone: usize, authority: Authority) {
        let Some(place) = self.authorities.get(zone) else { return };
        if place.load().as_deref() != Some(&authority) {
            place.store(Some(Arc::new(authority)));
        }
    }

    fn hash(&self, zone: usize, cut: &[u8]) -> u64 {
        self.hasher.hash_one((zone, cut))
    }

    /// What has been said of `cut`. The tag can be that of another cut once in four billion cases;
    /// what is judged of a name does not depend on it.
    pub(super) fn look(&self, zone: usize, cut: &[u8], now: Now) -> Said {
        match self.find(self.hash(zone, cut)) {
            Some(word) if word & TICKS <= ticks(now.mono_ns) => Said::Nothing,
            Some(word) if word & POPULATED != 0 => Said::Populated,
            Some(_) => Said::Denied,
            None => Said::Nothing,
        }
    }

    /// Whether `cut` was denied until not longer than `ago` before now, and nothing else was said.
    pub(super) fn was_denied(&self, zone: usize, cut: &[u8], now: Now, ago: Duration) -> bool {
        let since = ticks(now.mono_ns.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX)));
        let known = self.find(self.hash(zone, cut));
        known.is_some_and(|word| word & POPULATED == 0 && word & TICKS >= since)
    }

    fn find(&self, hash: u64) -> Option<u64> {
        places(hash).into_iter().find_map(|place| {
            let word = self.cuts.get(place)?.load(Ordering::Relaxed);
            (word != 0 && word >> 32 == hash >> 32).then_some(word)
        })
    }

    /// Remembers `said` of `cut` for a while; what ends earliest makes room.
    pub(super) fn note(&self, zone: usize, cut: &[u8], said: Said, until_ns: u64) {
        let hash = self.hash(zone, cut);
        let populated = if said == Said::Populated { POPULATED } else { 0 };
        let word = hash >> 32 << 32 | populated | ticks(until_ns);
        let read = |place: usize| self.cuts.get(place).map(|cell| cell.load(Ordering::Relaxed));
        let mut places = places(hash);
        places.sort_by_key(|place| {
            let known = read(*place).unwrap_or_default();
            (known == 0 || known >> 32 != hash >> 32, known & TICKS)
        });
        let [place, _] = places;
        if let Some(cell) = self.cuts.get(place) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Learns from a denial of a name in `zone`: how long it may be told to others, in whole
    /// seconds. `None` if the zone's servers are not known to follow the specification, or do more
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

/// The SOA record's names as [`crate::handlers::kubernetes::records::Soa`] wants them.
pub(super) const SOA_NAMES: (&[u8], &[u8]) = (MNAME, RNAME);

fn places(hash: u64) -> [usize; 2] {
    let place = hash as usize % CUTS;
    [place, place ^ 1]
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
    fn what_was_said_holds_for_its_time() {
        let learned = Learned::new(1);
        assert_eq!(learned.look(0, b"\x03com", at(0)), Said::Nothing);
        learned.note(0, b"\x03com", Said::Denied, at(5_000).mono_ns);
        assert_eq!(learned.look(0, b"\x03com", at(4_874)), Said::Denied);
        assert_eq!(learned.look(0, b"\x03com", at(5_000)), Said::Nothing);
        assert_eq!(learned.look(1, b"\x03com", at(0)), Said::Nothing);
        assert_eq!(learned.look(0, b"\x03org", at(0)), Said::Nothing);
        learned.note(0, b"\x03com", Said::Populated, at(9_000).mono_ns);
        assert_eq!(learned.look(0, b"\x03com", at(4_000)), Said::Populated);
        learned.note(0, b"\x03com", Said::Denied, at(9_000).mono_ns);
        assert_eq!(learned.look(0, b"\x03com", at(4_000)), Said::Denied);
    }

    #[test]
    fn many_cuts_forget_the_oldest_and_never_say_what_was_not_said() {
        let learned = Learned::new(1);
        let cut = |number: u32| number.to_be_bytes();
        for number in 0..100_000 {
            learned.note(0, &cut(number), Said::Denied, at(1_000_000 + u64::from(number)).mono_ns);
        }
        let known = |from: u32, to: u32| {
            (from..to).filter(|n| learned.look(0, &cut(*n), at(1)) == Said::Denied).count()
        };
        assert!(known(99_000, 100_000) > 600, "{}", known(99_000, 100_000));
        assert!(known(0, 50_000) < 200, "{}", known(0, 50_000));
        assert_eq!(known(200_000, 300_000), 0);
    }
}
