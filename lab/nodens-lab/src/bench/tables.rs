//! The tables of a benchmark: medians, spread, ratios.

use super::cells::Cell;
use super::peers::Peer;
use super::sample::Sample;
use super::{Bench, NAMES_OF_MEMORY, UPSTREAM_BUSY};
use crate::term::{self, Style, Table};

mod authority;
mod streams;

/// Quantiles of the latency tables.
pub(super) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The median of a few values and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    median: f64,
    min: f64,
    max: f64,
    /// A quarter of the values is below it, and a quarter above [`Self::high`].
    low: f64,
    high: f64,
}

impl Summary {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let last = values.len() - 1;
        let median = (values.get(last / 2)? + values.get(values.len() / 2)?) / 2.0;
        let (low, high) = (*values.get(last / 4)?, *values.get(last - last / 4)?);
        Some(Self { median, min, max, low, high })
    }

    /// Half the range in percent of the median.
    fn spread(self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / 2.0 / self.median * 100.0 } else { 0.0 }
    }

    /// The median with its spread; beyond 100 % its size says nothing more.
    fn text(self, number: impl Fn(f64) -> String) -> String {
        match self.spread() {
            spread if spread > 100.0 => format!("{} ±>100 %", number(self.median)),
            spread => format!("{} ±{spread:.0} %", number(self.median)),
        }
    }
}

struct Numbers<'a> {
    samples: &'a [Sample],
}

impl Numbers<'_> {
    fn of(&self, server: &str, cell: Cell) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |s| s.server == server && s.cell == cell)
    }

    fn summary(&self, server: &str, cell: Cell, of: impl Fn(&Sample) -> f64) -> Option<Summary> {
        Summary::of(self.of(server, cell).map(of).collect())
    }

    fn rate(&self, server: &str, cell: Cell) -> Option<Summary> {
        self.summary(server, cell, Sample::rate)
    }

    fn cost(&self, server: &str, cell: Cell) -> Option<Summary> {
        self.summary(server, cell, Sample::cost)
    }

    fn is_spoilt(&self, server: &str, cell: Cell) -> bool {
        let mut samples = self.of(server, cell);
        samples.any(|sample| sample.is_spoilt() || sample.upstream_busy() > UPSTREAM_BUSY)
    }

    /// How many times the queries of `other` this server answers.
    ///
    /// From the rates; if other processes or the upstream spoilt one of them, from CPU per
    /// query, which they hardly touch, with a star.
    fn ratio(&self, server: &str, cell: Cell, other: &str, other_cell: Cell) -> Option<String> {
        let spoilt = self.is_spoilt(server, cell) || self.is_spoilt(other, other_cell);
        let (here, there) = ((server, cell), (other, other_cell));
        let ratio = if spoilt {
            self.paired(there, here, Sample::cost)?
        } else {
            self.paired(here, there, Sample::rate)?
        };
        let star = if spoilt { "*" } else { "" };
        Some(format!("{:.2}{star}", ratio.median))
    }

    /// How many times the CPU of `other` this server takes, with the range of the middle half of
    /// the repeats.
    fn times(&self, server: &str, (cell, other): (Cell, &str)) -> Option<String> {
        let ratio = self.paired((server, cell), (other, cell), Sample::millicores)?;
        if server == other {
            return Some("1.00".to_owned());
        }
        Some(format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.low, ratio.high))
    }

    /// One divided by the other in the same repeat: what drifts on the machine from one repeat to
    /// the next is in both, so these ratios lie closer together than the values do.
    fn paired(
        &self,
        (server, cell): (&str, Cell),
        (other, other_cell): (&str, Cell),
        of: impl Fn(&Sample) -> f64,
    ) -> Option<Summary> {
        let pairs = self.of(server, cell).filter_map(|over| {
            let under = self.of(other, other_cell).find(|under| under.repeat == over.repeat)?;
            Some(of(over) / of(under))
        });
        Summary::of(pairs.collect())
    }
}

