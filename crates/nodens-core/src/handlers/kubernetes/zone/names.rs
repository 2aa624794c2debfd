//! The records of a zone, one after the other.

use super::batch::{Batch, is_first, port_labels};
use crate::cluster::{Entry, External, Port, Service, ServiceKind, Slice, Snapshot};
use crate::lookup::compose::Octets;
use crate::lookup::find::{View, ports};
use crate::lookup::records::weight;
use crate::handlers::kubernetes::{VERSION, VERSION_TTL};
use crate::lookup::Rules;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef, Type};
use nodens_zone::{Advance, Cursor, RecordRef};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// What of a cluster a zone shows, and under which names.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Labels between a namespace and the zone, in wire form.
    pub(crate) suffix: &'static [u8],
    /// TTL of addresses, in seconds.
    pub(crate) address_ttl: u32,
    /// TTL of everything else.
    pub(crate) other_ttl: u32,
    /// What can be reached from outside; with `true` the endpoints of headless services too.
    /// `None` for what there is inside.
    pub(crate) outside: Option<bool>,
}

/// Goes through a zone, service by service, endpoint by endpoint. No record comes twice, because
/// not everybody who takes a zone drops what he has already (RFC 2181 section 5).
pub(crate) struct Names {
    rules: Arc<Rules>,
    snapshot: Arc<Snapshot>,
    imports: bool,
    origin: Name,
    scope: Scope,
    services: Box<dyn Iterator<Item = Entry> + Send>,
    /// The headless service that it is at.
    headless: Option<Headless>,
    /// The records of what it is at: a service, or an endpoint.
    pub(crate) batch: Batch,
    /// The record it stands at; none before the first of the batch.
    at: Option<usize>,
}

/// A headless service and the endpoint that is next.
struct Headless {
    entry: Entry,
    service: Arc<Service>,
    slice: usize,
    endpoint: usize,
    /// Weights of the SRV records of the ports of the slice, and of those that name no port.
    weights: Vec<u16>,
    bare_weight: u16,
    /// Endpoints with names of their own and their ports so far: an endpoint has one name for both
    /// of its addresses, and others may have the same.
    named: HashSet<Vec<u8>>,
}

impl Cursor for Names {
    fn advance(&mut self) -> Advance {
        let next = self.at.map_or(0, |at| at + 1);
        if next < self.batch.records.len() {
            self.at = Some(next);
            return Advance::Record;
        }
        self.batch.records.clear();
        self.at = None;
        match self.headless.take() {
            Some(headless) => self.endpoint(headless),
            None => match self.services.next() {
                Some(entry) => self.entry(entry),
                None => return Advance::End,
            },
        }
        Advance::Nothing
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        self.batch.records.get(self.at?).map(RecordRef::from)
    }
}

impl Names {
    /// Goes through the services of `snapshot`, or through its imports, in a zone called `origin`.
    pub(crate) fn new(
        rules: Arc<Rules>,
        snapshot: Arc<Snapshot>,
        imports: bool,
        origin: Name,
        scope: Scope,
    ) -> Self {
        let services: Box<dyn Iterator<Item = Entry> + Send> = match imports {
            true => Box::new(snapshot.each_import()),
            false => Box::new(snapshot.each_service()),
        };
        let (headless, batch, at) = (None, Batch::default(), None);
        Self { rules, snapshot, imports, origin, scope, services, headless, batch, at }
    }

