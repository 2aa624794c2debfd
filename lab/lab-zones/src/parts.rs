//! What the responses say of each zone: RRsets in all their versions, and what is denied.

use crate::cuts::{Cuts, wildcards};
use crate::response::{Group, Response, groups, name_at};
use crate::trace::Tally;
use nodens_wire::{Name, Type};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Octets of RRSIG RDATA in front of the expiration, and of what names the key.
const EXPIRATION_AT: usize = 8;
const KEY_TAG_AT: usize = 16;

/// Where in a response an RRset was, the best place last (RFC 2181 section 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Additional,
    Referral,
    Authority,
    Answer,
}

/// Which of several versions of an RRset is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The one in most responses, the first of several.
    #[default]
    MostCommon,
    /// The one that was seen first.
    First,
    /// The one that was seen last.
    Last,
}

/// An RRset as it was at some time.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) rdata: BTreeSet<Vec<u8>>,
    /// The signature of each key that expires last.
    pub(crate) signatures: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) ttl: u32,
    pub(crate) rank: Rank,
    pub(crate) tally: Tally,
}

pub(crate) type Versions = HashMap<(Name, Type), Vec<Version>>;

/// What is known of a zone.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) data: Versions,
    /// Addresses of servers of other zones, as its referrals have them.
    pub(crate) glue: Versions,
    pub(crate) denied: HashMap<Name, Tally>,
    /// Names that have no records of a type.
    pub(crate) empty: HashMap<(Name, Type), Tally>,
}

/// All zones, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) of: HashMap<Name, Part>,
    /// RRsets of zones that the server has not: in an answer behind a CNAME record, or beside it.
    pub(crate) foreign: u64,
    wildcards: HashMap<(Name, Type), Name>,
    /// Names that a signature showed to come from a wildcard.
    pub(crate) expanded: BTreeMap<Name, BTreeSet<Name>>,
}

impl Parts {
    pub(crate) fn of(responses: &[(&Response, Tally)], cuts: &Cuts) -> Self {
        let all: Vec<_> = responses.iter().map(|(response, _)| *response).collect();
        let mut parts = Self { wildcards: wildcards(&all), ..Self::default() };
        for zone in cuts.names() {
            parts.of.entry(zone).or_default();
        }
        for (response, tally) in responses {
            match &response.referral {
                Some(_) if cuts.is_wrong(response) => {}
                Some(zone) => parts.referral(response, zone, *tally, cuts),
                None => parts.answer(response, *tally, cuts),
            }
        }
        parts
    }

    fn referral(&mut self, response: &Response, zone: &Name, tally: Tally, cuts: &Cuts) {
        let above = zone.view().parent();
        let parent = above.and_then(|above| cuts.served_by(response.server, above));
        let Some(parent) = parent else { return };
        for group in groups(&response.authority) {
            let home = match group.rtype {
                Type::NS | Type::DS if group.owner == *zone => Some(parent.clone()),
                Type::NSEC | Type::NSEC3 => Some(group.signer().unwrap_or_else(|| parent.clone())),
                _ => None,
            };
            match home.filter(|home| cuts.serves(response.server, home)) {
                Some(home) => self.put(home, group, Rank::Referral, tally),
                None => self.foreign += 1,
            }
        }
        self.additional(response, tally, cuts);
    }

    fn answer(&mut self, response: &Response, tally: Tally, cuts: &Cuts) {
        let server = response.server;
        let answer = groups(&response.answer);
        let dnames: Vec<_> = answer
            .iter()
            .filter(|group| group.rtype == Type::DNAME)
            .map(|group| group.owner.clone())
            .collect();
        let made = |group: &Group| {
            let below = |above: &Name| {
                group.owner != *above && group.owner.view().is_in_domain(above.view())
            };
            group.rtype == Type::CNAME && dnames.iter().any(below)
        };
        self.denial(response, &answer, tally, cuts);
        let mut put = |group: Group, rank: Rank| {
            let home = cuts.home(&group.owner, group.rtype, group.signer());
            if cuts.serves(server, &home) {
                self.put(home, group, rank, tally);
            } else {
                self.foreign += 1;
            }
        };
        for group in answer {
            if !made(&group) {
                put(group, Rank::Answer);
            }
        }
        for group in groups(&response.authority) {
            put(group, Rank::Authority);
        }
        self.additional(response, tally, cuts);
    }

