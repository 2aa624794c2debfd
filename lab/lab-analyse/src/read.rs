//! Files of load generators as trials. A file is read and never written; what it does not say and has to
//! be taken for true is an assumption with a name.

mod dnsperf;
mod flame;
mod hgrm;
mod lab;
mod metrics;
mod perf_tests;
mod ramp;
mod seconds;
mod shotgun;
mod table;

use crate::limits::{COUNT_MAX, FILE_LEN_MAX};
use crate::trial::Trial;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What dnsperf prints.
    Dnsperf,
    /// The ends of dnsperf's output that DNScalc collects in one file.
    Dnscalc,
    /// What resperf prints.
    Resperf,
    /// The file that resperf writes for plots.
    ResperfPlot,
    /// What flamethrower writes with `-o`.
    Flamethrower,
    /// DNS Shotgun's JSON.
    Shotgun,
    /// The JSON of the DNS part of Kubernetes' perf-tests.
    PerfTests,
    /// DNS-OARC's dns-metrics.
    DnsMetrics,
    /// The JSON of a fork of dnsperf.
    DnsperfJson,
    /// A result of `nodens-lab load`.
    Result,
    /// A comparison of `nodens-lab ab`.
    Comparison,
    /// A line per second, as `nodens-lab export -f csv` writes it.
    Csv,
    /// HdrHistogram's table of percentiles.
    Hgrm,
    /// A table of trials: values separated by commas, under their names.
    Table,
}

impl Format {
    /// All of them, with the names by which they are asked for.
    pub const ALL: [(&str, Self); 14] = [
        ("dnsperf", Self::Dnsperf),
        ("dnscalc", Self::Dnscalc),
        ("resperf", Self::Resperf),
        ("resperf-plot", Self::ResperfPlot),
        ("flamethrower", Self::Flamethrower),
        ("shotgun", Self::Shotgun),
        ("perf-tests", Self::PerfTests),
        ("dns-metrics", Self::DnsMetrics),
        ("dnsperf-json", Self::DnsperfJson),
        ("result", Self::Result),
        ("comparison", Self::Comparison),
        ("csv", Self::Csv),
        ("hgrm", Self::Hgrm),
        ("table", Self::Table),
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, format)| format == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// A name of no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format, expected one of {names}", names = names())]
pub struct UnknownFormat(String);

fn names() -> String {
    Format::ALL.map(|(name, _)| name).join(", ")
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// What is known besides the file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// The format; found by content without one.
    pub format: Option<Format>,
    /// Queries that the generator kept in flight, where the file does not say it.
    pub window: Option<f64>,
    /// When it gave a query up, where the file does not say it.
    pub timeout_ns: Option<u64>,
}

/// A file as trials.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadFile {
    /// Its path.
    pub path: String,
    /// Its format.
    pub format: Format,
    /// SHA-256 of its octets in hexadecimal digits.
    pub sha256: String,
    /// Its trials, in the order of the file.
    pub trials: Vec<Trial>,
    /// What was taken for true.
    pub assumptions: Vec<String>,
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// It is longer than anything a generator writes.
    #[error("{path}: longer than {} MiB", FILE_LEN_MAX >> 20)]
    Long {
        /// The file.
        path: String,
    },
    /// It has something else than was expected.
    #[error("{path}:{line}: {message}")]
    Content {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What was found and what was expected.
        message: String,
    },
}

/// Something in a line that was not expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    line: usize,
    message: String,
}

impl Fault {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// What a reader finds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) trials: Vec<Trial>,
    pub(crate) assumptions: Vec<String>,
}

impl Found {
    /// Keeps an assumption once.
    pub(crate) fn assume(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.assumptions.contains(&text) {
            self.assumptions.push(text);
        }
    }
}

/// Reads the file at `path`.
pub fn read(path: &Path, given: &Given) -> Result<ReadFile, ReadError> {
    let name = path.display().to_string();
    let io = |source| ReadError::Io { path: name.clone(), source };
    let mut octets = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut octets).map_err(io)?;
    if octets.len() as u64 > FILE_LEN_MAX {
        return Err(ReadError::Long { path: name });
    }
    from_octets(&name, &octets, given)
}

/// Reads what is in a file; `path` is for names and messages.
pub fn from_octets(path: &str, octets: &[u8], given: &Given) -> Result<ReadFile, ReadError> {
    let error = |fault: Fault| ReadError::Content {
        path: path.to_owned(),
        line: fault.line,
        message: fault.message,
    };
    let text = std::str::from_utf8(octets).map_err(|broken| {
        let read = octets.get(..broken.valid_up_to()).unwrap_or_default();
        let line = read.iter().filter(|octet| **octet == b'\n').count() + 1;
        error(Fault::new(line, "not text in UTF-8"))
    })?;
    let format = given.format.map_or_else(|| detect(text), Ok).map_err(error)?;
    let mut found = match format {
        Format::Dnsperf | Format::Dnscalc | Format::Resperf => dnsperf::read(text, given, format),
        Format::ResperfPlot => ramp::read(text),
        Format::Flamethrower => flame::read(text),
        Format::Shotgun => shotgun::read(text),
        Format::PerfTests => perf_tests::read(text),
        Format::DnsMetrics | Format::DnsperfJson => metrics::read(text, format),
        Format::Result => lab::result(path, octets),
        Format::Comparison => lab::comparison(path, octets),
        Format::Csv => seconds::read(text),
        Format::Hgrm => hgrm::read(text),
        Format::Table => table::read(text, given),
    }
    .map_err(error)?;
    if found.trials.is_empty() {
        return Err(error(Fault::new(1, format!("no trial of {format} in it"))));
    }
    for trial in &mut found.trials {
        path.clone_into(&mut trial.path);
        // What a column of a table or a cell of a comparison counts is not known as well.
        if !matches!(format, Format::Table | Format::Comparison) {
            trial.forget_times();
        }
    }
    let sha256 = Sha256::digest(octets).iter().fold(String::new(), |mut text, octet| {
        // Writing to a string cannot fail.
        _ = write!(text, "{octet:02x}");
        text
    });
    let Found { trials, assumptions } = found;
    let assumptions = assumptions.into_iter().map(|text| format!("{format}: {text}")).collect();
    Ok(ReadFile { path: path.to_owned(), format, sha256, trials, assumptions })
}

