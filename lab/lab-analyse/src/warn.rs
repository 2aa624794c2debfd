//! What weakens an analysis.

use crate::family::is_correlated;
use crate::group::Group;
use crate::rates;
use lab_result::analysis::{AnalysedMetric, LoopCheck};

/// A group with fewer different readings than this part of them was read more often than it changed.
const CHANGES_MIN: f64 = 0.5;
/// Fewer values say nothing about that.
const READINGS_MIN: usize = 4;

/// Everything that a reader has to know before the findings.
pub(crate) fn warnings(
    groups: &[Group],
    metrics: &[AnalysedMetric],
    loops: &[LoopCheck],
    by_part: bool,
) -> Vec<String> {
    let mut all = Vec::new();
    for trial in groups.iter().flat_map(|group| &group.trials) {
        all.extend(trial.warnings.iter().map(|text| format!("{}: {text}", trial.place())));
    }
    if groups.len() > 1 {
        all.extend(order(groups));
        all.extend(rates::warning(groups));
        all.extend(single(groups, by_part));
    }
    all.extend(closed(loops));
    all.extend(repeated(metrics));
    all
}

/// Whether time and group can be told apart.
fn order(groups: &[Group]) -> Option<String> {
    let mut times = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for trial in &group.trials {
            times.push((trial.started_unix_ns, at));
        }
    }
    if times.iter().any(|(time, _)| time.is_none()) {
        return Some(
            "the files do not say when each trial began: whether the groups took turns is not known, and \
             what changed in between counts as a difference of theirs"
                .to_owned(),
        );
    }
    times.sort();
    let turns =
        times.windows(2).filter(|pair| pair.first().map(|it| it.1) != pair.last().map(|it| it.1));
    (turns.count() + 1 == groups.len()).then(|| {
        "the groups were measured one after the other: what changed in between (machine, neighbours, \
         caches) counts as a difference of theirs, and no test takes it out"
            .to_owned()
    })
}

/// Groups of one run.
fn single(groups: &[Group], by_part: bool) -> Option<String> {
    let single = groups.iter().filter(|group| group.trials.len() == 1).count();
    let text = match (single, by_part) {
        (0, false) => return None,
        (0, true) => {
            "values are seconds or readings of runs, which depend on each other: p-values are too small"
        }
        (_, true) => {
            "a group has one run: its seconds or readings depend on each other, and how much a run differs \
             from the next of the same thing is not in the data; nothing is judged"
        }
        (_, false) => {
            return Some(format!(
                "{single} of {} groups have one run: how much a run differs from the next of the same thing is \
             not in the data",
                groups.len()
            ));
        }
    };
    Some(text.to_owned())
}

/// Closed loops whose latency is their rate.
fn closed(loops: &[LoopCheck]) -> Option<String> {
    let explained = loops.iter().filter(|check| check.explained).count();
    // One of many may lie there by chance.
    (explained * 2 > loops.len()).then(|| {
        format!(
            "closed loop: in {explained} of {} trials latency is queries in flight ÷ rate and nothing else, \
             one number said twice; it measures the generator's window and is no latency that clients at \
             their own rate would see",
            loops.len()
        )
    })
}

/// Readings that were taken more often than they change.
fn repeated(metrics: &[AnalysedMetric]) -> Vec<String> {
    let mut all = Vec::new();
    for metric in metrics.iter().filter(|metric| !metric.contrasts.is_empty()) {
        let is_repeated = |changes: usize, count: usize| {
            // What never changes is no gauge of anything that did.
            count >= READINGS_MIN && changes > 1 && (changes as f64) < CHANGES_MIN * count as f64
        };
        let mut repeated =
            metric.samples.iter().filter(|sample| is_repeated(sample.changes, sample.values.len()));
        if let Some(sample) = repeated.next() {
            let alike = repeated.count();
            let others = match alike {
                0 => String::new(),
                1 => ", and so in another group".to_owned(),
                more => format!(", and so in {more} other groups"),
            };
            all.push(format!(
                "{}: of {} values of {}, {} differ from the one before{others}: a gauge that was read more \
                 often than it changes, whose readings are no repetitions (--once counts them once)",
                metric.name,
                sample.values.len(),
                sample.group,
                sample.changes
            ));
        } else if let Some(sample) =
            metric.samples.iter().find(|sample| is_correlated(&sample.values) == Some(true))
        {
            all.push(format!(
                "{}: neighbouring values of {} are correlated: they are no independent repetitions, and \
                 p-values are too small",
                metric.name, sample.group
            ));
        }
    }
    all
}
