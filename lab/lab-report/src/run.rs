//! A result as the page shows it: named, coloured, and by columns of one or more seconds.

use lab_histogram::{Histogram, Quantile};
use lab_result::{Connections, Pace, ResultFile, Second};
use std::collections::BTreeMap;

/// Columns of a plot over time: longer runs show several seconds in one.
const COLUMNS: usize = 600;
/// The same where many results share a page, which must stay small.
const COLUMNS_OF_MANY: usize = 240;
/// The part of a column, or of a second, below which its rate is chance.
const SHORTEST: f64 = 0.1;
/// The number of results from which on they are many.
const MANY: usize = 3;

/// A result with its place on the page.
pub(crate) struct Run<'a> {
    /// What was measured.
    pub(crate) result: &'a ResultFile,
    /// Its name on this page.
    pub(crate) label: String,
    /// Its number on this page, from 0; colours and IDs of elements come from it.
    pub(crate) at: usize,
    /// Seconds in a column.
    pub(crate) step: u64,
    /// The run over time.
    pub(crate) columns: Vec<Column>,
}

/// The queries intended for one or more seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    /// The first second.
    pub(crate) first: u64,
    /// How many seconds; the last column may have fewer than the others.
    pub(crate) seconds: u64,
    /// How long queries of this column were sent, in seconds: less than the column where the run ended
    /// in it.
    pub(crate) length: f64,
    /// Whether some query has no outcome, because the run was interrupted.
    pub(crate) is_partial: bool,
    /// Counts as in [`Second`].
    pub(crate) sent: u64,
    /// Answered within the timeout.
    pub(crate) answered: u64,
    /// Lost by timeout, by ICMP, and with a connection.
    pub(crate) lost: [u64; 3],
    /// Never sent.
    pub(crate) unsent: u64,
    /// Without outcome when the run was interrupted.
    pub(crate) interrupted: u64,
    /// Answers by RCODE mnemonic.
    pub(crate) rcodes: BTreeMap<String, u64>,
    /// Response times, lost queries censored.
    pub(crate) response: Histogram,
    /// From the time at which a query was due to its sending.
    pub(crate) lateness: Histogram,
    /// Connections, if the transport has any; `active` is that of the last second.
    pub(crate) connections: Option<Connections>,
}

/// What is meant by each of [`Column::lost`].
pub(crate) const CAUSES: [&str; 3] = ["timed out", "ICMP refused", "connection failed"];

impl Column {
    /// Lost, whatever the cause.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Queries that were due.
    pub(crate) fn offered(&self) -> u64 {
        self.sent + self.unsent
    }

    /// `number` of this column as a rate per second.
    pub(crate) fn per_second(&self, number: u64) -> f64 {
        number as f64 / self.length.max(SHORTEST)
    }

    /// Whether sending ended so early in this column that a rate of it says nothing.
    pub(crate) fn is_short(&self) -> bool {
        self.length < SHORTEST * self.seconds as f64
    }

    fn add(&mut self, second: &Second) {
        self.seconds += 1;
        self.is_partial |= !second.is_final;
        self.sent += second.sent;
        self.answered += second.answered;
        let lost = [second.timed_out, second.refused, second.connection_failed];
        for (into, from) in self.lost.iter_mut().zip(lost) {
            *into += from;
        }
        self.unsent += second.unsent;
        self.interrupted += second.interrupted;
        for (name, count) in &second.rcodes {
            *self.rcodes.entry(name.clone()).or_default() += count;
        }
        self.response.merge(&second.response);
        self.lateness.merge(&second.lateness);
        if let Some(from) = &second.connections {
            let into = self.connections.get_or_insert_default();
            into.active = from.active;
            into.attempted += from.attempted;
            into.opened += from.opened;
            into.failed += from.failed;
            into.resumed += from.resumed;
            into.early_data_sent += from.early_data_sent;
            into.early_data_answered += from.early_data_answered;
        }
    }
}

