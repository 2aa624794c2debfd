//! Writes messages front to back with name compression (RFC 1035 section 4.1.4).

use crate::header::{Flags, Header};
use crate::name::NameRef;
use crate::reader::WireError;
use crate::record::{RdataPart, Record, Section, may_compress_rdata, rdata_layout};
use crate::types::{Class, Type};
use crate::{HEADER_LEN, MESSAGE_LEN_MAX};

/// How many name positions are remembered for compression.
const NAMES_MAX: usize = 48;
/// A pointer has 14 bits.
const POINTER_MAX: usize = 0x3fff;

/// Writes one message into a buffer the caller owns.
///
/// Sections must be written in their order; the counts in the header are kept right after every
/// record, so the buffer is a whole message at any time.
pub struct Builder<'b> {
    out: &'b mut Vec<u8>,
    counts: [u16; 4],
    names: [u16; NAMES_MAX],
    names_len: usize,
    section: Section,
}

impl<'b> Builder<'b> {
    /// Clears `out` and writes a header.
    pub fn new(out: &'b mut Vec<u8>, id: u16, flags: Flags) -> Self {
        out.clear();
        out.extend_from_slice(&Header { id, flags, counts: [0; 4] }.to_bytes());
        let (counts, names) = ([0; 4], [0; NAMES_MAX]);
        Self { out, counts, names, names_len: 0, section: Section::Answer }
    }

    /// Writes the question.
    pub fn question(&mut self, qname: NameRef<'_>, qtype: Type, qclass: Class) {
        self.name(qname);
        let [[a, b], [c, d]] = [qtype.0.to_be_bytes(), qclass.0.to_be_bytes()];
        self.out.extend_from_slice(&[a, b, c, d]);
        self.count(0);
    }

