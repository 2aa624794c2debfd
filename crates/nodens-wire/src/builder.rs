//! Writes messages front to back with name compression (RFC 1035 section 4.1.4).

use crate::header::{self, Flags, Header};
use crate::name::NameRef;
use crate::reader::WireError;
use crate::record::{RdataPart, Record, Section, may_compress_rdata, rdata_layout};
use crate::suffixes::{POINTER_MAX, Starts, Suffixes};
use crate::types::{Class, Type};
use crate::{HEADER_LEN, MESSAGE_LEN_MAX};

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;

/// Writes one message into a buffer the caller owns.
///
/// Sections must be written in their order; the counts in the header are kept right after every
/// record, so the buffer is a whole message at any time. A record that does not fit any more is
/// left out, and TC says so.
pub struct Builder<'b> {
    out: &'b mut Vec<u8>,
    counts: [u16; 4],
    names: Suffixes,
    section: Section,
}

impl<'b> Builder<'b> {
    /// Clears `out` and writes a header.
    pub fn new(out: &'b mut Vec<u8>, id: u16, flags: Flags) -> Self {
        out.clear();
        out.extend_from_slice(&Header { id, flags, counts: [0; 4] }.to_bytes());
        Self { out, counts: [0; 4], names: Suffixes::new(), section: Section::Answer }
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
        let names = self.names.filled();
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
            self.names.forget_since(names);
            return Err(self.cut());
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
        let fits = self.out.len() + 12 + rdata.len() <= MESSAGE_LEN_MAX;
        let Some(len) = u16::try_from(rdata.len()).ok().filter(|_| fits) else {
            return Err(self.cut());
        };
        let [[a, b], [c, d]] = [rtype.0.to_be_bytes(), class.0.to_be_bytes()];
        let ([e, f, g, h], [i, j]) = (ttl.to_be_bytes(), len.to_be_bytes());
        let [high, low] = pointer_to(owner_at);
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

    /// Says in the header that a record is missing (RFC 2181 section 9).
    fn cut(&mut self) -> WireError {
        let flags = header::flags(self.out).with(Flags::TC, true);
        header::set_flags(self.out, flags);
        WireError::TooLong
    }

    /// Octets written so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
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
        let wire = name.as_wire();
        if self.names.is_empty() {
            self.names.remember_first(self.out.len(), name);
            self.out.extend_from_slice(wire);
            return;
        }
        // Most records have the name of the question.
        if let Some(at) = self.names.first()
            && self.out.get(at..).is_some_and(|first| first.starts_with(wire))
            && !name.is_root()
        {
            self.out.extend_from_slice(&pointer_to(at));
            return;
        }
        let starts = Starts::of(name);
        let known = self.names.find(self.out, name, &starts);
        self.names.remember(self.out.len(), &starts, known);
        let new = wire.get(..starts.start(known.new, name)).unwrap_or_default();
        self.out.extend_from_slice(new);
        match self.names.target(known) {
            Some(at) => self.out.extend_from_slice(&pointer_to(at)),
            None => self.out.push(0),
        }
    }

    /// Writes `name` without a pointer; later names may end with one to it.
    fn whole_name(&mut self, name: NameRef<'_>) {
        let starts = Starts::of(name);
        let known = self.names.find(self.out, name, &starts);
        self.names.remember(self.out.len(), &starts, known);
        self.out.extend_from_slice(name.as_wire());
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
