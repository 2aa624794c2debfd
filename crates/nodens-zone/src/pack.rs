//! One message after the other, filled with as many records as go in.
//!
//! A [`nodens_wire::Builder`] remembers a few dozen names, which is what an answer has. Here a
//! message has hundreds, so places of names are found by a hash of the name.

use crate::zone::RecordRef;
use nodens_wire::record::{RdataPart, may_compress_rdata, rdata_layout};
use nodens_wire::{Flags, HEADER_LEN, Header, MESSAGE_LEN_MAX, NameRef, Type};

/// Places for positions of names: more than names that begin in what a pointer can reach and are
/// pointed to in practice; further ones are not remembered.
const SLOTS: usize = 4096;
/// Positions that may be remembered, so that an empty place is found soon.
const REMEMBERED_MAX: usize = SLOTS * 3 / 4;
/// Places looked at for one name, so that names made to collide cost little.
const LOOKS: usize = 8;
/// A pointer has 14 bits.
const POINTER_MAX: usize = 0x3fff;
/// Labels of a name of 255 octets.
const LABELS_MAX: usize = 128;

/// The positions of names in the message that is being filled.
pub(crate) struct Names {
    /// 0 where there is none: no name is in the header.
    slots: Box<[u16; SLOTS]>,
    len: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self { slots: Box::new([0; SLOTS]), len: 0 }
    }
}

/// Fills one message.
pub(crate) struct Packer<'m> {
    out: &'m mut Vec<u8>,
    names: &'m mut Names,
    answers: u16,
}

impl<'m> Packer<'m> {
    /// Clears `out` and writes a header.
    pub(crate) fn new(out: &'m mut Vec<u8>, names: &'m mut Names, id: u16, flags: Flags) -> Self {
        out.clear();
        out.extend_from_slice(&Header { id, flags, counts: [0; 4] }.to_bytes());
        names.slots.fill(0);
        names.len = 0;
        Self { out, names, answers: 0 }
    }

    /// Writes the question.
    pub(crate) fn question(&mut self, qname: NameRef<'_>, [a, b]: [u8; 2], [c, d]: [u8; 2]) {
        self.name(qname);
        self.out.extend_from_slice(&[a, b, c, d]);
        self.count(0, 1);
    }

    /// How many records it has.
    pub(crate) fn answers(&self) -> u16 {
        self.answers
    }

    /// Adds a record to the answer section, if the message then has at most `limit` octets. After
    /// one that did not go in the message is whole, and nothing may be added.
    pub(crate) fn push(&mut self, record: RecordRef<'_>, limit: usize) -> bool {
        let start = self.out.len();
        self.name(record.owner);
        self.out.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.out.extend_from_slice(&record.class.0.to_be_bytes());
        self.out.extend_from_slice(&record.ttl.to_be_bytes());
        let length_at = self.out.len();
        self.out.extend_from_slice(&[0, 0]);
        self.rdata(record.rtype, record.rdata);
        let length = u16::try_from(self.out.len() - length_at - 2).ok();
        let fits = self.out.len() <= limit.min(MESSAGE_LEN_MAX) && self.answers < u16::MAX;
        let slot = self.out.get_mut(length_at..length_at + 2);
        let (Some(length), Some(slot), true) = (length, slot, fits) else {
            self.out.truncate(start);
            return false;
        };
        slot.copy_from_slice(&length.to_be_bytes());
        self.answers += 1;
        self.count(1, self.answers);
        true
    }

    fn count(&mut self, index: usize, count: u16) {
        let at = 4 + 2 * index;
        if let Some(slot) = self.out.get_mut(at..at + 2) {
            slot.copy_from_slice(&count.to_be_bytes());
        }
    }

    fn rdata(&mut self, rtype: Type, rdata: &[u8]) {
        let mut rest = rdata;
        let layout = if may_compress_rdata(rtype) { rdata_layout(rtype) } else { &[] };
        for part in layout {
            let RdataPart::Name = part else {
                let RdataPart::Octets(len) = part else { break };
                let Some((head, tail)) = rest.split_at_checked(*len) else { break };
                self.out.extend_from_slice(head);
                rest = tail;
                continue;
            };
            let Some((name, tail)) = split_name(rest) else { break };
            self.name(name);
            rest = tail;
        }
        self.out.extend_from_slice(rest);
    }

