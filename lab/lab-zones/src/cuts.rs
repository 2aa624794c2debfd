//! Which zones there are, and which addresses serve them.

use crate::response::{Response, address, groups, name_at, signer, suffix};
use nodens_wire::{Name, NameRef, Type};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// Labels of a zone that is assumed below the root, where the zone between is unknown.
const ASSUMED_LABELS: usize = 2;

/// The servers of a zone.
#[derive(Debug, Default)]
struct Servers {
    /// Those that were seen answering for it.
    seen: BTreeSet<IpAddr>,
    /// The same, and the addresses of its NS records.
    all: BTreeSet<IpAddr>,
}

/// Zones and their servers, as responses show them.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    zones: HashMap<Name, Servers>,
    /// Servers' names, of the zone itself and of its parent.
    ns: HashMap<Name, BTreeSet<Name>>,
    addresses: HashMap<Name, BTreeSet<IpAddr>>,
    /// Zones that no record shows: a server answered that has none of the zones above.
    pub(crate) assumed: BTreeMap<Name, IpAddr>,
    /// Referrals that lead to a zone which the server should have itself, or to one above it.
    wrong: HashSet<(IpAddr, Name, Name)>,
}

impl Cuts {
    pub(crate) fn of(responses: &[&Response]) -> Self {
        let mut cuts = Self::default();
        cuts.zones.insert(Name::root(), Servers::default());
        responses.iter().for_each(|response| cuts.take_evidence(response));
        cuts.add_servers();
        cuts.settle_referrals(responses);
        cuts.settle_answers(responses);
        cuts.add_servers();
        cuts
    }

    /// What a response says by itself.
    fn take_evidence(&mut self, response: &Response) {
        let server = response.server;
        for record in response.answer.iter().chain(&response.additional) {
            if let Some(address) = address(record.rtype, &record.rdata) {
                self.addresses.entry(record.owner.clone()).or_default().insert(address);
            }
        }
        if let Some(zone) = &response.referral {
            self.zones.entry(zone.clone()).or_default();
        }
        let (end, _) = response.chain_end();
        let of_names =
            |zone: NameRef<'_>| [&response.qname, &end].iter().any(|n| n.view().is_in_domain(zone));
        for (record, is_answer) in response
            .answer
            .iter()
            .map(|record| (record, true))
            .chain(response.authority.iter().map(|record| (record, false)))
        {
            if record.rtype == Type::NS {
                self.take_ns(&record.owner, &record.rdata);
            }
            let zone = match record.rtype {
                Type::SOA | Type::DNSKEY | Type::NSEC3PARAM => Some(record.owner.clone()),
                Type::NS if response.referral.is_none() => Some(record.owner.clone()),
                Type::RRSIG => signer(&record.rdata),
                Type::NSEC3 => record.owner.view().parent().map(NameRef::to_name),
                Type::DS => {
                    self.zones.entry(record.owner.clone()).or_default();
                    None
                }
                _ => None,
            };
            let Some(zone) = zone.filter(|zone| record.owner.view().is_in_domain(zone.view()))
            else {
                continue;
            };
            // What an answer holds of a zone beside the name's own may come from a cache.
            if of_names(zone.view()) && (!is_answer || record.owner == response.qname) {
                self.zones.entry(zone).or_default().seen.insert(server);
            }
        }
    }

    fn take_ns(&mut self, zone: &Name, rdata: &[u8]) {
        if let Some(host) = name_at(rdata, 0) {
            self.ns.entry(zone.clone()).or_default().insert(host);
        }
    }

    /// Adds the addresses of NS records to those that were seen.
    fn add_servers(&mut self) {
        for (zone, servers) in &mut self.zones {
            servers.all = servers.seen.clone();
            for host in self.ns.get(zone).into_iter().flatten() {
                servers.all.extend(self.addresses.get(host).into_iter().flatten());
            }
        }
    }

    /// Finds wrong referrals, and gives the others' servers a zone above the one that they lead to.
    fn settle_referrals(&mut self, responses: &[&Response]) {
        for response in responses {
            let Some(zone) = &response.referral else { continue };
            let own = self.served_by(response.server, response.qname.view());
            if own.is_some_and(|own| own.view().is_in_domain(zone.view())) {
                let key = (response.server, zone.clone(), response.qname.clone());
                self.wrong.insert(key);
                continue;
            }
            let Some(above) = zone.view().parent() else { continue };
            if self.served_by(response.server, above).is_none() {
                let parent = self.deepest(above);
                self.add(parent, response.server);
            }
        }
    }

