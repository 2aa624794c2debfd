//! Writes messages front to back with name compression (RFC 1035 section 4.1.4).

use crate::block::Block;
use crate::header::{self, Flags, Header};
use crate::name::NameRef;
use crate::reader::WireError;
use crate::record::{RdataPart, Record, Section, may_compress_rdata, rdata_layout};
use crate::suffixes::{Filled, POINTER_MAX, Starts, Suffixes};
use crate::types::{Class, Type};
use crate::{HEADER_LEN, MESSAGE_LEN_MAX};

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;

/// Whose record it is.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'n> {
    /// That of this name.
    Name(NameRef<'n>),
    /// That of the name at this place of the message, such as the question's at [`HEADER_LEN`]; below
    /// 2^14.
    At(u16),
}

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

    /// Where `name` stands as the end of the question's name, letter by letter: as the owner of
    /// records, [`Owner::At`] is right for it. That later names end with it too is looked at first
    /// from now on. Nothing for the root.
    pub fn end_of_question(&mut self, name: NameRef<'_>) -> Option<Owner<'static>> {
        self.names.expect(self.out, name).map(Owner::At)
    }

    /// Writes one record whose RDATA holds uncompressed names.
    pub fn record(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        fields: (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), WireError> {
        self.record_of(section, Owner::Name(owner), fields, rdata)
    }

    /// As [`Builder::record`], of an owner that may stand in the message already.
    fn record_of(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        fields: (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), WireError> {
        debug_assert!(section >= self.section, "sections are written in order");
        self.section = section;
        let start = self.out.len();
        let names = self.names.filled();
        self.owner(owner);
        let layout = rdata_layout(fields.0);
        // Others have their length when their names are written.
        let known = if layout.is_empty() { rdata.len() as u16 } else { 0 };
        self.out.extend_from_slice(&head(fields, known));
        let rdata_at = self.out.len();
        if layout.is_empty() {
            self.out.extend_from_slice(rdata);
        } else {
            self.rdata(fields.0, layout, rdata);
        }
        self.end_record(section, (start, names), rdata_at)
    }

    /// Ends a record whose RDATA begins at `rdata_at` with its length; or takes it out if it has no room.
    fn end_record(
        &mut self,
        section: Section,
        (start, names): (usize, Filled),
        rdata_at: usize,
    ) -> Result<(), WireError> {
        let len = self.out.len() - rdata_at;
        let fits = u16::try_from(len).ok().filter(|_| self.out.len() <= MESSAGE_LEN_MAX);
        let slot = self.out.get_mut(rdata_at - 2..rdata_at);
        let (Some(len), Some(slot)) = (fits, slot) else {
            self.out.truncate(start);
            self.names.forget_since(names);
            return Err(self.cut());
        };
        slot.copy_from_slice(&len.to_be_bytes());
        self.count(section.count_index());
        Ok(())
    }

    /// Writes records that have all but their RDATA in common, which hold uncompressed names, and
    /// gives their owner for others of the same. `standing` is told where the names stand that RDATA of [`RdataPart::Name`]
    /// alone consists of, of one record after the other, as far as it has room; 0 for other types.
    ///
    /// The names of an RRset often have all but their first label in common: each is written with
    /// a pointer to the one before it, without a search.
    pub fn records<'r, 'n>(
        &mut self,
        section: Section,
        owner: Owner<'n>,
        fields: (Type, Class, u32),
        rdata: impl Iterator<Item = &'r [u8]>,
        standing: &mut [u16],
    ) -> Result<Owner<'n>, WireError> {
        let layout = rdata_layout(fields.0);
        let is_target = matches!(layout, [RdataPart::Name]) && may_compress_rdata(fields.0);
        let (mut owner, mut before) = (owner, None);
        for (at, rdata) in rdata.enumerate() {
            let start = self.out.len();
            if is_target {
                let stands = self.target(section, owner, fields, rdata, &mut before)?;
                if let Some(slot) = standing.get_mut(at) {
                    *slot = stands;
                }
            } else {
                self.record_of(section, owner, fields, rdata)?;
            }
            owner = self.again(owner, start);
        }
        Ok(owner)
    }

    /// The owner of a record, of which another was written at `start`.
    fn again<'n>(&self, owner: Owner<'n>, start: usize) -> Owner<'n> {
        match owner {
            Owner::Name(name) if !name.is_root() => match self.stands(start) {
                0 => owner,
                at => Owner::At(at),
            },
            owner => owner,
        }
    }

    /// Writes one record whose RDATA is a name. Gives where it stands, 0 if no pointer leads there.
    fn target<'r>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        fields: (Type, Class, u32),
        rdata: &'r [u8],
        before: &mut Option<(&'r [u8], u16)>,
    ) -> Result<u16, WireError> {
        debug_assert!(section >= self.section, "sections are written in order");
        self.section = section;
        let (start, names) = (self.out.len(), self.names.filled());
        self.owner(owner);
        self.out.extend_from_slice(&head(fields, 0));
        let rdata_at = self.out.len();
        let len = rdata.first().map_or(0, |len| 1 + usize::from(*len));
        let (label, parent) = rdata.split_at_checked(len).unwrap_or_default();
        match (*before, NameRef::new(rdata)) {
            (Some((known, at)), _) if known == parent => {
                self.out.extend_from_slice(label);
                self.out.extend_from_slice(&pointer_to(usize::from(at)));
            }
            // Nothing else has its name as a rule: it is not looked for.
            (None, _) if let Some(at) = self.names.expected(self.out, parent) => {
                self.out.extend_from_slice(label);
                self.out.extend_from_slice(&pointer_to(usize::from(at)));
                *before = Some((parent, at));
            }
            (_, Ok(name)) => {
                self.name(name);
                let at = match self.stands(rdata_at) {
                    0 => 0,
                    at => self.stands(usize::from(at) + len),
                };
                *before = Some((parent, at)).filter(|_| at > 0 && parent.len() > 1);
            }
            _ => self.out.extend_from_slice(rdata),
        }
        let stands = self.stands(rdata_at);
        self.end_record(section, (start, names), rdata_at)?;
        Ok(stands)
    }

    /// Where the name that begins at `at` has its first label; 0 if no pointer leads there.
    fn stands(&self, at: usize) -> u16 {
        match self.out.get(at..) {
            Some([high, low, ..]) if *high >= 0xc0 => u16::from_be_bytes([high & 0x3f, *low]),
            Some(_) if at <= POINTER_MAX => at as u16,
            _ => 0,
        }
    }

    fn owner(&mut self, owner: Owner<'_>) {
        match owner {
            Owner::Name(name) => self.name(name),
            Owner::At(at) => self.out.extend_from_slice(&pointer_to(usize::from(at))),
        }
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
        self.section = section;
        self.out.extend_from_slice(&pointer_to(owner_at));
        self.out.extend_from_slice(&head((rtype, class, ttl), len));
        self.out.extend_from_slice(rdata);
        self.count(section.count_index());
        Ok(())
    }

    /// Writes a block of records, whose name stands at `name_at` of this message, where the name of the
    /// question ends with it ([`Builder::end_of_question`]); of no meaning for a block of the root. Says
    /// whether there was room where pointers reach. Later names do not end with pointers into it.
    pub fn append(&mut self, block: &Block, name_at: u16) -> bool {
        let (start, block) = (self.out.len(), block.parts());
        if start + block.octets().len() > POINTER_MAX {
            return false;
        }
        self.out.extend_from_slice(block.octets());
        let octets = self.out.get_mut(start..).unwrap_or_default();
        block.move_pointers(octets, start, usize::from(name_at));
        let sections = [Section::Authority, Section::Additional];
        for (section, count) in sections.into_iter().zip(block.counts()) {
            if count > 0 {
                debug_assert!(section >= self.section, "sections are written in order");
                self.section = section;
                self.count_more(section.count_index(), count);
            }
        }
        true
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

    /// Records of each section, the question first.
    pub(crate) fn counts(&self) -> [u16; 4] {
        self.counts
    }

    fn count(&mut self, index: usize) {
        self.count_more(index, 1);
    }

    fn count_more(&mut self, index: usize, more: u16) {
        if let Some(count) = self.counts.get_mut(index) {
            *count = count.saturating_add(more);
            let at = 4 + 2 * index;
            if let Some(slot) = self.out.get_mut(at..at + 2) {
                slot.copy_from_slice(&count.to_be_bytes());
            }
        }
    }

    fn rdata(&mut self, rtype: Type, layout: &[RdataPart], rdata: &[u8]) {
        let compress = may_compress_rdata(rtype);
        let mut rest = rdata;
        for part in layout {
            let len = match part {
                RdataPart::Octets(len) => *len,
                RdataPart::CharacterString => rest.first().map_or(0, |len| usize::from(*len) + 1),
                RdataPart::Name => name_len(rest),
            };
            let Some((head, tail)) = rest.split_at_checked(len) else { break };
            match (part, NameRef::new(head)) {
                (RdataPart::Name, Ok(name)) if compress => self.name_in_rdata(name, layout),
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
        if name.is_root() {
            self.out.push(0);
            return;
        }
        // Most records have the name of the question.
        if let Some(at) = self.names.first()
            && self.out.get(at..).is_some_and(|first| first.starts_with(wire))
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

    /// Writes a name in RDATA. Those of an SOA record are not looked for: other names seldom are the same.
    fn name_in_rdata(&mut self, name: NameRef<'_>, layout: &[RdataPart]) {
        let wire = name.as_wire();
        let len = wire.first().map_or(0, |len| 1 + usize::from(*len));
        let (label, parent) = wire.split_at_checked(len).unwrap_or_default();
        match self.names.expected(self.out, parent) {
            Some(at) if matches!(layout, [RdataPart::Name, RdataPart::Name]) => {
                self.out.extend_from_slice(label);
                self.out.extend_from_slice(&pointer_to(usize::from(at)));
            }
            _ => self.name(name),
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

/// Type, class, TTL and RDLENGTH.
fn head((rtype, class, ttl): (Type, Class, u32), len: u16) -> [u8; 10] {
    let [[a, b], [c, d]] = [rtype.0.to_be_bytes(), class.0.to_be_bytes()];
    let ([e, f, g, h], [i, j]) = (ttl.to_be_bytes(), len.to_be_bytes());
    [a, b, c, d, e, f, g, h, i, j]
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
