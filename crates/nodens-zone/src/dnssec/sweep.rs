//! Which signatures of a zone have to be made anew: looked for in steps, each of a bounded length.

use super::canonical::Validity;
use super::links::{Hash, hash_in};
use crate::data::Data;
use crate::limits::{SWEEP_DUE_MAX, SWEEP_STEPS};
use crate::zone::{Advance, Cursor};
use nodens_wire::{Name, Type};
use std::collections::BTreeSet;
use std::fmt;

/// What has to be signed again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Names with such signatures.
    pub(super) names: BTreeSet<Name>,
    /// Hashes whose NSEC3 records have them.
    pub(super) hashes: BTreeSet<Hash>,
}

impl Due {
    /// How many names and hashes it consists of.
    pub fn len(&self) -> usize {
        self.names.len() + self.hashes.len()
    }

    /// Whether nothing is due.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Goes through a version, which it keeps.
pub struct Sweep {
    cursor: Box<dyn Cursor>,
    /// The TTL that NSEC and NSEC3 records are to have.
    ttl: u32,
    /// Of the signatures seen that last, the one that expires first.
    lasting: Option<Validity>,
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sweep({} s)", self.ttl)
    }
}

impl Sweep {
    /// Begins at the front.
    pub fn of(data: &Data) -> Self {
        let soa = data.soa();
        Self { cursor: data.cursor(), ttl: soa.record().ttl.min(soa.minimum()), lasting: None }
    }

    /// Of the signatures seen so far that need not be made anew, the one that expires first.
    pub fn lasting(&self) -> Option<Validity> {
        self.lasting
    }

    /// What is due at a time in Unix seconds of the records that come next, and whether there are more.
    pub fn step(&mut self, now_s: u64) -> (Due, bool) {
        let mut due = Due::default();
        for _ in 0..SWEEP_STEPS {
            match self.cursor.advance() {
                Advance::End => return (due, false),
                Advance::Nothing => {}
                Advance::Record => self.look(now_s, &mut due),
            }
            if due.len() >= SWEEP_DUE_MAX {
                break;
            }
        }
        (due, true)
    }

    fn look(&mut self, now_s: u64, due: &mut Due) {
        let Some(record) = self.cursor.record() else { return };
        let is_due = match record.rtype {
            Type::RRSIG => match Validity::of_signature(record.rdata) {
                Some(validity) if validity.lasts(now_s) => {
                    self.lasting = Some(validity.or_earlier(self.lasting, now_s));
                    false
                }
                _ => true,
            },
            Type::NSEC | Type::NSEC3 => record.ttl != self.ttl,
            _ => false,
        };
        if !is_due {
            return;
        }
        let covered = record.rdata.first_chunk().copied().map(u16::from_be_bytes);
        let of_nsec3 = record.rtype == Type::RRSIG && covered == Some(Type::NSEC3.0);
        if of_nsec3 || record.rtype == Type::NSEC3 {
            due.hashes.extend(record.owner.labels().next().and_then(hash_in));
        } else {
            due.names.insert(record.owner.to_name());
        }
    }
}