    /// Writes one record whose RDATA holds uncompressed names.
    pub fn record(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        (rtype, class, ttl): (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), WireError> {
        debug_assert!(section >= self.section, "sections are written in order");
        self.section = section;
        let start = self.out.len();
        let names_len = self.names_len;
        self.name(owner);
        self.out.extend(rtype.0.to_be_bytes());
        self.out.extend(class.0.to_be_bytes());
        self.out.extend(ttl.to_be_bytes());
        let rdlength_at = self.out.len();
        self.out.extend([0, 0]);
        self.rdata(rtype, rdata);
        let len = self.out.len() - rdlength_at - 2;
        let fits = u16::try_from(len).ok().filter(|_| self.out.len() <= MESSAGE_LEN_MAX);
        let slot = self.out.get_mut(rdlength_at..rdlength_at + 2);
        let (Some(len), Some(slot)) = (fits, slot) else {
            self.out.truncate(start);
            self.names_len = names_len;
            return Err(WireError::TooLong);
        };
        slot.copy_from_slice(&len.to_be_bytes());
        self.count(section.count_index());
        Ok(())
    }

    /// Writes one record whose owner is the name at `owner_at` in this message, such as the
    /// question's at [`HEADER_LEN`], and whose RDATA is taken as it is: a pointer in it has to be
    /// right, see [`pointer_to`].
    pub fn record_at(
        &mut self,
        section: Section,
        owner_at: usize,
        (rtype, class, ttl): (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), WireError> {
        debug_assert!(section >= self.section, "sections are written in order");
        debug_assert!((HEADER_LEN..self.out.len()).contains(&owner_at), "the name is written");
        let len = u16::try_from(rdata.len()).map_err(|_| WireError::TooLong)?;
        let [[a, b], [c, d]] = [rtype.0.to_be_bytes(), class.0.to_be_bytes()];
        let ([e, f, g, h], [i, j]) = (ttl.to_be_bytes(), len.to_be_bytes());
        let [high, low] = pointer_to(owner_at);
        if self.out.len() + 12 + rdata.len() > MESSAGE_LEN_MAX {
            return Err(WireError::TooLong);
        }
        self.section = section;
        self.out.extend_from_slice(&[high, low, a, b, c, d, e, f, g, h, i, j]);
        self.out.extend_from_slice(rdata);
        self.count(section.count_index());
        Ok(())
    }

    /// Writes an owned record.
    pub fn push(&mut self, section: Section, record: &Record) -> Result<(), WireError> {
        let fields = (record.rtype, record.class, record.ttl);
        self.record(section, record.owner.view(), fields, &record.rdata)
    }

    fn count(&mut self, index: usize) {
        if let Some(count) = self.counts.get_mut(index) {
            *count = count.saturating_add(1);
            let at = 4 + 2 * index;
            if let Some(slot) = self.out.get_mut(at..at + 2) {
                slot.copy_from_slice(&count.to_be_bytes());
            }
        }
    }

    fn rdata(&mut self, rtype: Type, rdata: &[u8]) {
        let compress = may_compress_rdata(rtype);
        let mut rest = rdata;
        for part in rdata_layout(rtype) {
            let len = match part {
                RdataPart::Octets(len) => *len,
                RdataPart::CharacterString => rest.first().map_or(0, |len| usize::from(*len) + 1),
                RdataPart::Name => name_len(rest),
            };
            let Some((head, tail)) = rest.split_at_checked(len) else { break };
            match (part, NameRef::new(head)) {
                (RdataPart::Name, Ok(name)) if compress => self.name(name),
                (RdataPart::Name, Ok(name)) => self.whole_name(name),
                _ => self.out.extend_from_slice(head),
            }
            rest = tail;
        }
        self.out.extend_from_slice(rest);
    }

    /// Writes `name`, ending with a pointer where an earlier name has the same tail.
    fn name(&mut self, name: NameRef<'_>) {
        if self.names_len == 0 {
            self.first_name(name);
            return;
        }
        let mut rest = name;
        while !rest.is_root() {
            if let Some(target) = self.find(rest) {
                self.out.extend((0xc000 | target).to_be_bytes());
                return;
            }
            self.remember(self.out.len());
            let Some(parent) = rest.parent() else { break };
            let len = rest.as_wire().len() - parent.as_wire().len();
            self.out.extend_from_slice(rest.as_wire().get(..len).unwrap_or_default());
            rest = parent;
        }
        self.out.push(0);
    }

    /// Writes `name` without a pointer; later names may end with one to it.
    fn whole_name(&mut self, name: NameRef<'_>) {
        let mut rest = name;
        let mut at = self.out.len();
        while !rest.is_root() && self.find(rest).is_none() {
            self.remember(at);
            let Some(parent) = rest.parent() else { break };
            at += rest.as_wire().len() - parent.as_wire().len();
            rest = parent;
        }
        self.out.extend_from_slice(name.as_wire());
    }

    /// Writes a name with nothing in front of it that it could point to.
    fn first_name(&mut self, name: NameRef<'_>) {
        let mut at = self.out.len();
        for label in name.labels() {
            self.remember(at);
            at += 1 + label.len();
        }
        self.out.extend_from_slice(name.as_wire());
    }

    fn remember(&mut self, at: usize) {
        if let (Some(slot), true) = (self.names.get_mut(self.names_len), at <= POINTER_MAX) {
            *slot = at as u16;
            self.names_len += 1;
        }
    }

    fn find(&self, name: NameRef<'_>) -> Option<u16> {
        let known = self.names.get(..self.names_len)?;
        known.iter().copied().find(|at| self.equals_at(usize::from(*at), name))
    }

    /// Whether the name this builder wrote at `at` is `name`, octet by octet.
    ///
    /// Case counts here: a pointer must not change the case of a name in an answer.
    fn equals_at(&self, mut at: usize, name: NameRef<'_>) -> bool {
        for label in name.labels() {
            while let Some([high @ 0xc0..=0xff, low]) =
                self.out.get(at..).and_then(<[u8]>::first_chunk::<2>)
            {
                at = usize::from(high & 0x3f) << 8 | usize::from(*low);
            }
            let same = self.out.get(at).is_some_and(|len| usize::from(*len) == label.len())
                && self.out.get(at + 1..at + 1 + label.len()) == Some(label);
            if !same {
                return false;
            }
            at += 1 + label.len();
        }
        while let Some([high @ 0xc0..=0xff, low]) =
            self.out.get(at..).and_then(<[u8]>::first_chunk::<2>)
        {
            at = usize::from(high & 0x3f) << 8 | usize::from(*low);
        }
        at >= HEADER_LEN && self.out.get(at) == Some(&0)
    }
}

/// The end of a name that goes on at `at` (RFC 1035 section 4.1.4); `at` is below 2^14.
pub fn pointer_to(at: usize) -> [u8; 2] {
    debug_assert!(at <= POINTER_MAX, "a pointer has 14 bits");
    (0xc000 | (at & POINTER_MAX) as u16).to_be_bytes()
}

/// Octets of the uncompressed name at the front of `bytes`; 0 if there is none.
fn name_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&len) = bytes.get(at) {
        match len {
            0 => return at + 1,
            1..=63 => at += 1 + usize::from(len),
            _ => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    #[test]
    fn names_are_compressed_and_the_message_reads_back() {
        let mut out = Vec::new();
        let name = |text: &str| Name::parse(text).unwrap();
        let mut builder = Builder::new(&mut out, 1, Flags(0x8180));
        builder.question(name("www.example.org.").view(), Type::A, Class::IN);
        let fields = (Type::CNAME, Class::IN, 60);
        let target = name("a.example.org.");
        builder
            .record(Section::Answer, name("www.example.org.").view(), fields, target.as_wire())
            .unwrap();
        let fields = (Type::A, Class::IN, 60);
        builder.record(Section::Answer, target.view(), fields, &[192, 0, 2, 1]).unwrap();
        assert_eq!(out.len(), 12 + 17 + 4 + (2 + 10 + 4) + (2 + 10 + 4));
        let message = crate::Message::parse(&out).unwrap();
        assert_eq!(message.answer[0].rdata, target.as_wire());
        assert_eq!(message.answer[1].owner, target);
    }

    #[test]
    fn names_may_end_in_rdata_that_is_not_compressed() {
        let name = |text: &str| Name::parse(text).unwrap();
        let (owner, target) = (name("_a._tcp.example.org."), name("host.example.org."));
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 1, Flags(0));
        builder.question(owner.view(), Type::SRV, Class::IN);
        let rdata = [&[0, 0, 0, 1, 0, 53], target.as_wire()].concat();
        builder.record(Section::Answer, owner.view(), (Type::SRV, Class::IN, 60), &rdata).unwrap();
        let fields = (Type::A, Class::IN, 60);
        builder.record(Section::Additional, target.view(), fields, &[192, 0, 2, 1]).unwrap();
        let srv = 2 + 10 + 6 + target.as_wire().len();
        assert_eq!(out.len(), 12 + owner.as_wire().len() + 4 + srv + (2 + 10 + 4));
        let message = crate::Message::parse(&out).unwrap();
        assert_eq!(message.answer[0].rdata, rdata);
        assert_eq!(message.additional[0].owner, target);
    }

    #[test]
    fn a_record_may_point_into_the_question() {
        let name: Name = "www.example.org.".parse().unwrap();
        let zone_at = HEADER_LEN + 4;
        let rdata = [b"\x02ns", &pointer_to(zone_at)[..]].concat();
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 1, Flags(0));
        builder.question(name.view(), Type::NS, Class::IN);
        let fields = (Type::NS, Class::IN, 60);
        builder.record_at(Section::Answer, zone_at, fields, &rdata).unwrap();
        let big = vec![0; 65_535];
        let fields = (Type::TXT, Class::IN, 60);
        let error = builder.record_at(Section::Answer, HEADER_LEN, fields, &big).unwrap_err();
        assert_eq!(error, WireError::TooLong);
        let message = crate::Message::parse(&out).unwrap();
        assert_eq!(message.answer.len(), 1);
        assert_eq!(message.answer[0].owner, "example.org.".parse().unwrap());
        assert_eq!(message.answer[0].rdata, b"\x02ns\x07example\x03org\0");
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_a_whole_message() {
        let mut out = Vec::new();
        let mut builder = Builder::new(&mut out, 1, Flags(0));
        builder.question(NameRef::root(), Type::TXT, Class::IN);
        let big = vec![0; 40_000];
        let fields = (Type::TXT, Class::IN, 0);
        builder.record(Section::Answer, NameRef::root(), fields, &big).unwrap();
        let error = builder.record(Section::Answer, NameRef::root(), fields, &big).unwrap_err();
        assert_eq!(error, WireError::TooLong);
        assert_eq!(crate::Message::parse(&out).unwrap().answer.len(), 1);
    }
}