    /// Addresses in the additional section: data of the zone that they are in, or glue of one above.
    fn additional(&mut self, response: &Response, tally: Tally, cuts: &Cuts) {
        for group in groups(&response.additional) {
            if !matches!(group.rtype, Type::A | Type::AAAA) {
                continue;
            }
            match cuts.served_by(response.server, group.owner.view()) {
                None => self.foreign += 1,
                Some(zone) if zone == cuts.deepest(group.owner.view()) => {
                    self.put(zone, group, Rank::Additional, tally);
                }
                Some(zone) => {
                    let glue = &mut self.of.entry(zone).or_default().glue;
                    insert(
                        glue,
                        (group.owner.clone(), group.rtype),
                        group,
                        Rank::Additional,
                        tally,
                    );
                }
            }
        }
    }

    fn put(&mut self, zone: Name, group: Group, rank: Rank, tally: Tally) {
        let mut owner = group.owner.clone();
        if group.rtype == Type::SOA && owner != zone {
            self.foreign += 1;
            return;
        }
        // Records that make a zone or a cut come from no wildcard.
        let is_data = !matches!(group.rtype, Type::SOA | Type::NS | Type::DS | Type::DNSKEY);
        if let Some(wildcard) = self.wildcards.get(&(owner.clone(), group.rtype))
            && is_data
            && wildcard.view().is_in_domain(zone.view())
        {
            self.expanded.entry(wildcard.clone()).or_default().insert(owner);
            owner = wildcard.clone();
        }
        let key = (owner, group.rtype);
        insert(&mut self.of.entry(zone).or_default().data, key, group, rank, tally);
    }

    /// What a response says that there is not.
    fn denial(&mut self, response: &Response, answer: &[Group], tally: Tally, cuts: &Cuts) {
        let (name, steps) = response.chain_end();
        let has =
            |rtype: Type| answer.iter().any(|group| group.owner == name && group.rtype == rtype);
        let home = cuts.home(&name, response.qtype, None);
        if response.qtype == Type::ANY || has(response.qtype) || has(Type::CNAME) {
            return;
        }
        if !cuts.serves(response.server, &home) {
            return;
        }
        let part = self.of.entry(home).or_default();
        let once = |seen: &mut Tally| seen.add(tally);
        if response.is_denial {
            part.denied.entry(name).and_modify(once).or_insert(tally);
        } else if steps == 0 || response.authority.iter().any(|record| record.rtype == Type::SOA) {
            part.empty.entry((name, response.qtype)).and_modify(once).or_insert(tally);
        }
    }
}

fn insert(into: &mut Versions, key: (Name, Type), group: Group, rank: Rank, tally: Tally) {
    let versions = into.entry(key).or_default();
    let same = versions.iter_mut().find(|version| version.rdata == group.rdata);
    let version = match same {
        Some(version) => {
            version.tally.add(tally);
            if rank > version.rank {
                (version.rank, version.ttl) = (rank, group.ttl);
            } else if rank == version.rank {
                version.ttl = version.ttl.max(group.ttl);
            }
            version
        }
        None => {
            let (rdata, signatures, ttl) = (group.rdata, BTreeMap::new(), group.ttl);
            versions.push(Version { rdata, signatures, ttl, rank, tally });
            let Some(version) = versions.last_mut() else { return };
            version
        }
    };
    for signature in group.signatures {
        let key = [signature.get(2..3), signature.get(KEY_TAG_AT..KEY_TAG_AT + 2)];
        let key = key.into_iter().flatten().flatten().copied().collect();
        let kept = version.signatures.entry(key).or_default();
        let expires =
            |rrsig: &[u8]| rrsig.get(EXPIRATION_AT..EXPIRATION_AT + 4).map(<[u8]>::to_vec);
        if kept.is_empty() || expires(kept) < expires(&signature) {
            *kept = signature;
        }
    }
}

/// The version that the rule takes, of those in the best place.
pub(crate) fn chosen(versions: &[Version], rule: Rule) -> Option<&Version> {
    let best = versions.iter().map(|version| version.rank).max()?;
    let best = versions.iter().filter(|version| version.rank == best);
    best.max_by_key(|version| weight(version.tally, rule))
}

/// What the rule compares.
pub(crate) fn weight(tally: Tally, rule: Rule) -> (u64, u64) {
    let early = u64::MAX - tally.first;
    match rule {
        Rule::MostCommon => (tally.count, early),
        Rule::First => (early, tally.count),
        Rule::Last => (tally.last, tally.count),
    }
}

/// The name in the RDATA of a CNAME, DNAME or NS record.
pub(crate) fn target(rdata: &[u8]) -> Option<Name> {
    name_at(rdata, 0)
}
