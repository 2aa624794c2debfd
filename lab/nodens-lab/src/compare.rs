//! `nodens-lab compare`: results of other days, which were not measured in pairs.
//!
//! This describes and does not judge: whatever changed between the days is in the difference too.

use crate::term::{self, Style, Table};
use anyhow::{Result, bail};
use lab_histogram::{BITS, Histogram, Quantile};
use lab_result::ResultFile;
use lab_stats::{holm, paired, unpaired};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Seconds with fewer queries have no percentiles worth the name.
const QUESTIONS_MIN: u64 = 20;
/// The quantiles that are compared.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Arguments of `compare`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Results of `nodens-lab load`: one run each.
    #[arg(required = true, value_name = "FILE")]
    before: Vec<PathBuf>,
    /// Results to compare them with.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    with: Vec<PathBuf>,
}

/// What counts as one observation: a run, or a second where each side has a single run.
struct Unit {
    response: Histogram,
    sent: u64,
    lost: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let read = |paths: &[PathBuf]| {
        paths.iter().map(|path| lab_result::read(path)).collect::<Result<Vec<_>, _>>()
    };
    let (before, after) = (read(&args.before)?, read(&args.with)?);
    let paths = args.before.iter().chain(&args.with);
    refuse_copies(paths.zip(before.iter().chain(&after)))?;
    let by_second = before.len() == 1 && after.len() == 1;
    let (mut a, mut b) = (units(&before, by_second), units(&after, by_second));
    let precision = level(&mut a, &mut b);
    if a.is_empty() || b.is_empty() {
        bail!("a run has no second with {QUESTIONS_MIN} queries: there is nothing to compare");
    }
    term::out(&table(&a, &b).framed());
    for note in notes(&before, &after).into_iter().chain(precision) {
        term::out(&format!("  {note}"));
    }
    let text = "not measured in pairs: this describes, `nodens-lab ab` decides";
    term::out(&term::paint(Style::Accent, text));
    Ok(ExitCode::SUCCESS)
}

/// A run that is given twice would count as a repetition.
fn refuse_copies<'f>(files: impl Iterator<Item = (&'f PathBuf, &'f ResultFile)>) -> Result<()> {
    let mut known: HashMap<(&str, u64), &PathBuf> = HashMap::new();
    for (path, file) in files {
        if let Some(first) = known.insert((&file.plan.hash, file.run.started_unix_ns), path) {
            let (first, second) = (first.display(), path.display());
            bail!("{first} and {second} are the same run, expected each once: leave one out");
        }
    }
    Ok(())
}

/// Runs, or the seconds of a single one. A percentile of a second is none of a run: with fewer queries it lies
/// elsewhere, so both sides have the same.
fn units(files: &[ResultFile], by_second: bool) -> Vec<Unit> {
    if let ([file], true) = (files, by_second) {
        let seconds = file.seconds.iter().filter(|s| s.is_final && s.sent >= QUESTIONS_MIN);
        let unit = |second: &lab_result::Second| Unit {
            response: second.response.clone(),
            sent: second.sent,
            lost: second.lost,
        };
        return seconds.map(unit).collect();
    }
    let unit = |file: &ResultFile| Unit {
        response: file.response.clone(),
        sent: file.counts.sent,
        lost: file.counts.lost(),
    };
    files.iter().filter(|file| file.counts.sent > 0).map(unit).collect()
}

/// Brings all units to the buckets of the coarsest: the middles of unequal buckets differ although
/// nothing else does. What is said of it, if those are wider than usual.
fn level(a: &mut [Unit], b: &mut [Unit]) -> Option<String> {
    let all = || a.iter().chain(&*b);
    let bits = all().map(|unit| unit.response.bits()).min()?;
    if bits == BITS {
        return None;
    }
    for unit in a.iter_mut().chain(b) {
        unit.response = unit.response.coarsened(bits);
    }
    let width = 100.0 / f64::from(1_u32 << bits);
    Some(format!(
        "the seconds of a long run are in buckets of {width:.1} %: a smaller shift cannot be seen"
    ))
}

/// The values of the units; what lies among lost queries is only a bound, the timeout.
struct Values {
    all: Vec<f64>,
    /// The values that are bounds.
    bounds: Vec<f64>,
}

impl Values {
    fn of(units: &[Unit], part: Option<f64>) -> Self {
        let (mut all, mut bounds) = (Vec::new(), Vec::new());
        for unit in units {
            let Some(part) = part else {
                all.push(unit.lost as f64 / (unit.sent as f64).max(1.0));
                continue;
            };
            let quantile = unit.response.quantile(part);
            let Some(nanos) = quantile.nanos() else { continue };
            all.push(nanos as f64);
            if matches!(quantile, Quantile::AtLeast(_)) {
                bounds.push(nanos as f64);
            }
        }
        Self { all, bounds }
    }

    /// Whether the median is only a bound: one in the middle is.
    fn is_bound(&self) -> bool {
        let known = self.all.len() - self.bounds.len();
        known <= self.all.len() / 2 && !self.bounds.is_empty()
    }
}

/// The sign before what is only a bound.
fn bound(is_bound: bool, text: &str) -> String {
    if is_bound { format!("≥ {text}") } else { text.to_owned() }
}

/// A shift with its sign, as far as the medians are known.
fn shift(before: &Values, after: &Values, sign: &str, size: &str) -> String {
    match (before.is_bound(), after.is_bound()) {
        (false, false) => format!("{sign}{size}"),
        (false, true) => format!("≥ {sign}{size}"),
        (true, false) => format!("≤ {sign}{size}"),
        (true, true) => "unknown".to_owned(),
    }
}

