//! From what is known of a zone to its records.

use crate::cuts::Cuts;
use crate::notes::{Conflict, Notes};
use crate::parts::{Part, Parts, Rule, Version, chosen, weight};
use crate::trace::Tally;
use crate::zone::{Rrset, Zone};
use nodens_wire::{Name, Type};
use std::collections::{BTreeMap, HashMap};

/// The zones of which something was recorded, without what is filled in.
pub(crate) fn zones(
    parts: &Parts,
    cuts: &Cuts,
    rule: Rule,
    notes: &mut Notes,
) -> BTreeMap<Name, Zone> {
    let mut zones = BTreeMap::new();
    for name in cuts.names() {
        let Some(part) = parts.of.get(&name) else { continue };
        if part.is_empty() && !name.view().is_root() {
            let what =
                "delegated, and no response of its servers was recorded: not served, as it was";
            notes.drop(&name, what.to_owned());
            continue;
        }
        let mut zone = Zone::new(name.clone());
        zone.servers = cuts.servers(&name);
        let tallies = take(part, &mut zone, rule, notes);
        settle_aliases(&mut zone, &tallies, rule, notes);
        hide_below_dnames(&mut zone, notes);
        add_glue(part, &mut zone, rule);
        fill_nsec3param(&mut zone, notes);
        zones.insert(name, zone);
    }
    for (wildcard, names) in &parts.expanded {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let zone = cuts.deepest(wildcard.view()).to_string();
        let what = format!("{wildcard}, from which {} came", names.join(" "));
        notes.wildcards.push(crate::notes::Note { zone, what });
    }
    zones
}

impl Part {
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.denied.is_empty() && self.empty.is_empty()
    }
}

fn rrset(version: &Version) -> Rrset {
    Rrset {
        ttl: version.ttl,
        rdata: version.rdata.clone(),
        signatures: version.signatures.values().cloned().collect(),
    }
}

type Tallies = HashMap<(Name, Type), Tally>;

/// Copies the chosen version of every RRset.
fn take(part: &Part, zone: &mut Zone, rule: Rule, notes: &mut Notes) -> Tallies {
    let mut tallies = HashMap::new();
    for ((owner, rtype), versions) in &part.data {
        let Some(version) = chosen(versions, rule) else { continue };
        let best: Vec<_> = versions.iter().filter(|other| other.rank == version.rank).collect();
        if best.len() > 1 && *rtype != Type::SOA {
            notes.conflicts.push(Conflict {
                zone: zone.name.to_string(),
                name: owner.to_string(),
                rtype: rtype.to_string(),
                versions: best.len(),
                taken: version.tally.count,
                responses: best.iter().map(|version| version.tally.count).sum(),
            });
        }
        zone.insert(owner.clone(), *rtype, rrset(version));
        tallies.insert((owner.clone(), *rtype), version.tally);
    }
    tallies
}

/// A name has a CNAME record or other data (RFC 2181 section 10.1).
fn settle_aliases(zone: &mut Zone, tallies: &Tallies, rule: Rule, notes: &mut Notes) {
    let tally = |owner: &Name, rtype: Type| tallies.get(&(owner.clone(), rtype)).copied();
    for (owner, rrsets) in &mut zone.records {
        let beside = |rtype: &Type| !matches!(*rtype, Type::CNAME | Type::NSEC | Type::KEY);
        let others: Vec<Type> = rrsets.keys().copied().filter(beside).collect();
        if !rrsets.contains_key(&Type::CNAME) || (others.is_empty() && *owner != zone.name) {
            continue;
        }
        let of = |rtype: Type| tally(owner, rtype).map(|tally| weight(tally, rule));
        let best = others.iter().filter_map(|rtype| of(*rtype)).max();
        let types: Vec<_> = others.iter().map(ToString::to_string).collect();
        if *owner == zone.name || best > of(Type::CNAME) {
            rrsets.remove(&Type::CNAME);
            let beside =
                if *owner == zone.name { "SOA and NS".to_owned() } else { types.join(" ") };
            notes.drop(&zone.name, format!("CNAME of {owner}, which has {beside} as well"));
        } else {
            rrsets.retain(|rtype, _| !beside(rtype));
            notes.drop(
                &zone.name,
                format!("{} of {owner}, which is an alias as well", types.join(" ")),
            );
        }
    }
}

