//! The text of dnsperf and resperf, and the ends of it that DNScalc appends to one file: statistics by the
//! names of their lines, so that a line more or less does not matter.

mod words;

use self::words::{Options, options, started, within};
use super::{Fault, Format, Found, Given, nanos, number, whole};
use crate::limits::COUNT_MAX;
use crate::trial::{Figure, Measured, Trial, Window, lose};
use lab_histogram::Histogram;

/// Bits of the buckets that dnsperf prints: 32 for each power of two.
const BUCKET_BITS: u32 = 5;
/// What dnsperf has in flight and waits for an answer unless told otherwise.
const IN_FLIGHT: f64 = 100.0;
const TIMEOUT: f64 = 5.0;

/// Statistics of a run or of an interval of it.
#[derive(Default)]
struct Block {
    line: usize,
    is_interval: bool,
    sent: u64,
    completed: Option<u64>,
    lost: Option<u64>,
    run_time: Option<f64>,
    rate: Option<f64>,
    mean: Option<f64>,
    least: Option<f64>,
    most: Option<f64>,
    deviation: Option<f64>,
    throughput: Option<f64>,
    lost_there: Option<f64>,
    attempts: Option<u64>,
    reconnections: Option<u64>,
    opened: Option<u64>,
    connect: Option<f64>,
    connect_deviation: Option<f64>,
    in_connections: bool,
    buckets: Vec<(f64, f64, u64)>,
    steps: Vec<(u64, u64)>,
}

/// What is said before the statistics.
#[derive(Clone, Default)]
struct Head {
    options: Option<Options>,
    started: Option<u64>,
}

struct Reader<'g> {
    given: &'g Given,
    format: Format,
    head: Head,
    block: Option<Block>,
    parts: Vec<Measured>,
    next_is_interval: bool,
    found: Found,
}

pub(super) fn read(text: &str, given: &Given, format: Format) -> Result<Found, Fault> {
    let mut reader = Reader {
        given,
        format,
        head: Head::default(),
        block: None,
        parts: Vec::new(),
        next_is_interval: false,
        found: Found::default(),
    };
    let mut last = 1;
    for (line, at) in text.lines().zip(1..) {
        // perf-tests keeps the output with a word before each line.
        reader.line(line.strip_prefix("out | ").unwrap_or(line).trim(), at)?;
        last = at;
    }
    reader.finish(last)?;
    reader.assume();
    Ok(reader.found)
}

