//! `search`: search paths end here. Names that a search list makes and that no object of the
//! cluster has are denied without asking the cluster's servers.
//!
//! `judge` says whether a name can exist, by its shape and by the names that a watch tells of;
//! `proof` finds out whether the zone is that of the cluster whose names these are; `learned`
//! remembers what the zone's servers say. Only what both deny is denied here, so that names which
//! the servers have from elsewhere (`rewrite`, `template`) stay.

mod config;
mod judge;
mod learned;
mod proof;
mod series;
#[cfg(test)]
mod tests;

use crate::cluster::{Feed, Scope, Snapshot};
use crate::config::{BlockBuilder, SearchMode, ServerBlock};
use crate::handler::{Cx, Handle, Resolution, Spec, Step};
use crate::handlers::cache::Reading;
use crate::lookup::records::{self, Soa};
use crate::handlers::{Handler, NAMES};
use crate::job::Asker;
use crate::limits::{FRESH_TIME_MAX, FRESH_TIME_MIN, POPULATED_TIME, SEARCH_TIME, SURPRISE_TIME};
use crate::time::Now;
use crate::worker::Background;
use crate::zones::Zones;
use config::Options;
pub(crate) use config::{ApiLines, optional_feed};
use judge::{Ground, Judged, judge};
use learned::{Authority, Learned, SOA_NAMES, Said};
use nodens_corefile::{Directive, Error};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Flags, Name, Opcode, Rcode, Type};
use proof::{Heard, Proof, Trust, type_of};
use series::Series;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How the directive is read.
pub const SPEC: Spec = Spec { beside: Some(switch_on), ..Spec::new("search", setup) };

/// Between a Service's namespace and the zone.
const SVC: &[u8] = b"\x03svc";

/// The directive at work.
#[derive(Debug)]
pub struct Search {
    zones: Zones,
    except: Vec<Name>,
    /// The names there are, if somebody watches for them.
    feed: Option<Arc<Feed>>,
    /// Whether it is there by itself: then nothing is denied in a zone that is not shown to be the
    /// cluster's. Who writes it says that the zone is a cluster's, but not that it is this one's.
    implicit: bool,
    is_dry_run: bool,
    /// What the servers of each zone have shown.
    proofs: Box<[Proof]>,
    learned: Learned,
    /// When the first question came, in seconds since 1970; 0 before.
    began: AtomicU64,
    series: Series,
}

/// Reads `search [ZONES…] { … }`, which a block may have once.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let options = Options::read(directive, block)?;
    add(options, block);
    Ok(())
}

/// Adds the directive on a node to a block that does not have it and asks other servers for zones
/// that may be a cluster's. It does nothing until they turn out to be.
fn switch_on(block: &mut BlockBuilder<'_>) {
    if !block.options.ends_search_paths {
        return;
    }
    let has = |name| block.present.contains(&name);
    if has("search") || has("kubernetes") || !has("forward") {
        return;
    }
    if let Some(options) = Options::of_block(block) {
        add(options, block);
    }
}

/// What the directive does in a block that has it, and whether it is written nowhere.
pub fn of(block: &ServerBlock) -> Option<(bool, SearchMode)> {
    block.handlers.iter().find_map(|handler| match handler {
        Handler::Search(search) => Some(search.describe()),
        _ => None,
    })
}

fn add(options: Options, block: &mut BlockBuilder<'_>) {
    if block.options.search == SearchMode::Off {
        return;
    }
    let Options { zones, except, api, implicit } = options;
    let feed = api.map(|api| optional_feed(block, api, Scope::Names));
    let count = zones.names().len();
    let series = Series::register(block, feed.as_ref());
    block.push(Search {
        zones,
        except,
        feed,
        implicit,
        is_dry_run: block.options.search == SearchMode::DryRun,
        proofs: (0..count).map(|_| Proof::default()).collect(),
        learned: Learned::new(count),
        began: AtomicU64::new(0),
        series,
    });
}

