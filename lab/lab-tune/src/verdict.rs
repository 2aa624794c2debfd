//! What is said of a knob.
//!
//! A knob that the screening did not name has no effect that was shown. One that it named needs the
//! same direction on fresh data, at the level for all named knobs together. Then what users feel
//! decides: response times with queries on a schedule, the rate of answers in a closed loop, and in
//! both queries and connections that fail. A knob is *better* if a felt metric is better and none is
//! worse beyond its margin, *mixed* if something is better and a felt metric is worse, and *cheaper* if
//! it only costs the server less CPU. Fewer resets or retransmissions alone are nothing that users feel
//! and no cost, and neither are times of a closed loop, which are those of its window: *not felt*.
//! `tcp_abort_on_overflow` turns connections that would wait into resets, and a client that tries again
//! at once hides its failures in connection attempts.

use crate::metric::Metric;
use crate::trial::Trial;
use lab_result::tuning::{Change, Confirmation, KnobResult, TuningPlan, Verdict};
use std::collections::BTreeSet;

/// The metric that is a cost of the server.
const COST: &str = "cpu";

/// Puts the verdicts into the trial. Of the knobs in `disturbed`, fresh data confirms nothing.
pub(crate) fn judge(
    plan: &TuningPlan,
    primary: Metric,
    disturbed: &BTreeSet<String>,
    trial: &mut Trial,
) {
    for knob in &mut trial.knobs {
        let (mut verdict, mut because) = verdict(plan, primary, knob);
        if knob.confirmation.is_some() && disturbed.contains(&knob.knob) {
            let why =
                "too many measurements of it on fresh data, or of the baseline, are disturbed";
            (verdict, because) = (Verdict::Unconfirmed, vec![why.to_owned()]);
        }
        knob.verdict = verdict;
        knob.because = because;
    }
}

/// The verdict on a knob and its reasons.
pub fn verdict(plan: &TuningPlan, primary: Metric, knob: &KnobResult) -> (Verdict, Vec<String>) {
    let Some(effect) = &knob.effect else { return (Verdict::Unknown, Vec::new()) };
    if effect.named.is_none() {
        return (Verdict::NotShown, Vec::new());
    }
    let Some(confirmation) = &knob.confirmation else {
        let why = "it was not measured again on fresh data";
        return (Verdict::Unconfirmed, vec![why.to_owned()]);
    };
    let Some(change) = confirmation.changes.first() else {
        return (Verdict::Unconfirmed, vec!["fresh data has no pair of it".to_owned()]);
    };
    let excludes_zero = change.interval.is_some_and(|[low, high]| low * high > 0.0);
    let same_way = change.estimate * effect.estimate > 0.0;
    if confirmation.p_adjusted > plan.alpha || !excludes_zero || !same_way {
        return (Verdict::Unconfirmed, unconfirmed(confirmation, change, same_way));
    }
    if change.bounds > 0 && primary.is_better(change.estimate) {
        let (bounds, name) = (change.bounds, primary.name);
        let why = format!(
            "so many queries are lost that {name} is only known to be at least the timeout ({bounds} times)"
        );
        return (Verdict::Unconfirmed, vec![why]);
    }
    of_changes(plan, primary, confirmation, change)
}

fn unconfirmed(confirmation: &Confirmation, change: &Change, same_way: bool) -> Vec<String> {
    let Confirmation { pairs, needed, p_adjusted, .. } = confirmation;
    if !same_way {
        return vec![format!("fresh data points the other way in {pairs} pairs")];
    }
    let enough = needed.is_some_and(|needed| needed <= *pairs);
    let more = match needed {
        Some(needed) if !enough => format!("; about {needed} would probably decide"),
        None => "; more than can be planned would be needed".to_owned(),
        Some(_) => String::new(),
    };
    let percent = change.estimate;
    vec![format!(
        "{pairs} pairs of fresh data do not show it (p {p_adjusted:.3}, {percent:+.3}){more}"
    )]
}

