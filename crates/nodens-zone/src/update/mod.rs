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
use crate::zone::RecordRef;
use changes::Changes;
use message::Sections;
use nodens_wire::{NameRef, Rcode};

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
    /// Octets of all its records, see [`octets`].
    pub octets: u64,
}

impl Verdict {
    fn of(rcode: Rcode) -> Self {
        Self { rcode, next: None, reason: None }
    }

    fn failed(rcode: Rcode, reason: String) -> Self {
        Self { rcode, next: None, reason: Some(reason) }
    }
}

/// Octets of a record outside a message: owner, fields and RDATA, names not compressed.
fn octets_of(record: &RecordRef<'_>) -> u64 {
    const FIELDS: usize = 10;
    (record.owner.as_wire().len() + FIELDS + record.rdata.len()) as u64
}

/// Octets of all records of a version outside a message. Goes through all of them.
pub fn octets(data: &Data) -> u64 {
    let mut records = data.cursor();
    let mut sum = octets_of(&data.soa().record().into());
    loop {
        match records.advance() {
            crate::Advance::End => return sum,
            crate::Advance::Nothing => {}
            crate::Advance::Record => sum += records.record().as_ref().map_or(0, octets_of),
        }
    }
}

/// Does what `message`, signed with `key`, asks of the zone `data`, whose records have so many `octets`.
pub fn update(
    (data, octets): (&Data, u64),
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
    let checked = prerequisites::check(data, &sections.prerequisites)
        .and_then(|()| policy.check(key, &sections.updates))
        .and_then(|()| changes::check(data.origin(), &sections.updates));
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
    finish((data, octets), changes, policy)
}

fn finish((data, octets): (&Data, u64), changes: Changes, policy: &Policy) -> Verdict {
    let next = match changes.finish() {
        Ok(Some(next)) => next,
        Ok(None) => return Verdict::of(Rcode::NOERROR),
        Err(reason) => return Verdict::failed(Rcode::SERVFAIL, reason),
    };
    let Difference { from, to, removed, added } = Difference::between(data, &next);
    let sum = |records: &[nodens_wire::Record], soa: &crate::Soa| {
        let records = records.iter().chain([soa.record()]);
        records.map(|record| octets_of(&record.into())).sum::<u64>()
    };
    let octets = (octets + sum(&added, &to)).saturating_sub(sum(&removed, &from));
    match policy.check_size(&next, octets) {
        Ok(()) => {
            let next = Some(Next { data: next, octets });
            Verdict { rcode: Rcode::NOERROR, next, reason: None }
        }
        Err(reason) => Verdict::failed(Rcode::REFUSED, reason),
    }
}