/// One table of the report.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) table: Table,
    /// Servers that have a value in it.
    rows: usize,
}

/// What one column shows of one server; nothing if it was not measured.
type Column<'a> = (&'a str, Box<dyn Fn(&str) -> Option<String> + 'a>);

/// A table of the servers that have a value in at least one column.
fn section(title: &str, peers: &[Peer], columns: &[Column<'_>]) -> Section {
    let mut header = vec!["server"];
    header.extend(columns.iter().map(|(name, _)| *name));
    let mut table = Table::new(&header);
    let mut rows = 0;
    for peer in peers {
        let cells: Vec<_> = columns.iter().map(|(_, of)| of(peer.name)).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        rows += 1;
        let mut row = vec![peer.name.to_owned()];
        row.extend(cells.into_iter().map(|cell| cell.unwrap_or("–".to_owned())));
        match peer.name {
            "nodens" | "nodens-k8s" => table.styled(Style::Good, row),
            "echo" | "echo-long" => table.styled(Style::Dim, row),
            _ => table.row(row),
        }
    }
    Section { title: title.to_owned(), table, rows }
}

fn micros(value: f64) -> String {
    format!("{value:.2} µs")
}

fn rate_column<'a>(numbers: &'a Numbers<'a>, name: &'a str, cell: Cell) -> Column<'a> {
    (name, Box::new(move |server| Some(numbers.rate(server, cell)?.text(term::rate))))
}

fn cost_column<'a>(numbers: &'a Numbers<'a>, cell: Cell) -> Column<'a> {
    ("CPU", Box::new(move |server| Some(micros(numbers.cost(server, cell)?.median))))
}

fn ratio_column<'a>(
    numbers: &'a Numbers<'a>,
    name: &'a str,
    cell: Cell,
    (other, other_cell): (&'a str, Cell),
) -> Column<'a> {
    (name, Box::new(move |server| numbers.ratio(server, cell, other, other_cell)))
}

fn hits(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let columns = [
        rate_column(n, "1 name", Cell::OneName),
        rate_column(n, "10,000 names", Cell::ManyNames),
        cost_column(n, Cell::ManyNames),
        ratio_column(n, "×echo", Cell::ManyNames, ("echo", Cell::ManyNames)),
        ratio_column(n, "×CoreDNS", Cell::ManyNames, ("coredns", Cell::ManyNames)),
    ];
    section("Cache hits, server on one CPU: the highest QPS, CPU per query", peers, &columns)
}

fn two_cpus(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let one: Column<'_> = (
        "×one CPU",
        Box::new(move |server| n.ratio(server, Cell::TwoCpus, server, Cell::ManyNames)),
    );
    let columns = [
        rate_column(n, "10,000 names", Cell::TwoCpus),
        cost_column(n, Cell::TwoCpus),
        one,
        ratio_column(n, "×echo", Cell::TwoCpus, ("echo", Cell::TwoCpus)),
        ratio_column(n, "×CoreDNS", Cell::TwoCpus, ("coredns", Cell::TwoCpus)),
    ];
    section("Cache hits, server on two CPUs", peers, &columns)
}

fn misses(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let columns = [
        rate_column(n, "no name twice", Cell::Misses),
        cost_column(n, Cell::Misses),
        ratio_column(n, "×dnsdist", Cell::Misses, ("dnsdist", Cell::Misses)),
        ratio_column(n, "×CoreDNS", Cell::Misses, ("coredns", Cell::Misses)),
        rate_column(n, "upstream over TLS", Cell::MissesDot),
        ratio_column(n, "×dnsdist over TLS", Cell::MissesDot, ("dnsdist", Cell::MissesDot)),
        ratio_column(n, "×CoreDNS over TLS", Cell::MissesDot, ("coredns", Cell::MissesDot)),
        rate_column(n, "upstream over HTTPS", Cell::MissesDoh),
        ratio_column(n, "×dnsdist over HTTPS", Cell::MissesDoh, ("dnsdist", Cell::MissesDoh)),
        ratio_column(n, "×CoreDNS over HTTPS", Cell::MissesDoh, ("coredns", Cell::MissesDoh)),
        rate_column(n, "upstream over QUIC", Cell::MissesDoq),
        ratio_column(n, "×CoreDNS over QUIC", Cell::MissesDoq, ("coredns", Cell::MissesDoq)),
    ];
    section("Cache misses through one upstream, server on one CPU", peers, &columns)
}

