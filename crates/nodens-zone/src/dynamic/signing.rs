//! Signatures of zones that are updated: with each update, before they expire, and anew with other keys.

use super::{Done, DynamicZone, lock};
use crate::data::{Data, Difference, Refused};
use crate::dnssec::{Due, SignZoneError, Signer, is_made};
use crate::journal::Step;
use crate::limits::RESIGNED_NAMES_MAX;
use crate::update::{Next, Verdict, size};
use crate::zone::RecordRef;
use nodens_wire::{Rcode, Record, Type};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Octets of SOA RDATA from the serial number on.
const SOA_NUMBERS: usize = 20;

/// A version signed as a whole, or without signatures, and the one that it was made of.
#[derive(Debug)]
pub struct Whole {
    /// The version that was served when the work began.
    pub of: Data,
    /// What was made of it.
    pub data: Data,
    /// What has signed it.
    pub signer: Option<Arc<Signer>>,
}

impl DynamicZone {
    /// What signed it as a whole, and signs what changes.
    pub fn signer(&self) -> Option<Arc<Signer>> {
        lock(&self.changes).signer.clone()
    }

    /// Has what changes signed from now on, and the zone shown. The version that is served has been signed so, or is not
    /// and there are to be no signatures.
    pub fn set_signer(&self, signer: Option<Arc<Signer>>) {
        lock(&self.changes).signer = signer;
        if self.is_unready.swap(false, Ordering::AcqRel) {
            self.shown.announce();
        }
    }

    /// Keeps a zone that has no signatures from being shown until it has.
    pub fn wait_for_signatures(&self) {
        let has_keys = |data: &Data| data.apex(Type::DNSKEY).is_some();
        if !self.served.load().as_deref().is_some_and(has_keys) {
            self.is_unready.store(true, Ordering::Release);
        }
    }

    /// Whether it is not shown, as it is not signed yet.
    pub fn is_unready(&self) -> bool {
        self.is_unready.load(Ordering::Acquire)
    }

    /// Whether it is signed with keys that are not there: a change could not be signed.
    pub fn lacks_signer(&self) -> bool {
        let is_signed = |data: &Data| data.apex(Type::DNSKEY).is_some();
        self.signer().is_none() && self.served.load().as_deref().is_some_and(is_signed)
    }

    /// Makes signatures that are due anew, in another version, which `save` keeps before it is served.
    pub fn renew(
        &self,
        due: &Due,
        now_s: u64,
        save: impl FnOnce(&Data, &Arc<Step>) -> Result<(), String>,
    ) -> Done {
        let _alone = lock(&self.turn);
        let mut done = Done::default();
        let (Some((before, size)), Some(signer)) = (self.data(), self.signer()) else {
            return done;
        };
        let times = (now_s, RESIGNED_NAMES_MAX);
        let made =
            counted(&before, &before).and_then(|next| signer.resign((&before, next), due, times));
        match made {
            Ok(data) => _ = self.keep(&before, Next { data, size }, save, &mut done),
            Err(error) => done.errors.push(self.unsigned(&error)),
        }
        done
    }

    /// Serves what was signed as a whole, with all that has changed since the work began, and has changes signed in the
    /// same way from now on. `save` keeps it before.
    pub fn turn_to(
        &self,
        whole: &Whole,
        now_s: u64,
        save: impl FnOnce(&Data, &Arc<Step>) -> Result<(), String>,
    ) -> Done {
        let _alone = lock(&self.turn);
        let mut done = Done::default();
        let Some((before, _)) = self.data() else { return done };
        let signer = whole.signer.as_deref();
        let made = caught_up(whole, &before).and_then(|next| match signer {
            Some(signer) => {
                signer.resign((&whole.data, next), &Due::default(), (now_s, usize::MAX))
            }
            None => Ok(next),
        });
        match made {
            Ok(data) => {
                let size = size(&data);
                if self.keep(&before, Next { data, size }, save, &mut done) {
                    self.set_signer(whole.signer.clone());
                }
            }
            Err(error) => done.errors.push(self.unsigned(&error)),
        }
        done
    }

    fn unsigned(&self, error: &SignZoneError) -> String {
        format!("signing zone {} failed: {error}", self.origin)
    }
}

/// `whole` with what has changed in the zone itself until `now`, and the serial number behind that.
fn caught_up(whole: &Whole, now: &Data) -> Result<Data, SignZoneError> {
    let Difference { removed, added, .. } = Difference::between(&whole.of, now);
    let mut edit = whole.data.edit();
    let own = |record: &&Record| !is_made(record.rtype);
    removed.iter().filter(own).for_each(|record| _ = edit.remove(record.into()));
    for record in added.iter().filter(own) {
        edit.add(record.into())?;
    }
    counted(&edit.finish()?, now)
}

/// A version with the serial number behind that of `before`, whose SOA record it has.
fn counted(data: &Data, before: &Data) -> Result<Data, SignZoneError> {
    let soa = before.soa().record();
    let mut rdata = soa.rdata.clone();
    // Never 0 (RFC 2136 section 7.11).
    let serial = before.soa().serial().0.wrapping_add(1).max(1);
    let at = rdata.len().saturating_sub(SOA_NUMBERS);
    if let Some(slot) = rdata.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *slot = serial.to_be_bytes();
    }
    let mut edit = data.edit();
    edit.add(RecordRef { rdata: &rdata, ..RecordRef::from(soa) })?;
    Ok(edit.finish()?)
}

/// The verdict with the signatures of the version that it makes.
pub(super) fn signed(
    verdict: Verdict,
    before: &Data,
    signer: Option<&Signer>,
    now_s: u64,
) -> Verdict {
    let Verdict { next: Some(Next { data, size }), rcode, reason } = verdict else {
        return verdict;
    };
    let times = (now_s, RESIGNED_NAMES_MAX);
    let made = match signer {
        Some(signer) => signer.resign((before, data), &Due::default(), times),
        None => Ok(data),
    };
    match made {
        Ok(data) => Verdict { rcode, next: Some(Next { data, size }), reason },
        Err(error) => {
            // The zone has no room for them, or the update is too much at once.
            let is_clients = match &error {
                SignZoneError::Refused(why) => *why != Refused::NoRoom,
                error => matches!(error, SignZoneError::TooManyNames(_)),
            };
            let rcode = if is_clients { Rcode::REFUSED } else { Rcode::SERVFAIL };
            Verdict::failed(rcode, format!("signing: {error}"))
        }
    }
}
