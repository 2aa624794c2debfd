//! What of the comparison can be judged although queries left late.

use super::Phase;
use crate::term;
use lab_load::judge::Verdict;

/// Nanoseconds after its time when a query counts as late here.
const LATE: u64 = 1_000_000;
/// The part of late queries beyond which nothing is judged.
const LATE_MAX: f64 = 0.05;

/// What both phases are good for.
#[derive(Debug, PartialEq)]
pub(super) enum Judged {
    /// All of it.
    Whole,
    /// Counts, and quantiles that so many late queries of all do not decide; with the reason.
    Apart(f64, String),
    /// Nothing, for this reason.
    Invalid(String),
}

impl Judged {
    pub(super) fn of(before: &Phase, after: &Phase) -> Self {
        let phases = [before, after];
        judge(phases.map(|phase| &phase.outcome.verdict), phases.map(late))
    }

    /// Whether this quantile is one of the servers and not of the machine. Late queries are among the slowest: they
    /// have to be less than half of what lies above it.
    pub(super) fn takes(&self, part: f64) -> bool {
        match self {
            Self::Whole => true,
            Self::Apart(late, _) => *late <= (1.0 - part) / 2.0,
            Self::Invalid(_) => false,
        }
    }

    /// The line that says so, given the names of the quantiles that are not judged.
    pub(super) fn line(&self, left_out: &[&str]) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Apart(_, why) if left_out.is_empty() => {
                Some(format!("Judged all the same: {why}."))
            }
            Self::Apart(_, why) => {
                Some(format!("Not judged: {}, because {why}.", left_out.join(" and ")))
            }
            Self::Invalid(why) => Some(format!("INVALID: {why}.")),
        }
    }
}

/// The part of the queries that left late.
fn late(phase: &Phase) -> f64 {
    let lateness = &phase.outcome.tally.lateness;
    lateness.count_above(LATE) as f64 / (lateness.recorded() as f64).max(1.0)
}

/// Only short pauses leave something to judge. The reason is how many queries were late if that is all there is
/// against both phases, else the gravest.
fn judge(verdicts: [&Verdict; 2], late: [f64; 2]) -> Judged {
    let invalid = verdicts.into_iter().filter(|verdict| !verdict.is_valid());
    let Some(worst) = invalid.min_by_key(|verdict| (verdict.only_late, verdict.only_paused)) else {
        return Judged::Whole;
    };
    if let Some(why) = worst.invalid.first().filter(|_| !worst.only_paused) {
        return Judged::Invalid(why.clone());
    }
    let [before, after] = late.map(term::percent);
    let why = format!(
        "this machine is too busy: {before} and {after} of the queries left more than 1 ms late"
    );
    match late.into_iter().fold(0.0, f64::max) {
        most if most <= LATE_MAX => Judged::Apart(most, why),
        _ => Judged::Invalid(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(only_late: bool, why: &str) -> Verdict {
        let invalid = vec![why.to_owned()];
        Verdict { invalid, only_late, only_paused: only_late, notes: Vec::new() }
    }

    #[test]
    fn a_comparison_is_invalid_for_its_gravest_reason() {
        let (valid, slow) = (Verdict::default(), verdict(true, "6 % of the queries left late"));
        let dropped = verdict(false, "7 answers were dropped");
        assert_eq!(judge([&valid, &valid], [0.9, 0.9]), Judged::Whole);
        let late = judge([&slow, &valid], [0.06, 0.02]);
        assert!(late.line(&[]).unwrap().contains("INVALID: this machine is too busy: 6.0 % and"));
        let Judged::Invalid(why) = judge([&slow, &dropped], [0.01, 0.01]) else { panic!() };
        assert_eq!(why, "7 answers were dropped");
        // A generator that cannot go faster is no pause of the machine.
        let busy = Verdict { only_paused: false, ..verdict(true, "load thread 0 used 90 %") };
        let Judged::Invalid(why) = judge([&slow, &busy], [0.01, 0.01]) else { panic!() };
        assert_eq!(why, "load thread 0 used 90 %");
    }

    #[test]
    fn quantiles_are_judged_that_few_late_queries_do_not_decide() {
        let (valid, slow) = (Verdict::default(), verdict(true, "1.8 % of the queries left late"));
        let judged = judge([&valid, &slow], [0.0, 0.018]);
        assert_eq!(
            [0.5, 0.9, 0.99, 0.999].map(|part| judged.takes(part)),
            [true, true, false, false]
        );
        let line = judged.line(&["p99", "p99.9"]).unwrap();
        assert!(line.starts_with("Not judged: p99 and p99.9, because this machine"), "{line}");
        assert!(judge([&valid, &slow], [0.0, 0.004]).takes(0.99));
        let line = judge([&valid, &slow], [0.0, 0.0001]).line(&[]).unwrap();
        assert!(line.starts_with("Judged all the same: this machine is too busy"), "{line}");
        assert!(!judge([&slow, &slow], [0.06, 0.0]).takes(0.5));
    }
}
