//! One cached answer: what it is found by, when it was stored, and its octets, in one allocation.

use super::key::{Key, KeyMarks};
use super::store::Scope;
use crate::time::Now;
use flags::KeptFlags;
use nodens_wire::shape::Traits;
use nodens_wire::{Class, Flags, HEADER_LEN, Header, Type};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use triomphe::ThinArc;

mod flags;
mod portable;

pub(crate) use portable::unpack;

/// A cached answer. The octets are, in this order: the folded key ([`Key::octets`]); the message
/// behind its question; for each record the position of its TTL in the message, two octets each.
///
/// The header and the question are left out: they are made from the client's question, whose
/// QNAME has the same length, so that compression pointers stay right.
pub(crate) type Entry = ThinArc<Head, u8>;

const NANOS: u64 = 1_000_000_000;
const NANOS_PER_MS: u64 = 1_000_000;
/// A background refresh is under way.
const REFRESHING: u8 = 1;
/// The entry's octets are booked as stale.
const BOOKED_STALE: u8 = 2;
/// Nobody has asked for the entry yet; its octets are booked as on probation.
const PROBATION: u8 = 4;
/// The hand has passed the entry once while on probation.
const SEEN: u8 = 8;
/// How often a hit is remembered until the next sweep.
const VISITS_MAX: u8 = 2;
/// Low bits of [`Head::popularity`] that count; the others are the time of the last question.
const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// Which of a block's answers an entry is. CoreDNS keeps the first two in caches of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// NOERROR with data, or a referral.
    Success,
    /// NXDOMAIN or NODATA.
    Denial,
    /// SERVFAIL or NOTIMP.
    Failure,
    /// NOERROR that does not answer its question, beside an answer worth keeping; only under
    /// `serve_stale_policy prefer_positive`.
    Hollow,
}

impl Kind {
    /// 0 for what metrics and options call `success`, 1 for `denial`.
    pub(crate) fn class(self) -> usize {
        match self {
            Self::Success | Self::Hollow => 0,
            Self::Denial | Self::Failure => 1,
        }
    }
}

/// Everything about an entry but its octets.
pub(crate) struct Head {
    scope: Arc<Scope>,
    stored_ns: u64,
    /// Time of the last question in milliseconds and how many there were, for `prefetch`.
    popularity: AtomicU64,
    ttl_s: u32,
    /// Milliseconds after `stored_ns` when a refresh that failed may be tried again.
    retry_after_ms: AtomicU32,
    qtype: Type,
    qclass: Class,
    /// ANCOUNT, NSCOUNT, ARCOUNT.
    counts: [u16; 3],
    name_len: u8,
    marks: KeyMarks,
    flags: KeptFlags,
    kind: Kind,
    visits: AtomicU8,
    state: AtomicU8,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {} ttl {}", self.kind, self.qtype, self.qclass, self.ttl_s)
    }
}

/// What makes an entry, beside its key.
#[derive(Debug)]
pub(crate) struct Facts<'m> {
    /// The whole response, whose question is the key's and which has no OPT record.
    pub(crate) message: &'m [u8],
    /// Where the records start.
    pub(crate) records_at: usize,
    /// ANCOUNT, NSCOUNT, ARCOUNT.
    pub(crate) counts: [u16; 3],
    /// The positions of the TTLs, one per record.
    pub(crate) ttls_at: &'m [u16],
    /// The response's flags; AA, RA, AD and RCODE are kept.
    pub(crate) flags: Flags,
    /// As [`Traits::optional_extras`].
    pub(crate) optional_extras: bool,
    /// What kind of answer it is.
    pub(crate) kind: Kind,
    /// How long it may be served fresh.
    pub(crate) ttl_s: u32,
    /// How often the entry it replaces was asked for.
    pub(crate) hits: u64,
}

/// Makes an entry; `scratch` is overwritten.
pub(crate) fn make(
    scope: &Arc<Scope>,
    key: &Key<'_>,
    facts: &Facts<'_>,
    now: Now,
    scratch: &mut Vec<u8>,
) -> Entry {
    scratch.clear();
    scratch.extend_from_slice(key.octets());
    scratch.extend_from_slice(facts.message.get(facts.records_at..).unwrap_or_default());
    scratch.extend(facts.ttls_at.iter().flat_map(|at| at.to_be_bytes()));
    let head = Head {
        scope: scope.clone(),
        stored_ns: now.mono_ns,
        popularity: AtomicU64::new(popularity(now, facts.hits)),
        ttl_s: facts.ttl_s,
        retry_after_ms: AtomicU32::new(0),
        qtype: key.qtype,
        qclass: key.qclass,
        counts: facts.counts,
        name_len: key.name_len(),
        marks: key.marks(),
        flags: KeptFlags::of(facts.flags, facts.optional_extras),
        kind: facts.kind,
        visits: AtomicU8::new(0),
        state: AtomicU8::new(PROBATION),
    };
    ThinArc::from_header_and_slice(head, scratch)
}

