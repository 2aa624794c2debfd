//! A table of trials, for results that were published as one: the first line has names, each other line is
//! a trial, or a reading of one if there is a column `run`. Cells are separated by commas.
//!
//! `qps [1/s]`, `mean [ms]`, `loss [%]`, `cpu [m]`: a name and its unit. `group` and `block` say where a row
//! belongs, `started` when it was measured (`2026-11-21T02:03:04`); `window` and `timeout [s]` are those of a
//! closed loop. A column with anything but numbers is a label. Lines that begin with `#` say where the numbers are from.

use super::{Fault, Found, Given, number};
use crate::trial::{Figure, Measured, Trial, Unit, Window};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// What a column is.
enum Column {
    Label(String),
    /// With one unit of the last digit of its most precise value.
    Metric {
        name: String,
        unit: Unit,
        scale: f64,
        step: f64,
    },
    Window,
    Timeout(f64),
    Started,
}

/// Columns that are labels whatever stands in them.
const LABELS: [&str; 3] = ["group", "block", "run"];

/// A line of names over a line of as many cells, with a metric or a group among the names.
pub(super) fn is_table(text: &str) -> bool {
    let mut rows = rows(text);
    let (Some((names, _)), Some((first, _))) = (rows.next(), rows.next()) else { return false };
    let is_named = names.split(',').any(|name| {
        let (name, unit) = split(name);
        name == "group" || !unit.is_empty()
    });
    is_named && names.split(',').count() == first.split(',').count()
}

fn rows(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let all = text.lines().map(str::trim).zip(1..);
    all.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
}

/// A name and its unit.
fn split(name: &str) -> (&str, &str) {
    match name.trim().split_once('[') {
        Some((name, unit)) => (name.trim(), unit.trim_end_matches(']').trim()),
        None => (name.trim(), ""),
    }
}

pub(super) fn read(text: &str, given: &Given) -> Result<Found, Fault> {
    let mut found = Found::default();
    let mut rows = rows(text);
    let Some((names, head)) = rows.next() else { return Ok(found) };
    let body: Vec<(Vec<&str>, usize)> =
        rows.map(|(line, at)| (line.split(',').map(str::trim).collect(), at)).collect();
    let count = names.split(',').count();
    for (cells, at) in &body {
        if cells.len() != count {
            let message = format!("{} cells, expected {count} as in line {head}", cells.len());
            return Err(Fault::new(*at, message));
        }
    }
    let numbers = |at: usize| {
        body.iter()
            .filter_map(move |(cells, _)| cells.get(at))
            .all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok())
    };
    // Programs leave out zeros at the end: a column is as precise as its most precise value.
    let step = |at: usize| {
        let cells = body.iter().filter_map(|(cells, _)| cells.get(at));
        cells.filter(|cell| !cell.is_empty()).map(|cell| step(cell)).fold(1.0, f64::min)
    };
    let columns: Vec<Column> = names
        .split(',')
        .enumerate()
        .map(|(at, name)| column(name, numbers(at).then(|| step(at)), head))
        .collect::<Result<_, _>>()?;
    let mut runs: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (cells, at) in &body {
        let row = row(&columns, cells, *at, given)?;
        let run = row
            .labels
            .get("run")
            .map(|run| (row.labels.get("group").cloned().unwrap_or_default(), run.clone()));
        let Some(key) = run else {
            found.trials.push(row);
            continue;
        };
        let next = found.trials.len();
        let place = *runs.entry(key).or_insert(next);
        if place == next {
            found.trials.push(Trial { parts: vec![row.whole.clone()], ..row });
        } else if let Some(trial) = found.trials.get_mut(place) {
            trial.parts.push(row.whole);
        }
    }
    for trial in found.trials.iter_mut().filter(|trial| trial.parts.len() > 1) {
        trial.whole = mean(&trial.parts);
    }
    if !runs.is_empty() {
        found.assume("rows of one run are readings of it, and its value is their mean");
    }
    found.assume("values are what the table says; a latency may be cut, so it is known to a unit of its last digit");
    Ok(found)
}

