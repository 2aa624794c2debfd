//! What a resolver needs and no response had: SOA and NS records, delegations, addresses of servers, and what
//! makes names without records exist.

use crate::build::is_denied;
use crate::cuts::Cuts;
use crate::notes::Notes;
use crate::parts::{Part, Parts, target};
use crate::zone::{Found, Rrset, Zone};
use nodens_wire::{Name, Type};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// TTL of what is filled in.
const TTL: u32 = 300;
/// Refresh, retry, expire and minimum of a SOA record that is filled in, with the serial in front.
const SOA_NUMBERS: [u32; 5] = [1, 7_200, 3_600, 1_209_600, 300];
/// `a.root-servers.net`: an address that resolvers have for the root.
const ROOT_SERVER: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 4);
const ROOT_HOST: &str = "a.root-servers.net";
/// RDATA of a TXT record: a string of nine octets.
const PLACEHOLDER: &[u8] = b"\x09filled in";

/// Fills in what is missing.
pub(crate) fn fill(
    zones: &mut BTreeMap<Name, Zone>,
    parts: &Parts,
    cuts: &Cuts,
    notes: &mut Notes,
) {
    let names: Vec<Name> = zones.keys().cloned().collect();
    for name in &names {
        servers_names(zones, name, notes);
    }
    let mut hosts = Hosts { parts, cuts, added: BTreeMap::new() };
    for name in &names {
        hosts.find_addresses(zones, name, notes);
    }
    for name in &names {
        hosts.place_addresses(zones, name, notes);
        let added = |host: &Name| hosts.added.get(host).into_iter().flatten().copied();
        let hosts: BTreeSet<Name> = servers_of(zones, name);
        if let Some(zone) = zones.get_mut(name) {
            zone.servers.extend(hosts.iter().flat_map(added));
        }
    }
    for (name, at) in &cuts.assumed {
        let what = format!(
            "the zone itself: {at} answered for names in it, and no record names their zone"
        );
        notes.fill(name, what);
    }
    for zone in zones.values_mut() {
        soa(zone, notes);
        if let Some(part) = parts.of.get(&zone.name) {
            names_without_records(zone, part, notes);
        }
    }
}

/// The zone above `name` that was rebuilt.
fn parent<'z>(zones: &'z BTreeMap<Name, Zone>, name: &Name) -> Option<&'z Name> {
    let mut above = name.view().parent();
    while let Some(name) = above {
        if let Some((parent, _)) = zones.get_key_value(&name.to_name()) {
            return Some(parent);
        }
        above = name.parent();
    }
    None
}

/// NS records at the apex and in the zone above.
fn servers_names(zones: &mut BTreeMap<Name, Zone>, name: &Name, notes: &mut Notes) {
    let above = parent(zones, name).cloned();
    let of = |zone: Option<&Zone>| zone.and_then(|zone| zone.get(name, Type::NS)).cloned();
    let (own, delegated) =
        (of(zones.get(name)), of(above.as_ref().and_then(|above| zones.get(above))));
    let invented = || {
        let host = match name.view().is_root() {
            true => Name::parse(ROOT_HOST).unwrap_or_default(),
            false => own_host(name),
        };
        Rrset::unsigned(TTL, [host.as_wire().to_vec()])
    };
    let rrset = match (&own, &delegated) {
        (Some(own), _) => own.clone(),
        (None, Some(delegated)) => {
            notes.fill(name, "NS records, those of its delegation".to_owned());
            Rrset { signatures: Vec::new(), ..delegated.clone() }
        }
        (None, None) => {
            notes.fill(name, "NS records, invented".to_owned());
            invented()
        }
    };
    if own.is_none()
        && let Some(zone) = zones.get_mut(name)
    {
        zone.insert(name.clone(), Type::NS, rrset.clone());
    }
    if delegated.is_none()
        && let Some(above) = above
        && let Some(zone) = zones.get_mut(&above)
    {
        let between = name.view().label_count() - above.view().label_count() > 1;
        let why = if between { ", as the zones between were not recorded" } else { "" };
        notes.fill(&above, format!("the delegation of {name}{why}"));
        zone.insert(name.clone(), Type::NS, Rrset { signatures: Vec::new(), ..rrset });
    }
}

/// A name for a server, within its own zone.
fn own_host(zone: &Name) -> Name {
    let label = Name::parse("ns-filled-in").unwrap_or_default();
    label.join(zone.view()).unwrap_or_default()
}

/// The hosts in the NS records of a zone, its own and those of the delegation.
fn servers_of(zones: &BTreeMap<Name, Zone>, name: &Name) -> BTreeSet<Name> {
    let above = parent(zones, name).and_then(|above| zones.get(above));
    let both = [zones.get(name), above].into_iter().flatten();
    let rrsets = both.filter_map(|zone| zone.get(name, Type::NS));
    rrsets.flat_map(|rrset| rrset.rdata.iter()).filter_map(|rdata| target(rdata)).collect()
}

struct Hosts<'a> {
    parts: &'a Parts,
    cuts: &'a Cuts,
    /// Addresses that no response had for the name.
    added: BTreeMap<Name, BTreeSet<IpAddr>>,
}

