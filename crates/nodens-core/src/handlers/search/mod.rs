//! `search`: search paths end here. Names that a search list makes and that no object of the
//! cluster has are denied without asking the cluster's servers.
//!
//! `judge` says whether a name can exist, by its shape and by the names that a watch tells of;
//! `learned` remembers what the cluster's servers say. Only what both deny is denied here, so that
//! names which the servers have from elsewhere (`rewrite`, `template`) stay.

mod config;
mod judge;
mod learned;
#[cfg(test)]
mod tests;

use crate::cluster::Feed;
use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Step};
use crate::handlers::Handler;
use crate::handlers::kubernetes::compose::fold;
use crate::handlers::kubernetes::records::{self, Soa};
use crate::job::Resolution;
use crate::limits::{CUT_TIME_AGAIN, CUT_TIME_MAX, FRESH_TIME_MAX, FRESH_TIME_MIN, POPULATED_TIME};
use crate::metrics::Counter;
use crate::time::Now;
use crate::zones::Zones;
use config::Options;
pub(crate) use config::{ApiLines, optional_feed};
use judge::{Ground, Judged, judge};
use learned::{Authority, Learned, SOA_NAMES, Said};
use nodens_corefile::{Directive, Error};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Flags, Name, Opcode, Rcode, Type};
use std::sync::Arc;
use std::time::Duration;

/// The directive at work.
#[derive(Debug)]
pub struct Search {
    zones: Zones,
    except: Vec<Name>,
    /// The names there are, if somebody watches for them.
    feed: Option<Arc<Feed>>,
    learned: Learned,
    series: Series,
}

/// Metric series of one block.
#[derive(Debug)]
struct Series {
    denied: [Counter; Ground::ALL.len()],
    surprises: Counter,
    fresh: Counter,
}

/// Reads `search [ZONES…] { … }`, which a block may have once.
pub fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let options = Options::read(directive, block)?;
    add(options, block);
    Ok(())
}

/// Adds the directive to a block that does not have it and asks other servers for zones that may
/// be a cluster's. It does nothing until they turn out to be.
pub(crate) fn switch_on(block: &mut BlockBuilder<'_>) {
    let has = |name| block.present.contains(&name);
    if has("search") || has("kubernetes") || !has("forward") {
        return;
    }
    if let Some(options) = Options::of_block(block) {
        add(options, block);
    }
}

fn add(options: Options, block: &mut BlockBuilder<'_>) {
    let Options { zones, except, api } = options;
    let feed = api.map(|api| optional_feed(block, api, crate::cluster::Scope::Names));
    let learned = Learned::new(zones.names().len());
    let series = Series::register(block, feed.as_ref());
    block.push(Search { zones, except, feed, learned, series });
}

impl Series {
    fn register(block: &BlockBuilder<'_>, feed: Option<&Arc<Feed>>) -> Self {
        let registry = &block.shared.registry;
        let server = ("server", &*block.server);
        let denied = Ground::ALL.map(|ground| {
            let help = "Names of search paths denied without asking a server of the cluster.";
            let labels = [server, ("ground", ground.label())];
            registry.counter("nodens_search_denied_total", help, &labels)
        });
        let plain = |name, help| registry.counter(name, help, &[server]);
        for (place, kind) in ["namespace", "service"].into_iter().enumerate() {
            let feed = feed.map(Arc::downgrade);
            let count = move || {
                let feed = feed.as_ref().and_then(std::sync::Weak::upgrade);
                let names = feed.filter(|feed| feed.is_current()).map(|feed| feed.load().names());
                names.and_then(|names| names.get(place).copied()).unwrap_or_default() as f64
            };
            let help = "Names that search paths are judged by; 0 while only answers are learned from.";
            let labels = [server, ("kind", kind)];
            registry.gauge("nodens_search_names", help, &labels, Arc::new(count));
        }
        Self {
            denied,
            surprises: plain(
                "nodens_search_surprises_total",
                "Names that a server of the cluster has although they seemed not to exist.",
            ),
            fresh: plain(
                "nodens_search_fresh_total",
                "Questions for names so new that no cached answer was taken.",
            ),
        }
    }
}

