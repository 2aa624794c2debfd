//! Records: views over those of a message, and records that own their data.

use crate::name::Name;
use crate::reader::{Reader, WireError};
use crate::types::{Class, Type};
use std::ops::Range;

/// The section of a message that holds a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Section {
    /// Answer.
    Answer,
    /// Authority.
    Authority,
    /// Additional.
    Additional,
}

impl Section {
    /// All three in the order of the message.
    pub const ALL: [Self; 3] = [Self::Answer, Self::Authority, Self::Additional];

    /// The index of the section's count in [`crate::Header::counts`].
    pub fn count_index(self) -> usize {
        self as usize + 1
    }
}

/// A record that owns its data; names in RDATA are uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name the record belongs to.
    pub owner: Name,
    /// TYPE.
    pub rtype: Type,
    /// CLASS.
    pub class: Class,
    /// Seconds the record may be kept.
    pub ttl: u32,
    /// RDATA, at most 65,535 octets.
    pub rdata: Vec<u8>,
}

/// A record in a message, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordView {
    /// The section.
    pub section: Section,
    /// Where the owner name starts.
    pub owner_at: usize,
    /// TYPE.
    pub rtype: Type,
    /// CLASS.
    pub class: Class,
    /// TTL in seconds; as sent, so it may have the top bit set (RFC 2181 section 8).
    pub ttl: u32,
    /// Where the four octets of the TTL are.
    pub ttl_at: usize,
    /// Where RDATA is, without its length field.
    pub rdata: Range<usize>,
}

impl RecordView {
    /// Whether every compression pointer in the record's names leads to a label of the QNAME.
    ///
    /// A pointer may lead to any earlier octets that read as a name, fixed fields among them; the
    /// name then changes with the field, a TTL for example.
    pub fn points_to_qname(&self, message: &[u8]) -> Result<bool, WireError> {
        let fits = |target: Option<usize>| target.is_none_or(|at| starts_qname_label(message, at));
        let mut all = fits(Reader::new(message, self.owner_at).pointer()?);
        let mut reader = Reader::new(message, self.rdata.start);
        for part in rdata_layout(self.rtype) {
            match part {
                RdataPart::Octets(len) => _ = reader.take(*len, "RDATA")?,
                RdataPart::CharacterString => {
                    let len = reader.u8("character-string")?;
                    reader.take(usize::from(len), "character-string")?;
                }
                RdataPart::Name => all &= fits(reader.pointer()?),
            }
        }
        Ok(all)
    }

    /// Where the record ends.
    pub fn end(&self) -> usize {
        self.rdata.end
    }

    /// The owner name, decompressed, in `message` that the record was read from.
    pub(crate) fn owner(&self, message: &[u8]) -> Result<Name, WireError> {
        let mut wire = Vec::with_capacity(32);
        Reader::new(message, self.owner_at).name(&mut wire)?;
        Name::from_wire(&wire).map_err(|_| WireError::NameTooLong(self.owner_at))
    }

    /// Copies the record out of `message`, the message it was read from, and decompresses it.
    pub fn to_record(&self, message: &[u8]) -> Result<Record, WireError> {
        let owner = self.owner(message)?;
        let mut rdata = Vec::with_capacity(self.rdata.len());
        decompress_rdata(message, self.rtype, self.rdata.clone(), &mut rdata)?;
        Ok(Record { owner, rtype: self.rtype, class: self.class, ttl: self.ttl, rdata })
    }
}

/// Whether a label of the QNAME, which is not compressed, starts at `target`.
fn starts_qname_label(message: &[u8], target: usize) -> bool {
    let mut at = crate::HEADER_LEN;
    while at < target {
        match message.get(at) {
            Some(&len @ 1..=63) => at += 1 + usize::from(len),
            _ => return false,
        }
    }
    at == target
}

/// Iterates over the records behind the question section.
#[derive(Clone)]
pub struct Records<'m> {
    reader: Reader<'m>,
    left: [u16; 3],
    section: usize,
}

impl<'m> Records<'m> {
    /// The records of a message whose question section ends at `start`.
    pub fn new(message: &'m [u8], start: usize, counts: [u16; 4]) -> Self {
        let [_, answer, authority, additional] = counts;
        let left = [answer, authority, additional];
        Self { reader: Reader::new(message, start), left, section: 0 }
    }

    /// Reads header and question of `message` and starts behind them.
    pub fn of(message: &'m [u8]) -> Result<Self, WireError> {
        let header = crate::Header::read(message)?;
        let mut reader = Reader::new(message, crate::HEADER_LEN);
        for _ in 0..header.counts[0] {
            reader.skip_name()?;
            reader.take(4, "question")?;
        }
        Ok(Self::new(message, reader.at(), header.counts))
    }

    /// The position behind the last record that was read.
    pub fn at(&self) -> usize {
        self.reader.at()
    }

    fn read(&mut self, section: Section) -> Result<RecordView, WireError> {
        let owner_at = self.reader.at();
        self.reader.skip_name()?;
        let rtype = Type(self.reader.u16("TYPE")?);
        let class = Class(self.reader.u16("CLASS")?);
        let ttl_at = self.reader.at();
        let ttl = self.reader.u32("TTL")?;
        let len = self.reader.u16("RDLENGTH")?;
        let start = self.reader.at();
        self.reader.take(usize::from(len), "RDATA")?;
        let rdata = start..self.reader.at();
        Ok(RecordView { section, owner_at, rtype, class, ttl, ttl_at, rdata })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<RecordView, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let section = *Section::ALL.get(self.section)?;
            match self.left.get_mut(self.section) {
                Some(0) => self.section += 1,
                Some(left) => {
                    *left -= 1;
                    let record = self.read(section);
                    if record.is_err() {
                        self.section = Section::ALL.len();
                    }
                    return Some(record);
                }
                None => return None,
            }
        }
    }
}

