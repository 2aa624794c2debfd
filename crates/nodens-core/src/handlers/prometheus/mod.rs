//! `prometheus`: counts questions and answers, and asks for the HTTP endpoint that shows them.

use crate::config::{BlockBuilder, PrometheusService, Unserved};
use crate::handler::{Cx, Handle, Job, Spec};
use crate::handlers::NAMES;
use crate::metrics::{Histogram, LazyCounters, Registry};
use crate::shared::Shared;
use crate::time::Now;
use crate::worker::WorkerState;
use crate::transport::{ByNetwork, Network};
use nodens_corefile::{Directive, Error};
use nodens_wire::{Rcode, Type};
use std::net::IpAddr;

#[cfg(test)]
mod tests;

const REQUESTS: &str = "coredns_dns_requests_total";
const REQUESTS_HELP: &str = "Queries received.";
const RESPONSES: &str = "coredns_dns_responses_total";
const RESPONSES_HELP: &str = "Responses sent, by RCODE.";

/// How the directive is read.
pub const SPEC: Spec = Spec { unserved: Some(count_unserved), ..Spec::new("prometheus", setup) };

/// Seconds: 250 µs doubled fifteen times.
static DURATION_BOUNDS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
    2.048, 4.096, 8.192,
];
/// Octets.
static SIZE_BOUNDS: [f64; 14] = [
    0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16e3, 32e3, 48e3,
    64e3,
];

/// Types with a label of their own; all others are `other`, so that clients cannot make series.
const TYPES: [Type; 19] = [
    Type::A,
    Type::AAAA,
    Type::CNAME,
    Type::DNSKEY,
    Type::DS,
    Type::MX,
    Type::NSEC3,
    Type::NSEC,
    Type::NS,
    Type::PTR,
    Type::RRSIG,
    Type::SOA,
    Type::SRV,
    Type::TXT,
    Type::HTTPS,
    Type::SVCB,
    Type::IXFR,
    Type::AXFR,
    Type::ANY,
];
/// RCODEs up to this have a series each.
const RCODES: usize = 24;
const FAMILIES: [&str; 2] = ["1", "2"];

/// The directive at work.
#[derive(Debug)]
pub struct Prometheus {
    zones: Vec<ZoneSeries>,
}

/// The series of one zone.
#[derive(Debug)]
struct ZoneSeries {
    server: String,
    zone: String,
    view: String,
    requests: LazyCounters,
    responses: LazyCounters,
    do_requests: LazyCounters,
    duration: Histogram,
    request_size: ByNetwork<Histogram>,
    response_size: ByNetwork<Histogram>,
}

/// Reads `prometheus [ADDRESS] { runtime_metrics }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let address = match directive.args() {
        [] => "localhost:9153".to_owned(),
        [address] => super::health::listen_address(address, "localhost:9153")?,
        [_, extra, ..] => return Err(Error::expected(extra, "at most one address")),
    };
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            // There is no Go runtime whose metrics could be shown.
            "runtime_metrics" => line.expect_no_args()?,
            "tls" => {
                let text = "'tls' of 'prometheus' is known to CoreDNS, but Nodens does not have it yet";
                return Err(Error::invalid(&line.name, text));
            }
            _ => return Err(line.unknown_property(&["runtime_metrics"])),
        }
    }
    block.services.prometheus.push(PrometheusService { address });
    let view = block.view_name();
    let registry = &block.shared.registry;
    let series = |zone: &nodens_wire::Name| {
        ZoneSeries::new(registry, &block.server, &zone.to_string(), &view)
    };
    let zones = block.zones.iter().map(series).collect();
    enabled(block, &view);
    block.push(Prometheus { zones });
    Ok(())
}

/// Counts the questions that no zone of `server` matches, with the directive and without.
fn count_unserved(shared: &Shared, server: &str) -> Unserved {
    let series = ZoneSeries::dropped(&shared.registry, server);
    Unserved::new(move |now, worker, job| series.count_dropped(now, worker, job))
}

/// `coredns_plugin_enabled`: each directive in each zone.
fn enabled(block: &mut BlockBuilder<'_>, view: &str) {
    for zone in &block.zones {
        let zone = zone.to_string();
        for name in &block.present {
            block.services.enabled.insert(vec![
                ("server", block.server.to_string()),
                ("zone", zone.clone()),
                ("view", view.to_owned()),
                ("name", (*name).to_owned()),
            ]);
        }
    }
}

