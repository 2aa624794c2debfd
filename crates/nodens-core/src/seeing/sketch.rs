//! What one worker counts in one interval.

use super::table::{Table, Tally};
use foldhash::fast::FixedState;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Rcode, Type};
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

/// RCODEs up to this have a count each; the last is for all others.
pub const RCODES: usize = 24;
/// Buckets of latency: the first is for less than a microsecond, each later one for twice as long.
pub const LATENCIES: usize = 28;

/// Octets of an address: IPv4 addresses as they are mapped into IPv6.
const ADDRESS_LEN: usize = 16;
const TROUBLE_LEN: usize = ADDRESS_LEN + 2 + NAME_LEN_MAX;

const CLIENTS: usize = 256;
const NAMES: usize = 256;
const SLOW: usize = 128;
const TROUBLES: usize = 512;
/// Workers that have sketches of the full size; with more of them each has a part of it.
const WHOLE_SKETCHES: usize = 8;
/// The smallest part.
const PARTS_MAX: usize = 8;

/// Counts of one worker and interval.
#[derive(Debug)]
pub struct Sketch {
    /// Counts intervals.
    interval: u64,
    hasher: FixedState,
    /// All questions.
    pub totals: Totals,
    /// By client: its address as 16 octets.
    pub clients: Table<ADDRESS_LEN>,
    /// By QNAME: folded, in wire form.
    pub names: Table<NAME_LEN_MAX>,
    /// By QNAME as well, but what is counted is microseconds waited.
    pub slow: Table<NAME_LEN_MAX>,
    /// What was not answered NOERROR: see [`Trouble`].
    pub troubles: Table<TROUBLE_LEN>,
}

/// Sums of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Questions.
    pub questions: u64,
    /// Those that waited for an upstream.
    pub waited: u64,
    /// Questions by RCODE.
    pub rcodes: [u64; RCODES + 1],
    /// Questions that waited, by how long.
    pub latencies: [u64; LATENCIES],
    /// Questions not counted because the sketch was being emptied.
    pub missed: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            questions: 0,
            waited: 0,
            rcodes: [0; RCODES + 1],
            latencies: [0; LATENCIES],
            missed: 0,
        }
    }
}

/// A question that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'q> {
    /// Who asked.
    pub client: IpAddr,
    /// QNAME, folded, in wire form.
    pub qname: &'q [u8],
    /// QTYPE.
    pub qtype: Type,
    /// The whole RCODE of the answer.
    pub rcode: Rcode,
    /// Microseconds to the answer, if an upstream was waited for.
    pub waited_us: Option<u32>,
    /// How many questions this one stands for.
    pub weight: u32,
}

/// What a key of [`Sketch::troubles`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble<'k> {
    /// Who asked.
    pub client: IpAddr,
    /// What it was told.
    pub rcode: Rcode,
    /// QNAME, folded, in wire form.
    pub qname: &'k [u8],
}

impl<'k> Trouble<'k> {
    /// Takes a key apart.
    pub fn of(key: &'k [u8]) -> Option<Self> {
        let (address, rest) = key.split_first_chunk::<ADDRESS_LEN>()?;
        let (rcode, qname) = rest.split_first_chunk()?;
        let client = IpAddr::from(*address).to_canonical();
        Some(Self { client, rcode: Rcode(u16::from_be_bytes(*rcode)), qname })
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self::for_workers(1)
    }
}

impl Sketch {
    /// For one of so many workers: where there are many, each sees a part of what is asked, and
    /// has room for fewer keys. All of them together have more than one alone.
    pub fn for_workers(workers: usize) -> Self {
        let part = workers.div_ceil(WHOLE_SKETCHES).next_power_of_two().min(PARTS_MAX);
        Self {
            interval: 0,
            hasher: FixedState::with_seed(fastrand::u64(..)),
            totals: Totals::default(),
            clients: Table::new(CLIENTS / part),
            names: Table::new(NAMES / part),
            slow: Table::new(SLOW / part),
            troubles: Table::new(TROUBLES / part),
        }
    }
}

impl Sketch {
    /// Tells apart what was counted before and after it was emptied.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    pub(super) fn begin_after(&mut self, earlier: &Self) {
        self.interval = earlier.interval + 1;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.totals = Totals::default();
        self.clients.clear();
        self.names.clear();
        self.slow.clear();
        self.troubles.clear();
    }

    /// Counts a question. Allocates nothing.
    pub fn record(&mut self, asked: &Asked<'_>) {
        self.count_totals(asked);
        let tally = asked.tally();
        let weight = asked.weight;
        let address = address_octets(asked.client);
        let (by_client, by_name) = (self.hash(&address), self.hash(asked.qname));
        let name = [asked.qname, &[]];
        note(self.clients.add(by_client, weight, [&address, &[]]), &tally);
        note(self.names.add(by_name, weight, name), &tally);
        if let Some(waited_us) = asked.waited_us {
            let weight = waited_us.max(1).saturating_mul(weight);
            note(self.slow.add(by_name, weight, name), &tally);
        }
        if asked.rcode != Rcode::NOERROR {
            let mut who = [0; ADDRESS_LEN + 2];
            who[..ADDRESS_LEN].copy_from_slice(&address);
            who[ADDRESS_LEN..].copy_from_slice(&asked.rcode.0.to_be_bytes());
            // As good as a hash of the whole: both halves are keyed.
            let both = by_name ^ by_client.rotate_left(21) ^ u64::from(asked.rcode.0);
            note(self.troubles.add(both, weight, [&who, asked.qname]), &tally);
        }
    }

    fn count_totals(&mut self, asked: &Asked<'_>) {
        let (totals, weight) = (&mut self.totals, u64::from(asked.weight));
        totals.questions += weight;
        if let Some(count) = totals.rcodes.get_mut(usize::from(asked.rcode.0).min(RCODES)) {
            *count += weight;
        }
        if let Some(waited_us) = asked.waited_us {
            totals.waited += weight;
            let bucket = (u32::BITS - waited_us.leading_zeros()) as usize;
            if let Some(count) = totals.latencies.get_mut(bucket.min(LATENCIES - 1)) {
                *count += weight;
            }
        }
    }

    fn hash(&self, octets: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(octets);
        hasher.finish()
    }
}

fn note(place: Option<&mut Tally>, tally: &Tally) {
    if let Some(place) = place {
        place.add(tally);
    }
}

impl Asked<'_> {
    fn tally(&self) -> Tally {
        let counts = |holds: bool| if holds { self.weight } else { 0 };
        let waited_us = self.waited_us.unwrap_or(0);
        let is_good = self.rcode == Rcode::NOERROR;
        Tally {
            questions: self.weight,
            denied: counts(self.rcode == Rcode::NXDOMAIN),
            failed: counts(!is_good && self.rcode != Rcode::NXDOMAIN),
            waited: counts(self.waited_us.is_some()),
            a: counts(self.qtype == Type::A),
            aaaa: counts(self.qtype == Type::AAAA),
            wait_us: u64::from(waited_us) * u64::from(self.weight),
            wait_max_us: waited_us,
        }
    }
}

fn address_octets(address: IpAddr) -> [u8; ADDRESS_LEN] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
