//! The file of a search for the highest rate that meets an objective (`nodens-lab load --slo`).

use crate::store::{read_versioned, write_whole};
use crate::{Generator, Provenance, ReadError, Workload, WriteError};
use lab_histogram::Quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What `kind` says in such a file.
pub const KIND: &str = "search";

/// Version of the file's layout.
pub const SCHEMA: u32 = 3;
/// The oldest layout that can be read: it does not tell bounds from values. Up to layout 2 a search was
/// done several times, and its result is their median with their range.
const SCHEMA_OLDEST: u32 = 1;

/// A search. All times are nanoseconds, all rates QPS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchFile {
    /// Always `search`.
    pub kind: String,
    /// Version of this layout.
    pub schema: u32,
    /// What wrote the file.
    pub generator: Generator,
    /// Where it was measured.
    pub provenance: Provenance,
    /// Address and port of the server.
    pub server: String,
    /// `udp`, `tcp` or another transport.
    pub transport: String,
    /// The arrival process in words of the command line.
    pub arrivals: String,
    /// What was asked.
    pub workload: Workload,
    /// The objective in words of the command line.
    pub objective: String,
    /// How long each probe sent queries.
    pub probe_ns: u64,
    /// The lowest rate that may be tried.
    pub floor: f64,
    /// The highest.
    pub ceiling: f64,
    /// The search ends at this ratio minus 1 of the ends of `range`.
    pub precision: f64,
    /// Seed of the search.
    pub seed: u64,
    /// Whether it was ended from outside: nothing was found then.
    pub interrupted: bool,
    /// Every probe in the order of time.
    pub probes: Vec<Probe>,
    /// What each finished search found; one since layout 3.
    pub searches: Vec<Found>,
    /// The rate above which the objective is missed: as probably too high as too low, by all probes; 0 if
    /// it is not met at all, or if no probe met it. Without `confidence` the highest rate that met it. In older layouts the
    /// median of what several searches found; absent without a finished search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Between which rates it is, with the probability `confidence`. In older layouts the lowest and the
    /// highest of what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// The probability of `range`; absent if the search did not run into a limit of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whether `range` is as narrow as `precision` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// In older layouts, how many searches the median is of. One that the generator stopped is counted only if it found
    /// no less than the others: it knows no more than that the server does this much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<usize>,
    /// What the searches ran into: `server`, `between`, `generator`, `ceiling` or `probes`. Only with
    /// `server` is the result a limit of the server; with `between` the server missed the objective at a
    /// higher rate, and the run is INVALID between the two; with `probes` it was not enclosed when the
    /// last probe was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
}

/// One probe: a load of one rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The search it belongs to, counted from 1.
    pub search: usize,
    /// The rate that was offered.
    pub rate: f64,
    /// `met`, `missed` or `invalid`.
    pub said: String,
    /// What was missed, or why it is INVALID.
    pub because: Vec<String>,
    /// Answers a second.
    pub answered_per_second: f64,
    /// Queries sent.
    pub sent: u64,
    /// The part of them that was lost.
    pub loss: f64,
    /// Response time at 50 % of the queries; a bound if they were lost, as in the others.
    pub p50: Option<u64>,
    /// At 99 %.
    pub p99: Option<u64>,
    /// At 99.9 %.
    pub p999: Option<u64>,
    /// Which of `p50`, `p99` and `p99.9` lie among lost queries: their times are lower bounds.
    #[serde(default)]
    pub at_least: Vec<String>,
    /// Names the plan of the probe.
    pub plan: String,
}

impl Probe {
    /// The times of the three percentiles, with their names.
    pub fn times(&self) -> [(&'static str, Quantile); 3] {
        [("p50", self.p50), ("p99", self.p99), ("p99.9", self.p999)].map(|(name, nanos)| {
            let is_bound = self.at_least.iter().any(|bound| bound == name);
            let time = match nanos {
                None => Quantile::Empty,
                Some(nanos) if is_bound => Quantile::AtLeast(nanos),
                Some(nanos) => Quantile::Value(nanos),
            };
            (name, time)
        })
    }
}

/// What one search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The highest rate that met the objective; absent if none did.
    pub highest: Option<f64>,
    /// The lowest rate at which the server missed the objective; if it never did, the lowest that the
    /// generator declared INVALID.
    pub above: Option<f64>,
    /// What was there: `server`, `between`, `generator`, `ceiling` or `probes`.
    pub limited_by: String,
}

