//! `kubernetes`: the names of a cluster's services and pods (Kubernetes DNS-Based Service
//! Discovery 1.1.0), from a live watch.
//!
//! This module says what becomes of a question; [`crate::lookup`] takes QNAME apart, looks up what
//! there is under it and writes it, `alias` follows `ExternalName`, `reverse` names addresses.
//! The watch of the cluster publishes [`Snapshot`]s. A query is answered from the newest one, without
//! allocation and without a lock.

mod alias;
mod config;
mod metadata;
mod reverse;
mod selector;
pub(crate) mod wait;
pub(crate) mod zone;

use crate::cluster::{Feed, Snapshot};
use crate::handler::{Cx, Event, Handle, Job, Resolution, Spec, Step};
use crate::config::ServerBlock;
use crate::handlers::{Handler, LookupState};
use crate::lookup::records::{self, Soa};
use crate::lookup::{Rules, find};
use crate::zones::{Fallthrough, Zones};
use crate::lookup::compose::zone_of;
use crate::lookup::find::{Naming, Outcome, View, Want};
use crate::lookup::name::{Asked, Shape};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Name, NameRef, Rcode, Section, Type};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use wait::Patience;

use config::setup;
pub(crate) use crate::lookup::find::Scratch;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { chain_complete: Some(zone::add), ..Spec::new("kubernetes", setup) };

/// TTL of `dns-version`, in seconds.
const VERSION_TTL: u32 = 28_800;
/// The version of the specification, as a character string.
const VERSION: &[u8] = b"\x051.1.0";

/// The directive at work.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    pub(crate) zones: Zones,
    /// Which of the zones show service imports (`multicluster`).
    imports: Vec<bool>,
    /// The zone that PTR records lead to: the first that is no reverse zone.
    primary: Name,
    pub(crate) rules: Arc<Rules>,
    /// Seconds.
    pub(crate) ttl: u32,
    fallthrough: Fallthrough,
    pub(crate) feed: Arc<Feed>,
}

/// What the handler remembers while it waits.
#[derive(Debug)]
pub enum State {
    /// For the first snapshot.
    Waiting(#[allow(private_interfaces)] Patience),
    /// For what there is at the last of these aliases' targets.
    Alias(Vec<Name>),
}

/// What a question leads to.
#[derive(Debug, PartialEq, Eq)]
enum Found<'s> {
    /// No such name.
    Unknown,
    /// Nothing of the type asked for.
    NoData,
    /// The addresses that were found.
    Addresses,
    /// SRV records for what was found.
    Services,
    /// The SOA record.
    Authority,
    /// The NS records of the zone.
    Servers,
    /// `dns-version`
    Version,
    /// The names of an address.
    Reverse(IpAddr),
    /// Another name.
    Alias(&'s str),
}

impl Handle for Kubernetes {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        let Some(zone) = self.zones.longest(q.qname.view()) else { return Step::Next };
        if matches!(q.qtype, Type::AXFR | Type::IXFR) {
            return Step::Fail(Rcode::REFUSED);
        }
        match self.feed.synced() {
            true => self.decide(cx, zone),
            false => keep_waiting(cx, None),
        }
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        match (std::mem::take(&mut cx.q().state.lookup), event) {
            (LookupState::Kubernetes(State::Waiting(patience)), Event::Timer) => {
                match self.zones.longest(cx.q().qname.view()) {
                    Some(zone) if self.feed.synced() => self.decide(cx, zone),
                    _ => keep_waiting(cx, Some(patience)),
                }
            }
            (LookupState::Kubernetes(State::Alias(targets)), Event::LookedUp) => {
                self.looked_up(cx, &targets)
            }
            _ => Step::Fail(Rcode::SERVFAIL),
        }
    }

    fn label(&self, job: &Job, asked: NameRef<'_>, label: &str) -> Option<String> {
        self.fact(job.client().peer.ip(), asked, label.strip_prefix("kubernetes/")?)
    }
}

/// Waits for the first snapshot, or says that there is none.
fn keep_waiting(cx: &mut Cx<'_>, patience: Option<Patience>) -> Step {
    let patience = patience.unwrap_or_else(|| Patience::new(cx));
    match patience.wait(cx) {
        Some(patience) => {
            cx.q().state.lookup = LookupState::Kubernetes(State::Waiting(patience));
            Step::Wait
        }
        None => wait::refuse(cx),
    }
}