impl Handle for Search {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let Some(zone) = self.concerned(q) else { return Step::Next };
        let mut buffer = [0; NAME_LEN_MAX];
        let below = below(q, self.zone_len(zone), &mut buffer);
        let snapshot = self.feed.as_ref().filter(|feed| feed.is_current()).map(|feed| feed.load());
        match judge(below, snapshot.as_ref().map(|snapshot| &***snapshot)) {
            Judged::Open => {}
            Judged::Unsure => self.mistrust_denials_of_before(cx, zone),
            Judged::Known(since) => self.avoid_denials(cx, zone, since),
            Judged::Denied { ground, cut } => {
                self.prove(cx, zone);
                let q = &cx.job.current;
                let Some(authority) = self.would_deny(q, zone, ground, cut, below, cx.now) else {
                    return Step::Next;
                };
                if self.is_dry_run {
                    cx.worker.cells.add(ground.of(&self.series.dry_run), 1);
                    return Step::Next;
                }
                cx.worker.cells.add(ground.of(&self.series.denied), 1);
                self.deny(cx, zone, authority);
                return Step::Answered;
            }
        }
        Step::Next
    }

    /// Learns from what the servers, or the cache in their place, say of a name that cannot exist.
    fn amend(&self, cx: &mut Cx<'_>) {
        let q = &cx.job.current;
        // An option says that the answer is stale, or otherwise not what it seems. Without recursion
        // servers say what they happen to have.
        if !q.response.written
            || !q.flags.has(Flags::RD)
            || !matches!(q.response.rcode, Rcode::NXDOMAIN | Rcode::NOERROR)
            || !q.response.options.is_empty()
        {
            return;
        }
        let Some(zone) = self.concerned(q) else { return };
        let mut buffer = [0; NAME_LEN_MAX];
        let below = below(q, self.zone_len(zone), &mut buffer);
        // What the cache has is older, and what a handler of this server has is not the zone's.
        let is_fresh = is_of_an_upstream(q);
        if is_fresh && let Some(heard) = self.heard_of_witness(q, zone, below, cx.now) {
            let [refuted, confirmed] = self.series.proofs;
            let counter = if heard == Heard::Confirmed { confirmed } else { refuted };
            cx.worker.cells.add(counter, 1);
        }
        let snapshot = self.feed.as_ref().filter(|feed| feed.is_current()).map(|feed| feed.load());
        let names = snapshot.as_ref().map(|snapshot| &***snapshot);
        let Judged::Denied { ground, cut } = judge(below, names) else { return };
        let (place, qtype, now) = (self.learned.place(zone, cut), q.qtype, cx.now);
        if q.response.rcode == Rcode::NOERROR {
            let is_surprise = is_fresh
                && ground.needed() <= self.trust(zone, now)
                && self.learned.was_denied(place, qtype, now, SURPRISE_TIME);
            self.learned.note_populated(place, now.plus(POPULATED_TIME));
            cx.worker.cells.add(self.series.elsewhere, 1);
            if is_surprise {
                cx.worker.cells.add(self.series.surprises, 1);
            }
        } else if is_fresh && let Some(time) = self.time_of_denial(q, zone, names.is_some()) {
            self.learned.heard_denied(self.learned.place(zone, below).of_type(qtype), now);
            if self.learned.look(place, qtype, now) != Said::Populated {
                self.learned.note_denied(place, qtype, now.plus(time));
            }
            self.prove(cx, zone);
        }
    }
}

/// Whether an upstream answered just now.
fn is_of_an_upstream(q: &Resolution) -> bool {
    q.response.answered_by.and_then(|index| NAMES.get(index)) == Some(&"forward")
}

impl Ground {
    /// What a zone's servers must have shown.
    fn needed(self) -> Trust {
        match self {
            Self::Shape => Trust::Shapes,
            Self::Namespace | Self::Service => Trust::Names,
        }
    }
}

impl Search {
    /// Whether it is there without being written, and whether it only counts.
    fn describe(&self) -> (bool, SearchMode) {
        (self.implicit, if self.is_dry_run { SearchMode::DryRun } else { SearchMode::On })
    }

    /// The zone of a question that this is about.
    fn concerned(&self, q: &Resolution) -> Option<usize> {
        let zone = self.zones.longest(q.qname.view())?;
        // As in CoreDNS, there is no SOA record but that of the zone, and no name without one.
        let is_usual = !matches!(q.qtype, Type::SOA | Type::AXFR | Type::IXFR);
        let excepted = |name: &Name| q.qname.view().is_in_domain(name.view());
        (is_usual
            && q.qclass == Class::IN
            && q.flags.opcode() == Opcode::QUERY
            && !self.except.iter().any(excepted))
        .then_some(zone)
    }

    /// The authority to deny a name with, if everything speaks against it: the cluster's names, its
    /// servers a moment ago, and that these are its servers.
    fn would_deny(
        &self,
        q: &Resolution,
        zone: usize,
        ground: Ground,
        cut: &[u8],
        below: &[u8],
        now: Now,
    ) -> Option<Authority> {
        // Who wants proofs gets what the servers have.
        if q.dnssec_ok() || self.trust(zone, now) < ground.needed() {
            return None;
        }
        if self.learned.look(self.learned.place(zone, cut), q.qtype, now) != Said::Denied {
            return None;
        }
        let authority = self.learned.authority(zone)?;
        let name = self.learned.place(zone, below).of_type(q.qtype);
        self.learned.may_deny(name, now).then_some(authority)
    }

    /// What may be denied in a zone.
    fn trust(&self, zone: usize, now: Now) -> Trust {
        let shown = self.proofs.get(zone).map_or(Trust::Nothing, |proof| proof.trust(now));
        if self.implicit { shown } else { shown.max(Trust::Shapes) }
    }

    /// Asks the zone's servers whose they are, if it is time to, and if they seem to be those of some
    /// cluster: others are not bothered.
    fn prove(&self, cx: &mut Cx<'_>, zone: usize) {
        let (Some(feed), Some(proof)) = (&self.feed, self.proofs.get(zone)) else { return };
        if !proof.is_due(cx.now)
            || self.learned.authority(zone).is_none()
            || !proof.take_turn(cx.now)
        {
            return;
        }
        let names = feed.load();
        let witnesses = names.witnesses();
        let chosen = cx.worker.rng.usize(..witnesses.clone().count().max(1));
        if let Some((key, [ip, ..])) = witnesses.clone().nth(chosen) {
            self.ask_for(cx, zone, key.as_wire(), *ip);
        }
        if let [ip, ..] = names.api_addresses() {
            self.ask_for(cx, zone, Snapshot::API_SERVICE, *ip);
        }
    }

