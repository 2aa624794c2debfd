//! `k8s_external`: names for what of a cluster can be reached from outside.
//!
//! Cluster and namespaces are those of the `kubernetes` of the same block.

mod config;
mod lookups;
mod zone;

use crate::cluster::{External, Service, ServiceKind, Snapshot};
use crate::handler::{Cx, Event, Handle, Resolution, Spec, Step};
use crate::handlers::kubernetes::Kubernetes;
use crate::lookup::compose::{Octets, zone_of};
use crate::lookup::find::{Naming, Scratch, View, Want, ports};
use crate::lookup::name::{Asked, Labels, without_underscore};
use crate::lookup::records::{self, Soa};
use crate::lookup::servers::Side;
use crate::handlers::kubernetes::wait::{self, Patience};
use crate::handlers::{Handler, LookupState};
use crate::zones::{Fallthrough, Zones};
use lookups::{Draft, Facts};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Name, NameRef, Rcode, Section, Type};
use std::collections::HashSet;
use std::net::IpAddr;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec =
    Spec { chain_complete: Some(zone::add), ..Spec::new("k8s_external", setup) };

/// The directive at work.
#[derive(Clone, Debug)]
pub struct K8sExternal {
    pub(crate) zones: Zones,
    /// The zone that PTR records lead to: the first.
    primary: Name,
    /// Labels in front of the zone below which the zone's own names are, folded, in wire form.
    apex: Vec<u8>,
    /// Those of the name server, for SOA and NS.
    mname: Vec<u8>,
    /// Those of the mailbox, for SOA.
    rname: Vec<u8>,
    /// Seconds.
    ttl: u32,
    headless: bool,
    fallthrough: Fallthrough,
}

/// What the handler remembers while it waits.
#[derive(Debug)]
pub enum State {
    /// For the first snapshot.
    Waiting(#[allow(private_interfaces)] Patience),
    /// For what there is at host names.
    Lookups(Draft),
}

/// A question below a zone, and all that is needed for an answer.
struct Question<'a> {
    kubernetes: &'a Kubernetes,
    snapshot: &'a Snapshot,
    zone_len: usize,
    /// The labels in front of the zone, folded.
    below: &'a [u8],
}

/// What there is under a name.
enum Found<'s> {
    Unknown,
    NoData,
    /// The addresses or ports that were found.
    Listed,
    /// A service that can be reached at host names.
    Hosts(&'s Service),
}

impl Handle for K8sExternal {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let Some(zone) = self.zones.longest(cx.q().qname.view()) else { return Step::Next };
        self.answer_when_known(cx, zone, None)
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        match (std::mem::take(&mut cx.q().state.lookup), event) {
            (LookupState::K8sExternal(State::Waiting(patience)), Event::Timer) => {
                match self.zones.longest(cx.q().qname.view()) {
                    Some(zone) => self.answer_when_known(cx, zone, Some(patience)),
                    None => Step::Next,
                }
            }
            (LookupState::K8sExternal(State::Lookups(mut draft)), Event::LookedUp) => {
                draft.take(cx);
                draft.advance(cx)
            }
            _ => Step::Fail(Rcode::SERVFAIL),
        }
    }
}

impl K8sExternal {
    fn answer_when_known(&self, cx: &mut Cx<'_>, zone: usize, patience: Option<Patience>) -> Step {
        let mut handlers = cx.block.handlers.iter();
        let kubernetes = handlers.find_map(|handler| match handler {
            Handler::Kubernetes(kubernetes) => Some(kubernetes),
            _ => None,
        });
        let Some(kubernetes) = kubernetes else { return Step::Next };
        if kubernetes.feed.synced() {
            return self.decide(cx, kubernetes, zone);
        }
        match patience.unwrap_or_else(|| Patience::new(cx)).wait(cx) {
            Some(patience) => {
                cx.q().state.lookup = LookupState::K8sExternal(State::Waiting(patience));
                Step::Wait
            }
            None => wait::refuse(cx),
        }
    }

    fn decide(&self, cx: &mut Cx<'_>, kubernetes: &Kubernetes, zone: usize) -> Step {
        let snapshot = kubernetes.feed.load();
        let Some(zone) = self.zones.names().get(zone) else { return Step::Next };
        let zone_len = zone.as_wire().len();
        let mut buffer = [0; NAME_LEN_MAX];
        let folded = cx.job.current.qname.view().fold(&mut buffer);
        let below = folded.get(..folded.len().saturating_sub(zone_len)).unwrap_or_default();
        let asked = Question { kubernetes, snapshot: &snapshot, zone_len, below };
        let q = &mut cx.job.current;
        if below.is_empty() {
            return self.answer_apex(q, &asked);
        }
        if let Some(rest) = below.strip_suffix(&self.apex[..])
            && is_labels(rest)
        {
            return self.answer_below_apex(q, &asked, rest);
        }
        if q.qtype == Type::PTR
            && let Some(address) = crate::reverse::address(q.qname.view())
        {
            return self.answer_reverse(q, &asked, address);
        }
        self.answer_service(cx, &asked)
    }