impl Kubernetes {
    /// The directive of this block, if it has one.
    pub(crate) fn of(block: &ServerBlock) -> Option<&Self> {
        block.handlers.iter().find_map(|handler| match handler {
            Handler::Kubernetes(kubernetes) => Some(kubernetes),
            _ => None,
        })
    }

    /// Answers from the newest snapshot.
    fn decide(&self, cx: &mut Cx<'_>, zone: usize) -> Step {
        let snapshot = self.feed.load();
        let view = self.view(&snapshot, zone);
        let (q, scratch) = (&mut cx.job.current, &mut cx.worker.own.kubernetes);
        let Some(apex) = self.zones.names().get(zone) else { return Step::Next };
        let zone_len = apex.as_wire().len();
        match self.look(view, q.qname.view(), zone_len, q.qtype, scratch) {
            Found::Unknown if self.fallthrough.lets_pass(q.qname.view()) => Step::Next,
            Found::Unknown => self.deny(q, view, zone, Rcode::NXDOMAIN),
            Found::NoData => self.deny(q, view, zone, Rcode::NOERROR),
            Found::Addresses => {
                q.response.live = true;
                q.reply_with(Rcode::NOERROR, true, |builder, _| {
                    records::addresses(builder, self.ttl, &scratch.found);
                });
                Step::Answered
            }
            Found::Services => self.answer_services(q, view, zone_len, scratch),
            Found::Authority => {
                records::authority(q, &self.soa(view));
                Step::Answered
            }
            Found::Servers => self.answer_servers(q, view, zone),
            Found::Version => {
                q.response.live = true;
                q.reply_with(Rcode::NOERROR, true, |builder, owner| {
                    let fields = (Type::TXT, Class::IN, VERSION_TTL);
                    _ = builder.record(Section::Answer, owner, fields, VERSION);
                });
                Step::Answered
            }
            Found::Reverse(address) if self.answer_reverse(view, q, address) => Step::Answered,
            Found::Reverse(_) if self.fallthrough.lets_pass(q.qname.view()) => Step::Next,
            Found::Reverse(_) => self.deny(q, view, zone, Rcode::NXDOMAIN),
            Found::Alias(target) if q.qtype == Type::CNAME => {
                let Ok(target) = Name::parse(target) else {
                    return self.deny(q, view, zone, Rcode::NOERROR);
                };
                q.response.live = true;
                q.reply_with(Rcode::NOERROR, true, |builder, owner| {
                    alias::write_chain(builder, owner, &[target], self.ttl);
                });
                Step::Answered
            }
            Found::Alias(target) => self.follow(q, view, zone, target, scratch),
        }
    }

    /// The cluster as a zone shows it.
    fn view<'s>(&'s self, snapshot: &'s Snapshot, zone: usize) -> View<'s> {
        let imports = self.imports.get(zone).copied().unwrap_or_default();
        View { rules: &self.rules, snapshot, imports }
    }

