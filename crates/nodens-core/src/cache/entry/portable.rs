//! An entry as octets, for a process that takes over from this one.
//!
//! In front of the entry's own octets stand, all with the most significant octet first: its age in
//! nanoseconds (8 octets), TTL (4), number of questions (4), QTYPE, QCLASS and the three counts
//! (2 each), and an octet each for the name's length, [`KeyMarks`], [`KeptFlags`], kind, visits
//! and whether it is on probation.

use super::{Entry, Head, KeptFlags, Kind, PROBATION, VISITS_MAX, View, popularity};
use crate::cache::key::{KeyMarks, SUBNET_LEN_MAX};
use crate::cache::store::Scope;
use crate::time::Now;
use nodens_wire::{Class, MESSAGE_LEN_MAX, NameRef, Records, Type};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use triomphe::ThinArc;

impl View<'_> {
    /// Appends the entry to `out`.
    pub(crate) fn pack(self, now: Now, out: &mut Vec<u8>) {
        let head = self.head;
        let hits = u32::try_from(self.hits()).unwrap_or(u32::MAX);
        out.extend(now.mono_ns.saturating_sub(head.stored_ns).to_be_bytes());
        out.extend(head.ttl_s.to_be_bytes());
        out.extend(hits.to_be_bytes());
        out.extend(head.qtype.0.to_be_bytes());
        out.extend(head.qclass.0.to_be_bytes());
        out.extend(head.counts.iter().flat_map(|count| count.to_be_bytes()));
        let probation = u8::from(self.is_on_probation());
        let visits = head.visits.load(Relaxed);
        let marks = head.marks.to_octet();
        out.extend([head.name_len, marks, head.flags.0, head.kind as u8, visits, probation]);
        out.extend_from_slice(self.octets);
    }
}

/// Takes what [`View::pack`] wrote; nothing if it cannot be an entry.
pub(crate) fn unpack(packed: &[u8], scope: &Arc<Scope>, now: Now) -> Option<Entry> {
    let mut rest = packed;
    let age_ns = u64::from_be_bytes(take(&mut rest)?);
    let ttl_s = u32::from_be_bytes(take(&mut rest)?);
    let hits = u32::from_be_bytes(take(&mut rest)?);
    let [qtype, qclass, a, b, c] = take_shorts(&mut rest)?;
    let [name_len, marks, flags, kind, visits, probation] = take(&mut rest)?;
    let marks = KeyMarks::from_octet(marks);
    let head = Head {
        scope: scope.clone(),
        stored_ns: now.mono_ns.checked_sub(age_ns)?,
        popularity: AtomicU64::new(popularity(now, u64::from(hits))),
        ttl_s,
        retry_after_ms: AtomicU32::new(0),
        qtype: Type(qtype),
        qclass: Class(qclass),
        counts: [a, b, c],
        name_len,
        marks,
        flags: KeptFlags(flags),
        kind: *KINDS.get(usize::from(kind))?,
        visits: AtomicU8::new(visits.min(VISITS_MAX)),
        state: AtomicU8::new(if probation == 0 { 0 } else { PROBATION }),
    };
    let view = View { head: &head, octets: rest };
    if !is_sound(view) {
        return None;
    }
    Some(ThinArc::from_header_and_slice(head, rest))
}

const KINDS: [Kind; 4] = [Kind::Success, Kind::Denial, Kind::Failure, Kind::Hollow];

/// Whether it is made of whole and well-formed records, whose TTLs are where it says.
fn is_sound(view: View<'_>) -> bool {
    let (name_len, subnet_len) = (usize::from(view.head.name_len), view.head.marks.subnet_len());
    let count: usize = view.head.counts.iter().map(|count| usize::from(*count)).sum();
    if subnet_len > SUBNET_LEN_MAX || name_len + subnet_len + 2 * count > view.octets.len() {
        return false;
    }
    let Some(Ok(qname)) = view.octets.get(..name_len).map(NameRef::new) else { return false };
    let mut wire = Vec::new();
    view.write(qname.as_wire(), view.flags(), 0, &mut wire);
    let (_, ttls_at) = view.records();
    let mut told = ttls_at
        .chunks_exact(2)
        .map(|at| at.first_chunk().map_or(0, |at| usize::from(u16::from_be_bytes(*at))));
    let Ok(records) = Records::of(&wire) else { return false };
    let mut records = records.map(|record| {
        let record = record?;
        record.validate(&wire).map(|()| record.ttl_at)
    });
    let agrees = records.by_ref().all(|at| at.is_ok() && at.ok() == told.next());
    qname.as_wire().len() == name_len
        && wire.len() <= MESSAGE_LEN_MAX
        && agrees
        && told.next().is_none()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn take_shorts<const N: usize>(rest: &mut &[u8]) -> Option<[u16; N]> {
    let mut shorts = [0; N];
    for short in &mut shorts {
        *short = u16::from_be_bytes(take(rest)?);
    }
    Some(shorts)
}