/// What an entry takes, in octets: reference count, length, head and octets, in the steps of
/// a usual allocator.
pub(crate) fn size(entry: &Entry) -> usize {
    let (words, chunk) = (2 * size_of::<usize>(), 8);
    (words + size_of::<Head>() + entry.slice.len() + chunk).next_multiple_of(16)
}

/// A way to look at an entry.
#[derive(Clone, Copy)]
pub(crate) struct View<'e> {
    head: &'e Head,
    octets: &'e [u8],
}

/// Looks at `entry`.
pub(crate) fn view(entry: &Entry) -> View<'_> {
    View { head: &entry.header.header, octets: &entry.slice }
}

impl<'e> View<'e> {
    /// Whose answer it is.
    pub(crate) fn scope(self) -> &'e Arc<Scope> {
        &self.head.scope
    }

    /// What kind of answer it is.
    pub(crate) fn kind(self) -> Kind {
        self.head.kind
    }

    /// Whether both are of one entry.
    pub(crate) fn is(self, other: View<'_>) -> bool {
        std::ptr::eq(self.head, other.head)
    }

    /// Whether it is found by `key` in `scope`.
    pub(crate) fn matches(self, scope: &Scope, key: &Key<'_>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.head.scope), scope)
            && self.head.qtype == key.qtype
            && self.head.qclass == key.qclass
            && self.head.marks == key.marks()
            && self.head.name_len == key.name_len()
            && self.key_octets() == key.octets()
    }

    fn key_octets(self) -> &'e [u8] {
        self.octets.get(..self.key_len()).unwrap_or_default()
    }

    fn key_len(self) -> usize {
        usize::from(self.head.name_len) + self.head.marks.subnet_len()
    }

    /// Its key, to compute its place again.
    pub(crate) fn key(self) -> Key<'e> {
        let (name_len, bits) = (self.head.name_len, self.head.marks.bits());
        Key::new(self.key_octets(), name_len, self.head.qtype, self.head.qclass, bits)
    }

    /// Whole seconds it has been stored for.
    fn age_s(self, now: Now) -> u64 {
        now.mono_ns.saturating_sub(self.head.stored_ns) / NANOS
    }

    /// The TTL it was stored with, in seconds.
    pub(crate) fn ttl_s(self) -> u32 {
        self.head.ttl_s
    }

    /// Seconds left; 0 once it has expired.
    pub(crate) fn remaining_s(self, now: Now) -> u32 {
        u32::try_from(self.age_s(now)).map_or(0, |age| self.head.ttl_s.saturating_sub(age))
    }

    /// Whether its TTL has passed.
    pub(crate) fn is_expired(self, now: Now) -> bool {
        self.remaining_s(now) == 0
    }

    /// Whether it may be served, fresh or stale.
    pub(crate) fn is_servable(self, now: Now) -> bool {
        !self.is_expired(now) || self.age_s(now) < u64::from(self.head.ttl_s) + self.stale_s()
    }

    /// How long after its expiry it may be served; a failure may not (RFC 8767 section 4).
    fn stale_s(self) -> u64 {
        if self.head.kind == Kind::Failure { 0 } else { u64::from(self.head.scope.stale_s) }
    }

    /// Whether nobody will ever be served it again.
    pub(crate) fn is_dead(self, now: Now) -> bool {
        self.head.scope.is_retired() || !self.is_servable(now)
    }

    /// AA, RA, AD and the RCODE it was stored with.
    pub(crate) fn flags(self) -> Flags {
        self.head.flags.unpack()
    }

    /// What is known of the message that [`View::write`] writes.
    pub(crate) fn traits(self) -> Traits {
        let optional_extras = self.head.flags.has_optional_extras();
        Traits { without_opt: true, gain_max: None, optional_extras }
    }

    /// Writes the message for a client that asked `qname`; every record gets `ttl_s`.
    ///
    /// The ID is 0. `flags` are the whole flags of the response.
    pub(crate) fn write(self, qname: &[u8], flags: Flags, ttl_s: u32, out: &mut Vec<u8>) {
        let [answers, authority, additional] = self.head.counts;
        out.clear();
        out.reserve(HEADER_LEN + self.octets.len() + 4);
        let counts = [1, answers, authority, additional];
        out.extend_from_slice(&Header { id: 0, flags, counts }.to_bytes());
        out.extend_from_slice(qname);
        let [a, b] = self.head.qtype.0.to_be_bytes();
        let [c, d] = self.head.qclass.0.to_be_bytes();
        out.extend_from_slice(&[a, b, c, d]);
        let (records, ttls_at) = self.records();
        out.extend_from_slice(records);
        for at in ttls_at.chunks_exact(2) {
            let at = at.first_chunk().map_or(0, |at| usize::from(u16::from_be_bytes(*at)));
            if let Some(ttl) = out.get_mut(at..at + 4) {
                ttl.copy_from_slice(&ttl_s.to_be_bytes());
            }
        }
    }

    fn records(self) -> (&'e [u8], &'e [u8]) {
        let behind_key = self.octets.get(self.key_len()..).unwrap_or_default();
        let records: usize = self.head.counts.iter().map(|count| usize::from(*count)).sum();
        behind_key.split_at(behind_key.len().saturating_sub(2 * records))
    }

    /// Remembers that it was asked for. Writes only the first times after a sweep, so that
    /// a popular entry's cache line stays shared.
    pub(crate) fn visit(self) {
        let visits = self.head.visits.load(Relaxed);
        if visits < VISITS_MAX {
            self.head.visits.store(visits + 1, Relaxed);
        }
    }

    /// Takes back one visit; false if there is none.
    pub(crate) fn spend_visit(self) -> bool {
        let visits = self.head.visits.load(Relaxed);
        self.head.visits.store(visits.saturating_sub(1), Relaxed);
        visits > 0
    }

    /// Gives this entry the visits of the one it replaces, and its place.
    pub(crate) fn inherit(self, old: View<'_>) {
        self.head.visits.store(old.head.visits.load(Relaxed), Relaxed);
        if !old.is_on_probation() {
            self.end_probation();
        }
    }

    /// Whether nobody has asked for it since it came.
    pub(crate) fn is_on_probation(self) -> bool {
        self.head.state.load(Relaxed) & PROBATION != 0
    }

    /// Ends the probation; true if it was on probation.
    pub(crate) fn end_probation(self) -> bool {
        self.head.state.fetch_and(!PROBATION, Relaxed) & PROBATION != 0
    }

    /// Notes that the hand passed; true if it had passed before.
    pub(crate) fn was_seen(self) -> bool {
        self.head.state.fetch_or(SEEN, Relaxed) & SEEN != 0
    }

    /// Whether it was asked for since the hand last passed.
    pub(crate) fn is_visited(self) -> bool {
        self.head.visits.load(Relaxed) > 0
    }

    /// Books the entry as stale; true the first time.
    pub(crate) fn book_stale(self) -> bool {
        self.head.state.fetch_or(BOOKED_STALE, Relaxed) & BOOKED_STALE == 0
    }

    /// Whether the entry is booked as stale.
    pub(crate) fn is_booked_stale(self) -> bool {
        self.head.state.load(Relaxed) & BOOKED_STALE != 0
    }
}