    /// What there is of type `qtype` under `name`, which lies in a zone of `zone_len` octets.
    fn look<'s>(
        &self,
        view: View<'s>,
        name: NameRef<'_>,
        zone_len: usize,
        qtype: Type,
        scratch: &mut Scratch,
    ) -> Found<'s> {
        let mut buffer = [0; NAME_LEN_MAX];
        let folded = name.fold(&mut buffer);
        let below = folded.len().checked_sub(zone_len).and_then(|len| folded.get(..len));
        let below = below.unwrap_or_default();
        match (qtype, below) {
            (Type::SOA, b"") => return Found::Authority,
            // As in CoreDNS, which looks for no name here.
            (Type::SOA, _) => return Found::NoData,
            (Type::NS, b"") => return Found::Servers,
            (Type::TXT, b"\x0bdns-version") => return Found::Version,
            (_, b"\x02ns\x03dns") => return self.look_server(view, name, zone_len, qtype, scratch),
            (_, b"\x0bdns-version" | b"\x03dns") => return Found::NoData,
            _ => {}
        }
        if qtype == Type::PTR
            && let Some(address) = crate::reverse::address(name)
        {
            return Found::Reverse(address);
        }
        let shape = Shape { imports: view.imports, zonal: self.rules.zonal };
        let Some(asked) = Asked::read(below, shape) else { return Found::Unknown };
        if asked.kind.is_some() && crate::reverse::is_below(folded) {
            return Found::Unknown;
        }
        let want = match qtype {
            Type::A => Want::V4,
            Type::AAAA => Want::V6,
            Type::SRV => Want::Ports,
            _ => Want::Existence,
        };
        match view.find(&asked, want, scratch) {
            Outcome::Unknown => Found::Unknown,
            Outcome::Alias(target) => match qtype {
                Type::A | Type::AAAA | Type::CNAME => Found::Alias(target),
                _ => Found::NoData,
            },
            Outcome::Known => match want {
                Want::V4 | Want::V6 if !scratch.found.is_empty() => Found::Addresses,
                Want::Ports if scratch.found.iter().any(|one| one.port.is_some()) => {
                    Found::Services
                }
                _ => Found::NoData,
            },
        }
    }

    /// What there is under `ns.dns`: the addresses of the name servers.
    fn look_server<'s>(
        &self,
        view: View<'s>,
        name: NameRef<'_>,
        zone_len: usize,
        qtype: Type,
        scratch: &mut Scratch,
    ) -> Found<'s> {
        scratch.found.clear();
        for (_, address) in view.name_servers(zone_of(name, zone_len)) {
            let wanted = match qtype {
                Type::A => address.is_ipv4(),
                Type::AAAA => address.is_ipv6(),
                _ => false,
            };
            if wanted && !scratch.found.iter().any(|one| one.address == address) {
                scratch.found.push(find::Found { address, port: None, endpoint: None });
            }
        }
        if scratch.found.is_empty() { Found::NoData } else { Found::Addresses }
    }

    /// SRV records. Names of their targets follow from QNAME and what was found under it.
    fn answer_services(
        &self,
        q: &mut Resolution,
        view: View<'_>,
        zone_len: usize,
        scratch: &mut Scratch,
    ) -> Step {
        let mut buffer = [0; NAME_LEN_MAX];
        let folded = q.qname.view().fold(&mut buffer);
        let below = folded.get(..folded.len().saturating_sub(zone_len)).unwrap_or_default();
        let shape = Shape { imports: view.imports, zonal: self.rules.zonal };
        let Some(asked) = Asked::read(below, shape) else { return Step::Fail(Rcode::SERVFAIL) };
        // Service, namespace, and `svc` or `pod`, up to the zone.
        let labels_at = below.len().saturating_sub(asked.key.len() + 4);
        let labels = below.get(labels_at..).unwrap_or_default();
        let slices = view.entry(asked.key).map(|entry| &*entry.slices).unwrap_or_default();
        q.response.live = true;
        q.reply_with(Rcode::NOERROR, true, |builder, owner| {
            let zone = zone_of(owner, zone_len);
            let naming = Naming { rules: &self.rules, slices, labels, zone };
            records::services(builder, owner, self.ttl, self.ttl, scratch, &naming);
        });
        Step::Answered
    }

    /// NS records, and the addresses of the servers.
    fn answer_servers(&self, q: &mut Resolution, view: View<'_>, zone: usize) -> Step {
        let servers = view.name_servers(q.qname.view());
        if servers.is_empty() {
            return self.deny(q, view, zone, Rcode::NOERROR);
        }
        q.response.live = true;
        q.reply_with(Rcode::NOERROR, true, |builder, owner| {
            let fields = (Type::NS, Class::IN, self.ttl);
            let mut known = HashSet::new();
            for (name, _) in servers.iter().filter(|(name, _)| known.insert(name)) {
                _ = builder.record(Section::Answer, owner, fields, name.as_wire());
            }
            for (name, address) in &servers {
                records::address(builder, Section::Additional, name.view(), self.ttl, *address);
            }
        });
        Step::Answered
    }

    fn deny(&self, q: &mut Resolution, view: View<'_>, zone: usize, rcode: Rcode) -> Step {
        let zone_len = self.zones.names().get(zone).map_or(1, |zone| zone.as_wire().len());
        records::deny(q, rcode, zone_len, &self.soa(view));
        Step::Answered
    }

    fn soa(&self, view: View<'_>) -> Soa<'static> {
        let serial = match view.imports {
            true => view.snapshot.import_serial(),
            false => view.snapshot.serial(),
        };
        Soa::of_cluster(serial, self.ttl)
    }
}
