//! What a cluster has under a name.

use super::compose::{Distinct, Octets};
use super::name::{Asked, Kind};
use super::{PodMode, Rules, address};
use crate::cluster::{Entry, Port, Service, ServiceKind, Slice, Snapshot};
use nodens_wire::NameRef;
use nodens_wire::name::NAME_LEN_MAX;
use std::net::IpAddr;
use std::sync::Arc;

/// What is wanted of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Only whether it exists.
    Existence,
    /// IPv4 addresses, each once.
    V4,
    /// IPv6 addresses, each once.
    V6,
    /// Every address with every port.
    Ports,
}

/// What there is under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<'s> {
    /// There is no such name.
    Unknown,
    /// There is; what was wanted of it is in the list, if there is any.
    Known,
    /// It is another name for this one.
    Alias(&'s str),
}

/// An address, and a port of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The address; never an IPv4 address in an IPv6 one.
    pub(crate) address: IpAddr,
    /// The port; `None` if nothing is said of ports.
    pub(crate) port: Option<u16>,
    /// Places of slice and endpoint; `None` for the address of the name itself.
    pub(crate) endpoint: Option<(u32, u32)>,
}

/// Room for what is found, kept by each worker.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// What was found, in the order of the objects.
    pub(crate) found: Vec<Found>,
    pub(super) distinct: Distinct,
}

impl Scratch {
    /// Adds an address if it is wanted.
    pub(crate) fn add(
        &mut self,
        want: Want,
        place: Option<(u32, u32)>,
        address: IpAddr,
        port: Option<u16>,
    ) {
        let address = address.to_canonical();
        let wanted = match want {
            Want::Existence => false,
            Want::V4 => address.is_ipv4(),
            Want::V6 => address.is_ipv6(),
            Want::Ports => true,
        };
        if wanted {
            self.found.push(Found { address, port, endpoint: place });
        }
    }

    /// Leaves each address once, where it was first.
    pub(crate) fn keep_distinct_addresses(&mut self) {
        let Self { found, distinct } = self;
        distinct.begin(found.len());
        let mut kept = 0;
        for index in 0..found.len() {
            let Some(one) = found.get(index).copied() else { break };
            let same = |k: usize| found.get(k).is_some_and(|other| other.address == one.address);
            if distinct.is_new(kept, one.address, same) {
                if let Some(slot) = found.get_mut(kept) {
                    *slot = one;
                }
                kept += 1;
            }
        }
        found.truncate(kept);
    }
}

/// A snapshot as one zone shows it.
#[derive(Clone, Copy)]
pub(crate) struct View<'s> {
    pub(crate) rules: &'s Rules,
    pub(crate) snapshot: &'s Snapshot,
    /// The zone shows service imports.
    pub(crate) imports: bool,
}