fn internal(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let columns = [
        rate_column(n, "cache, internal", Cell::Internal),
        rate_column(n, "cache, external", Cell::OneName),
        rate_column(n, "no cache, internal", Cell::UncachedInternal),
        rate_column(n, "no cache, external", Cell::UncachedExternal),
    ];
    section(
        "One name, internal (local to the server) and external, with and without a cache",
        peers,
        &columns,
    )
}

fn low(peers: &[Peer], n: &Numbers<'_>) -> Section {
    let bill: Column<'_> = (
        "mCPU",
        Box::new(move |server| {
            let summary = n.summary(server, Cell::Low, Sample::millicores)?;
            Some(summary.text(|value| format!("{value:.1}")))
        }),
    );
    let times = |other: &'static str| move |server: &str| n.times(server, (Cell::Low, other));
    let memory: Column<'_> = (
        "octets per cached name",
        Box::new(move |server| {
            let of = |sample: &Sample| sample.per_name(NAMES_OF_MEMORY);
            Some(n.summary(server, Cell::Memory, of)?.text(|value| format!("{value:.0}")))
        }),
    );
    let resident: Column<'_> = (
        "memory with 100,000 names",
        Box::new(move |server| {
            let of = |sample: &Sample| sample.resident.1.map_or(f64::NAN, |octets| octets as f64);
            let mebibytes = |value: f64| format!("{:.0} MiB", value / f64::from(1 << 20));
            Some(mebibytes(n.summary(server, Cell::Memory, of)?.median))
        }),
    );
    let columns = [
        bill,
        ("×echo", Box::new(times("echo")) as Box<dyn Fn(&str) -> Option<String>>),
        ("×CoreDNS", Box::new(times("coredns"))),
        memory,
        resident,
    ];
    section("Cost: CPU at 2,000 QPS from sleeping clients; memory", peers, &columns)
}