impl ZoneSeries {
    fn new(registry: &Registry, server: &str, zone: &str, view: &str) -> Self {
        let labels = [("server", server), ("zone", zone), ("view", view)];
        let seconds = 1e-9;
        let duration = registry.histogram(
            "coredns_dns_request_duration_seconds",
            "Seconds from a query to its response.",
            &labels,
            &DURATION_BOUNDS,
            seconds,
        );
        let sizes = |name, help| {
            ByNetwork::new(|network| {
                let proto = ("proto", network.name());
                let labels = [labels[0], labels[1], labels[2], proto];
                registry.histogram(name, help, &labels, &SIZE_BOUNDS, 1.0)
            })
        };
        let request_size = sizes(
            "coredns_dns_request_size_bytes",
            "Octets of queries.",
        );
        let response_size = sizes(
            "coredns_dns_response_size_bytes",
            "Octets of responses.",
        );
        Self {
            requests: LazyCounters::new(Network::ALL.len() * FAMILIES.len() * (TYPES.len() + 1)),
            responses: LazyCounters::new((RCODES + 1) * (NAMES.len() + 1)),
            do_requests: LazyCounters::new(1),
            duration,
            request_size,
            response_size,
            server: server.to_owned(),
            zone: zone.to_owned(),
            view: view.to_owned(),
        }
    }

    /// The series of questions that no zone of `server` matches.
    fn dropped(registry: &Registry, server: &str) -> Self {
        Self::new(registry, server, "dropped", "")
    }

    /// Counts the question of `job`, which got REFUSED because no zone matches it.
    fn count_dropped(&self, now: Now, worker: &mut WorkerState, job: &Job) {
        self.count_request(worker, job);
        self.count_response(worker, Rcode::REFUSED, None);
        self.observe(now, worker, job, job.query.question_end());
    }

    fn observe(&self, now: Now, worker: &mut WorkerState, job: &Job, response_len: usize) {
        let network = job.client().transport.network();
        let cells = &worker.parts.cells;
        worker.unsent.add(self.duration, job.current.asked_ns, now, cells);
        cells.observe(*self.request_size.of(network), job.request_len() as u64);
        cells.observe(*self.response_size.of(network), response_len as u64);
    }

    fn labels(&self) -> [(&str, &str); 3] {
        [("server", &self.server), ("zone", &self.zone), ("view", &self.view)]
    }

    fn count_request(&self, worker: &mut WorkerState, job: &Job) {
        let network = job.client().transport.network();
        let client = job.client().peer.ip().to_canonical();
        let family = usize::from(matches!(client, IpAddr::V6(_)));
        let q = &job.current;
        let index = type_index(if q.is_clients() { job.query.qtype } else { q.qtype });
        let series = (index * FAMILIES.len() + family) * Network::ALL.len() + network.index();
        let registry = &worker.parts.shared.registry;
        let register = || {
            let text = TYPES.get(index).map_or_else(|| "other".to_owned(), Type::to_string);
            let [server, zone, view] = self.labels();
            let (proto, family) = (network.name(), FAMILIES[family]);
            let labels =
                [server, zone, view, ("proto", proto), ("family", family), ("type", &text)];
            registry.counter(REQUESTS, REQUESTS_HELP, &labels)
        };
        self.requests.add(series, &mut worker.parts.cells, worker.parts.index, registry, register);
        if job.query.dnssec_ok() {
            let help = "Queries with the DO bit.";
            let register =
                || registry.counter("coredns_dns_do_requests_total", help, &self.labels());
            self.do_requests.add(0, &mut worker.parts.cells, worker.parts.index, registry, register);
        }
    }

    fn count_response(&self, worker: &mut WorkerState, rcode: Rcode, by: Option<usize>) {
        let rcode_index = usize::from(rcode.0).min(RCODES);
        let series = rcode_index * (NAMES.len() + 1) + by.unwrap_or(NAMES.len());
        let registry = &worker.parts.shared.registry;
        let register = || {
            let [server, zone, view] = self.labels();
            let rcode = rcode_text(rcode);
            let by = by.and_then(|by| NAMES.get(by)).copied().unwrap_or_default();
            let labels = [server, zone, view, ("rcode", &rcode), ("plugin", by)];
            registry.counter(RESPONSES, RESPONSES_HELP, &labels)
        };
        self.responses.add(series, &mut worker.parts.cells, worker.parts.index, registry, register);
    }
}

impl Handle for Prometheus {
    const LOOKS_AT_QUESTIONS: bool = false;
    const ONLY_WATCHES: bool = true;
    const NOTES_DROPS: bool = true;

    fn amend(&self, cx: &mut Cx<'_>) {
        let Some(series) = self.zones.get(cx.job.current.zone) else { return };
        let response = &cx.job.current.response;
        let len = if response.written { response.wire.len() } else { 0 };
        series.count_request(cx.worker, cx.job);
        series.count_response(cx.worker, response.rcode, response.answered_by);
        series.observe(cx.now, cx.worker, cx.job, len);
    }
}

/// Index into [`TYPES`], or its length for all other types.
fn type_index(qtype: Type) -> usize {
    /// What [`TYPES`] says, turned round.
    static INDEX: [u8; 256] = {
        let mut index = [TYPES.len() as u8; 256];
        let mut i = 0;
        while i < TYPES.len() {
            index[TYPES[i].0 as usize] = i as u8;
            i += 1;
        }
        index
    };
    INDEX.get(usize::from(qtype.0)).map_or(TYPES.len(), |i| usize::from(*i))
}

fn rcode_text(rcode: Rcode) -> String {
    rcode.mnemonic().map_or_else(|| rcode.0.to_string(), str::to_owned)
}

