//! The results of workers that shared a plan, as one result.
//!
//! Counts add up, histograms are merged bucket by bucket, and seconds and steps of the rate by their
//! number. A worker that is INVALID, or has no result, makes the whole INVALID: nobody knows what the
//! server did with its queries. Requirements are checked anew on the whole.

mod sums;

use crate::workers::{ClockOffset, WorkerReport};
use crate::{Plan, Requirement, ResultFile, Workload};
use lab_load::objective::{Lost, Objective};
use std::collections::BTreeSet;
use std::time::Duration;

/// How far apart the starts of two workers may be, in nanoseconds: a tenth of a second, as long as a step
/// of the rate.
const APART_MAX: u64 = 100_000_000;

/// Why results are not those of one plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// No result at all.
    #[error("no result of a worker to merge")]
    Nothing,
    /// A result of a whole plan.
    #[error("result {0} is that of a whole plan and not of a worker (load --worker)")]
    Whole(usize),
    /// Two results of the same worker.
    #[error("worker {0} has two results")]
    Twice(usize),
    /// Results of different plans.
    #[error("worker {worker} has another {what} than worker {first}")]
    Other {
        /// The worker.
        worker: usize,
        /// The one that it is compared with.
        first: usize,
        /// What is different.
        what: &'static str,
    },
}

/// One result of `parts`. `missing` says why a worker has none, as far as that is known.
pub fn merge(
    mut parts: Vec<ResultFile>,
    missing: &[(usize, String)],
) -> Result<ResultFile, MergeError> {
    check(&parts)?;
    parts.sort_by_key(|part| part.plan.worker.map(|worker| worker.index));
    let all = parts.first().and_then(|part| part.plan.worker).map_or(0, |worker| worker.of);
    let reports: Vec<_> = parts.iter().filter_map(report).collect();
    let invalid = invalid(&parts, all, missing);
    let are_late = parts.iter().all(|part| part.verdict.valid || part.verdict.only_late);
    let only_late = are_late && parts.len() == all;
    let (apart, clocks) = clocks(&reports);
    let requirements = requirements(&parts);
    let notes = notes(&parts);
    let mut parts = parts.into_iter();
    let mut whole = parts.next().ok_or(MergeError::Nothing)?;
    for part in parts {
        sums::add(&mut whole, &part);
    }
    whole.plan.worker = None;
    whole.run.clock = None;
    whole.workers = reports;
    whole.requirements = requirements;
    // They are those of one worker.
    (whole.baseline, whole.server_cost) = (None, None);
    let judged = requirements_of(&whole);
    whole.requirements = judged;
    whole.verdict.only_late = only_late && apart.is_none() && !invalid.is_empty();
    whole.verdict.invalid_because = invalid.into_iter().chain(apart).collect();
    whole.verdict.notes = notes.into_iter().chain([clocks]).collect();
    whole.verdict.valid = whole.verdict.invalid_because.is_empty();
    Ok(whole)
}

/// Refuses what are no parts of one plan.
fn check(parts: &[ResultFile]) -> Result<(), MergeError> {
    let first = parts.first().ok_or(MergeError::Nothing)?;
    let mut seen = BTreeSet::new();
    for (at, part) in parts.iter().enumerate() {
        let worker = part.plan.worker.ok_or(MergeError::Whole(at + 1))?;
        if !seen.insert(worker.index) {
            return Err(MergeError::Twice(worker.index));
        }
        if let Some(what) = difference(first, part) {
            let first = first.plan.worker.map_or(0, |worker| worker.index);
            return Err(MergeError::Other { worker: worker.index, first, what });
        }
    }
    Ok(())
}

/// What of two plans is different.
fn difference(a: &ResultFile, b: &ResultFile) -> Option<&'static str> {
    let of = |file: &ResultFile| file.plan.worker.map(|worker| worker.of);
    // Where a worker runs, on how many threads, and who warmed the caches, is no part of the plan.
    let common = |plan: &Plan| Plan {
        worker: None,
        threads: 0,
        cpus: Vec::new(),
        idle: String::new(),
        workload: Workload { source: String::new(), ..plan.workload.clone() },
        ..plan.clone()
    };
    let differences = [
        (a.schema != b.schema || a.generator != b.generator, "version of the generator"),
        (of(a) != of(b), "number of workers"),
        (a.plan.server != b.plan.server, "server"),
        (a.plan.hash != b.plan.hash, "plan"),
        (common(&a.plan) != common(&b.plan), "setting of the plan"),
        (a.rate.step_ns != b.rate.step_ns, "step of the rate"),
    ];
    differences.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what)
}

fn report(part: &ResultFile) -> Option<WorkerReport> {
    Some(WorkerReport {
        index: part.plan.worker?.index,
        started_unix_ns: part.run.started_unix_ns,
        clock: part.run.clock,
        sent: part.counts.sent,
        answered: part.counts.answered,
        valid: part.verdict.valid,
    })
}