    fn soa(&self, asked: &Question<'_>) -> Soa<'_> {
        let (serial, ttl) = (asked.snapshot.external_serial(), self.ttl);
        Soa { serial, ttl, own_ttl: ttl, mname: &self.mname, rname: &self.rname }
    }

    fn deny(&self, q: &mut Resolution, asked: &Question<'_>, rcode: Rcode) -> Step {
        if rcode == Rcode::NXDOMAIN && self.fallthrough.lets_pass(q.qname.view()) {
            return Step::Next;
        }
        records::deny(q, rcode, asked.zone_len, &self.soa(asked));
        Step::Answered
    }

    /// The zone itself.
    fn answer_apex(&self, q: &mut Resolution, asked: &Question<'_>) -> Step {
        match q.qtype {
            Type::SOA => records::authority(q, &self.soa(asked)),
            Type::NS => {
                let addresses = self.server_addresses(asked, q.qname.view());
                q.response.live = true;
                q.reply_with(Rcode::NOERROR, true, |builder, zone| {
                    let mut server = Octets::<NAME_LEN_MAX>::new();
                    server.push(&self.mname);
                    server.push(zone.as_wire());
                    let Some(server) = server.name() else { return };
                    let fields = (Type::NS, Class::IN, self.ttl);
                    _ = builder.record(Section::Answer, zone, fields, server.as_wire());
                    for address in addresses {
                        records::address(builder, Section::Additional, server, self.ttl, address);
                    }
                });
            }
            _ => records::deny(q, Rcode::NOERROR, asked.zone_len, &self.soa(asked)),
        }
        Step::Answered
    }

    /// Names that the zone has for itself; `rest` is what stands in front of `dns`.
    fn answer_below_apex(&self, q: &mut Resolution, asked: &Question<'_>, rest: &[u8]) -> Step {
        let rcode = match rest {
            b"" => Rcode::NOERROR,
            b"\x03ns1" => {
                let zone = zone_of(q.qname.view(), asked.zone_len);
                let mut addresses = self.server_addresses(asked, zone);
                addresses.retain(|address| match q.qtype {
                    Type::A => address.is_ipv4(),
                    Type::AAAA => address.is_ipv6(),
                    _ => false,
                });
                if !addresses.is_empty() {
                    q.response.live = true;
                    q.reply_with(Rcode::NOERROR, true, |builder, owner| {
                        for address in addresses {
                            records::address(builder, Section::Answer, owner, self.ttl, address);
                        }
                    });
                    return Step::Answered;
                }
                Rcode::NOERROR
            }
            _ => Rcode::NXDOMAIN,
        };
        records::deny(q, rcode, asked.zone_len, &self.soa(asked));
        Step::Answered
    }

    /// The addresses this server can be reached at from outside.
    fn server_addresses(&self, asked: &Question<'_>, zone: NameRef<'_>) -> Vec<IpAddr> {
        let side = Side::Outside(self.headless);
        let servers = asked.kubernetes.rules.name_servers(asked.snapshot, side, zone);
        let mut known = HashSet::new();
        servers.into_iter().map(|(_, address)| address).filter(|ip| known.insert(*ip)).collect()
    }

    /// The services that have an address; their names are in the first zone.
    fn answer_reverse(&self, q: &mut Resolution, asked: &Question<'_>, address: IpAddr) -> Step {
        let shown = |service: &&std::sync::Arc<Service>| {
            let key = &service.key;
            let namespace = key.as_wire().get(key.name().len() + 1..).unwrap_or_default();
            asked.kubernetes.rules.exposes(asked.snapshot, namespace)
        };
        let services = || asked.snapshot.external_at(address).iter().filter(shown);
        if services().next().is_none() {
            return self.deny(q, asked, Rcode::NXDOMAIN);
        }
        q.response.live = true;
        q.reply_with(Rcode::NOERROR, true, |builder, owner| {
            let mut name = Octets::<NAME_LEN_MAX>::new();
            for service in services() {
                name.clear();
                name.push(service.key.as_wire());
                name.push(self.primary.as_wire());
                if name.name().is_some() {
                    let fields = (Type::PTR, Class::IN, self.ttl);
                    _ = builder.record(Section::Answer, owner, fields, name.as_slice());
                }
            }
        });
        Step::Answered
    }

    fn answer_service(&self, cx: &mut Cx<'_>, question: &Question<'_>) -> Step {
        let (q, scratch) = (&mut cx.job.current, &mut cx.worker.own.kubernetes);
        let Some(asked) = read(question.below) else {
            return self.deny(q, question, Rcode::NXDOMAIN);
        };
        let (ttl, own_ttl) = (question.kubernetes.ttl, self.ttl);
        match self.find(question, &asked, q.qtype, scratch) {
            Found::Unknown => self.deny(q, question, Rcode::NXDOMAIN),
            Found::NoData => self.deny(q, question, Rcode::NOERROR),
            Found::Hosts(service) => {
                let zone = zone_of(q.qname.view(), question.zone_len);
                let facts = Facts { service, asked: &asked, zone, ttls: (own_ttl, ttl) };
                let draft = Draft::new(q, &facts);
                match draft.is_empty() {
                    true => self.deny(q, question, Rcode::NOERROR),
                    false => draft.advance(cx),
                }
            }
            Found::Listed => {
                let entry = question.snapshot.service(asked.key);
                let slices = entry.map(|entry| &*entry.slices).unwrap_or_default();
                let (rules, labels) = (&*question.kubernetes.rules, asked.key);
                let is_services = q.qtype == Type::SRV;
                q.response.live = true;
                q.reply_with(Rcode::NOERROR, true, |builder, owner| {
                    if is_services {
                        let zone = zone_of(owner, question.zone_len);
                        let naming = Naming { rules, slices, labels, zone };
                        records::services(builder, owner, ttl, own_ttl, scratch, &naming);
                    } else {
                        records::addresses(builder, own_ttl, &scratch.found);
                    }
                });
                Step::Answered
            }
        }
    }

    fn find<'s>(
        &self,
        question: &Question<'s>,
        asked: &Asked<'_>,
        qtype: Type,
        scratch: &mut Scratch,
    ) -> Found<'s> {
        scratch.found.clear();
        let snapshot = question.snapshot;
        if !question.kubernetes.rules.exposes(snapshot, asked.namespace) {
            return Found::Unknown;
        }
        if asked.key.is_empty() {
            return Found::NoData;
        }
        let Some(entry) = snapshot.service(asked.key) else { return Found::Unknown };
        let Some(service) = entry.service.as_deref() else { return Found::Unknown };
        let want = match qtype {
            Type::A => Want::V4,
            Type::AAAA => Want::V6,
            Type::SRV => Want::Ports,
            _ => Want::Existence,
        };
        let is_headless = service.kind == ServiceKind::Headless || !asked.endpoint.is_empty();
        let exists = if self.headless && service.external.is_empty() && is_headless {
            let view = View { rules: &question.kubernetes.rules, snapshot, imports: false };
            view.endpoints_of(asked, &entry.slices, false, want, scratch)
        } else {
            if Self::has_hosts(service) && ports_of(service, asked).next().is_some() {
                return Found::Hosts(service);
            }
            add_external(service, asked, want, scratch)
        };
        if matches!(want, Want::V4 | Want::V6) {
            scratch.keep_distinct_addresses();
        }
        let has_records = match want {
            Want::Ports => scratch.found.iter().any(|one| one.port.is_some()),
            _ => !scratch.found.is_empty(),
        };
        match (exists, has_records) {
            (false, _) => Found::Unknown,
            (true, false) => Found::NoData,
            (true, true) => Found::Listed,
        }
    }
}

