//! Dynamic updates (RFC 2136): what a message asks for, whether its sender may, and the version of the zone
//! that it makes.
//!
//! An update is done whole or not at all: it makes another version beside the one it was asked of, and the
//! caller serves that once it is where it has to be. The order of the checks is that of the RFC, section 3:
//! prerequisites, permission, what the update section says, and only then changes.

mod changes;
mod message;
mod policy;
mod prerequisites;
pub mod types;

#[cfg(test)]
mod tests;

pub use policy::{Permission, Policy};

use crate::data::{Data, Difference, Refused};
use crate::dnssec::is_made;
use crate::zone::RecordRef;
use changes::Changes;
use message::Sections;
use nodens_wire::{NameRef, Rcode, Record};
use types::Kind;

/// What became of an update.
#[derive(Debug)]
pub struct Verdict {
    /// The RCODE of the response.
    pub rcode: Rcode,
    /// The version that it makes, if it changes something.
    pub next: Option<Next>,
    /// Why the server, and not its client, is the reason for the RCODE.
    pub reason: Option<String>,
}

/// A version that an update makes.
#[derive(Debug)]
pub struct Next {
    /// The version.
    pub data: Data,
    /// See [`size`].
    pub size: Size,
}

/// The size of a zone without what signing makes, which does not count against the limits of updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Records, the SOA record among them.
    pub records: u64,
    /// Octets of these outside a message, names not compressed.
    pub octets: u64,
}

impl Size {
    fn add(&mut self, record: &RecordRef<'_>) {
        if !is_made(record.rtype) {
            self.records += 1;
            self.octets += octets_of(record);
        }
    }

    fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> Self {
        let mut size = Self::default();
        records.into_iter().for_each(|record| size.add(&record.into()));
        size
    }
}

impl Verdict {
    fn of(rcode: Rcode) -> Self {
        Self { rcode, next: None, reason: None }
    }

    pub(crate) fn failed(rcode: Rcode, reason: String) -> Self {
        Self { rcode, next: None, reason: Some(reason) }
    }
}

/// Octets of a record outside a message: owner, fields and RDATA, names not compressed.
fn octets_of(record: &RecordRef<'_>) -> u64 {
    const FIELDS: usize = 10;
    (record.owner.as_wire().len() + FIELDS + record.rdata.len()) as u64
}

/// The size of a version. Goes through all of its records.
pub fn size(data: &Data) -> Size {
    let mut records = data.cursor();
    let mut size = Size::of([data.soa().record()]);
    loop {
        match records.advance() {
            crate::Advance::End => return size,
            crate::Advance::Nothing => {}
            crate::Advance::Record => records.record().iter().for_each(|record| size.add(record)),
        }
    }
}

/// Does what `message`, signed with `key`, asks of the zone `data`, which has this size. In a zone with signatures,
/// those of the version that it makes are those of `data`: the caller makes them anew.
pub fn update(
    (data, size): (&Data, Size),
    policy: &Policy,
    key: NameRef<'_>,
    message: &[u8],
) -> Verdict {
    // Who has a key without any permission learns nothing of the zone.
    if !policy.knows(key) {
        return Verdict::of(Rcode::REFUSED);
    }
    let sections = match Sections::read(message, policy.update_records_max) {
        Ok(sections) => sections,
        Err(rcode) => return Verdict::of(rcode),
    };
    let kind = Kind::of(data);
    let checked = prerequisites::check(data, &sections.prerequisites)
        .and_then(|()| policy.check(key, &sections.updates))
        .and_then(|()| changes::check((data.origin(), kind), &sections.updates));
    if let Err(rcode) = checked {
        return Verdict::of(rcode);
    }
    let mut changes = Changes::of(data);
    for record in &sections.updates {
        if let Err(error) = changes.make(record) {
            let text = format!("{} {}: {error}", record.owner, record.rtype);
            // It is not the client's fault, and may be better later.
            let is_full = error == Refused::NoRoom;
            return Verdict::failed(if is_full { Rcode::SERVFAIL } else { Rcode::REFUSED }, text);
        }
    }
    finish((data, size), changes, policy)
}

fn finish((data, size): (&Data, Size), changes: Changes, policy: &Policy) -> Verdict {
    let next = match changes.finish() {
        Ok(Some(next)) => next,
        Ok(None) => return Verdict::of(Rcode::NOERROR),
        Err(reason) => return Verdict::failed(Rcode::SERVFAIL, reason),
    };
    let Difference { from, to, removed, added } = Difference::between(data, &next);
    let come = Size::of(added.iter().chain([to.record()]));
    let gone = Size::of(removed.iter().chain([from.record()]));
    let size = Size {
        records: (size.records + come.records).saturating_sub(gone.records),
        octets: (size.octets + come.octets).saturating_sub(gone.octets),
    };
    match policy.check_size(size) {
        Ok(()) => {
            let next = Some(Next { data: next, size });
            Verdict { rcode: Rcode::NOERROR, next, reason: None }
        }
        Err(reason) => Verdict::failed(Rcode::REFUSED, reason),
    }
}