/// One unit of the last digit of a number; one of whole numbers, whatever zeros they end with.
fn step(cell: &str) -> f64 {
    let (digits, power) = cell.split_once(['e', 'E']).unwrap_or((cell, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let power = power.parse::<i32>().unwrap_or(0).clamp(-300, 300);
    10_f64.powi(power.saturating_sub(decimals.min(300) as i32))
}

/// A column of numbers with this unit of their last digit, or of something else.
fn column(name: &str, step: Option<f64>, head: usize) -> Result<Column, Fault> {
    let (name, unit) = split(name);
    if name.is_empty() {
        return Err(Fault::new(head, "a column without a name"));
    }
    let (kind, scale) = match unit {
        "ns" => (Unit::Time, 1.0),
        "us" | "µs" => (Unit::Time, 1e3),
        "ms" => (Unit::Time, 1e6),
        "s" => (Unit::Time, 1e9),
        "1/s" | "/s" => (Unit::Rate, 1.0),
        "%" => (Unit::Part, 0.01),
        other => (Unit::Other(other.to_owned()), 1.0),
    };
    Ok(match name {
        "window" => Column::Window,
        "started" => Column::Started,
        "timeout" if kind == Unit::Time => Column::Timeout(scale),
        "timeout" => return Err(Fault::new(head, "`timeout` needs a unit, as in `timeout [s]`")),
        _ if LABELS.contains(&name) => Column::Label(name.to_owned()),
        _ => match step {
            None if name != "qps" || !unit.is_empty() => Column::Label(name.to_owned()),
            step => {
                let is_rate = name == "qps" && unit.is_empty();
                let unit = if is_rate { Unit::Rate } else { kind };
                let step = step.unwrap_or(0.0) * scale;
                Column::Metric { name: name.to_owned(), unit, scale, step }
            }
        },
    })
}

fn row(columns: &[Column], cells: &[&str], at: usize, given: &Given) -> Result<Trial, Fault> {
    let mut trial = Trial { line: at, ..Trial::default() };
    let (mut in_flight, mut timeout) = (given.window, given.timeout_ns.map(|ns| ns as f64));
    let mut precision = 0.0;
    for (column, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        match column {
            Column::Label(name) => _ = trial.labels.insert(name.clone(), (*cell).to_owned()),
            Column::Started => trial.started_unix_ns = Some(started(cell, at)?),
            Column::Window => in_flight = Some(number(cell, at, "window")?),
            Column::Timeout(scale) => timeout = Some(number(cell, at, "timeout")? * scale),
            Column::Metric { name, unit, scale, step } => {
                let value = number(cell, at, name)? * scale;
                if name == "mean" {
                    let decimals = cell.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                    precision = scale / 10_f64.powi(decimals.min(18) as i32);
                }
                let figure = Figure::new(name, unit.clone(), value);
                trial.whole.figures.push(Figure { step: *step, ..figure });
            }
        }
    }
    trial.window = in_flight.map(|in_flight| Window {
        in_flight,
        timeout_ns: timeout.unwrap_or(0.0),
        run_ns: 0.0,
        precision_ns: precision,
    });
    Ok(trial)
}

/// Nanoseconds since 1970 of a time without a zone, which orders trials and is no more than a label.
fn started(text: &str, at: usize) -> Result<u64, Fault> {
    let time = text.parse::<DateTime>().ok().and_then(|time| time.to_zoned(TimeZone::UTC).ok());
    let nanos = time.and_then(|time| u64::try_from(time.timestamp().as_nanosecond()).ok());
    nanos.ok_or_else(|| {
        Fault::new(at, format!("`started`: `{text}` is no time, expected 2026-11-21T02:03:04"))
    })
}

/// The means of the readings of a run.
fn mean(parts: &[Measured]) -> Measured {
    let mut sums: Vec<(Figure, f64)> = Vec::new();
    for figure in parts.iter().flat_map(|part| &part.figures) {
        match sums.iter_mut().find(|(sum, _)| sum.metric == figure.metric) {
            Some((sum, count)) => {
                sum.value += figure.value;
                *count += 1.0;
            }
            None => sums.push((figure.clone(), 1.0)),
        }
    }
    let figures = sums.into_iter().map(|(sum, count)| Figure { value: sum.value / count, ..sum });
    Measured { figures: figures.collect(), ..Measured::default() }
}