fn latency(title: &str, peers: &[Peer], n: &Numbers<'_>, cell: Cell) -> Section {
    let quantile = |(name, part): (&'static str, f64)| -> Column<'_> {
        let of = move |server: &str| {
            Some(n.summary(server, cell, |sample| sample.latency(part))?.text(term::nanos))
        };
        (name, Box::new(of))
    };
    let mut columns: Vec<Column<'_>> = QUANTILES.into_iter().map(quantile).collect();
    let lost = move |server: &str| {
        let of = |sample: &Sample| sample.load.lost as f64 / (sample.load.sent as f64).max(1.0);
        Some(term::percent(n.summary(server, cell, of)?.median))
    };
    columns.push(("lost", Box::new(lost)));
    columns.push(cost_column(n, cell));
    section(title, peers, &columns)
}

fn latencies(bench: &Bench<'_>, peers: &[Peer], n: &Numbers<'_>) -> Vec<Section> {
    let rate = term::count(bench.args.rate as u64);
    let titles = [
        (Cell::Fixed, format!("Latency at {rate} QPS, 10,000 names, all hits")),
        (
            Cell::Half,
            "Latency at half of each server's own maximum, 10,000 names, all hits".to_owned(),
        ),
        (
            Cell::SameCpu,
            format!(
                "Latency at {rate} QPS across veth, client and server on one CPU, from sending"
            ),
        ),
        (
            Cell::Quiet,
            "Latency at half of the maximum, with a hosts file of 100,000 lines".to_owned(),
        ),
        (
            Cell::Disturbed,
            "The same under reloads, hosts file changes and ten scrapes of the metrics per second"
                .to_owned(),
        ),
        (
            Cell::BesideTls,
            "UDP at 2,000 QPS beside an idle listener with TLS, from sending".to_owned(),
        ),
        (
            Cell::Storm,
            "The same while 128 clients make one full TLS handshake after the other".to_owned(),
        ),
    ];
    titles.iter().map(|(cell, title)| latency(title, peers, n, *cell)).collect()
}

fn kubernetes(title: &str, peers: &[Peer], n: &Numbers<'_>, cells: [Cell; 2]) -> Section {
    let [services, search_path] = cells;
    let columns = [
        rate_column(n, "services", services),
        cost_column(n, services),
        ratio_column(n, "×CoreDNS", services, ("coredns-k8s", services)),
        rate_column(n, "NXDOMAIN of search lists", search_path),
        cost_column(n, search_path),
        ratio_column(n, "×CoreDNS", search_path, ("coredns-k8s", search_path)),
    ];
    section(title, peers, &columns)
}

/// Every table in which at least one server has a value.
pub(super) fn all(bench: &Bench<'_>, peers: &[Peer], samples: &[Sample]) -> Vec<Section> {
    let n = Numbers { samples };
    let mut sections = vec![hits(peers, &n), two_cpus(peers, &n), misses(peers, &n)];
    sections.extend([internal(peers, &n), low(peers, &n)]);
    sections.extend(latencies(bench, peers, &n));
    sections.push(streams::tcp(peers, &n));
    sections.push(streams::connections(peers, &n));
    sections.extend([streams::encrypted(peers, &n), streams::handshakes(peers, &n)]);
    sections.extend(authority::all(peers, &n));
    let cached = [Cell::Services, Cell::SearchPath];
    let uncached = [Cell::UncachedServices, Cell::UncachedSearchPath];
    let title = "Kubernetes, 5,000 Services from an API server, `cache 30`, server on one CPU";
    sections.push(kubernetes(title, peers, &n, cached));
    sections.push(kubernetes("The same without a cache", peers, &n, uncached));
    sections.retain(|section| section.rows > 0);
    sections
}

#[cfg(test)]
mod tests {
    use super::super::sample::Load;
    use super::*;
    use crate::child::Account;

    #[test]
    fn medians_and_spread_are_those_of_the_sorted_values() {
        let summary = Summary::of(vec![30.0, 10.0, 20.0]).unwrap();
        assert_eq!((summary.median, summary.spread()), (20.0, 50.0));
        assert_eq!(Summary::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(vec![f64::NAN]), None);
        assert_eq!(Summary::of(vec![0.0]).unwrap().spread(), 0.0);
    }

    fn sample(server: &'static str, repeat: usize, rate: f64) -> Sample {
        Sample {
            server,
            repeat,
            cell: Cell::ManyNames,
            tries: 1,
            faults: Vec::new(),
            load: Load { rate, elapsed: 1.0, ..Load::default() },
            cpus: 1,
            account: Account::default(),
            upstream: Account::default(),
            asked: 0,
            resident: (None, None),
        }
    }

    #[test]
    fn ratios_are_those_of_the_same_repeat() {
        // The machine is half as fast from the second repeat on, and one repeat of `a` is missing.
        let rates =
            [("a", 0, 80.0), ("a", 1, 40.0), ("b", 0, 100.0), ("b", 1, 50.0), ("b", 2, 50.0)];
        let samples: Vec<_> = rates.map(|(server, at, rate)| sample(server, at, rate)).into();
        let numbers = Numbers { samples: &samples };
        let ratio = |one, other| numbers.ratio(one, Cell::ManyNames, other, Cell::ManyNames);
        assert_eq!(ratio("a", "b").as_deref(), Some("0.80"));
        assert_eq!(ratio("b", "a").as_deref(), Some("1.25"));
        assert_eq!(ratio("a", "c"), None);
    }
}