    /// Asks for the address of a Service, past the cache and for nobody.
    fn ask_for(&self, cx: &mut Cx<'_>, zone: usize, key: &[u8], ip: IpAddr) {
        let Some(apex) = self.zones.names().get(zone) else { return };
        let Ok(qname) = Name::from_wire(&[key, SVC, apex.as_wire()].concat()) else { return };
        let q = &cx.job.current;
        let mut resolution = Resolution::default();
        let flags = Flags::default().with(Flags::RD, true);
        resolution.begin(qname.view(), type_of(ip), Class::IN, flags);
        resolution.asker = Asker::Handler;
        resolution.asked_ns = cx.now.mono_ns;
        (resolution.block, resolution.zone, resolution.position) = (q.block, q.zone, q.position);
        resolution.state.cache.reading = Reading::Nothing;
        let (client, request) = (*cx.job.client(), cx.job.request.clone());
        let query = cx.job.query.clone();
        cx.worker.background.push(Background { client, request, query, resolution });
    }

    /// What an answer for one of the Services shows by which clusters are told apart.
    fn heard_of_witness(
        &self,
        q: &Resolution,
        zone: usize,
        below: &[u8],
        now: Now,
    ) -> Option<Heard> {
        let (feed, proof) = (self.feed.as_ref()?, self.proofs.get(zone)?);
        let key = below.strip_suffix(SVC)?;
        let names = feed.load();
        let is_api = key == Snapshot::API_SERVICE;
        let is_witness = is_api || names.witnesses().any(|(known, _)| known.as_wire() == key);
        let ips = names.witness(key).filter(|_| is_witness)?;
        let heard = Heard::of(q.qtype, q.response.rcode, &q.response.wire, ips)?;
        proof.heard(heard, is_api, now);
        if matches!(q.asker, Asker::Handler) {
            proof.was_asked(now);
        }
        Some(heard)
    }

    /// How long a denial is gone by; `None` if nothing follows from it.
    fn time_of_denial(&self, q: &Resolution, zone: usize, has_names: bool) -> Option<Duration> {
        let apex = self.zones.names().get(zone)?;
        let said = self.learned.denial(zone, apex.view(), &q.response.wire)?;
        // With the names at hand the answer only shows that there is nothing beside them.
        Some(if has_names { SEARCH_TIME } else { said.min(SEARCH_TIME) })
    }

    fn zone_len(&self, zone: usize) -> usize {
        self.zones.names().get(zone).map_or(1, |zone| zone.as_wire().len())
    }

    fn deny(&self, cx: &mut Cx<'_>, zone: usize, authority: Authority) {
        let (mname, rname) = SOA_NAMES;
        let soa = Soa { mname, rname, ..Soa::of_cluster(authority.serial, authority.negative_ttl) };
        records::deny(cx.q(), Rcode::NXDOMAIN, self.zone_len(zone), &soa);
    }

    /// A name that a service has had for a moment only may have been denied just before, and that
    /// answer be in the cache, also in one that came from another process.
    fn avoid_denials(&self, cx: &mut Cx<'_>, zone: usize, since: u64) {
        let authority = self.learned.authority(zone);
        let memory = authority.map_or(FRESH_TIME_MIN, |authority| authority.negative_ttl);
        let memory = memory.clamp(FRESH_TIME_MIN, FRESH_TIME_MAX);
        if cx.now.unix_s > since.saturating_add(memory.into()) {
            return;
        }
        let next = cx.job.current.position + 1;
        if matches!(cx.block.handlers.get(next), Some(Handler::Cache(_))) {
            cx.job.current.state.cache.reading = Reading::NoDenials;
            cx.worker.cells.add(self.series.fresh, 1);
        }
    }

    /// Before it is known which services there are, those of a moment ago are among them: what a
    /// predecessor left in the cache may deny them. Without an API server this must end.
    fn mistrust_denials_of_before(&self, cx: &mut Cx<'_>, zone: usize) {
        if self.feed.as_ref().is_none_or(|feed| feed.synced()) {
            return;
        }
        let now = cx.now.unix_s;
        let ordering = Ordering::Relaxed;
        let began = self.began.compare_exchange(0, now, ordering, ordering).unwrap_or_else(|at| at);
        self.avoid_denials(cx, zone, if began == 0 { now } else { began });
    }
}

/// The labels in front of the zone, in wire form and folded.
fn below<'b>(q: &Resolution, zone_len: usize, buffer: &'b mut [u8; NAME_LEN_MAX]) -> &'b [u8] {
    let folded = q.qname.view().fold(buffer);
    folded.len().checked_sub(zone_len).and_then(|len| folded.get(..len)).unwrap_or_default()
}