fn table(a: &[Unit], b: &[Unit]) -> Table {
    let header = ["metric", "before", "after", "shift", "Cliff's δ", "p", "p (Holm)"];
    let mut table = Table::new(&header);
    let metrics = QUANTILES.iter().map(|(name, part)| (*name, Some(*part)));
    let found: Vec<_> = metrics
        .chain([("loss", None)])
        .filter_map(|(name, part)| {
            let (a, b) = (Values::of(a, part), Values::of(b, part));
            Some((
                name,
                part,
                paired::median(&a.all)?,
                paired::median(&b.all)?,
                unpaired::mann_whitney(&a.all, &b.all)?,
                (a, b),
            ))
        })
        .collect();
    let adjusted = holm::adjusted(&found.iter().map(|row| row.4.p).collect::<Vec<_>>());
    for ((name, part, before, after, test, (a, b)), adjusted) in found.into_iter().zip(adjusted) {
        let shown = |v: f64| if part.is_some() { term::nanos(v) } else { term::percent(v) };
        let sign = if test.shift < 0.0 { "−" } else { "+" };
        table.row(vec![
            name.to_owned(),
            bound(a.is_bound(), &shown(before)),
            bound(b.is_bound(), &shown(after)),
            shift(&a, &b, sign, &shown(test.shift.abs())),
            format!("{:+.2}", test.delta).replace('-', "−"),
            term::probability(test.p),
            term::probability(adjusted),
        ]);
    }
    table
}

/// A part of a result as text.
type Part = fn(&ResultFile) -> String;

/// What else differs, and what weakens the comparison.
fn notes(before: &[ResultFile], after: &[ResultFile]) -> Vec<String> {
    let mut notes = Vec::new();
    let all = || before.iter().chain(after);
    let different = |of: Part| {
        let mut values: Vec<_> = all().map(of).collect();
        values.sort();
        values.dedup();
        values.len() > 1
    };
    let checks: [(&str, Part); 4] = [
        ("plans (queries, times, seed)", |file| file.plan.hash.clone()),
        ("CPUs", |file| format!("{:?}", file.provenance.host.cpu_model)),
        ("kernels", |file| file.provenance.host.kernel.clone()),
        ("versions of nodens-lab", |file| file.generator.version.clone()),
    ];
    for (what, of) in checks {
        if different(of) {
            notes.push(format!("the {what} differ"));
        }
    }
    let invalid = all().filter(|file| !file.verdict.valid).count();
    if invalid > 0 {
        notes.push(format!("{invalid} of the runs are INVALID by their own verdict"));
    }
    for (side, files) in [("before", before), ("after", after)] {
        if before.len() == 1 && after.len() == 1 {
            notes.push(format!(
                "{side}: one run, its seconds stand for runs; they depend on each other, so p is too small"
            ));
        } else if files.len() < 4 {
            let runs = term::of(files.len(), "run");
            notes.push(format!("{side}: {runs}; with fewer than 4 nothing can show"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(micros: u64, lost: u64) -> Unit {
        let mut response = Histogram::new();
        response.record_n(micros * 1_000, 100 - lost);
        (0..lost).for_each(|_| response.record_censored(2_000_000_000));
        Unit { response, sent: 100, lost }
    }

    #[test]
    fn a_shift_of_every_run_shows_with_its_size_and_direction() {
        let a: Vec<_> = (0..6).map(|n| unit(100 + n, 0)).collect();
        let b: Vec<_> = (0..6).map(|n| unit(150 + n, 0)).collect();
        let text = table(&a, &b).markdown();
        let row = text.lines().find(|line| line.starts_with("| p50")).unwrap();
        assert!(row.contains("+50.0 µs") || row.contains("+49.") || row.contains("+50."), "{row}");
        assert!(row.contains("+1.00 | 0.0022"), "{row}");
    }

    #[test]
    fn buckets_of_unequal_width_make_no_shift() {
        let spread = || {
            let mut unit = unit(985, 0);
            unit.response.record_n(100_000, 90);
            unit.response.record_n(9_000_000, 90);
            unit
        };
        let mut a: Vec<_> = (0..6).map(|_| spread()).collect();
        let mut b: Vec<_> = (0..6).map(|_| spread()).collect();
        assert_eq!(level(&mut a, &mut b), None);
        for unit in &mut b {
            unit.response = unit.response.coarsened(4);
        }
        let row =
            |text: String| text.lines().find(|line| line.starts_with("| p50")).unwrap().to_owned();
        assert!(row(table(&a, &b).markdown()).contains("+1.00"));
        assert!(level(&mut a, &mut b).unwrap().contains("buckets of 6.2 %"));
        let row = row(table(&a, &b).markdown());
        assert!(row.contains("+0.00") && !row.contains("+1.00"), "{row}");
    }

    #[test]
    fn lost_queries_count_as_the_timeout() {
        let a: Vec<_> = (0..4).map(|_| unit(100, 0)).collect();
        let b: Vec<_> = (0..4).map(|_| unit(100, 60)).collect();
        let text = table(&a, &b).markdown();
        let row = |name: &str| {
            text.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap().to_owned()
        };
        // A percentile in the timed-out queries is no value, and neither is the shift to it.
        assert!(row("p50").contains("| 100 µs | ≥ 2.00 s | ≥ +2.00 s |"), "{text}");
        assert!(text.contains("| loss | 0 % | 60.0 % | +60.0 %"), "{text}");
        let text = table(&b, &a).markdown();
        assert!(text.contains("| p50 | ≥ 2.00 s | 100 µs | ≤ −2.00 s |"), "{text}");
        let text = table(&b, &b).markdown();
        assert!(text.contains("| p50 | ≥ 2.00 s | ≥ 2.00 s | unknown |"), "{text}");
    }
}