impl<'a> Run<'a> {
    /// Places `result` on a page of `all` results.
    pub(crate) fn new(result: &'a ResultFile, label: String, at: usize, all: usize) -> Self {
        let most = if all > MANY { COLUMNS_OF_MANY } else { COLUMNS };
        let step = result.seconds.len().div_ceil(most).max(1);
        // Sending ends by the plan, or before by its number of queries or the user.
        let sending = result.plan.duration_ns.min(result.run.active_ns) as f64 / 1e9;
        let columns = result.seconds.chunks(step).map(|seconds| {
            let first = seconds.first().map_or(0, |second| second.second);
            let mut column = Column { first, ..Column::default() };
            seconds.iter().for_each(|second| column.add(second));
            column.length = (sending - first as f64).clamp(0.0, column.seconds as f64);
            column
        });
        Self { result, label, at, step: step as u64, columns: columns.collect() }
    }

    /// Seconds from the first to the last column's end.
    pub(crate) fn seconds(&self) -> u64 {
        self.columns.iter().map(|column| column.seconds).sum()
    }

    /// Whether queries were to leave at recorded times.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(&self.result.plan.pace, Pace::Open { arrivals, .. } if arrivals == "recorded")
    }

    /// The lowest and highest response time, and the bound of censored ones.
    pub(crate) fn range(&self) -> Range {
        Range::of([&self.result.response])
    }
}

/// What an axis of latencies has to hold, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    /// The lowest and highest recorded value.
    pub(crate) recorded: Option<(u64, u64)>,
    /// The lowest bound of censored values.
    pub(crate) floor: Option<u64>,
}

impl Range {
    /// That of all values of `histograms`.
    pub(crate) fn of<'h>(histograms: impl IntoIterator<Item = &'h Histogram>) -> Self {
        histograms.into_iter().map(Self::of_one).fold(Self::default(), Self::join)
    }

    /// What holds both.
    pub(crate) fn join(self, other: Self) -> Self {
        let recorded = match (self.recorded, other.recorded) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        let floor = match (self.floor, other.floor) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { recorded, floor }
    }

    fn of_one(histogram: &Histogram) -> Self {
        let floor = match histogram.quantile(1.0) {
            Quantile::AtLeast(floor) => Some(floor),
            _ => None,
        };
        Self { recorded: histogram.min().zip(histogram.max()), floor }
    }
}

/// Names for results: those of their files, which their reader has chosen; the servers where it was
/// the lab that named a file.
pub(crate) fn labels(named: &[(String, &ResultFile)]) -> Vec<String> {
    const MADE: &str = "nodens-lab-";
    let differ = |labels: &[String]| {
        let unique: std::collections::BTreeSet<_> = labels.iter().collect();
        unique.len() == labels.len()
    };
    let names: Vec<String> = named.iter().map(|(name, _)| name.clone()).collect();
    let servers: Vec<String> = named.iter().map(|(_, result)| server(result)).collect();
    let made = names.len() == 1 || names.iter().any(|name| name.starts_with(MADE));
    if made && differ(&servers) {
        return servers;
    }
    if differ(&names) {
        return names;
    }
    names.iter().zip(1..).map(|(name, n)| format!("{name} ({n})")).collect()
}

/// Address and transports.
pub(crate) fn server(result: &ResultFile) -> String {
    let transports: Vec<String> =
        result.plan.transports.iter().map(|share| name_of_transport(&share.transport)).collect();
    format!("{} {}", result.plan.server, transports.join("+")).trim_end().to_owned()
}

/// `udp` as UDP, `doh` as DoH, `doh3` as DoH/3; names that are not known stay as they are.
pub(crate) fn name_of_transport(transport: &str) -> String {
    match transport {
        "udp" => "UDP".to_owned(),
        "tcp" => "TCP".to_owned(),
        "dot" => "DoT".to_owned(),
        "doh" => "DoH".to_owned(),
        "doq" => "DoQ".to_owned(),
        "doh3" => "DoH/3".to_owned(),
        other => other.to_owned(),
    }
}
