//! What the log says of signatures that were made anew before they expire.

use nodens_wire::{NameRef, Type};
use nodens_zone::Serial;
use nodens_zone::dnssec::{Signer, Validity};
use nodens_zone::journal::Step;

const HOUR_S: u32 = 3600;

/// The versions that one search for signatures that expire has made.
#[derive(Debug)]
pub(super) struct Renewed {
    /// The serial number before the first of them.
    from: Serial,
    /// That of the last one.
    to: Serial,
    signatures: usize,
    /// Of these signatures the one that expires first.
    earliest: Option<Validity>,
}

impl Renewed {
    /// `before` with another version, made at a time in Unix seconds.
    pub(super) fn and(before: Option<Self>, step: &Step, now_s: u64) -> Self {
        let (from, to) = (step.from.serial(), step.to.serial());
        let mut renewed = before.unwrap_or(Self { from, to, signatures: 0, earliest: None });
        renewed.to = to;
        for record in step.added.iter().filter(|record| record.rtype == Type::RRSIG) {
            renewed.signatures += 1;
            if let Some(validity) = Validity::of_signature(record.rdata) {
                renewed.earliest = Some(validity.or_earlier(renewed.earliest, now_s));
            }
        }
        renewed
    }

    /// The line for the log. `lasting` is of all signatures that were not made anew the one that expires first.
    pub(super) fn line(
        &self,
        origin: NameRef<'_>,
        signer: &Signer,
        lasting: Option<Validity>,
        now_s: u64,
    ) -> String {
        let earliest =
            self.earliest.or(lasting).map(|validity| validity.or_earlier(lasting, now_s));
        let (from, to, signatures) = (self.from.0, self.to.0, self.signatures);
        let tags = signer.key_tags();
        let next = earliest.map_or(String::new(), |validity| {
            format!(", the next are due in {} h", validity.due_in_s(now_s).div_ceil(HOUR_S))
        });
        format!(
            "zone {origin} is signed again with key tags {tags} before signatures expire: {signatures} signatures, serial {from} to {to}{next}"
        )
    }
}
