//! Addresses of a message that can be reordered where they are.

use crate::limits::SHUFFLED_RECORDS_MAX;
use super::ip_of;
use nodens_wire::{Header, Name, Reader, RecordView, Records, Section, Type};
use std::net::IpAddr;
use std::ops::Range;


/// What there is to order in a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At most one address and one MX record in each section, in order.
    Nothing,
    /// Only these.
    Block(Block),
    /// Anything else.
    Scattered,
}

/// Records that follow each other, with the same owner octets, type and length.
///
/// As they differ in TTL and RDATA alone, and RDATA of addresses holds no names, they can trade
/// places and every compression pointer of the message still leads to the same name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    range: Range<usize>,
    /// Octets of a record.
    stride: usize,
    /// Octets of RDATA.
    rdata: usize,
}

/// Looks through the records of `wire`; with `rest_moves` records that are neither CNAME nor
/// address nor MX cannot stay where they are.
pub(super) fn find(wire: &[u8], rest_moves: bool) -> Place {
    let Ok(header) = Header::read(wire) else { return Place::Nothing };
    let [_, sections @ ..] = header.counts;
    // What stands alone is in order.
    if sections.iter().all(|count| *count <= 1) && !rest_moves {
        return Place::Nothing;
    }
    let Ok(records) = Records::of(wire) else { return Place::Nothing };
    let mut found: Option<Block> = None;
    let mut section = Section::Answer;
    let (mut addresses, mut last) = (0, 0);
    let mut start: Option<RecordView> = None;
    for record in records {
        let Ok(record) = record else { return Place::Nothing };
        if record.section != section {
            (section, addresses, last, start) = (record.section, 0, 0, None);
        }
        let next = group(record.rtype);
        let rest = rest_moves && next == REST && section != Section::Authority;
        if rest || next < last || (next == MX && last == MX) {
            return Place::Scattered;
        }
        last = next;
        if next != ADDRESS {
            continue;
        }
        addresses += 1;
        match (&start, &mut found) {
            (None, _) => start = Some(record),
            (Some(first), Some(block)) if addresses > 2 => {
                if addresses > SHUFFLED_RECORDS_MAX || !alike(wire, first, &record, block.range.end) {
                    return Place::Scattered;
                }
                block.range.end = record.end();
            }
            (Some(first), None) if alike(wire, first, &record, first.end()) => {
                let range = first.owner_at..record.end();
                let stride = first.end() - first.owner_at;
                found = Some(Block { range, stride, rdata: first.rdata.len() });
            }
            _ => return Place::Scattered,
        }
    }
    found.map_or(Place::Nothing, Place::Block)
}

const REST: u8 = 1;
/// The group of A and AAAA.
pub(super) const ADDRESS: u8 = 2;
/// The group of MX.
pub(super) const MX: u8 = 3;

/// CoreDNS's order within a section: CNAME, the rest, addresses, MX. The OPT record is the
/// server's and stays last.
pub(super) fn group(rtype: Type) -> u8 {
    match rtype {
        Type::CNAME => 0,
        Type::A | Type::AAAA => ADDRESS,
        Type::MX => MX,
        Type::OPT => 4,
        _ => REST,
    }
}

fn alike(wire: &[u8], first: &RecordView, record: &RecordView, end: usize) -> bool {
    record.owner_at == end
        && record.rdata.len() == first.rdata.len()
        && matches!(record.rdata.len(), 4 | 16)
        && wire.get(first.owner_at..first.ttl_at) == wire.get(record.owner_at..record.ttl_at)
}

impl Block {
    /// The name that owns the records.
    pub(super) fn owner(&self, wire: &[u8]) -> Option<Name> {
        let mut octets = Vec::new();
        Reader::new(wire, self.range.start).name(&mut octets).ok()?;
        Name::from_wire(&octets).ok()
    }

    /// The records themselves.
    pub(super) fn rows<'w>(&self, wire: &'w mut [u8]) -> Rows<'w> {
        let rows = wire.get_mut(self.range.clone()).unwrap_or_default();
        Rows { rows, stride: self.stride, rdata: self.rdata }
    }
}

/// The records of a [`Block`].
pub(super) struct Rows<'w> {
    rows: &'w mut [u8],
    stride: usize,
    rdata: usize,
}

impl Rows<'_> {
    pub(super) fn len(&self) -> usize {
        self.rows.len() / self.stride
    }

    pub(super) fn ip(&self, at: usize) -> Option<IpAddr> {
        let end = (at + 1) * self.stride;
        ip_of(self.rows.get(end - self.rdata..end)?)
    }

    /// Trades two rows; a place that does not exist changes nothing.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        let (a, b) = (a.min(b) * self.stride, a.max(b) * self.stride);
        if a == b {
            return;
        }
        let Some((head, tail)) = self.rows.split_at_mut_checked(b) else { return };
        if let (Some(a), Some(b)) = (head.get_mut(a..a + self.stride), tail.get_mut(..self.stride))
        {
            a.swap_with_slice(b);
        }
    }

    /// Moves a row forward; those it passes keep their order.
    pub(super) fn bring_forward(&mut self, from: usize, to: usize) {
        if let Some(rows) = self.rows.get_mut(to * self.stride..(from + 1) * self.stride) {
            rows.rotate_right(self.stride);
        }
    }
}