impl<'s> View<'s> {
    /// What is known of a service or import.
    pub(crate) fn entry(self, key: &[u8]) -> Option<&'s Entry> {
        match self.imports {
            true => self.snapshot.import(key),
            false => self.snapshot.service(key),
        }
    }

    /// Looks for `asked`; fills the list of `scratch`.
    pub(crate) fn find(self, asked: &Asked<'_>, want: Want, scratch: &mut Scratch) -> Outcome<'s> {
        scratch.found.clear();
        let Some(kind) = asked.kind else { return Outcome::Known };
        if !self.rules.exposes(self.snapshot, asked.namespace) {
            return Outcome::Unknown;
        }
        let outcome = match kind {
            Kind::Pod => self.pods(asked, want, scratch),
            Kind::Service if asked.key.is_empty() => Outcome::Known,
            Kind::Service => self.service(asked, want, scratch),
        };
        if matches!(want, Want::V4 | Want::V6) {
            scratch.keep_distinct_addresses();
        }
        outcome
    }

    fn pods(self, asked: &Asked<'_>, want: Want, scratch: &mut Scratch) -> Outcome<'s> {
        if self.rules.pods == PodMode::Disabled {
            return Outcome::Unknown;
        }
        if asked.key.is_empty() {
            return Outcome::Known;
        }
        if self.rules.pods == PodMode::Insecure {
            let Some(address) = address::pod(asked.service) else { return Outcome::Unknown };
            scratch.add(want, None, address, Some(0));
            return Outcome::Known;
        }
        let Some(address) = address::pod_exactly(asked.service) else { return Outcome::Unknown };
        let namespace = asked.namespace.get(1..).unwrap_or_default();
        let mut outcome = Outcome::Unknown;
        for pod in self.snapshot.pods_at(address) {
            if pod.namespace.as_bytes().eq_ignore_ascii_case(namespace) {
                outcome = Outcome::Known;
                scratch.add(want, None, address, Some(0));
            }
        }
        outcome
    }

    fn service(self, asked: &Asked<'_>, want: Want, scratch: &mut Scratch) -> Outcome<'s> {
        let Some(entry) = self.entry(asked.key) else { return Outcome::Unknown };
        let Some(service) = entry.service.as_deref() else { return Outcome::Unknown };
        if !asked.zone.is_empty() && service.kind != ServiceKind::Headless {
            // The address of a service is in no zone.
            return Outcome::Unknown;
        }
        match &service.kind {
            ServiceKind::ExternalName(target) => alias(asked, target),
            ServiceKind::ClusterIp if self.is_ignored(entry) => Outcome::Unknown,
            ServiceKind::ClusterIp if asked.endpoint.is_empty() => {
                self.cluster_ips(asked, service, want, scratch)
            }
            ServiceKind::ClusterIp | ServiceKind::Headless => {
                self.endpoints(asked, &entry.slices, want, scratch)
            }
        }
    }

    /// `ignore empty_service`
    pub(crate) fn is_ignored(self, entry: &Entry) -> bool {
        self.rules.ignore_empty && entry.slices.iter().all(|slice| slice.is_empty())
    }

    fn cluster_ips(
        self,
        asked: &Asked<'_>,
        service: &Service,
        want: Want,
        scratch: &mut Scratch,
    ) -> Outcome<'s> {
        // An import without ports has no record at all, a service without has its addresses.
        if self.imports && service.ports.is_empty() {
            return Outcome::Unknown;
        }
        let mut ports = ports(&service.ports, asked.port, asked.protocol).peekable();
        if ports.peek().is_none() {
            return Outcome::Unknown;
        }
        let count = if want == Want::Ports { usize::MAX } else { 1 };
        for port in ports.take(count) {
            for address in &service.cluster_ips {
                scratch.add(want, None, *address, port);
            }
        }
        Outcome::Known
    }

    fn endpoints(
        self,
        asked: &Asked<'_>,
        slices: &[Arc<Slice>],
        want: Want,
        scratch: &mut Scratch,
    ) -> Outcome<'s> {
        let mut found = self.endpoints_of(asked, slices, !asked.zone.is_empty(), want, scratch);
        if !found && asked.prefer {
            found = self.endpoints_of(asked, slices, false, want, scratch);
        }
        // A zone without endpoints exists: who asks again later may find some.
        if found || !asked.zone.is_empty() { Outcome::Known } else { Outcome::Unknown }
    }

    /// Adds the endpoints that are asked for, those in the topology zone only if `zoned`; whether
    /// there are any, of whatever address family.
    pub(crate) fn endpoints_of(
        self,
        asked: &Asked<'_>,
        slices: &[Arc<Slice>],
        zoned: bool,
        want: Want,
        scratch: &mut Scratch,
    ) -> bool {
        let unnamed = address::endpoint(asked.endpoint);
        let mut any = false;
        for (s, slice) in slices.iter().enumerate() {
            let is_elsewhere = self.imports
                && !asked.endpoint.is_empty()
                && !slice.cluster().as_bytes().eq_ignore_ascii_case(asked.cluster);
            let ports = ports(slice.ports(), asked.port, asked.protocol);
            if is_elsewhere || ports.clone().next().is_none() {
                continue;
            }
            for (e, endpoint) in slice.endpoints().enumerate() {
                let is_outside =
                    zoned && (endpoint.zone.is_empty() || !asked.is_zone(endpoint.zone));
                let is_other = !asked.endpoint.is_empty()
                    && !self.rules.is_called(&endpoint, asked.endpoint, unnamed);
                if is_outside || is_other {
                    continue;
                }
                any = true;
                let place = Some((s as u32, e as u32));
                match want {
                    Want::Existence => return true,
                    Want::V4 | Want::V6 => scratch.add(want, place, endpoint.address, None),
                    Want::Ports => ports
                        .clone()
                        .for_each(|port| scratch.add(want, place, endpoint.address, port)),
                }
            }
        }
        any
    }
}

/// A name of a service that is an alias; it has neither endpoints nor ports.
fn alias<'s>(asked: &Asked<'_>, target: &'s str) -> Outcome<'s> {
    let has_more = [asked.endpoint, asked.port, asked.protocol].iter().any(|part| !part.is_empty());
    if has_more || target.parse::<IpAddr>().is_ok() {
        Outcome::Unknown
    } else {
        Outcome::Alias(target)
    }
}

/// The ports that match; a port that is not named stands for all. Where there are no ports, one
/// without a number is what an address has.
pub(crate) fn ports<'p>(
    ports: &'p [Port],
    name: &'p [u8],
    protocol: &'p [u8],
) -> impl Iterator<Item = Option<u16>> + Clone {
    let portless = ports.is_empty() && name.is_empty() && protocol.is_empty();
    let named = ports.iter().filter(move |port| {
        let is = |asked: &[u8], own: &str| {
            asked.is_empty() || asked.eq_ignore_ascii_case(own.as_bytes())
        };
        is(name, &port.name) && is(protocol, port.protocol.label())
    });
    named.map(|port| port.number).chain(portless.then_some(None))
}

/// How what was found under a service or pod is called.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    pub(crate) rules: &'a Rules,
    /// The slices that [`Found::endpoint`] is about.
    pub(crate) slices: &'a [Arc<Slice>],
    /// Labels of service and namespace, and `svc` or `pod` if the zone has it.
    pub(crate) labels: &'a [u8],
    pub(crate) zone: NameRef<'a>,
}

impl Naming<'_> {
    /// Puts the name of `found` together.
    pub(crate) fn write(&self, found: &Found, name: &mut Octets<NAME_LEN_MAX>) {
        name.clear();
        if let Some((slice, endpoint)) = found.endpoint
            && let Some(slice) = self.slices.get(slice as usize)
            && let Some(endpoint) = slice.endpoints().nth(endpoint as usize)
        {
            self.rules.push_endpoint(slice, &endpoint, name);
        }
        name.push(self.labels);
        name.push(self.zone.as_wire());
    }
}
