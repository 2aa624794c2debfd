//! Records that stand in many responses, as octets: only their pointers differ from one to the next.

use crate::HEADER_LEN;
use crate::builder::{Builder, pointer_to};
use crate::header::{self, Flags};
use crate::name::NameRef;
use crate::reader::{Reader, WireError};
use crate::record::{RdataPart, may_compress_rdata, rdata_layout};
use crate::suffixes::POINTER_MAX;
use crate::types::{Class, Type};

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;

/// Records of the authority and the additional section of responses whose QNAME ends with one name.
///
/// Pointers lead to the end of the question's name or to the block itself. [`Builder::append`] writes
/// both anew.
///
/// It is one piece of memory, as a response waits for each that the caches do not hold: the head, where pointers stand,
/// and the records.
#[derive(Debug)]
pub struct Block(Box<[u8]>);

/// What a block begins with, each number of two octets.
struct Head {
    /// Where the records stood: what is less leads to the question.
    start: u16,
    /// Records of the authority and the additional section.
    counts: [u16; 2],
    /// How many pointers lead to the question, and how many to the records.
    pointers: [u16; 2],
}

const HEAD_LEN: usize = 10;

impl Head {
    fn read(octets: &[u8; HEAD_LEN]) -> Self {
        let (numbers, _) = octets.as_chunks();
        let mut numbers = numbers.iter().map(|number| u16::from_ne_bytes(*number));
        let mut next = || numbers.next().unwrap_or_default();
        Self { start: next(), counts: [next(), next()], pointers: [next(), next()] }
    }

    fn write(&self) -> impl Iterator<Item = u8> {
        let numbers = [&[self.start], &self.counts[..], &self.pointers].concat();
        numbers.into_iter().flat_map(u16::to_ne_bytes)
    }
}

/// The parts of a block.
pub(crate) struct Parts<'b> {
    head: Head,
    /// Where pointers to the question stand, and where those to the records do.
    pointers: [&'b [[u8; 2]]; 2],
    octets: &'b [u8],
}

impl Block {
    /// What `fill` writes into a response to a query for `name`. Nothing if that has records of the
    /// answer section, or does not fit.
    pub fn new(name: NameRef<'_>, fill: impl FnOnce(&mut Builder<'_>)) -> Option<Self> {
        let mut message = Vec::new();
        let mut builder = Builder::new(&mut message, 0, Flags(0));
        builder.question(name, Type::A, Class::IN);
        let start = builder.len();
        fill(&mut builder);
        let [_, answer, authority, additional] = builder.counts();
        let is_whole = answer == 0 && !header::flags(&message).has(Flags::TC);
        let fits = is_whole && message.len() <= POINTER_MAX;
        let places = pointers(&message, start, authority.checked_add(additional)?).ok()?;
        let octets = message.get(start..)?;
        let is_outer = |at: &u16| target(octets, *at).is_some_and(|target| target < start);
        let (outer, own): (Vec<_>, Vec<_>) = places.into_iter().partition(is_outer);
        let pointers = [u16::try_from(outer.len()).ok()?, u16::try_from(own.len()).ok()?];
        let head = Head { start: start as u16, counts: [authority, additional], pointers };
        let places = outer.into_iter().chain(own).flat_map(u16::to_ne_bytes);
        let piece = head.write().chain(places).chain(octets.iter().copied()).collect();
        fits.then_some(Self(piece))
    }

    /// Octets of memory that it takes beside itself, with what malloc adds.
    pub fn cost(&self) -> usize {
        (self.0.len() + size_of::<usize>()).next_multiple_of(16).max(32)
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        let (head, rest) = self.0.split_first_chunk().unwrap_or((&[0; HEAD_LEN], &[]));
        let head = Head::read(head);
        let [outer, own] = head.pointers.map(usize::from);
        let (places, octets) = rest.split_at_checked(2 * (outer + own)).unwrap_or_default();
        let (places, _) = places.as_chunks();
        let (outer, own) = places.split_at_checked(outer).unwrap_or_default();
        Parts { head, pointers: [outer, own], octets }
    }
}

impl Parts<'_> {
    /// The records.
    pub(crate) fn octets(&self) -> &[u8] {
        self.octets
    }

    /// How many records of the authority and the additional section there are.
    pub(crate) fn counts(&self) -> [u16; 2] {
        self.head.counts
    }

    /// Moves the pointers in `octets`, which are its own: to a block that stands at `start`, behind a
    /// question whose name ends with that of the block from `name_at` on.
    pub(crate) fn move_pointers(&self, octets: &mut [u8], start: usize, name_at: usize) {
        // Where the two stand is known apart, as which of them a pointer leads to cannot be foreseen.
        let moved = [(HEADER_LEN, name_at), (usize::from(self.head.start), start)];
        for (places, (from, to)) in self.pointers.into_iter().zip(moved) {
            for place in places {
                let at = usize::from(u16::from_ne_bytes(*place));
                let slot = octets.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>);
                let Some(slot) = slot else { continue };
                let target = usize::from(u16::from_be_bytes(*slot)) & POINTER_MAX;
                *slot = pointer_to((target + to).saturating_sub(from));
            }
        }
    }
}

/// Where the pointer at `at` leads.
fn target(octets: &[u8], at: u16) -> Option<usize> {
    let pointer = octets.get(usize::from(at)..)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*pointer)) & POINTER_MAX)
}

/// Where pointers stand in `count` records from `start` on, counted from there.
fn pointers(message: &[u8], start: usize, count: u16) -> Result<Vec<u16>, WireError> {
    let mut reader = Reader::new(message, start);
    let mut found = Vec::new();
    let mut name = |reader: &mut Reader<'_>| -> Result<(), WireError> {
        if reader.pointer()?.is_some() {
            found.push((reader.at() - 2 - start) as u16);
        }
        Ok(())
    };
    for _ in 0..count {
        name(&mut reader)?;
        let rtype = Type(reader.u16("TYPE")?);
        reader.take(6, "CLASS and TTL")?;
        let len = usize::from(reader.u16("RDLENGTH")?);
        let end = reader.at() + len;
        if may_compress_rdata(rtype) {
            for part in rdata_layout(rtype) {
                match part {
                    RdataPart::Name => name(&mut reader)?,
                    RdataPart::Octets(len) => _ = reader.take(*len, "RDATA")?,
                    RdataPart::CharacterString => {
                        let len = reader.u8("RDATA")?;
                        reader.take(usize::from(len), "RDATA")?;
                    }
                }
            }
        }
        let rest = end.checked_sub(reader.at()).ok_or(WireError::Rdata(end))?;
        reader.take(rest, "RDATA")?;
    }
    Ok(found)
}
