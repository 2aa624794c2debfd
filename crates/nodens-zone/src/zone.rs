//! What can be transferred: zones, one version of them at a time, record by record.

use crate::data::Data;
use crate::secondary::SecondaryZone;
use crate::serial::Serial;
use nodens_wire::{Class, Name, NameRef, Record, Type};
use std::fmt;
use std::sync::Arc;
use std::vec;

/// A record that lies somewhere else. Names in RDATA are not compressed.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// The name the record belongs to.
    pub owner: NameRef<'a>,
    /// TYPE.
    pub rtype: Type,
    /// CLASS.
    pub class: Class,
    /// Seconds the record may be kept.
    pub ttl: u32,
    /// RDATA, at most 65,535 octets.
    pub rdata: &'a [u8],
}

impl<'a> From<&'a Record> for RecordRef<'a> {
    fn from(record: &'a Record) -> Self {
        let Record { owner, rtype, class, ttl, rdata } = record;
        Self { owner: owner.view(), rtype: *rtype, class: *class, ttl: *ttl, rdata }
    }
}

/// Where a step of a [`Cursor`] led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// To a record.
    Record,
    /// Past something that is none: the next step may lead to one.
    Nothing,
    /// Behind the last record.
    End,
}

/// Goes through records, all of one version of a zone. A step does little work, however large the
/// zone is.
pub trait Cursor: Send {
    /// Takes a step.
    fn advance(&mut self) -> Advance;

    /// The record the last step led to; nothing if it led to none.
    fn record(&self) -> Option<RecordRef<'_>>;
}

/// A zone as it is at some time: no later change shows.
pub struct Version {
    /// The SOA record.
    pub soa: Soa,
    /// All other records, in any order; of [`Zone::since`], those of the differences in theirs.
    pub records: Box<dyn Cursor>,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({} {})", self.soa.record().owner, self.soa.serial().0)
    }
}

/// What there is to see of a zone.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The directive that has it.
    pub source: &'static str,
    /// What is served.
    pub data: Option<Arc<Data>>,
    /// When its file was changed that is served, in seconds since 1970.
    pub modified_s: Option<i64>,
    /// When a primary was last reached, in monotonic nanoseconds, which are negative before the machine started.
    pub reached_ns: Option<i64>,
    /// When a primary is asked next.
    pub refresh_ns: Option<u64>,
    /// When the zone expires without a primary.
    pub expires_ns: Option<u64>,
    /// Octets of differences that are kept for secondaries.
    pub journal: usize,
    /// Of a catalog: how many zones are served for it.
    pub members: usize,
}

/// A zone that can be transferred.
pub trait Zone: Send + Sync + fmt::Debug {
    /// Its SOA record as it is now; nothing while the zone cannot be served. When it becomes another,
    /// [`ZoneTable::announce`](crate::ZoneTable::announce) has to be called.
    fn soa(&self) -> Option<Soa>;

    /// The zone as it is now; nothing while it cannot be served.
    fn version(&self) -> Option<Version>;

    /// What leads from the version with this serial number to the zone as it is now, where that is known
    /// and less than the whole zone: the records of a response to IXFR between the first and the last
    /// one (RFC 1995 section 4).
    fn since(&self, _serial: Serial) -> Option<Version> {
        None
    }

    /// What there is to see of it, for those who look after this server; nothing for zones that are made of
    /// something else.
    fn sight(&self) -> Option<Sight> {
        None
    }

    /// Where it comes from, for people: the path of a file, or primaries.
    fn comes_from(&self) -> String {
        String::new()
    }

    /// Why the last attempt to get another version failed, if it did.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The zone as one that is transferred from primaries, if it is one.
    fn as_secondary(&self) -> Option<&SecondaryZone> {
        None
    }
}

/// A SOA record, known to be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soa(Record);

/// The times in a SOA record, in seconds (RFC 1035 section 3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Between two looks of a secondary at its primary.
    pub refresh: u32,
    /// Until the next look after one that failed.
    pub retry: u32,
    /// Until a secondary that reaches no primary does not serve the zone any more.
    pub expire: u32,
}

/// Octets of SOA RDATA behind its two names.
const SOA_NUMBERS: usize = 20;

impl Soa {
    /// Takes `record` as a SOA record; gives it back if it is none.
    pub fn new(record: Record) -> Result<Self, Record> {
        // Two names of at least one octet each.
        let fits = record.rtype == Type::SOA && record.rdata.len() >= SOA_NUMBERS + 2;
        if fits { Ok(Self(record)) } else { Err(record) }
    }

    /// The SOA record of `origin` that names `mname`, `rname` and these numbers: serial, refresh,
    /// retry, expire, minimum.
    pub fn with(
        origin: NameRef<'_>,
        ttl: u32,
        (mname, rname): (&Name, &Name),
        numbers: [u32; 5],
    ) -> Self {
        let mut rdata = [mname.as_wire(), rname.as_wire()].concat();
        rdata.extend(numbers.into_iter().flat_map(u32::to_be_bytes));
        let (owner, rtype, class) = (origin.to_name(), Type::SOA, Class::IN);
        Self(Record { owner, rtype, class, ttl, rdata })
    }

    /// The record.
    pub fn record(&self) -> &Record {
        &self.0
    }

    /// Its serial number.
    pub fn serial(&self) -> Serial {
        Serial(self.number(0))
    }

    /// Its times.
    pub fn timers(&self) -> Timers {
        Timers { refresh: self.number(1), retry: self.number(2), expire: self.number(3) }
    }

    /// Seconds that a negative answer may be kept, unless the record's TTL is less (RFC 2308 section 4).
    pub fn minimum(&self) -> u32 {
        self.number(4)
    }

    fn number(&self, index: usize) -> u32 {
        let at = self.0.rdata.len().saturating_sub(SOA_NUMBERS) + index * size_of::<u32>();
        let number = self.0.rdata.get(at..).and_then(<[u8]>::first_chunk);
        number.copied().map_or(0, u32::from_be_bytes)
    }
}

/// A cursor over records of its own, for zones that are small.
#[derive(Debug)]
pub struct Records {
    left: vec::IntoIter<Record>,
    current: Option<Record>,
}

impl Records {
    /// Goes through `records` in their order.
    pub fn new(records: Vec<Record>) -> Self {
        Self { left: records.into_iter(), current: None }
    }
}

impl Cursor for Records {
    fn advance(&mut self) -> Advance {
        self.current = self.left.next();
        if self.current.is_some() { Advance::Record } else { Advance::End }
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        self.current.as_ref().map(RecordRef::from)
    }
}
