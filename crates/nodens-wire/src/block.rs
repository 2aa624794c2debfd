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
#[derive(Debug)]
pub struct Block {
    octets: Box<[u8]>,
    /// Where they have pointers.
    pointers: Box<[u16]>,
    /// Where it stood: what is less leads to the question.
    start: u16,
    /// Of the authority and the additional section.
    counts: [u16; 2],
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
        let counts = [authority, additional];
        let pointers = pointers(&message, start, authority.checked_add(additional)?).ok()?;
        let octets = message.get(start..)?.into();
        fits.then_some(Self { octets, pointers, start: start as u16, counts })
    }

    /// Octets of memory that it takes beside itself, with what malloc adds.
    pub fn cost(&self) -> usize {
        let piece = |octets: usize| (octets + size_of::<usize>()).next_multiple_of(16).max(32);
        piece(self.octets.len()) + piece(size_of_val(&*self.pointers))
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn counts(&self) -> [u16; 2] {
        self.counts
    }

    /// Moves the pointers in `octets`, which are its own: to a block that stands at `start`, behind a
    /// question whose name ends with that of the block from `name_at` on.
    pub(crate) fn move_pointers(&self, octets: &mut [u8], start: usize, name_at: usize) {
        let own = usize::from(self.start);
        for at in &self.pointers {
            let slot = octets.get_mut(usize::from(*at)..).and_then(<[u8]>::first_chunk_mut::<2>);
            let Some(slot) = slot else { continue };
            let target = usize::from(u16::from_be_bytes(*slot)) & POINTER_MAX;
            *slot = pointer_to(match target.checked_sub(own) {
                Some(within) => start + within,
                None => target - HEADER_LEN + name_at,
            });
        }
    }
}

/// Where pointers stand in `count` records from `start` on, counted from there.
fn pointers(message: &[u8], start: usize, count: u16) -> Result<Box<[u16]>, WireError> {
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
    Ok(found.into())
}