    /// Writes `name`, ending with a pointer where an earlier name has the same tail.
    fn name(&mut self, name: NameRef<'_>) {
        let mut hashes = [0; LABELS_MAX];
        let count = hash_tails(name, &mut hashes);
        let mut rest = name;
        for hash in hashes.into_iter().take(count) {
            let slot = self.find(rest, hash);
            if let Found::At(target) = slot {
                self.out.extend_from_slice(&(0xc000 | target).to_be_bytes());
                return;
            }
            if let Found::Free(slot) = slot {
                self.remember(slot);
            }
            let Some(parent) = rest.parent() else { break };
            let len = rest.as_wire().len() - parent.as_wire().len();
            self.out.extend_from_slice(rest.as_wire().get(..len).unwrap_or_default());
            rest = parent;
        }
        self.out.push(0);
    }

    fn remember(&mut self, slot: usize) {
        let at = self.out.len();
        if at > POINTER_MAX || self.names.len >= REMEMBERED_MAX {
            return;
        }
        if let Some(slot) = self.names.slots.get_mut(slot) {
            *slot = at as u16;
            self.names.len += 1;
        }
    }

    fn find(&self, name: NameRef<'_>, hash: u32) -> Found {
        for look in 0..LOOKS {
            let slot = (hash as usize + look) % SLOTS;
            match self.names.slots.get(slot) {
                Some(0) => return Found::Free(slot),
                Some(at) if self.equals_at(usize::from(*at), name) => return Found::At(*at),
                _ => {}
            }
        }
        Found::Full
    }

    /// Whether the name that was written at `at` is `name`, octet by octet: a pointer must not
    /// change the case of a name.
    fn equals_at(&self, at: usize, name: NameRef<'_>) -> bool {
        let mut at = self.follow(at);
        for label in name.labels() {
            let same = self.out.get(at).is_some_and(|len| usize::from(*len) == label.len())
                && self.out.get(at + 1..at + 1 + label.len()) == Some(label);
            if !same {
                return false;
            }
            at = self.follow(at + 1 + label.len());
        }
        at >= HEADER_LEN && self.out.get(at) == Some(&0)
    }

    /// Where the label is that stands at `at` or is pointed to from there. Pointers lead back.
    fn follow(&self, mut at: usize) -> usize {
        while let Some([high @ 0xc0..=0xff, low]) =
            self.out.get(at..).and_then(<[u8]>::first_chunk::<2>)
        {
            at = usize::from(high & 0x3f) << 8 | usize::from(*low);
        }
        at
    }
}

/// Where a name is, or could be remembered.
enum Found {
    At(u16),
    Free(usize),
    Full,
}

/// A hash for each tail of `name` but the root, longest first; gives how many there are.
fn hash_tails(name: NameRef<'_>, hashes: &mut [u32; LABELS_MAX]) -> usize {
    let wire = name.as_wire();
    let mut starts = [0_u8; LABELS_MAX];
    let (mut at, mut count) = (0, 0);
    while let (Some(len @ 1..), Some(start)) = (wire.get(at), starts.get_mut(count)) {
        *start = at as u8;
        (at, count) = (at + 1 + usize::from(*len), count + 1);
    }
    // FNV-1a, from the last label to the first, so that a tail is a beginning.
    let mut hash: u32 = 0x811c_9dc5;
    let mut end = at;
    for (slot, start) in hashes.iter_mut().zip(starts).take(count).rev() {
        let start = usize::from(start);
        for octet in wire.get(start..end).unwrap_or_default() {
            hash = (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193);
        }
        end = start;
        // The lower bits, which choose the place, depend on few bits of the name.
        *slot = hash ^ hash >> 15;
    }
    count
}

/// The uncompressed name at the front of `octets`, and what is behind it.
fn split_name(octets: &[u8]) -> Option<(NameRef<'_>, &[u8])> {
    let mut at = 0;
    loop {
        match octets.get(at)? {
            0 => break,
            len => at += 1 + usize::from(*len),
        }
    }
    let (name, tail) = octets.split_at_checked(at + 1)?;
    Some((NameRef::new(name).ok()?, tail))
}
