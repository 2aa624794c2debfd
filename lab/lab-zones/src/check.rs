//! Whether the rebuilt zones give the answers that were recorded.

use crate::response::{Response, groups};
use crate::trace::Tally;
use crate::zone::{Found, Rrset, Zone};
use nodens_wire::{Name, NameRef, Type};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Records that are written out of an RRset.
const SHOWN: usize = 3;

/// A question to which the rebuilt zones give another answer than was recorded most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Differing {
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Who was asked.
    pub server: IpAddr,
    /// The recorded answer.
    pub recorded: String,
    /// What the zones give.
    pub rebuilt: String,
}

/// How many recorded answers the zones give again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Questions to servers: name, type and server.
    pub questions: usize,
    /// Those with the same answer.
    pub same: usize,
    /// The others.
    pub differing: Vec<Differing>,
}

/// What a response says, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Records(BTreeSet<Vec<u8>>),
    Alias(BTreeSet<Vec<u8>>),
    Redirected(Name),
    Delegated(Name),
    NoData,
    Denied,
    Refused,
}

type Asked = (Name, Type, IpAddr);

pub(crate) fn check(responses: &[(&Response, Tally)], zones: &BTreeMap<Name, Zone>) -> Check {
    let mut recorded: HashMap<Asked, BTreeMap<Said, Tally>> = HashMap::new();
    for (response, tally) in responses {
        if response.qtype == Type::ANY || response.qtype == Type::RRSIG {
            continue;
        }
        let asked = (response.qname.clone(), response.qtype, response.server);
        let said = recorded.entry(asked).or_default();
        said.entry(recorded_answer(response)).and_modify(|all| all.add(*tally)).or_insert(*tally);
    }
    let mut check = Check { questions: recorded.len(), ..Check::default() };
    for ((qname, qtype, server), said) in &recorded {
        let most = said.iter().max_by_key(|(_, tally)| (tally.count, u64::MAX - tally.first));
        let Some((recorded, _)) = most else { continue };
        let rebuilt = rebuilt_answer(zones, *server, qname, *qtype);
        if *recorded == rebuilt {
            check.same += 1;
            continue;
        }
        check.differing.push(Differing {
            name: qname.to_string(),
            rtype: qtype.to_string(),
            server: *server,
            recorded: text(recorded, *qtype),
            rebuilt: text(&rebuilt, *qtype),
        });
    }
    check.differing.sort();
    check
}

fn recorded_answer(response: &Response) -> Said {
    if let Some(zone) = &response.referral {
        return Said::Delegated(zone.clone());
    }
    let answer = groups(&response.answer);
    let of = |rtype: Type| {
        let group =
            answer.iter().find(|group| group.owner == response.qname && group.rtype == rtype);
        group.map(|group| group.rdata.clone())
    };
    let dname = answer.iter().find(|group| {
        let (above, name) = (group.owner.view(), response.qname.view());
        group.rtype == Type::DNAME && above != name && name.is_in_domain(above)
    });
    match (of(response.qtype), dname, of(Type::CNAME)) {
        (Some(records), ..) => Said::Records(records),
        (_, Some(dname), _) => Said::Redirected(dname.owner.clone()),
        (_, _, Some(alias)) => Said::Alias(alias),
        _ if response.is_denial => Said::Denied,
        _ => Said::NoData,
    }
}

/// What a server with the zones says: its deepest zone answers, for DS of an apex the one above.
fn rebuilt_answer(zones: &BTreeMap<Name, Zone>, server: IpAddr, qname: &Name, qtype: Type) -> Said {
    let above = std::iter::successors(Some(qname.view()), |name| name.parent());
    let served: Vec<&Zone> = above
        .filter_map(|name: NameRef<'_>| zones.get(&name.to_name()))
        .filter(|zone| zone.servers.contains(&server))
        .collect();
    let zone = match &*served {
        [] => return Said::Refused,
        [own, parent, ..] if qtype == Type::DS && own.name == *qname => parent,
        [zone, ..] => zone,
    };
    let rdata = |rrset: &Rrset| rrset.rdata.clone();
    match zone.find(qname, qtype) {
        Found::Records(rrset) => Said::Records(rdata(rrset)),
        Found::Alias(rrset) => Said::Alias(rdata(rrset)),
        Found::Redirected(dname) => Said::Redirected(dname.clone()),
        Found::Delegated(cut, _) => Said::Delegated(cut.clone()),
        Found::NoData => Said::NoData,
        Found::Denied => Said::Denied,
    }
}

fn text(said: &Said, qtype: Type) -> String {
    let list = |rtype: Type, rdata: &BTreeSet<Vec<u8>>| {
        let shown: Vec<_> =
            rdata.iter().take(SHOWN).map(|rdata| crate::text::rdata(rtype, rdata)).collect();
        let more = if rdata.len() > SHOWN { " …" } else { "" };
        format!("{rtype} {}{more}", shown.join(", "))
    };
    match said {
        Said::Records(rdata) => list(qtype, rdata),
        Said::Alias(rdata) => list(Type::CNAME, rdata),
        Said::Redirected(dname) => format!("DNAME at {dname}"),
        Said::Delegated(cut) => format!("referral to {cut}"),
        Said::NoData => "NODATA".to_owned(),
        Said::Denied => "NXDOMAIN".to_owned(),
        Said::Refused => "none of the zones is served there".to_owned(),
    }
}