/// Names below a DNAME record are not answered from records of their own (RFC 6672 section 2.4).
fn hide_below_dnames(zone: &mut Zone, notes: &mut Notes) {
    let has = |rrsets: &BTreeMap<Type, Rrset>| rrsets.contains_key(&Type::DNAME);
    let dnames: Vec<Name> = zone
        .records
        .iter()
        .filter(|(_, rrsets)| has(rrsets))
        .map(|(owner, _)| owner.clone())
        .collect();
    for dname in dnames {
        let below = |owner: &Name| *owner != dname && owner.view().is_in_domain(dname.view());
        let hidden: Vec<Name> = zone.records.keys().filter(|owner| below(owner)).cloned().collect();
        for owner in hidden {
            let hashed = |rtype: &Type| *rtype == Type::NSEC3;
            if zone.records.get(&owner).is_some_and(|rrsets| rrsets.keys().all(hashed)) {
                continue;
            }
            zone.records.remove(&owner);
            notes.drop(&zone.name, format!("{owner}, which is below the DNAME record of {dname}"));
        }
    }
}

fn add_glue(part: &Part, zone: &mut Zone, rule: Rule) {
    for ((owner, rtype), versions) in &part.glue {
        if let Some(version) = chosen(versions, rule) {
            zone.insert(owner.clone(), *rtype, Rrset { signatures: Vec::new(), ..rrset(version) });
        }
    }
}

/// A server finds the parameters of hashed names at the apex; resolvers do not ask for them.
fn fill_nsec3param(zone: &mut Zone, notes: &mut Notes) {
    if zone.get(&zone.name, Type::NSEC3PARAM).is_some() {
        return;
    }
    let hashed = zone.records.values().find_map(|rrsets| rrsets.get(&Type::NSEC3));
    let rdata = hashed.and_then(|rrset| rrset.rdata.first());
    let Some(param) = rdata.and_then(|rdata| {
        let salt = usize::from(*rdata.get(4)?);
        let mut param = rdata.get(..5 + salt)?.to_vec();
        // The flag of the records (opt-out) is none of the parameters (RFC 5155 section 4.1.2).
        *param.get_mut(1)? = 0;
        Some(param)
    }) else {
        return;
    };
    zone.insert(zone.name.clone(), Type::NSEC3PARAM, Rrset::unsigned(0, [param]));
    notes.fill(&zone.name, "NSEC3PARAM, as its NSEC3 records have the parameters".to_owned());
}

/// Denials that records contradict: an answer or a name below was recorded as well.
pub(crate) fn check_denials(parts: &Parts, zones: &BTreeMap<Name, Zone>, notes: &mut Notes) {
    for (name, zone) in zones {
        let Some(part) = parts.of.get(name) else { continue };
        for (denied, tally) in &part.denied {
            if zone.exists(denied) {
                let times = tally.count;
                let why = match zone.records.contains_key(denied) {
                    true => "has records",
                    false => "has names below it",
                };
                notes.contradict(name, format!("{denied} was denied {times} times, and {why}"));
            }
        }
        for ((owner, rtype), tally) in &part.empty {
            if zone.get(owner, *rtype).is_some() {
                let times = tally.count;
                notes.contradict(
                    name,
                    format!("{owner} had no {rtype} record {times} times, and has one"),
                );
            }
        }
    }
}

/// Names that a zone must not have, or that must have no records of a type.
pub(crate) fn is_denied(part: &Part, owner: &Name, rtype: Type) -> bool {
    let above = std::iter::successors(Some(owner.view()), |name| name.parent());
    part.empty.contains_key(&(owner.clone(), rtype))
        || above.into_iter().any(|name| part.denied.contains_key(&name.to_name()))
}
