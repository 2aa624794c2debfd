//! Records in octets of their own, one behind the other.

use crate::zone::RecordRef;
use nodens_wire::{Class, NameRef, Reader, Type};

/// Records one behind the other: owner, TYPE, CLASS, TTL, RDLENGTH and RDATA, names not compressed.
/// It takes little more memory than the records have octets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    octets: Vec<u8>,
    records: u64,
}

impl Packed {
    /// Appends a record; one whose RDATA no length can say is left out.
    pub fn push(&mut self, record: RecordRef<'_>) {
        let Ok(length) = u16::try_from(record.rdata.len()) else { return };
        self.octets.extend_from_slice(record.owner.as_wire());
        self.octets.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.octets.extend_from_slice(&record.class.0.to_be_bytes());
        self.octets.extend_from_slice(&record.ttl.to_be_bytes());
        self.octets.extend_from_slice(&length.to_be_bytes());
        self.octets.extend_from_slice(record.rdata);
        self.records += 1;
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Octets of memory that the records take.
    pub fn octets(&self) -> usize {
        self.octets.len()
    }

    /// The records that stand in `octets` as [`Packed::as_octets`] gives them; nothing if they are none.
    pub fn from_octets(octets: Vec<u8>) -> Option<Self> {
        let mut packed = Self { octets, records: 0 };
        let mut at = 0;
        while at < packed.octets.len() {
            at = packed.read(at)?.1;
            packed.records += 1;
        }
        Some(packed)
    }

    /// The octets that the records stand in.
    pub fn as_octets(&self) -> &[u8] {
        &self.octets
    }

    /// The records in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = RecordRef<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (record, next) = self.read(at)?;
            at = next;
            Some(record)
        })
    }

    /// The record at octet `at`, and where the next one starts; nothing behind the last one.
    pub(crate) fn read(&self, at: usize) -> Option<(RecordRef<'_>, usize)> {
        record_at(&self.octets, at)
    }
}

/// The record at octet `at` of those that [`Packed::as_octets`] gives, and where the next one starts; nothing if there is
/// none.
pub(crate) fn record_at(octets: &[u8], at: usize) -> Option<(RecordRef<'_>, usize)> {
    let mut reader = Reader::new(octets, at);
    reader.skip_name().ok()?;
    let owner = NameRef::new(octets.get(at..reader.at())?).ok()?;
    let rtype = Type(reader.u16("TYPE").ok()?);
    let class = Class(reader.u16("CLASS").ok()?);
    let ttl = reader.u32("TTL").ok()?;
    let length = reader.u16("RDLENGTH").ok()?;
    let rdata = reader.take(length.into(), "RDATA").ok()?;
    Some((RecordRef { owner, rtype, class, ttl, rdata }, reader.at()))
}