/// What was confirmed, by who feels what.
fn of_changes(
    plan: &TuningPlan,
    primary: Metric,
    confirmation: &Confirmation,
    decisive: &Change,
) -> (Verdict, Vec<String>) {
    let (mut better, mut worse, mut because) = (Vec::new(), Vec::new(), Vec::new());
    let is_improved = primary.is_better(decisive.estimate);
    let felt = primary.is_felt(plan.closed_loop);
    if felt {
        if is_improved { &mut better } else { &mut worse }.push(primary.name);
    }
    let mut open = Vec::new();
    for change in confirmation.changes.iter().skip(1) {
        let Some(metric) = Metric::find(&change.metric) else { continue };
        if !metric.is_felt(plan.closed_loop) {
            continue;
        }
        match change.said.as_str() {
            "better" => better.push(metric.name),
            "worse" => worse.push(metric.name),
            // Of each it has to be shown, so that the level is kept without an adjustment.
            _ if change.no_worse_p.is_none_or(|p| p > plan.alpha) => open.push(metric.name),
            _ => {}
        }
    }
    for (what, names) in [("better", &better), ("worse", &worse)] {
        if !names.is_empty() {
            because.push(format!("{what}: {}", names.join(", ")));
        }
    }
    if !felt {
        let less = if is_improved { "better" } else { "worse" };
        because.push(format!("{less}, not felt: {}", primary.name));
    }
    let cost = (primary.name == COST).then_some(is_improved);
    let verdict = match (better.is_empty(), worse.is_empty(), cost) {
        (false, false, _) | (true, false, Some(true)) | (false, true, Some(false)) => {
            Verdict::Mixed
        }
        (false, true, _) if !open.is_empty() => {
            because.push(format!("not shown to be no worse: {}", open.join(", ")));
            Verdict::Unconfirmed
        }
        (false, true, _) => Verdict::Better,
        (true, false, _) => Verdict::Worse,
        (true, true, Some(false)) => Verdict::Dearer,
        (true, true, Some(true)) => Verdict::Cheaper,
        (true, true, None) => Verdict::NotFelt,
    };
    (verdict, because)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_result::tuning::Effect;

    fn plan(closed_loop: bool) -> TuningPlan {
        TuningPlan { alpha: 0.05, closed_loop, ..TuningPlan::default() }
    }

    fn change(metric: &str, estimate: f64, said: &str) -> Change {
        Change {
            metric: metric.to_owned(),
            estimate,
            interval: Some([estimate * 0.5, estimate * 1.5]),
            said: said.to_owned(),
            no_worse_p: Some(0.01),
            ..Change::default()
        }
    }

    fn knob(p: f64, changes: Vec<Change>) -> KnobResult {
        let estimate = changes.first().map_or(0.0, |change| change.estimate);
        let confirmation = Confirmation { pairs: 9, p_adjusted: p, changes, ..Default::default() };
        KnobResult {
            effect: Some(Effect { estimate, named: Some(1), ..Effect::default() }),
            confirmation: Some(confirmation),
            ..KnobResult::default()
        }
    }

    fn said(primary: &str, closed_loop: bool, knob: &KnobResult) -> Verdict {
        verdict(&plan(closed_loop), Metric::find(primary).unwrap(), knob).0
    }

    #[test]
    fn better_is_only_what_users_feel_and_nothing_that_they_feel_may_be_worse() {
        let p99 = |estimate| change("p99", estimate, "");
        let failures = |said: &str| change("failures", 0.01, said);
        for (changes, expected) in [
            (vec![p99(-0.1)], Verdict::Better),
            (vec![p99(0.1)], Verdict::Worse),
            (vec![p99(-0.1), failures("worse")], Verdict::Mixed),
            (vec![p99(0.1), failures("better")], Verdict::Mixed),
            (vec![p99(-0.1), failures("unclear")], Verdict::Better),
            // More resets are a cause, not a failure.
            (vec![p99(-0.1), change("resets", 9.0, "worse")], Verdict::Better),
            (vec![p99(-0.1), change("cpu", 0.3, "worse")], Verdict::Better),
        ] {
            assert_eq!(said("p99", false, &knob(0.01, changes.clone())), expected, "{changes:?}");
        }
        // Fewer resets and faster answers, while more connections fail.
        let abort = knob(0.01, vec![p99(-0.05), change("failed_connects", 0.2, "worse")]);
        let (verdict, because) = verdict(&plan(false), Metric::find("p99").unwrap(), &abort);
        assert_eq!(verdict, Verdict::Mixed);
        assert_eq!(because, ["better: p99", "worse: failed_connects"]);
    }

    #[test]
    fn a_cost_alone_is_cheaper_or_dearer_and_never_better() {
        let cpu = |estimate| change("cpu", estimate, "");
        for (changes, expected) in [
            (vec![cpu(-0.1)], Verdict::Cheaper),
            (vec![cpu(0.1)], Verdict::Dearer),
            (vec![cpu(-0.1), change("p99", 0.2, "worse")], Verdict::Mixed),
            (vec![cpu(0.1), change("p99", 0.2, "worse")], Verdict::Worse),
            (vec![cpu(0.1), change("p99", -0.2, "better")], Verdict::Mixed),
            (vec![cpu(-0.1), change("p99", -0.2, "better")], Verdict::Better),
        ] {
            assert_eq!(said("cpu", false, &knob(0.01, changes.clone())), expected, "{changes:?}");
        }
        // Times of a closed loop are those of its window.
        let window = knob(0.01, vec![change("qps", 0.1, ""), change("p99", 0.2, "worse")]);
        assert_eq!(said("qps", true, &window), Verdict::Better);
    }

    #[test]
    fn better_needs_that_nothing_felt_is_shown_to_be_worse_by_its_margin() {
        for (p, expected) in [
            (Some(0.05), Verdict::Better),
            (Some(0.06), Verdict::Unconfirmed),
            (None, Verdict::Unconfirmed),
        ] {
            let failures = Change { no_worse_p: p, ..change("failures", 0.01, "unclear") };
            let all = knob(0.01, vec![change("p99", -0.1, ""), failures]);
            assert_eq!(said("p99", false, &all), expected, "{p:?}");
            // What nobody feels decides nothing.
            let resets = Change { no_worse_p: p, ..change("resets", 0.01, "unclear") };
            let all = knob(0.01, vec![change("p99", -0.1, ""), resets]);
            assert_eq!(said("p99", false, &all), Verdict::Better, "{p:?}");
        }
    }

    #[test]
    fn a_cause_alone_is_neither_cheaper_nor_dearer_and_no_more_than_what_users_feel() {
        let felt = |metric: &str, said: &str| change(metric, 0.2, said);
        for (primary, closed_loop, others, expected) in [
            ("resets", false, vec![], Verdict::NotFelt),
            ("retransmits", false, vec![change("cpu", 0.2, "worse")], Verdict::NotFelt),
            ("overflows", true, vec![], Verdict::NotFelt),
            // Times of a closed loop are those of its window.
            ("p50", true, vec![], Verdict::NotFelt),
            ("p99", true, vec![], Verdict::NotFelt),
            ("resets", false, vec![felt("failures", "worse")], Verdict::Worse),
            ("resets", false, vec![felt("p99", "better")], Verdict::Better),
            ("p99", true, vec![felt("qps", "worse")], Verdict::Worse),
        ] {
            for estimate in [-0.1, 0.1] {
                let all = [vec![change(primary, estimate, "")], others.clone()].concat();
                let found = said(primary, closed_loop, &knob(0.01, all));
                assert_eq!(found, expected, "{primary} {estimate} {others:?}");
            }
        }
    }

    #[test]
    fn what_is_only_known_to_be_at_least_so_much_is_never_better() {
        let bound = |estimate| Change { bounds: 1, ..change("p99", estimate, "") };
        assert_eq!(said("p99", false, &knob(0.01, vec![bound(-0.1)])), Verdict::Unconfirmed);
        assert_eq!(said("p99", false, &knob(0.01, vec![bound(0.1)])), Verdict::Worse);
    }

    #[test]
    fn what_fresh_data_does_not_show_is_not_confirmed() {
        assert_eq!(
            said("p99", false, &knob(0.2, vec![change("p99", -0.1, "")])),
            Verdict::Unconfirmed
        );
        let mut other_way = knob(0.01, vec![change("p99", -0.1, "")]);
        other_way.effect.as_mut().unwrap().estimate = 0.1;
        assert_eq!(said("p99", false, &other_way), Verdict::Unconfirmed);
        let mut around_zero = knob(0.01, vec![change("p99", -0.1, "")]);
        around_zero.confirmation.as_mut().unwrap().changes[0].interval = Some([-0.2, 0.1]);
        assert_eq!(said("p99", false, &around_zero), Verdict::Unconfirmed);
        let mut not_named = knob(0.01, vec![change("p99", -0.1, "")]);
        not_named.effect.as_mut().unwrap().named = None;
        assert_eq!(said("p99", false, &not_named), Verdict::NotShown);
        assert_eq!(said("p99", false, &KnobResult::default()), Verdict::Unknown);
    }
}