impl Reader<'_> {
    fn line(&mut self, line: &str, at: usize) -> Result<(), Fault> {
        match line {
            "Statistics:" => {
                self.finish(at)?;
                self.next_is_interval = false;
            }
            "Interval Statistics:" => {
                self.finish(at)?;
                self.next_is_interval = true;
            }
            "Connection Statistics:" => {
                if let Some(block) = &mut self.block {
                    block.in_connections = true;
                }
            }
            _ => {}
        }
        if let Some(words) = line.strip_prefix("[Status] Command line:") {
            self.finish(at)?;
            self.parts.clear();
            self.head = Head { options: Some(options(words)), started: None };
        } else if let Some(time) = line.strip_prefix("[Status] Started at:") {
            self.head.started = started(time);
        } else if let Some(step) = line.strip_prefix("#histogram") {
            self.step(step, at)?;
        } else if let Some((name, value)) = line.split_once(':') {
            self.field(name.trim(), value.trim(), at)?;
        }
        Ok(())
    }

    fn field(&mut self, name: &str, value: &str, at: usize) -> Result<(), Fault> {
        // The number is the first word; what stands behind it is computed from it.
        let first = value.split([' ', ',']).next().unwrap_or_default();
        if matches!(name, "Queries sent" | "Updates sent") {
            self.finish(at)?;
            let sent = whole(first, at, name)?;
            let is_interval = std::mem::take(&mut self.next_is_interval);
            self.block = Some(Block { line: at, sent, is_interval, ..Block::default() });
            return Ok(());
        }
        let Some(block) = &mut self.block else { return self.interval_line(name, value) };
        let connections = block.in_connections;
        match name {
            "Queries completed" | "Updates completed" => {
                block.completed = Some(whole(first, at, name)?);
            }
            "Queries lost" | "Updates lost" => block.lost = Some(whole(first, at, name)?),
            "Run time (s)" => block.run_time = Some(number(first, at, name)?),
            "Queries per second" | "Updates per second" => {
                block.rate = Some(number(first, at, name)?);
            }
            "Maximum throughput" => block.throughput = Some(number(first, at, name)?),
            "Lost at that point" => {
                block.lost_there = Some(number(first.trim_end_matches('%'), at, name)? / 100.0);
            }
            "Average Latency (s)" if connections => block.connect = Some(number(first, at, name)?),
            "Average Latency (s)" => {
                block.mean = Some(number(first, at, name)?);
                (block.least, block.most) = (within(value, "min "), within(value, "max "));
            }
            "Latency StdDev (s)" if connections => {
                block.connect_deviation = Some(number(first, at, name)?);
            }
            "Latency StdDev (s)" => block.deviation = Some(number(first, at, name)?),
            "Connection attempts" => {
                block.in_connections = true;
                block.attempts = Some(whole(first, at, name)?);
                block.opened = value.split_once('(').and_then(|(_, rest)| {
                    rest.split(' ').next().and_then(|word| word.parse().ok())
                });
            }
            "Reconnections" | "Reconnection(s)" => {
                block.in_connections = true;
                block.reconnections = Some(whole(first, at, name)?);
            }
            // Of connections dnsperf 2.14 prints the buckets of the answers.
            _ if !connections => bucket(block, name, first, at)?,
            _ => {}
        }
        Ok(())
    }

    /// A line of `-S`, `1675865568.761088: 28651.000000`, before the statistics of its run.
    fn interval_line(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let is_time = name.split_once('.').is_some_and(|(whole, part)| {
            part.len() == 6
                && [whole, part].iter().all(|text| text.bytes().all(|c| c.is_ascii_digit()))
        });
        if let (true, Ok(rate)) = (is_time, value.parse()) {
            let figures = vec![Figure::rate("qps", rate)];
            self.parts.push(Measured { figures, ..Measured::default() });
        }
        Ok(())
    }

    /// A line of the patch of perf-tests: a millisecond and how many answers took it.
    fn step(&mut self, text: &str, at: usize) -> Result<(), Fault> {
        let mut words = text.split_whitespace();
        let mut next = || whole(words.next().unwrap_or_default(), at, "#histogram");
        let (milli, count) = (next()?, next()?);
        if let Some(block) = &mut self.block {
            block.steps.push((milli, count));
        }
        Ok(())
    }

    /// Ends the statistics that were begun, if any.
    fn finish(&mut self, at: usize) -> Result<(), Fault> {
        let Some(block) = self.block.take() else { return Ok(()) };
        let lacks = |name: &str| {
            let begun = block.line;
            Fault::new(
                at,
                format!(
                    "the statistics that begin in line {begun} have no `{name}:`, expected before here"
                ),
            )
        };
        let completed = block.completed.ok_or_else(|| lacks("Queries completed"))?;
        let lost = block.lost.ok_or_else(|| lacks("Queries lost"))?;
        let is_ramp = block.throughput.is_some();
        if !is_ramp && block.rate.is_none() {
            return Err(lacks("Queries per second"));
        }
        if !is_ramp && block.mean.is_none() {
            return Err(lacks("Average Latency (s)"));
        }
        let timeout = self.timeout();
        let run_time = block.run_time.unwrap_or(0.0);
        let whole = block.measured(completed, lost, timeout);
        if block.is_interval {
            self.parts.push(whole);
            return Ok(());
        }
        let mut trial = Trial {
            line: block.line,
            started_unix_ns: self.head.started,
            whole,
            parts: std::mem::take(&mut self.parts),
            window: if is_ramp { None } else { self.window(run_time) },
            ..Trial::default()
        };
        if let Some(options) = &self.head.options {
            let labels = [
                ("server", &options.server),
                ("transport", &options.mode),
                ("max_qps", &options.rate),
            ];
            let known = labels.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
            trial.labels.extend(known.map(|(name, value)| (name.to_owned(), value)));
        }
        self.found.trials.push(trial);
        Ok(())
    }

    /// When a query is given up.
    fn timeout(&self) -> f64 {
        let option = self.head.options.as_ref().and_then(|options| options.timeout);
        let given = self.given.timeout_ns.map(|nanos| nanos as f64 / 1e9);
        option.or(given).unwrap_or(TIMEOUT)
    }

    /// The loop, unless a rate was asked for or nothing is known of it.
    fn window(&self, run_time: f64) -> Option<Window> {
        let in_flight = match &self.head.options {
            Some(options) if options.rate.is_some() => return None,
            Some(options) => options.in_flight.unwrap_or(IN_FLIGHT),
            None => self.given.window?,
        };
        let (timeout_ns, run_ns) = (self.timeout() * 1e9, run_time * 1e9);
        Some(Window { in_flight, timeout_ns, run_ns, precision_ns: 1e3 })
    }

    fn assume(&mut self) {
        let has = |name: &str| self.found.trials.iter().any(|trial| trial.figure(name).is_some());
        let (known, ramp) = (self.head.options.is_some(), has("throughput"));
        let histograms = self.found.trials.iter().any(|trial| trial.whole.response.is_some());
        let parts = self.found.trials.iter().any(|trial| !trial.parts.is_empty());
        let found = &mut self.found;
        if ramp {
            found.assume(
                "the rate rises during a run: mean latency is that of the whole ramp, and throughput the \
                 highest rate of answers in one of its intervals",
            );
        } else {
            found.assume(
                "latency counts from sending to the answer, lost queries are not in its mean, and lost are \
                 all queries without an answer within the timeout",
            );
            found.assume(if known {
                "without -Q it is a closed loop with -q queries in flight (100 unless given); with -Q a \
                 rate is kept until that many wait"
            } else {
                "the text has no command line: whether the loop was closed, and with how many queries in \
                 flight, is not known"
            });
        }
        if histograms {
            found.assume(
                "a lost query ranks as at least the timeout (-t, 5 s unless given); values lie in the middle \
                 of their bucket",
            );
        }
        if parts {
            found.assume(
                "an interval counts a loss when it was noticed, one timeout after the query",
            );
        }
        if found.trials.iter().any(|trial| trial.started_unix_ns.is_some()) {
            found.assume("`Started at` has no time zone and is used for the order of runs alone");
        }
        if self.format == Format::Dnscalc {
            found.assume("statistics that follow each other are trials of one setting");
        }
    }
}