/// One part of RDATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdataPart {
    /// A fixed number of octets.
    Octets(usize),
    /// A character-string (RFC 1035 section 3.3).
    CharacterString,
    /// A domain name.
    Name,
}

/// The parts of RDATA up to its last domain name; what follows is opaque.
///
/// Types whose names may arrive compressed are those of RFC 1035 and the list of RFC 3597
/// section 4; every other type has no entry and is copied as it is.
pub fn rdata_layout(rtype: Type) -> &'static [RdataPart] {
    use RdataPart::{CharacterString, Name, Octets};
    match rtype {
        Type::NS
        | Type::CNAME
        | Type::PTR
        | Type::MB
        | Type::MG
        | Type::MR
        | Type::MD
        | Type::MF
        | Type::DNAME
        | Type::NXT => &[Name],
        Type::SOA | Type::MINFO | Type::RP => &[Name, Name],
        Type::MX | Type::AFSDB | Type::RT | Type::KX => &[Octets(2), Name],
        Type::PX => &[Octets(2), Name, Name],
        Type::SRV => &[Octets(6), Name],
        Type::NAPTR => &[Octets(4), CharacterString, CharacterString, CharacterString, Name],
        Type::SIG => &[Octets(18), Name],
        _ => &[],
    }
}

/// Whether names in the RDATA of `rtype` may be compressed when sent (RFC 3597 section 4).
pub fn may_compress_rdata(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::NS
            | Type::CNAME
            | Type::PTR
            | Type::SOA
            | Type::MX
            | Type::MB
            | Type::MG
            | Type::MR
            | Type::MINFO
    )
}

/// Appends the RDATA at `range` of `message` to `out` with its names decompressed.
pub fn decompress_rdata(
    message: &[u8],
    rtype: Type,
    range: Range<usize>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let fault = WireError::Rdata(range.start);
    let mut reader = Reader::new(message, range.start);
    for part in rdata_layout(rtype) {
        let start = reader.at();
        match part {
            RdataPart::Name => reader.name(out)?,
            part => {
                skip_part(&mut reader, part)?;
                out.extend_from_slice(message.get(start..reader.at()).ok_or(fault)?);
            }
        }
        if reader.at() > range.end {
            return Err(fault);
        }
    }
    out.extend_from_slice(message.get(reader.at()..range.end).ok_or(fault)?);
    check_fixed_rdata(rtype, range.len(), fault)
}

/// Checks RDATA as [`decompress_rdata`] does.
fn check_rdata(message: &[u8], rtype: Type, range: Range<usize>) -> Result<(), WireError> {
    let fault = WireError::Rdata(range.start);
    let mut reader = Reader::new(message, range.start);
    for part in rdata_layout(rtype) {
        skip_part(&mut reader, part)?;
        if reader.at() > range.end {
            return Err(fault);
        }
    }
    message.get(reader.at()..range.end).ok_or(fault)?;
    check_fixed_rdata(rtype, range.len(), fault)
}

fn skip_part(reader: &mut Reader<'_>, part: &RdataPart) -> Result<(), WireError> {
    match part {
        RdataPart::Octets(len) => reader.take(*len, "RDATA").map(drop),
        RdataPart::CharacterString => {
            let len = reader.u8("character-string")?;
            reader.take(usize::from(len), "character-string").map(drop)
        }
        RdataPart::Name => reader.check_name(),
    }
}

/// RDATA of these types has one possible length.
fn check_fixed_rdata(rtype: Type, len: usize, fault: WireError) -> Result<(), WireError> {
    let fits = match rtype {
        Type::A => len == 4,
        Type::AAAA => len == 16,
        _ => true,
    };
    if fits { Ok(()) } else { Err(fault) }
}

impl RecordView {
    /// Checks owner and RDATA of the record without copying them.
    pub fn check(&self, message: &[u8]) -> Result<(), WireError> {
        Reader::new(message, self.owner_at).check_name()?;
        check_rdata(message, self.rtype, self.rdata.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Octets that are often lengths, pointers and zeros, read as records of types with names.
        #[test]
        fn a_check_finds_what_a_copy_finds(
            octets in prop::collection::vec(
                prop_oneof![Just(0_u8), Just(0xc0), 0_u8..16, any::<u8>()], 1..120),
            owner_at in 0_usize..40,
            start in 0_usize..120,
            len in 0_usize..60,
            rtype in prop_oneof![Just(Type::A), Just(Type::MX), Just(Type::SOA), Just(Type::SRV),
                Just(Type::NAPTR), Just(Type::TXT), Just(Type::RRSIG), Just(Type::CNAME)],
        ) {
            let rdata = start..start + len;
            let (section, class, ttl, ttl_at) = (Section::Answer, Class::IN, 0, 0);
            let view = RecordView { section, owner_at, rtype, class, ttl, ttl_at, rdata };
            prop_assert_eq!(view.check(&octets), view.to_record(&octets).map(drop));
        }
    }
}
