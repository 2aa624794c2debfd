//! The metric series of one upstream, under CoreDNS's present names and, for `forward`, those of before 1.10.

use super::Carrier;
use crate::metrics::{Cells, Counter, Histogram, LazyCounters, LazyHistograms, Registry};
use crate::transport::{ByTransport, ListenerKind};
use nodens_wire::Rcode;
use std::time::Duration;

/// RCODEs up to this have a series each; the others share one.
const RCODES: usize = 24;

/// Seconds: 250 µs doubled fifteen times.
static DURATION_BOUNDS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
    2.048, 4.096, 8.192,
];

/// Series with the label `to` of one upstream.
#[derive(Debug)]
pub struct Series {
    families: &'static Families,
    requests: Counter,
    probe_failures: Counter,
    malformed: Counter,
    conn_hits: ByTransport<Counter>,
    conn_misses: ByTransport<Counter>,
    /// By RCODE.
    responses: LazyCounters,
    durations: LazyHistograms,
    old_durations: LazyHistograms,
}

/// The names of the families that differ between directives.
#[derive(Debug)]
struct Families {
    directive: &'static str,
    requests: &'static str,
    /// Whether a request is one that was answered.
    counts_answers: bool,
    responses: &'static str,
    malformed: &'static str,
}

static FORWARD: Families = Families {
    directive: "forward",
    requests: "coredns_forward_requests_total",
    counts_answers: false,
    responses: "coredns_forward_responses_total",
    malformed: "nodens_forward_malformed_replies_total",
};

static GRPC: Families = Families {
    directive: "grpc",
    requests: "coredns_grpc_requests_total",
    counts_answers: true,
    responses: "coredns_grpc_responses_total",
    malformed: "nodens_grpc_malformed_replies_total",
};

impl Families {
    /// Those of the directive that asks upstreams of this kind.
    fn of(kind: ListenerKind) -> &'static Self {
        if kind == ListenerKind::Grpc { &GRPC } else { &FORWARD }
    }
}

impl Series {
    /// Those of the upstream called `to`, which speaks `kind`.
    pub(super) fn new(registry: &Registry, to: &str, kind: ListenerKind) -> Self {
        let families = Families::of(kind);
        let proxy = ("proxy_name", families.directive);
        let per_carrier = |name, help| {
            ByTransport::new(|carrier: Carrier| {
                // Only what it can be asked over has a series.
                let own = kind.transports();
                let carrier = match own {
                    [own] => *own,
                    _ if own.contains(&carrier) => carrier,
                    _ => Carrier::Tcp,
                };
                registry.counter(name, help, &[proxy, ("to", to), ("proto", carrier.proto())])
            })
        };
        Self {
            families,
            requests: registry.counter(
                families.requests,
                "Queries sent to an upstream.",
                &[("to", to)],
            ),
            probe_failures: registry.counter(
                "coredns_proxy_healthcheck_failures_total",
                "Health checks that failed.",
                &[proxy, ("to", to)],
            ),
            malformed: registry.counter(
                families.malformed,
                "Replies of an upstream that were no well-formed messages.",
                &[("to", to)],
            ),
            conn_hits: per_carrier(
                "coredns_proxy_conn_cache_hits_total",
                "Queries sent over a connection or port that was open.",
            ),
            conn_misses: per_carrier(
                "coredns_proxy_conn_cache_misses_total",
                "Queries that opened a connection or port.",
            ),
            responses: LazyCounters::new(RCODES + 1),
            durations: LazyHistograms::new(RCODES + 1),
            old_durations: LazyHistograms::new(RCODES + 1),
        }
    }

    /// Questions sent over a connection that was there.
    pub fn conn_hits(&self, carrier: Carrier) -> Counter {
        *self.conn_hits.of(carrier)
    }

    /// Questions a connection or socket was made for.
    pub fn conn_misses(&self, carrier: Carrier) -> Counter {
        *self.conn_misses.of(carrier)
    }

    /// Health checks that failed.
    pub fn probe_failures(&self) -> Counter {
        self.probe_failures
    }

    /// Replies that were no well-formed messages.
    pub fn malformed(&self) -> Counter {
        self.malformed
    }

    /// Counts a question that is sent.
    pub fn count_request(&self, cells: &mut Cells) {
        if !self.families.counts_answers {
            cells.add(self.requests, 1);
        }
    }

    /// Counts an answer with `rcode` from the upstream called `to`, by writer `writer`.
    pub fn count_answer(
        &self,
        (cells, writer, registry): (&mut Cells, usize, &Registry),
        to: &str,
        rcode: Rcode,
        took: Duration,
    ) {
        let index = usize::from(rcode.0).min(RCODES);
        let text = || match rcode.mnemonic() {
            Some(text) => text.to_owned(),
            None if index < RCODES => rcode.0.to_string(),
            None => "other".to_owned(),
        };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let families = self.families;
        self.responses.add(index, cells, writer, registry, || {
            registry.counter(
                families.responses,
                "Responses of an upstream, by RCODE.",
                &[("to", to), ("rcode", &text())],
            )
        });
        if families.counts_answers {
            cells.add(self.requests, 1);
            return self.durations.observe((0, ns), cells, writer, registry, || {
                duration(registry, "coredns_grpc_request_duration_seconds", &[("to", to)])
            });
        }
        self.durations.observe((index, ns), cells, writer, registry, || {
            let labels = [("proxy_name", "forward"), ("to", to), ("rcode", &text())];
            duration(registry, "coredns_proxy_request_duration_seconds", &labels)
        });
        self.old_durations.observe((index, ns), cells, writer, registry, || {
            let labels = [("to", to), ("rcode", &text())];
            duration(registry, "coredns_forward_request_duration_seconds", &labels)
        });
    }
}

fn duration(registry: &Registry, name: &'static str, labels: &[(&str, &str)]) -> Histogram {
    let help = "Seconds from a query to an upstream to its response.";
    registry.histogram(name, help, labels, &DURATION_BOUNDS, 1e-9)
}