impl Block {
    fn measured(&self, completed: u64, lost: u64, timeout: f64) -> Measured {
        let nanos_of = |seconds: f64| seconds * 1e9;
        let times = [
            ("mean", self.mean),
            ("deviation", self.deviation),
            ("min", self.least),
            ("max", self.most),
            ("connect", self.connect),
            ("connect deviation", self.connect_deviation),
        ];
        let mut figures: Vec<Figure> = Vec::new();
        figures.extend(self.rate.map(|rate| Figure::rate("qps", rate)));
        figures.extend(self.throughput.map(|rate| Figure::rate("throughput", rate)));
        figures.extend(
            times.iter().filter_map(|(name, time)| Some(Figure::time(name, nanos_of((*time)?)))),
        );
        figures.extend(Figure::part("loss", lost, self.sent));
        figures.extend(
            self.lost_there
                .map(|part| Figure::new("loss at throughput", crate::trial::Unit::Part, part)),
        );
        if let (Some(attempts), Some(opened)) = (self.attempts, self.opened) {
            figures.extend(Figure::part(
                "connections failed",
                attempts.saturating_sub(opened),
                attempts,
            ));
        }
        figures.extend(self.reconnections.map(|count| {
            Figure::new("reconnections", crate::trial::Unit::Other(String::new()), count as f64)
        }));
        let (response, step_ns) = self.response(completed, lost, nanos(timeout));
        Measured { figures, response, step_ns }
    }

    fn response(&self, completed: u64, lost: u64, timeout: u64) -> (Option<Histogram>, u64) {
        let mut histogram = Histogram::new();
        let counts = self.steps.iter().map(|(_, count)| count);
        let counts = counts.chain(self.buckets.iter().map(|(_, _, count)| count));
        if counts.fold(0_u64, |sum, count| sum.saturating_add(*count)) > COUNT_MAX {
            return (None, 0);
        }
        let step = if self.steps.is_empty() { 0 } else { 1_000_000 };
        for (milli, count) in &self.steps {
            histogram.record_n(milli.saturating_mul(step).saturating_add(step / 2), *count);
        }
        for (low, high, count) in &self.buckets {
            // The bounds are whole microseconds, both inclusive.
            histogram.record_n(nanos((low + high) / 2.0 + 0.5e-6), *count);
        }
        if histogram.recorded() == 0 || completed == 0 {
            return (None, 0);
        }
        let mut histogram = histogram.coarsened(if step > 0 { 8 } else { BUCKET_BITS });
        lose(&mut histogram, lost, timeout);
        (Some(histogram), step)
    }
}

/// A line of the histogram: `0.000320 - 0.000327:  30`.
fn bucket(block: &mut Block, name: &str, value: &str, at: usize) -> Result<(), Fault> {
    let Some((low, high)) = name.split_once(" - ") else { return Ok(()) };
    let (Ok(low), Ok(high)) = (low.trim().parse(), high.trim().parse()) else { return Ok(()) };
    block.buckets.push((low, high, whole(value, at, "Latency bucket (s)")?));
    Ok(())
}