    fn view(&self) -> View<'_> {
        View { rules: &self.rules, snapshot: &self.snapshot, imports: self.imports }
    }

    /// A name below the zone.
    pub(crate) fn below(&self, parts: &[&[u8]]) -> Octets<NAME_LEN_MAX> {
        let mut name = Octets::new();
        parts.iter().for_each(|part| name.push(part));
        name.push(self.origin.as_wire());
        name
    }

    /// What the zone has beside services: NS records, `ns.dns`, `dns-version`.
    pub(super) fn apex(&mut self) {
        let (apex, ns) = (self.below(&[]), self.below(&[b"\x02ns\x03dns"]));
        let mut servers = self.view().name_servers(self.origin.view());
        let ttl = self.scope.other_ttl;
        let mut batch = Batch::default();
        let mut named: Vec<&Name> = Vec::new();
        for (name, _) in &servers {
            if !named.contains(&name) {
                named.push(name);
                batch.push(&apex, (Type::NS, ttl), name.as_wire());
            }
        }
        if named.is_empty() {
            // A zone has to have one (RFC 1035 section 5.2); this is what the SOA record says.
            batch.push(&apex, (Type::NS, ttl), ns.as_slice());
        }
        for (name, address) in &servers {
            // Those of a service in the zone come with the service.
            if ns.name() != Some(name.view()) && !self.shows(name.view()) {
                let mut owner = Octets::new();
                owner.push(name.as_wire());
                batch.address(&owner, ttl, *address);
            }
        }
        servers.sort_by_key(|(_, address)| *address);
        servers.dedup_by_key(|(_, address)| *address);
        servers.iter().for_each(|(_, address)| batch.address(&ns, ttl, *address));
        let version = self.below(&[b"\x0bdns-version"]);
        batch.push(&version, (Type::TXT, VERSION_TTL), VERSION);
        self.batch = batch;
    }

    /// Whether `name` is one of a service that the zone shows, or of its endpoints.
    fn shows(&self, name: NameRef<'_>) -> bool {
        let view = self.view();
        let labels = name.label_count().saturating_sub(self.origin.view().label_count());
        // Endpoint, service, namespace, `svc`; or without the endpoint.
        let mut service = Some(name);
        for _ in 3..labels {
            service = service.and_then(NameRef::parent);
        }
        let key = service.and_then(|service| {
            let len = service.as_wire().len().checked_sub(self.origin.as_wire().len() + 4)?;
            service.as_wire().get(..len)
        });
        let entry = key.and_then(|key| view.entry(key));
        entry.and_then(|entry| Some(self.is_shown(entry, entry.service.as_ref()?))) == Some(true)
    }

    fn is_shown(&self, entry: &Entry, service: &Service) -> bool {
        let view = self.view();
        let mut namespace = Octets::<NAME_LEN_MAX>::new();
        namespace.push_text(service.key.namespace());
        let is_inside = self.scope.outside.is_none();
        let is_empty =
            is_inside && service.kind == ServiceKind::ClusterIp && view.is_ignored(entry);
        // An import without ports has no record at all.
        let is_bare = view.imports
            && service.kind == ServiceKind::ClusterIp
            && service.ports.is_empty();
        view.rules.exposes(view.snapshot, namespace.as_slice()) && !is_empty && !is_bare
    }

    /// Takes up the next service.
    fn entry(&mut self, entry: Entry) {
        let Some(service) = entry.service.clone() else { return };
        if !self.is_shown(&entry, &service) {
            return;
        }
        let is_headless = service.kind == ServiceKind::Headless;
        match (self.scope.outside, &service.kind) {
            (Some(true), _) if is_headless && service.external.is_empty() => {
                self.begin_headless(entry, service);
            }
            (Some(_), _) => self.outside(&service),
            (None, ServiceKind::ExternalName(target)) => {
                let target = target.parse::<IpAddr>().is_err().then(|| Name::parse(target).ok());
                if let Some(target) = target.flatten() {
                    let owner = self.below(&[service.key.as_wire(), self.scope.suffix]);
                    self.batch.push(&owner, (Type::CNAME, self.scope.other_ttl), target.as_wire());
                }
            }
            (None, ServiceKind::ClusterIp) => self.cluster_ips(&service),
            (None, ServiceKind::Headless) => self.begin_headless(entry, service),
        }
    }

    fn begin_headless(&mut self, entry: Entry, service: Arc<Service>) {
        let found = |slice: &Arc<Slice>| slice.len() * slice.ports().len().max(1);
        let bare_weight = weight(entry.slices.iter().map(found).sum());
        self.headless = Some(Headless {
            entry,
            service,
            slice: 0,
            endpoint: 0,
            weights: Vec::new(),
            bare_weight,
            named: HashSet::new(),
        });
    }

    /// The records of a service that has addresses of its own.
    fn cluster_ips(&mut self, service: &Service) {
        let owner = self.below(&[service.key.as_wire(), self.scope.suffix]);
        for address in &service.cluster_ips {
            self.batch.address(&owner, self.scope.address_ttl, *address);
        }
        self.services_at(service, service.cluster_ips.len(), &owner, true);
    }

    /// The records of a service that can be reached from outside.
    fn outside(&mut self, service: &Service) {
        let owner = self.below(&[service.key.as_wire(), self.scope.suffix]);
        let mut addresses = 0;
        for place in &service.external {
            if let External::Address(address) = place {
                addresses += 1;
                self.batch.address(&owner, self.scope.address_ttl, *address);
            }
        }
        let places = service.external.len();
        if addresses > 0 {
            self.services_at(service, places, &owner, true);
        }
        for place in &service.external {
            let External::Host(host) = place else { continue };
            let Ok(host) = Name::parse(host) else { continue };
            let mut target = Octets::new();
            target.push(host.as_wire());
            // What is an alias can be nothing else (RFC 1034 section 3.6.2).
            if places == 1 {
                self.batch.push(&owner, (Type::CNAME, self.scope.other_ttl), host.as_wire());
            }
            self.services_at(service, places, &target, places > 1);
        }
    }

    /// SRV records that lead to one target, of `places` there are.
    fn services_at(
        &mut self,
        service: &Service,
        places: usize,
        target: &Octets<NAME_LEN_MAX>,
        with_bare: bool,
    ) {
        let (ttl, labels) = (self.scope.other_ttl, service.key.as_wire());
        for (index, port) in service.ports.iter().enumerate() {
            let Some(number) = port.number else { continue };
            if !port.name.is_empty() {
                let label = port_labels(port);
                let named = self.below(&[label.as_slice(), labels, self.scope.suffix]);
                let same = ports(&service.ports, port.name.as_bytes(), protocol(port)).count();
                self.batch.service(&named, ttl, (weight(same * places), number), target);
            }
            if with_bare && is_first(&service.ports, index, number) {
                let bare = self.below(&[labels, self.scope.suffix]);
                let weight = weight(service.ports.len() * places);
                self.batch.service(&bare, ttl, (weight, number), target);
            }
        }
    }

    /// The records of the next endpoint of a headless service.
    fn endpoint(&mut self, mut at: Headless) {
        let Some(slice) = at.entry.slices.get(at.slice).cloned() else { return };
        if at.endpoint == 0 {
            at.weights = slice.ports().iter().map(|port| at.weight(port)).collect();
        }
        let Some(endpoint) = slice.endpoint(at.endpoint) else {
            (at.slice, at.endpoint) = (at.slice + 1, 0);
            self.headless = Some(at);
            return;
        };
        at.endpoint += 1;
        let mut own = Octets::new();
        self.rules.push_endpoint(&slice, &endpoint, &mut own);
        let is_named = self.rules.own_name(&endpoint).is_some();
        let again = self.came_before(&at, &slice, endpoint.address);
        if !again {
            let service = self.below(&[at.service.key.as_wire(), self.scope.suffix]);
            self.batch.address(&service, self.scope.address_ttl, endpoint.address);
        }
        if !again || is_named {
            let is_new = |label: &[u8], number: u16| {
                !is_named || at.named.insert([own.as_slice(), label, &number.to_be_bytes()].concat())
            };
            let key = at.service.key.clone();
            let facts = Facts { slice: &slice, weights: &at.weights, bare_weight: at.bare_weight };
            self.own_records(key.as_wire(), own.as_slice(), endpoint.address, &facts, is_new);
        }
        self.headless = Some(at);
    }

    /// The records of an endpoint under its own name, and those that lead there.
    fn own_records(
        &mut self,
        service: &[u8],
        own: &[u8],
        address: IpAddr,
        facts: &Facts<'_>,
        mut is_new: impl FnMut(&[u8], u16) -> bool,
    ) {
        let ttl = self.scope.other_ttl;
        let own = self.below(&[own, service, self.scope.suffix]);
        self.batch.address(&own, self.scope.address_ttl, address);
        let ports = facts.slice.ports();
        for (index, port) in ports.iter().enumerate() {
            let Some(number) = port.number else { continue };
            let label = port_labels(port);
            if !port.name.is_empty() && is_new(label.as_slice(), number) {
                let named = self.below(&[label.as_slice(), service, self.scope.suffix]);
                let weight = facts.weights.get(index).copied().unwrap_or(1);
                self.batch.service(&named, ttl, (weight, number), &own);
            }
            if is_first(ports, index, number) && is_new(&[], number) {
                let bare = self.below(&[service, self.scope.suffix]);
                self.batch.service(&bare, ttl, (facts.bare_weight, number), &own);
            }
        }
    }

    /// Whether an earlier slice of the service has the same address and ports: for a while an
    /// endpoint may be in two.
    fn came_before(&self, at: &Headless, slice: &Slice, address: IpAddr) -> bool {
        let ids = self.snapshot.slice_ids_at(address);
        let places = || ids.clone().filter(|id| id.service == at.service.key);
        // Nearly every address is in one.
        if self.view().imports || places().count() < 2 {
            return false;
        }
        let mut earlier = at.entry.slices.iter().take(at.slice);
        earlier.any(|other| {
            other.ports() == slice.ports() && places().any(|id| id.name == other.id().name)
        })
    }
}

/// What the records of the endpoints of a slice have in common.
struct Facts<'a> {
    slice: &'a Slice,
    weights: &'a [u16],
    bare_weight: u16,
}

impl Headless {
    /// The weight of what is found under a port of the service.
    fn weight(&self, port: &Port) -> u16 {
        let found = |slice: &Arc<Slice>| {
            slice.len() * ports(slice.ports(), port.name.as_bytes(), protocol(port)).count()
        };
        weight(self.entry.slices.iter().map(found).sum())
    }
}

fn protocol(port: &Port) -> &'static [u8] {
    port.protocol.label().as_bytes()
}