/// The probes as a table for other programs: a line each.
pub fn csv(search: &SearchFile) -> String {
    let mut text = "search,rate,said,answered_per_second,sent,loss".to_owned();
    let names = ["p50", "p99", "p99.9"];
    names.iter().for_each(|name| _ = write!(text, ",{name}_ns,{name}_is_bound"));
    text.push_str(",because\n");
    for probe in &search.probes {
        let Probe { search, rate, said, answered_per_second, sent, loss, .. } = probe;
        _ = write!(text, "{search},{rate},{said},{answered_per_second},{sent},{loss}");
        for (_, time) in probe.times() {
            let nanos = time.nanos().map_or(String::new(), |nanos| nanos.to_string());
            _ = write!(text, ",{nanos},{}", matches!(time, Quantile::AtLeast(_)));
        }
        let because = probe.because.join("; ").replace('"', "\"\"");
        _ = writeln!(text, ",\"{because}\"");
    }
    text
}

/// Whether `octets` are such a file.
pub fn is_search(octets: &[u8]) -> bool {
    crate::store::kind(octets).as_deref() == Some(KIND)
}

/// The JSON schema of the file.
pub fn json_schema() -> String {
    crate::store::schema_text(&schemars::schema_for!(SearchFile))
}

/// The file's text.
pub fn to_json(search: &SearchFile) -> String {
    // Writing to memory does not fail, and the types have no map whose key is no string.
    serde_json::to_string_pretty(search).unwrap_or_default() + "\n"
}

/// Writes the file whole or not at all.
pub fn write(path: &Path, search: &SearchFile) -> Result<(), WriteError> {
    write_whole(path, to_json(search).as_bytes())
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<SearchFile, ReadError> {
    let octets =
        fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    from_json(path, &octets)
}

/// Reads the text of a file; `path` is for messages only.
pub fn from_json(path: &Path, octets: &[u8]) -> Result<SearchFile, ReadError> {
    let mut file: SearchFile = read_versioned(path, octets, SCHEMA_OLDEST..=SCHEMA)?;
    if file.schema == SCHEMA_OLDEST {
        file.probes.iter_mut().for_each(mark_bounds);
    }
    Ok(file)
}

/// Names the percentiles that lie among lost queries, which older layouts do not: they had the timeout in
/// the place of such a time.
fn mark_bounds(probe: &mut Probe) {
    let names = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let among_lost = names.iter().filter(|(_, part)| probe.loss > 1.0 - part);
    probe.at_least = among_lost.map(|(name, _)| (*name).to_owned()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_oldest_layout_that_lie_among_lost_queries_are_bounds() {
        let read = |schema: u32, loss: f64| {
            let file = SearchFile { kind: KIND.to_owned(), schema, ..SearchFile::default() };
            let mut value = serde_json::to_value(file).unwrap();
            value["probes"] = serde_json::json!([{
                "search": 1, "rate": 1e3, "said": "missed", "because": [], "answered_per_second": 9e2,
                "sent": 1_000, "loss": loss, "p50": 1, "p99": 2, "p999": 3, "plan": "00",
            }]);
            from_json(Path::new("s"), value.to_string().as_bytes()).unwrap().probes[0]
                .at_least
                .clone()
        };
        assert_eq!(read(1, 0.0), [""; 0]);
        assert_eq!(read(1, 0.05), ["p99", "p99.9"]);
        assert_eq!(read(1, 0.6), ["p50", "p99", "p99.9"]);
        assert_eq!(read(2, 0.6), [""; 0], "this one names them itself");
        assert_eq!(read(SCHEMA, 0.6), [""; 0]);
    }
}