/// The format of a text, by what stands in it.
fn detect(text: &str) -> Result<Format, Fault> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let Some((first, line)) = lines.next() else {
        return Err(Fault::new(1, "empty, expected a result of a load generator"));
    };
    if first.trim_start().starts_with(['{', '[']) {
        return detect_json(text, first, line);
    }
    let has = |what: &str| text.contains(what);
    let is_dnsperf = has("Queries sent:") || has("Updates sent:");
    match first.trim() {
        _ if is_dnsperf && has("Maximum throughput:") => Ok(Format::Resperf),
        _ if is_dnsperf && !has("[Status]") => Ok(Format::Dnscalc),
        _ if is_dnsperf => Ok(Format::Dnsperf),
        head if head.starts_with("# time target_qps") => Ok(Format::ResperfPlot),
        head if head.starts_with("Value") && head.contains("Percentile") => Ok(Format::Hgrm),
        head if head.starts_with("second,start_unix,") => Ok(Format::Csv),
        _ if table::is_table(text) => Ok(Format::Table),
        _ if has("DNS Performance Testing Tool") => Err(Fault::new(
            line,
            "output of dnsperf or resperf without `Queries sent:`, expected its statistics: the run did not end",
        )),
        head => {
            let head: String = head.chars().take(60).collect();
            Err(Fault::new(line, format!("`{head}` begins no format, expected one of {}", names())))
        }
    }
}

fn detect_json(text: &str, first: &str, line: usize) -> Result<Format, Fault> {
    // Formats of lines have a whole object in the first one.
    let head: serde_json::Value = serde_json::from_str(first)
        .or_else(|_| serde_json::from_str(text))
        .map_err(|error| Fault::new(line - 1 + error.line().max(1), not_json(&error)))?;
    let has = |name: &str| head.get(name).is_some();
    let is_type = head.get("type").is_some_and(serde_json::Value::is_string);
    match head.get("kind").and_then(serde_json::Value::as_str) {
        Some("comparison") => return Ok(Format::Comparison),
        Some(other) => {
            let message = format!(
                "a file of nodens-lab of the kind `{other}` has no trials, expected a result or a comparison"
            );
            return Err(Fault::new(line, message));
        }
        None => {}
    }
    match () {
        () if has("stats_periodic") || has("stats_sum") => Ok(Format::Shotgun),
        () if has("dataItems") || (has("data") && has("params")) => Ok(Format::PerfTests),
        () if is_type && has("runid") => Ok(Format::DnsMetrics),
        () if is_type => Ok(Format::DnsperfJson),
        () if has("run_id") || has("period_number") => Ok(Format::Flamethrower),
        () if has("schema") && has("response") => Ok(Format::Result),
        () => {
            let mut names_of: Vec<&str> =
                head.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            names_of.truncate(6);
            let message = format!(
                "JSON with the fields `{}` is no known format, expected one of {}",
                names_of.join("`, `"),
                names()
            );
            Err(Fault::new(line, message))
        }
    }
}

/// What serde_json says, without the position behind it.
fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

/// A JSON document that begins in line `line` of its file.
pub(crate) fn json<T: DeserializeOwned>(text: &str, line: usize) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| Fault::new(line - 1 + error.line().max(1), not_json(&error)))
}

/// A count that a file may have.
pub(crate) fn count(number: u64, line: usize, name: &str) -> Result<u64, Fault> {
    if number > COUNT_MAX {
        return Err(Fault::new(
            line,
            format!("`{name}` is {number}, expected at most {COUNT_MAX}"),
        ));
    }
    Ok(number)
}

/// A number of a text; `line` and `name` are for the message.
pub(crate) fn number(text: &str, line: usize, name: &str) -> Result<f64, Fault> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| Fault::new(line, format!("`{name}`: `{}` is no number", text.trim())))
}

/// A whole number of a text.
pub(crate) fn whole(text: &str, line: usize, name: &str) -> Result<u64, Fault> {
    let number = text.trim().parse().map_err(|_| {
        Fault::new(line, format!("`{name}`: `{}` is no count, expected digits", text.trim()))
    })?;
    count(number, line, name)
}

/// Seconds as nanoseconds.
pub(crate) fn nanos(seconds: f64) -> u64 {
    // A cast of floats saturates.
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
pub(crate) mod tests;
