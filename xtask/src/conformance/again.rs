//! Cases that differ are run twice more, alone: what differs in no other of the three runs depends on when things
//! happened, not on what the servers do. It is told and does not fail the run.

use std::collections::BTreeMap;

use anyhow::Result;

use super::run::{CaseReport, Unexplained};

/// How often a case that differs is run again.
const REPETITIONS: usize = 2;

/// The report of a case by what `first` and, where that has something unexplained, two more runs say.
pub(crate) fn confirm(
    first: Result<CaseReport>,
    mut run: impl FnMut() -> Result<CaseReport>,
) -> Result<CaseReport> {
    if first.as_ref().is_ok_and(|report| report.unexplained.is_empty()) {
        return first;
    }
    let mut runs = vec![first];
    runs.extend((0..REPETITIONS).map(|_| run()));
    let failures = runs.iter().filter(|run| run.is_err()).count();
    if failures > 1 {
        return runs.swap_remove(runs.iter().position(Result::is_err).unwrap_or(0));
    }
    let reports: Vec<CaseReport> = runs.into_iter().flatten().collect();
    Ok(merge(reports))
}

/// The first report, its unexplained comparisons split by whether a second run has them too.
fn merge(reports: Vec<CaseReport>) -> CaseReport {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for one in reports.iter().flat_map(|report| &report.unexplained) {
        *seen.entry(one.question.clone()).or_default() += 1;
    }
    let is_again = |one: &Unexplained| seen.get(&one.question).is_some_and(|&runs| runs > 1);
    let mut reports = reports.into_iter();
    let mut merged = reports.next().unwrap_or_default();
    let (again, once) = std::mem::take(&mut merged.unexplained).into_iter().partition(is_again);
    (merged.unexplained, merged.once) = (again, once);
    for one in reports.flat_map(|report| report.unexplained) {
        let known = |other: &Unexplained| other.question == one.question;
        if is_again(&one) && !merged.unexplained.iter().any(known) {
            // The first run counted it as equal or explained.
            merged.equal = merged.equal.saturating_sub(1);
            merged.unexplained.push(one);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(differing: &[&str]) -> CaseReport {
        let unexplained = differing.iter().map(|question| Unexplained {
            question: (*question).to_owned(),
            differences: Vec::new(),
            coredns: String::new(),
            nodens: String::new(),
        });
        let unexplained: Vec<Unexplained> = unexplained.collect();
        CaseReport { equal: 10 - unexplained.len(), unexplained, ..CaseReport::default() }
    }

    /// What counts and what is only told of runs that differ as given; `None` is a run that could not be made.
    fn confirmed(runs: [Option<&[&str]>; 3]) -> Result<(Vec<String>, Vec<String>, usize)> {
        let run = |differing: &Option<&[&str]>| match differing {
            Some(differing) => Ok(report(differing)),
            None => Err(anyhow::anyhow!("no port")),
        };
        let mut more = runs[1..].iter();
        let report = confirm(run(&runs[0]), || run(more.next().unwrap()))?;
        let questions = |all: &[Unexplained]| all.iter().map(|one| one.question.clone()).collect();
        Ok((questions(&report.unexplained), questions(&report.once), report.questions()))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_differs_twice_counts_and_what_differs_once_is_told() {
        let all = confirmed([Some(&["a", "b"]), Some(&["b"]), Some(&["c"])]).unwrap();
        assert_eq!(all, (names(&["b"]), names(&["a"]), 10));
    }

    #[test]
    fn what_only_the_repetitions_show_counts_too() {
        let all = confirmed([Some(&["a"]), Some(&["b"]), Some(&["b"])]).unwrap();
        assert_eq!(all, (names(&["b"]), names(&["a"]), 10));
    }

    #[test]
    fn a_case_that_cannot_be_run_twice_fails() {
        assert_eq!(confirmed([None, Some(&[]), Some(&[])]).unwrap(), (vec![], vec![], 10));
        assert!(confirmed([None, Some(&[]), None]).is_err());
        assert!(confirmed([None, None, None]).is_err());
    }

    #[test]
    fn a_case_without_differences_is_run_once() {
        let first = confirm(Ok(report(&[])), || panic!("run again")).unwrap();
        assert_eq!(first.questions(), 10);
    }
}