/// Why the whole is INVALID: workers without a result, and those that are INVALID.
fn invalid(parts: &[ResultFile], all: usize, missing: &[(usize, String)]) -> Vec<String> {
    let has = |index: usize| parts.iter().any(|p| p.plan.worker.is_some_and(|w| w.index == index));
    let mut reasons = Vec::new();
    for index in (0..all).filter(|index| !has(*index)) {
        let why = missing.iter().find(|(worker, _)| *worker == index);
        let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
        reasons.push(format!("worker {index} of {all} has no result{why}"));
    }
    for part in parts.iter().filter(|part| !part.verdict.valid) {
        let index = part.plan.worker.map_or(0, |worker| worker.index);
        let whys = part.verdict.invalid_because.iter();
        reasons.extend(whys.map(|why| format!("worker {index}: {why}")));
    }
    reasons
}

/// The notes of all, those that every worker has only once.
fn notes(parts: &[ResultFile]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for part in parts {
        let index = part.plan.worker.map_or(0, |worker| worker.index);
        for note in &part.verdict.notes {
            let have = |other: &ResultFile| other.verdict.notes.contains(note);
            let text = if parts.iter().all(have) {
                note.clone()
            } else {
                format!("worker {index}: {note}")
            };
            if !notes.contains(&text) {
                notes.push(text);
            }
        }
    }
    notes
}

/// Why the workers did not start together, if so, and what is known of their clocks.
fn clocks(reports: &[WorkerReport]) -> (Option<String>, String) {
    let workers = reports.len();
    let text = |nanos: u64| format!("{:?}", Duration::from_micros(nanos.div_ceil(1_000)));
    // A clock that was not compared is taken to be right: starts that are apart even so are not one.
    let starts = reports.iter().map(|it| {
        let clock = it.clock.unwrap_or(ClockOffset { offset_ns: 0, within_ns: 0 });
        (common_start(it.started_unix_ns, clock), i128::from(clock.within_ns))
    });
    let apart = apart(&starts.collect::<Vec<_>>());
    let late = (apart > APART_MAX).then(|| {
        format!("workers may have started up to {} apart: that is not the plan", text(apart))
    });
    let clocks: Option<Vec<ClockOffset>> = reports.iter().map(|it| it.clock).collect();
    let Some(clocks) = clocks else {
        let text = "workers started by their own clocks, which were not compared";
        return (late, format!("{workers} {text}"));
    };
    let spread = |values: &mut dyn Iterator<Item = i128>| {
        let (mut low, mut high) = (i128::MAX, i128::MIN);
        values.for_each(|value| (low, high) = (low.min(value), high.max(value)));
        u64::try_from(high.saturating_sub(low)).unwrap_or(0)
    };
    let offsets = spread(&mut clocks.iter().map(|clock| i128::from(clock.offset_ns)));
    let within = clocks.iter().map(|clock| clock.within_ns).max().unwrap_or(0);
    let note = format!(
        "{workers} workers started within {} of each other; their clocks differ by up to {}, known to \
         within {}",
        text(apart),
        text(offsets),
        text(within)
    );
    (late, note)
}

/// How far apart two of `starts` may be at most; each is known to within so much, to either side.
fn apart(starts: &[(i128, i128)]) -> u64 {
    let mut latest: Vec<_> =
        starts.iter().enumerate().map(|(at, (start, within))| (start + within, at)).collect();
    let mut earliest: Vec<_> =
        starts.iter().enumerate().map(|(at, (start, within))| (start - within, at)).collect();
    latest.sort_unstable_by(|a, b| b.cmp(a));
    earliest.sort_unstable();
    // The first that are of two workers are among the first two of each.
    let pairs =
        latest.iter().take(2).flat_map(|late| earliest.iter().take(2).map(move |e| (late, e)));
    let others = pairs.filter(|((_, late), (_, early))| late != early);
    let most = others.map(|((late, _), (early, _))| late.saturating_sub(*early)).max();
    most.map_or(0, |nanos| u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

/// The start by the clock of the machine that gave it.
fn common_start(started: u64, clock: ClockOffset) -> i128 {
    i128::from(started) - i128::from(clock.offset_ns)
}

/// What was required of the workers, each limit once.
fn requirements(parts: &[ResultFile]) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = Vec::new();
    for requirement in parts.iter().flat_map(|part| &part.requirements) {
        if !all.iter().any(|it| it.limit == requirement.limit) {
            all.push(requirement.clone());
        }
    }
    all
}

/// The same limits, checked on the whole.
fn requirements_of(whole: &ResultFile) -> Vec<Requirement> {
    let lost = Lost { lost: whole.counts.lost(), sent: whole.counts.sent };
    let limits = whole.requirements.iter().filter_map(|it| it.limit.parse::<Objective>().ok());
    let checks = limits.flat_map(|limit| limit.check(&whole.response, lost));
    checks.map(|it| Requirement { limit: it.limit, found: it.found, met: it.met }).collect()
}

#[cfg(test)]
mod tests;