    /// Gives servers that answered with authority a zone that the answers belong to.
    fn settle_answers(&mut self, responses: &[&Response]) {
        let mut all: Vec<_> =
            responses.iter().filter(|response| response.referral.is_none()).collect();
        all.sort_by_key(|response| response.qname.view().label_count());
        for response in all {
            let (server, name) = (response.server, response.qname.view());
            let zone = self.deepest(name);
            if self.serves(server, &zone) {
                continue;
            }
            let is_ds_of_cut = response.qtype == Type::DS && zone == response.qname;
            if let Some(above) = name.parent().filter(|_| is_ds_of_cut) {
                let parent = self.deepest(above);
                if self.serves(server, &parent) {
                    continue;
                }
            }
            if zone.view() == name || (!zone.view().is_root() && self.lacks_addresses(&zone)) {
                self.add(zone, server);
                continue;
            }
            let labels = match zone.view().label_count() {
                0 => ASSUMED_LABELS.min(name.label_count()),
                count => count + 1,
            };
            let Some(assumed) = suffix(name, labels) else { continue };
            self.assumed.entry(assumed.clone()).or_insert(server);
            self.add(assumed, server);
        }
    }

    /// Whether a zone may have servers of which no address was recorded.
    fn lacks_addresses(&self, zone: &Name) -> bool {
        self.ns
            .get(zone)
            .is_none_or(|hosts| hosts.iter().any(|host| !self.addresses.contains_key(host)))
    }

    pub(crate) fn add(&mut self, zone: Name, server: IpAddr) {
        let servers = self.zones.entry(zone).or_default();
        servers.seen.insert(server);
        servers.all.insert(server);
    }

    pub(crate) fn is_wrong(&self, response: &Response) -> bool {
        let zone = response.referral.clone().unwrap_or_default();
        self.wrong.contains(&(response.server, zone, response.qname.clone()))
    }

    pub(crate) fn has(&self, zone: &Name) -> bool {
        self.zones.contains_key(zone)
    }

    pub(crate) fn names(&self) -> Vec<Name> {
        let mut names: Vec<_> = self.zones.keys().cloned().collect();
        names.sort_by_cached_key(|name| (name.view().label_count(), name.to_string()));
        names
    }

    /// The addresses that serve a zone.
    pub(crate) fn servers(&self, zone: &Name) -> BTreeSet<IpAddr> {
        self.zones.get(zone).map(|servers| servers.all.clone()).unwrap_or_default()
    }

    pub(crate) fn serves(&self, server: IpAddr, zone: &Name) -> bool {
        self.zones.get(zone).is_some_and(|servers| servers.all.contains(&server))
    }

    /// All addresses of a name that were recorded.
    pub(crate) fn addresses_of(&self, host: &Name) -> BTreeSet<IpAddr> {
        self.addresses.get(host).cloned().unwrap_or_default()
    }

    /// The deepest zone that a name is in.
    pub(crate) fn deepest(&self, name: NameRef<'_>) -> Name {
        self.find(name, |_| true).unwrap_or_else(Name::root)
    }

    /// The deepest of a server's zones that a name is in.
    pub(crate) fn served_by(&self, server: IpAddr, name: NameRef<'_>) -> Option<Name> {
        self.find(name, |servers| servers.all.contains(&server))
    }

    fn find(&self, name: NameRef<'_>, fits: impl Fn(&Servers) -> bool) -> Option<Name> {
        std::iter::successors(Some(name), |name| name.parent())
            .map(NameRef::to_name)
            .find(|name| self.zones.get(name).is_some_and(&fits))
    }

    /// The zone whose data an RRset is: the one of its signature, else the deepest, and the parent's for DS.
    pub(crate) fn home(&self, owner: &Name, rtype: Type, signer: Option<Name>) -> Name {
        if let Some(signer) = signer.filter(|signer| self.has(signer)) {
            return signer;
        }
        match owner.view().parent() {
            Some(above) if rtype == Type::DS && self.has(owner) => self.deepest(above),
            _ => self.deepest(owner.view()),
        }
    }
}

/// The wildcards that signatures show, by the owner and type that were answered.
pub(crate) fn wildcards(responses: &[&Response]) -> HashMap<(Name, Type), Name> {
    let sections = responses.iter().flat_map(|response| [&response.answer, &response.authority]);
    let all = sections.flat_map(|section| groups(section));
    all.filter_map(|group| Some(((group.owner.clone(), group.rtype), group.wildcard()?))).collect()
}
