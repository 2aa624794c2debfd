//! What has to be so for an update to be done (RFC 2136 sections 2.4 and 3.2).

use super::types::{Kind, is_known, is_meta};
use crate::data::{Data, is_same};
use nodens_wire::{Class, Name, Rcode, Record, Type};
use std::collections::HashMap;

/// Looks at each prerequisite in its order, and at RRsets with their values at last.
///
/// # Errors
/// The RCODE of the response.
pub(super) fn check(data: &Data, prerequisites: &[Record]) -> Result<(), Rcode> {
    let mut values: HashMap<(&Name, Type), Vec<&[u8]>> = HashMap::new();
    for record in prerequisites {
        let Record { owner, rtype, class, ttl, rdata } = record;
        if *ttl != 0 {
            return Err(Rcode::FORMERR);
        }
        if !owner.view().is_in_domain(data.origin()) {
            return Err(Rcode::NOTZONE);
        }
        if !Kind::of(data).can_have(*rtype) {
            return Err(Rcode::NOTIMP);
        }
        let is_name = *rtype == Type::ANY;
        let can_stand = is_known(*rtype) && (!is_meta(*rtype) || is_name && *class != Class::IN);
        let is_bare = *class == Class::IN || rdata.is_empty();
        if !can_stand || !is_bare {
            return Err(Rcode::FORMERR);
        }
        let exists = || match is_name {
            true => data.rrsets(owner.view()).next().is_some(),
            false => data.rrset(owner.view(), *rtype).is_some(),
        };
        match (*class, is_name) {
            (Class::ANY, true) if !exists() => return Err(Rcode::NXDOMAIN),
            (Class::ANY, false) if !exists() => return Err(Rcode::NXRRSET),
            (Class::NONE, true) if exists() => return Err(Rcode::YXDOMAIN),
            (Class::NONE, false) if exists() => return Err(Rcode::YXRRSET),
            (Class::ANY | Class::NONE, _) => {}
            (Class::IN, _) => values.entry((owner, *rtype)).or_default().push(rdata),
            _ => return Err(Rcode::FORMERR),
        }
    }
    let holds = |((owner, rtype), wanted)| has_values(data, owner, rtype, wanted);
    if values.into_iter().all(holds) { Ok(()) } else { Err(Rcode::NXRRSET) }
}

/// Whether the RRset has exactly these records, whatever their TTL.
fn has_values(data: &Data, owner: &Name, rtype: Type, wanted: Vec<&[u8]>) -> bool {
    let Some(rrset) = data.rrset(owner.view(), rtype) else { return false };
    let mut unique: Vec<&[u8]> = Vec::new();
    for rdata in wanted {
        if !unique.iter().any(|known| is_same(rtype, known, rdata)) {
            unique.push(rdata);
        }
    }
    let is_wanted = |record: &[u8]| unique.iter().any(|known| is_same(rtype, known, record));
    usize::from(rrset.count()) == unique.len() && rrset.iter().all(|record| is_wanted(record.rdata))
}