impl Hosts<'_> {
    fn addresses(&self, host: &Name) -> BTreeSet<IpAddr> {
        let mut all = self.cuts.addresses_of(host);
        all.extend(self.added.get(host).into_iter().flatten());
        all
    }

    /// Makes sure that one server of the zone has an address.
    fn find_addresses(&mut self, zones: &BTreeMap<Name, Zone>, name: &Name, notes: &mut Notes) {
        let hosts = servers_of(zones, name);
        if hosts.iter().any(|host| !self.addresses(host).is_empty()) {
            return;
        }
        let mut servers = self.cuts.servers(name);
        if servers.is_empty() && name.view().is_root() {
            servers.insert(ROOT_SERVER.into());
        }
        let fits = |host: &&Name| !self.is_denied(host);
        let Some(host) = hosts.iter().find(fits).or(hosts.first()) else { return };
        if servers.is_empty() {
            notes.drop(
                name,
                "no address of its servers is known: no resolver will find it".to_owned(),
            );
            return;
        }
        let shown: Vec<_> = servers.iter().map(ToString::to_string).collect();
        notes.fill(name, format!("{} as the address of its server {host}", shown.join(" and ")));
        self.added.entry(host.clone()).or_default().extend(servers);
    }

    fn is_denied(&self, host: &Name) -> bool {
        let home = self.cuts.deepest(host.view());
        let part = self.parts.of.get(&home);
        part.is_some_and(|part| {
            [Type::A, Type::AAAA].into_iter().all(|rtype| is_denied(part, host, rtype))
        })
    }

    /// Puts the addresses of the zone's servers where a resolver looks for them: into the zone of their name,
    /// and beside the delegation.
    fn place_addresses(&self, zones: &mut BTreeMap<Name, Zone>, name: &Name, notes: &mut Notes) {
        let above = parent(zones, name).cloned();
        for host in servers_of(zones, name) {
            let addresses = self.addresses(&host);
            if addresses.is_empty() {
                continue;
            }
            let home = self.home(zones, &host);
            self.add(zones, &home, &host, &addresses, notes);
            let glue = above.as_ref().filter(|_| host.view().is_in_domain(name.view()));
            if let Some(above) = glue.filter(|above| **above != home) {
                self.add(zones, above, &host, &addresses, notes);
            }
        }
    }

    /// The deepest rebuilt zone that a name is in.
    fn home(&self, zones: &BTreeMap<Name, Zone>, host: &Name) -> Name {
        if zones.contains_key(host) { Some(host) } else { parent(zones, host) }
            .cloned()
            .unwrap_or_default()
    }

    fn add(
        &self,
        zones: &mut BTreeMap<Name, Zone>,
        into: &Name,
        host: &Name,
        addresses: &BTreeSet<IpAddr>,
        notes: &mut Notes,
    ) {
        let Some(zone) = zones.get_mut(into) else { return };
        let is_alias = zone.get(host, Type::CNAME).is_some();
        for rtype in [Type::A, Type::AAAA] {
            let rdata: BTreeSet<Vec<u8>> = addresses
                .iter()
                .filter_map(|address| match address {
                    IpAddr::V4(v4) if rtype == Type::A => Some(v4.octets().to_vec()),
                    IpAddr::V6(v6) if rtype == Type::AAAA => Some(v6.octets().to_vec()),
                    _ => None,
                })
                .collect();
            let denied = self.parts.of.get(into).is_some_and(|part| is_denied(part, host, rtype));
            let is_added = self.added.contains_key(host);
            if rdata.is_empty()
                || is_alias
                || zone.get(host, rtype).is_some()
                || (denied && !is_added)
            {
                continue;
            }
            notes.fill(into, format!("{rtype} of the server {host}"));
            zone.insert(host.clone(), rtype, Rrset::unsigned(TTL, rdata));
        }
    }
}

/// A name of which only NODATA was recorded has records of other types, or names below it. Without either it
/// would be denied: resolvers would take all that is below it for denied as well (RFC 8020).
fn names_without_records(zone: &mut Zone, part: &Part, notes: &mut Notes) {
    let mut names: Vec<&(Name, Type)> = part.empty.keys().collect();
    // The deepest first: they make those above them exist.
    names.sort_by_key(|(name, rtype)| (Reverse(name.view().label_count()), name, rtype.0));
    for (name, rtype) in names {
        // An asterisk that exists would answer for all names beside it (RFC 4592 section 2.2.2).
        let is_wildcard = name.view().labels().any(|label| label == b"*");
        let is_denied = part.denied.contains_key(name);
        if is_wildcard || is_denied || !matches!(zone.find(name, *rtype), Found::Denied) {
            continue;
        }
        let below = Name::parse("filled-in").and_then(|label| label.join(name.view()));
        let Ok(below) = below else { continue };
        notes.fill(&zone.name, format!("{below}, so that {name} exists, which had no records"));
        zone.insert(below, Type::TXT, Rrset::unsigned(TTL, [PLACEHOLDER.to_vec()]));
    }
}

/// A zone has a SOA record (RFC 1035 section 5.2).
fn soa(zone: &mut Zone, notes: &mut Notes) {
    if zone.get(&zone.name, Type::SOA).is_some() {
        return;
    }
    let apex = zone.get(&zone.name, Type::NS);
    let mname = apex.and_then(|rrset| rrset.rdata.first()).cloned().unwrap_or_else(|| vec![0]);
    let rname = Name::parse("hostmaster").and_then(|label| label.join(zone.name.view()));
    let mut rdata = mname;
    rdata.extend_from_slice(rname.unwrap_or_default().as_wire());
    rdata.extend(SOA_NUMBERS.iter().flat_map(|number| number.to_be_bytes()));
    zone.insert(zone.name.clone(), Type::SOA, Rrset::unsigned(TTL, [rdata]));
    notes.fill(&zone.name, "the SOA record, with serial 1".to_owned());
}
