//! Our own files: the result of a load, and the blocks of a comparison.

use super::{Fault, Found};
use crate::trial::{Figure, Measured, Trial, Unit, Window};
use lab_histogram::Histogram;
use lab_result::comparison::{self, Block, ComparisonFile};
use lab_result::{Pace, ResultFile};
use std::path::Path;

/// Nanoseconds to which our means are exact.
const PRECISION_NS: f64 = 1e3;

pub(super) fn result(path: &str, octets: &[u8]) -> Result<Found, Fault> {
    let file =
        lab_result::from_json(Path::new(path), octets).map_err(|error| fault(path, &error))?;
    let mut figures = vec![Figure::rate("qps", file.answer_rate())];
    figures.extend(times(&file.response));
    figures.extend(file.loss().map(|loss| Figure::new("loss", Unit::Part, loss)));
    let cost = file.server_cost.as_ref();
    figures.extend(
        cost.and_then(|cost| cost.cpu_per_answer_ns).map(|ns| Figure::time("cpu", ns as f64)),
    );
    let complete = file.seconds.iter().filter(|second| second.is_final && second.sent > 0);
    let parts = complete.map(|second| {
        let mut figures = vec![Figure::rate("qps", second.answered as f64)];
        figures.extend(times(&second.response));
        figures.extend(Figure::part("loss", second.lost, second.sent));
        Measured { figures, response: Some(second.response.clone()), step_ns: 0 }
    });
    let mut trial = Trial {
        line: 1,
        started_unix_ns: Some(file.run.started_unix_ns),
        parts: parts.collect(),
        whole: Measured { figures, response: Some(file.response.clone()), step_ns: 0 },
        window: window(&file),
        ..Trial::default()
    };
    if !file.verdict.valid {
        trial.warnings.push(format!(
            "INVALID by its own verdict: {}",
            file.verdict.invalid_because.join("; ")
        ));
    }
    trial.labels.insert("server".to_owned(), file.plan.server.clone());
    trial.labels.insert("plan".to_owned(), file.plan.hash.clone());
    if let Pace::Open { rate, .. } = file.plan.pace {
        trial.labels.insert("max_qps".to_owned(), rate.to_string());
    }
    let mut found = Found { trials: vec![trial], ..Found::default() };
    found.assume(
        "latency counts from when a query was due; lost queries rank as at least the timeout, and stand in \
         the second they were due in",
    );
    Ok(found)
}

fn window(file: &ResultFile) -> Option<Window> {
    let Pace::Closed { window_per_client } = file.plan.pace else { return None };
    Some(Window {
        in_flight: (window_per_client * file.plan.clients) as f64,
        timeout_ns: file.plan.timeout_ns as f64,
        run_ns: file.plan.duration_ns as f64,
        precision_ns: PRECISION_NS,
    })
}

/// Mean and highest time of the answers.
fn times(response: &Histogram) -> impl Iterator<Item = Figure> {
    let mean = response.mean().map(|mean| Figure::time("mean", mean));
    mean.into_iter().chain(response.max().map(|max| Figure::time("max", max as f64)))
}

fn fault(path: &str, error: &lab_result::ReadError) -> Fault {
    let text = error.to_string();
    // The path is said before.
    let text = text.strip_prefix(path).unwrap_or(&text).trim_start_matches([':', ' ']);
    let line =
        text.strip_prefix("line ").and_then(|rest| rest.split([',', ':']).next()?.parse().ok());
    Fault::new(line.unwrap_or(1), text)
}

pub(super) fn comparison(path: &str, octets: &[u8]) -> Result<Found, Fault> {
    let file =
        comparison::from_json(Path::new(path), octets).map_err(|error| fault(path, &error))?;
    let used = || file.blocks.iter().filter(|block| block.used && block.phase == "comparison");
    let mut cells: Vec<_> = used().map(|block| (&block.set, &block.load)).collect();
    cells.sort_unstable();
    cells.dedup();
    let is_one = cells.len() < 2;
    let mut found = Found::default();
    found.trials.extend(used().map(|block| of_block(&file, block, is_one)));
    if !file.invalid_because.is_empty() {
        let why = format!("INVALID by its own verdict: {}", file.invalid_because.join("; "));
        found.trials.iter_mut().take(1).for_each(|trial| trial.warnings.push(why.clone()));
    }
    found.assume("the blocks that its findings use, of A and B in pairs; its noise phase and idle blocks are left out");
    found.assume(
        "CPU is that of a block with the idle CPU in it, where the file's own finding subtracts it",
    );
    Ok(found)
}

fn of_block(file: &ComparisonFile, block: &Block, is_one: bool) -> Trial {
    let suffix = if is_one { String::new() } else { format!(" {} {}", block.set, block.load) };
    let mut figures = Vec::new();
    if block.elapsed_ns > 0 {
        figures.push(Figure::rate("qps", block.answered as f64 * 1e9 / block.elapsed_ns as f64));
    }
    let whole = Measured {
        figures: times(&block.response).collect(),
        response: Some(block.response.clone()),
        step_ns: 0,
    };
    // Percentiles under the names of their cell: blocks of other cells are no repetitions.
    figures.extend(whole.all(lab_histogram::BITS));
    figures.extend(Figure::part("loss", block.lost, block.sent));
    let per_answer =
        block.cpu_ns.filter(|_| block.answered > 0).map(|cpu| cpu as f64 / block.answered as f64);
    figures.extend(per_answer.map(|nanos| Figure::time("cpu", nanos)));
    figures.iter_mut().for_each(|figure| figure.metric.push_str(&suffix));
    let name = if block.side == "a" { &file.a.name } else { &file.b.name };
    let labels = [
        ("group", name.clone()),
        ("block", format!("{} {} {}", block.set, block.load, block.pair)),
    ];
    Trial {
        line: 1,
        started_unix_ns: Some(block.started_unix_ns),
        labels: labels.map(|(label, value)| (label.to_owned(), value)).into(),
        whole: Measured { figures, response: is_one.then(|| block.response.clone()), step_ns: 0 },
        ..Trial::default()
    }
}