impl Handle for Search {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let Some(zone) = self.concerned(q) else { return Step::Next };
        let mut buffer = [0; NAME_LEN_MAX];
        let below = below(q, self.zone_len(zone), &mut buffer);
        let snapshot = self.feed.as_ref().filter(|feed| feed.is_current()).map(|feed| feed.load());
        match judge(below, snapshot.as_ref().map(|snapshot| &***snapshot)) {
            Judged::Open | Judged::Known(0) => {}
            Judged::Known(since) => self.pass_cache(cx, zone, since),
            Judged::Denied { ground, cut } => {
                // Who wants proofs gets what the servers have.
                let is_denied = !q.dnssec_ok()
                    && self.learned.look(zone, cut, cx.now) == Said::Denied;
                if is_denied && let Some(authority) = self.learned.authority(zone) {
                    self.deny(cx, zone, ground, authority);
                    return Step::Answered;
                }
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
        let snapshot = self.feed.as_ref().filter(|feed| feed.is_current()).map(|feed| feed.load());
        let names = snapshot.as_ref().map(|snapshot| &***snapshot);
        let Judged::Denied { cut, .. } = judge(below, names) else { return };
        if q.response.rcode == Rcode::NOERROR {
            cx.worker.cells.add(self.series.surprises, 1);
            self.learned.note(zone, cut, Said::Populated, cx.now.plus(POPULATED_TIME));
        } else if self.learned.look(zone, cut, cx.now) == Said::Nothing
            && let Some(time) = self.time_of_denial(q, zone, cut, names.is_some(), cx.now)
        {
            self.learned.note(zone, cut, Said::Denied, cx.now.plus(time));
        }
    }
}

impl Search {
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

    /// How long a denial is gone by; `None` if nothing follows from it.
    fn time_of_denial(
        &self,
        q: &Resolution,
        zone: usize,
        cut: &[u8],
        has_names: bool,
        now: Now,
    ) -> Option<Duration> {
        let apex = self.zones.names().get(zone)?;
        let said = self.learned.denial(zone, apex.view(), &q.response.wire)?;
        // With the names at hand the answer only shows that there is nothing beside them.
        Some(match has_names {
            false => said.min(CUT_TIME_MAX),
            true if self.learned.was_denied(zone, cut, now, CUT_TIME_AGAIN) => CUT_TIME_AGAIN,
            true => CUT_TIME_MAX,
        })
    }

    fn zone_len(&self, zone: usize) -> usize {
        self.zones.names().get(zone).map_or(1, |zone| zone.as_wire().len())
    }

    fn deny(&self, cx: &mut Cx<'_>, zone: usize, ground: Ground, authority: Authority) {
        if let Some(counter) = self.series.denied.get(ground as usize) {
            cx.worker.cells.add(*counter, 1);
        }
        let (mname, rname) = SOA_NAMES;
        let soa = Soa { mname, rname, ..Soa::of_cluster(authority.serial, authority.negative_ttl) };
        records::deny(cx.q(), Rcode::NXDOMAIN, self.zone_len(zone), &soa);
    }

    /// A name that a service has had for a moment only may have been denied just before, and that
    /// answer be in the cache. So the next handler is passed by if it is the cache.
    fn pass_cache(&self, cx: &mut Cx<'_>, zone: usize, since: u64) {
        let authority = self.learned.authority(zone);
        let memory = authority.map_or(FRESH_TIME_MIN, |authority| authority.negative_ttl);
        let memory = memory.clamp(FRESH_TIME_MIN, FRESH_TIME_MAX);
        if !is_within(cx.now, since, memory) {
            return;
        }
        let next = cx.job.current.position + 1;
        if matches!(cx.block.handlers.get(next), Some(Handler::Cache(_))) {
            cx.job.current.position = next;
            cx.worker.cells.add(self.series.fresh, 1);
        }
    }
}

fn is_within(now: Now, since: u64, seconds: u32) -> bool {
    now.unix_s <= since.saturating_add(seconds.into())
}

/// The labels in front of the zone, in wire form and folded.
fn below<'b>(q: &Resolution, zone_len: usize, buffer: &'b mut [u8; NAME_LEN_MAX]) -> &'b [u8] {
    let folded = fold(q.qname.view(), buffer);
    folded.len().checked_sub(zone_len).and_then(|len| folded.get(..len)).unwrap_or_default()
}
