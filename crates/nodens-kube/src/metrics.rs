//! What is counted. Names that begin with `coredns_` are CoreDNS's.

use nodens_core::Shared;
use nodens_core::metrics::{Counter, Histogram};
use std::sync::Arc;
use std::time::Duration;

/// From 1 ms to about 9 minutes, doubling, as in CoreDNS.
const PROGRAMMING_BOUNDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384, 32.768, 65.536, 131.072, 262.144, 524.288,
];
/// The Go client's default buckets.
const REQUEST_BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const NS: f64 = 1e-9;

/// The counters of all watches. There is one thread of watches, so they have one writer.
#[derive(Debug)]
pub(crate) struct Metrics {
    shared: Arc<Shared>,
    programming: [Histogram; 2],
    published: Counter,
}

impl Metrics {
    /// Registers what every watch has.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let registry = &shared.registry;
        let programming = ["cluster_ip", "headless_with_selector"].map(|kind| {
            let name = "coredns_kubernetes_dns_programming_duration_seconds";
            let help = "Time from a change of endpoints until it is answered.";
            registry.histogram(name, help, &[("service_kind", kind)], PROGRAMMING_BOUNDS, NS)
        });
        let help = "Snapshots of clusters handed to the workers.";
        let published = registry.counter("nodens_kubernetes_snapshots_total", help, &[]);
        Self { shared, programming, published }
    }

    fn add(&self, counter: Counter, n: u64) {
        self.shared.registry.cells(self.shared.watch_writer()).add(counter, n);
    }

    fn observe(&self, histogram: Histogram, taken: Duration) {
        let ns = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
        self.shared.registry.cells(self.shared.watch_writer()).observe(histogram, ns);
    }

    /// A change of endpoints is answered, so long after it began.
    pub(crate) fn programmed(&self, headless: bool, taken: Duration) {
        self.observe(self.programming[usize::from(headless)], taken);
    }

    /// A snapshot was handed over.
    pub(crate) fn published(&self) {
        self.add(self.published, 1);
    }

    /// A request was answered with the status `code`, or `<error>` as in the Go client.
    pub(crate) fn requested(&self, host: &str, code: &str, taken: Duration) {
        let registry = &self.shared.registry;
        let help = "Requests to API servers by status, method and host.";
        let labels = [("code", code), ("method", "GET"), ("host", host)];
        let name = "coredns_kubernetes_rest_client_requests_total";
        self.add(registry.counter(name, help, &labels), 1);
        let help = "Time until an API server answers.";
        let name = "coredns_kubernetes_rest_client_request_duration_seconds";
        let labels = [("verb", "GET"), ("host", host)];
        self.observe(registry.histogram(name, help, &labels, REQUEST_BOUNDS, NS), taken);
    }

    /// A request waited so long for its turn.
    pub(crate) fn waited(&self, host: &str, waited: Duration) {
        let help = "Time a request waits for its turn.";
        let name = "coredns_kubernetes_rest_client_rate_limiter_duration_seconds";
        let labels = [("verb", "GET"), ("host", host)];
        let registry = &self.shared.registry;
        self.observe(registry.histogram(name, help, &labels, REQUEST_BOUNDS, NS), waited);
    }

    /// Counts something that happened to a kind of object.
    pub(crate) fn count(&self, what: Happening, kind: &str, n: u64) {
        let (name, help) = match what {
            Happening::Event => {
                ("nodens_kubernetes_events_total", "Changes heard of, by kind of object.")
            }
            Happening::List => {
                ("nodens_kubernetes_lists_total", "Whole lists taken, by kind of object.")
            }
            Happening::Failure => (
                "nodens_kubernetes_failures_total",
                "Requests and streams that failed, by kind of object.",
            ),
            Happening::Unreadable => (
                "nodens_kubernetes_unreadable_objects_total",
                "Objects that could not be used, by kind.",
            ),
        };
        self.add(self.shared.registry.counter(name, help, &[("kind", kind)]), n);
    }
}

/// What [`Metrics::count`] counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A change.
    Event,
    /// A whole list.
    List,
    /// A request or stream that failed.
    Failure,
    /// An object that could not be used.
    Unreadable,
}
