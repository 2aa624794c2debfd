//! How far a resolver that validates (RFC 4035 section 5) gets in the rebuilt zones.
//!
//! Signatures are not computed: what is told is which parts of the chain from the root's keys are there.

use crate::denial::{is_signed, proves_unsigned};
use crate::notes::Note;
use crate::zone::{Rrset, Zone};
use nodens_wire::{Name, Type};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Octets of RRSIG RDATA before the expiration, which is followed by the inception.
const EXPIRATION_AT: usize = 8;

/// What a resolver that has the keys of the recorded root can validate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Validation {
    /// Zones with signatures.
    pub signed: usize,
    /// Zones that it validates.
    pub secure: Vec<String>,
    /// Zones that are proven to be unsigned, by a zone that it validates.
    pub insecure: Vec<String>,
    /// Zones whose answers it rejects, and why.
    pub rejected: Vec<Note>,
    /// Records in zones that it validates which have no signature: it rejects them.
    pub unsigned: Vec<Note>,
    /// Seconds since 1970 from which on all signatures of the zones that it validates are valid.
    pub valid_from: Option<u64>,
    /// Seconds since 1970 until which they are.
    pub valid_until: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Secure,
    Insecure,
    Rejected,
}

pub(crate) fn validation(zones: &BTreeMap<Name, Zone>) -> Validation {
    let mut found = Validation {
        signed: zones.values().filter(has_signatures).count(),
        ..Validation::default()
    };
    if found.signed == 0 {
        return found;
    }
    let mut ordered: Vec<&Zone> = zones.values().collect();
    ordered.sort_by_cached_key(|zone| (zone.name.view().label_count(), zone.name.to_string()));
    let mut states: BTreeMap<&Name, State> = BTreeMap::new();
    for zone in ordered {
        let above = above(zones, &zone.name);
        let state = match above.and_then(|above| Some((above, *states.get(&above.name)?))) {
            Some((_, State::Insecure)) => Ok(State::Insecure),
            Some((above, State::Rejected)) => Err(format!("below {}", above.name)),
            Some((above, State::Secure)) => below(above, zone),
            None => keys(zone),
        };
        let name = zone.name.to_string();
        let state = state.unwrap_or_else(|what| {
            found.rejected.push(Note { zone: name.clone(), what });
            State::Rejected
        });
        match state {
            State::Secure => {
                found.secure.push(name);
                found.look_at(zone);
            }
            State::Insecure => found.insecure.push(name),
            State::Rejected => {}
        }
        states.insert(&zone.name, state);
    }
    found
}

fn has_signatures(zone: &&Zone) -> bool {
    zone.records.values().flat_map(BTreeMap::values).any(is_signed)
}

/// The nearest zone above.
fn above<'z>(zones: &'z BTreeMap<Name, Zone>, name: &Name) -> Option<&'z Zone> {
    let mut above = std::iter::successors(name.view().parent(), |name| name.parent());
    above.find_map(|name| zones.get(&name.to_name()))
}

/// Whether a zone has its keys.
fn keys(zone: &Zone) -> Result<State, String> {
    match zone.get(&zone.name, Type::DNSKEY) {
        None => Err("its DNSKEY records were not recorded".to_owned()),
        Some(rrset) if !is_signed(rrset) => {
            Err("its DNSKEY records were recorded without a signature".to_owned())
        }
        Some(_) => Ok(State::Secure),
    }
}

/// A zone below one that is validated.
fn below(above: &Zone, zone: &Zone) -> Result<State, String> {
    let name = &above.name;
    match above.get(&zone.name, Type::DS) {
        Some(rrset) if is_signed(rrset) => keys(zone),
        Some(_) => Err(format!("its DS records in {name} were recorded without a signature")),
        None if proves_unsigned(above, &zone.name) => Ok(State::Insecure),
        None => Err(format!(
            "neither its DS records nor a proof that it has none were recorded of {name}"
        )),
    }
}

impl Validation {
    /// Takes in the records of a zone that is validated.
    fn look_at(&mut self, zone: &Zone) {
        let mut unsigned: BTreeMap<Type, Vec<String>> = BTreeMap::new();
        for (owner, rrsets) in &zone.records {
            for (rtype, rrset) in rrsets {
                self.narrow(rrset);
                if !is_signed(rrset) && !is_beside(zone, owner, *rtype) {
                    unsigned.entry(*rtype).or_default().push(owner.to_string());
                }
            }
        }
        for (rtype, owners) in unsigned {
            let what = format!("{rtype} of {}", owners.join(" "));
            self.unsigned.push(Note { zone: zone.name.to_string(), what });
        }
    }

    /// A resolver needs one of the signatures of an RRset.
    fn narrow(&mut self, rrset: &Rrset) {
        let time = |rrsig: &Vec<u8>, at: usize| {
            let octets = rrsig.get(at..)?.first_chunk()?;
            Some(u64::from(u32::from_be_bytes(*octets)))
        };
        let of = |at: usize| rrset.signatures.iter().filter_map(move |rrsig| time(rrsig, at));
        if let (Some(from), Some(until)) = (of(EXPIRATION_AT + 4).min(), of(EXPIRATION_AT).max()) {
            self.valid_from = Some(self.valid_from.map_or(from, |other| other.max(from)));
            self.valid_until = Some(self.valid_until.map_or(until, |other| other.min(until)));
        }
    }
}

/// Records that are never signed: delegations and glue. Resolvers do not ask for NSEC3PARAM records.
fn is_beside(zone: &Zone, owner: &Name, rtype: Type) -> bool {
    if rtype == Type::NSEC3PARAM {
        return true;
    }
    let mut names = std::iter::successors(Some(owner.view()), |name| name.parent());
    let cut = names
        .by_ref()
        .take_while(|name| *name != zone.name.view())
        .map(|name| name.to_name())
        .filter(|name| zone.get(name, Type::NS).is_some())
        .last();
    match cut {
        None => false,
        Some(cut) => cut != *owner || !matches!(rtype, Type::DS | Type::NSEC),
    }
}