/// Takes a name apart: `SERVICE.NAMESPACE`, with an endpoint or a port and a protocol in front.
fn read(below: &[u8]) -> Option<Asked<'_>> {
    let mut labels = Labels::of(below)?;
    let mut asked = Asked::default();
    labels.pop()?;
    asked.namespace = labels.popped();
    let Some(service) = labels.pop() else { return Some(asked) };
    asked.service = service;
    asked.key = labels.popped();
    match labels.len {
        0 => {}
        1 => asked.endpoint = without_underscore(labels.pop()?),
        2 => {
            asked.protocol = without_underscore(labels.pop()?);
            asked.port = without_underscore(labels.pop()?);
        }
        _ => return None,
    }
    Some(asked)
}

fn ports_of<'a>(
    service: &'a Service,
    asked: &'a Asked<'_>,
) -> impl Iterator<Item = Option<u16>> + Clone {
    ports(&service.ports, asked.port, asked.protocol)
}

/// Adds the addresses that a service has outside; whether it has any with the port.
fn add_external(service: &Service, asked: &Asked<'_>, want: Want, scratch: &mut Scratch) -> bool {
    let mut exists = false;
    for place in &service.external {
        let External::Address(address) = place else { continue };
        for port in ports_of(service, asked) {
            exists = true;
            scratch.add(want, None, *address, port);
        }
    }
    exists
}

/// Whether `wire` is whole labels: what is left of a name when others are taken from its end.
fn is_labels(wire: &[u8]) -> bool {
    let mut rest = wire;
    while let Some((len, tail)) = rest.split_first() {
        match tail.get(usize::from(*len)..) {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
    true
}