/// Popularity and refreshes, for `prefetch` and `serve_stale`.
impl View<'_> {
    /// Counts a question and gives the number of them without a gap of `gap` or more.
    ///
    /// Up to `enough` the count is exact. From there on only the time matters, and it is written
    /// once per sixteenth of `gap`, so that a popular entry's cache line stays shared.
    pub(crate) fn count(self, now: Now, gap: Duration, enough: u64) -> u64 {
        let old = self.head.popularity.load(Relaxed);
        let (last_ms, hits) = (old >> COUNT_BITS, old & COUNT_MAX);
        let gap_ms = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
        let since_ms = (now.mono_ns / NANOS_PER_MS).saturating_sub(last_ms);
        let hits = if since_ms > gap_ms {
            1
        } else if hits >= enough && since_ms < gap_ms / 16 {
            return hits;
        } else {
            (hits + 1).min(COUNT_MAX)
        };
        self.head.popularity.store(popularity(now, hits), Relaxed);
        hits
    }

    /// How many questions were counted.
    pub(crate) fn hits(self) -> u64 {
        self.head.popularity.load(Relaxed) & COUNT_MAX
    }

    /// Starts a refresh; false if one is under way or a failed one may not be repeated yet.
    pub(crate) fn begin_refresh(self, now: Now, recheck: Duration) -> bool {
        let retry_after = self.head.retry_after_ms.load(Relaxed);
        let since_ms = now.mono_ns.saturating_sub(self.head.stored_ns) / NANOS_PER_MS;
        if !recheck.is_zero() && since_ms < u64::from(retry_after) {
            return false;
        }
        self.head.state.fetch_or(REFRESHING, Relaxed) & REFRESHING == 0
    }

    /// Ends a refresh; after a failure the next one waits for `recheck`.
    pub(crate) fn end_refresh(self, now: Now, recheck: Duration, refreshed: bool) {
        let since_ns = now.mono_ns.saturating_sub(self.head.stored_ns);
        let until = Duration::from_nanos(since_ns).saturating_add(recheck).as_millis();
        let failed = !refreshed && !recheck.is_zero();
        let until = if failed { u32::try_from(until).unwrap_or(u32::MAX) } else { 0 };
        self.head.retry_after_ms.store(until, Relaxed);
        self.head.state.fetch_and(!REFRESHING, Relaxed);
    }
}

fn popularity(now: Now, hits: u64) -> u64 {
    (now.mono_ns / NANOS_PER_MS) << COUNT_BITS | hits.min(COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_stays_small() {
        assert!(size_of::<Head>() <= 48, "{}", size_of::<Head>());
    }
}
