//! What fresh data says of the knobs that the screening named.

use crate::metric::{self, Metric};
use crate::screening::test_name;
use crate::trial::{Stage, Trial};
use lab_experiment::screening::BASELINE;
use lab_result::tuning::{Change, Confirmation, Groups, Measurement, TuningPlan};
use lab_stats::paired::{Side, Statistic};
use lab_stats::power::{Plan, Resampled};
use lab_stats::{Verdict, compare, groups, holm, paired};
use std::collections::BTreeMap;

/// Resamples of intervals.
const RESAMPLES: usize = 2_000;

/// How many pairs each named knob needs by the noise of the screening, for an effect at the end of its
/// interval that is nearer to zero: what was named is more likely too large than too small. `None` if
/// more than can be planned.
pub(crate) fn needed(
    plan: &TuningPlan,
    primary: Metric,
    trial: &Trial,
    named: &[usize],
) -> Vec<Option<usize>> {
    let noise = noise(primary, trial, named);
    let wanted = Plan { alpha: plan.alpha / named.len().max(1) as f64, power: plan.power };
    let pairs = |knob: &usize| {
        let effect = effect(primary, trial, *knob)?;
        Resampled::new(wanted, &noise, lab_random::at(plan.seed, 74)).pairs(effect, None)
    };
    named.iter().map(pairs).collect()
}

/// The effect that is planned for, on the scale of statistics.
fn effect(primary: Metric, trial: &Trial, knob: usize) -> Option<f64> {
    let effect = trial.knobs.get(knob)?.effect.as_ref()?;
    let half = primary.difference(effect.estimate).abs() / 2.0;
    let ends = effect.interval.map(|ends| ends.map(|end| primary.difference(end)));
    let nearer = ends.filter(|[low, high]| low * high > 0.0);
    let nearer = nearer.map_or(half, |[low, high]| low.abs().min(high.abs()));
    Some(nearer.max(half))
}

/// The differences of neighbours in the screening, less the effects of named knobs.
fn noise(primary: Metric, trial: &Trial, named: &[usize]) -> Vec<f64> {
    let effect_of = |knob: &usize| {
        let effect = trial.knobs.get(*knob).and_then(|knob| knob.effect.as_ref());
        effect.map_or(0.0, |effect| primary.difference(effect.estimate))
    };
    let effects: Vec<(usize, f64)> = named.iter().map(|knob| (*knob, effect_of(knob))).collect();
    let rest = |one: &Measurement| {
        let set = effects.iter().filter(|(knob, _)| one.high.contains(knob));
        Some((one.block, primary.of(&one.values)? - set.map(|(_, effect)| effect).sum::<f64>()))
    };
    let rests: Vec<(usize, f64)> = crate::screening::runs(trial).filter_map(rest).collect();
    let neighbours = rests.chunks_exact(2);
    neighbours
        .filter_map(|pair| match pair {
            [(block, one), (other_block, other)] if block == other_block => Some(other - one),
            _ => None,
        })
        .collect()
}

/// Puts what was confirmed into the trial.
pub(crate) fn findings(
    plan: &TuningPlan,
    primary: Metric,
    (named, needed): (&[usize], &[Option<usize>]),
    trial: &mut Trial,
) {
    let mut all: Vec<Confirmation> = Vec::new();
    {
        let measured: Vec<&Measurement> = fresh(trial).collect();
        let metrics = metric::measured(primary, measured.iter().map(|one| &one.values));
        for (knob, needed) in named.iter().zip(needed) {
            let name = plan.knobs.get(*knob).map_or("", |knob| &knob.name);
            all.push(beside(plan, &metrics, &measured, name, *needed));
        }
    }
    let raw: Vec<f64> =
        all.iter().map(|one| one.changes.first().map_or(1.0, |change| change.p)).collect();
    for (one, p) in all.iter_mut().zip(holm::adjusted(&raw)) {
        one.p_adjusted = p;
    }
    adjust_felt(plan, primary, &mut all);
    trial.groups = of_papers(plan, primary, named, trial, &mut all);
    for (knob, confirmation) in named.iter().zip(all) {
        if let Some(result) = trial.knobs.get_mut(*knob) {
            result.confirmation = Some(confirmation);
        }
    }
}

/// What users feel besides the metric that decides is tested once for every such metric and setting: a
/// change of one is only told if it is shown for all of these tests together.
fn adjust_felt(plan: &TuningPlan, primary: Metric, all: &mut [Confirmation]) {
    let is_felt = |change: &&mut Change| {
        let metric = Metric::find(&change.metric).filter(|metric| metric.name != primary.name);
        metric.is_some_and(|metric| metric.is_felt(plan.closed_loop))
    };
    let felt = all.iter_mut().flat_map(|one| &mut one.changes).filter(is_felt);
    let felt: Vec<&mut Change> = felt.collect();
    let raw: Vec<f64> = felt.iter().map(|change| change.p).collect();
    for (change, p) in felt.into_iter().zip(holm::adjusted(&raw)) {
        change.p_adjusted = Some(p);
        if p > plan.alpha && matches!(&*change.said, "better" | "worse") {
            "unclear".clone_into(&mut change.said);
        }
    }
}

/// The p-value of the test that a metric is worse by its margin or more.
fn no_worse(metric: &Metric, differences: &[f64], seed: u64) -> Option<f64> {
    let margin = metric.margin();
    let (limit, side) = match metric.less_is_better {
        true => (margin.high, Side::Less),
        false => (margin.low, Side::Greater),
    };
    let shifted: Vec<f64> = differences.iter().map(|difference| difference - limit).collect();
    let seed = lab_random::at(seed, 24);
    Some(paired::sign_flip(&shifted, Statistic::SignedRanks, side, seed)?.p)
}

fn fresh(trial: &Trial) -> impl Iterator<Item = &Measurement> {
    let of_stage = |one: &&Measurement| one.phase == Stage::Confirmation.name() && one.used;
    trial.measurements.iter().filter(of_stage)
}

/// A value, and whether it is a bound: the truth is that or more.
type Known = (f64, bool);

/// The values of a metric by block, of one arm.
fn by_block(metric: &Metric, measured: &[&Measurement], arm: &str) -> BTreeMap<usize, Known> {
    let of_arm = measured.iter().filter(|one| one.arm == arm);
    let known = |one: &Measurement| Some((metric.of(&one.values)?, metric.is_bound(&one.values)));
    of_arm.filter_map(|one| Some((one.block, known(one)?))).collect()
}

/// A difference; none if the lower one of two is a bound, so that it may be the higher one.
fn difference((baseline, at_least): Known, (changed, changed_at_least): Known) -> f64 {
    let difference = changed - baseline;
    let unknown = (difference < 0.0 && changed_at_least) || (difference > 0.0 && at_least);
    if unknown { 0.0 } else { difference }
}

/// One knob beside the baseline.
fn beside(
    plan: &TuningPlan,
    metrics: &[Metric],
    measured: &[&Measurement],
    name: &str,
    needed: Option<usize>,
) -> Confirmation {
    let mut confirmation = Confirmation { needed, p_adjusted: 1.0, ..Confirmation::default() };
    for (at, metric) in metrics.iter().enumerate() {
        let baseline = by_block(metric, measured, BASELINE);
        let changed = by_block(metric, measured, name);
        let pair =
            |(block, value): (&usize, &Known)| Some(difference(*baseline.get(block)?, *value));
        let differences: Vec<f64> = changed.iter().filter_map(pair).collect();
        confirmation.changes.extend(change(plan, metric, &differences, (&baseline, &changed)));
        if at == 0 {
            confirmation.pairs = differences.len();
            confirmation.differences = differences;
        }
    }
    confirmation
}

fn change(
    plan: &TuningPlan,
    metric: &Metric,
    differences: &[f64],
    (baseline, changed): (&BTreeMap<usize, Known>, &BTreeMap<usize, Known>),
) -> Option<Change> {
    let wanted = Plan { alpha: plan.alpha, power: plan.power };
    let seed = lab_random::at(plan.seed, 75);
    let settings = lab_stats::Settings { plan: wanted, resamples: RESAMPLES, seed };
    let compared = compare(differences, metric.margin(), &settings)?;
    let is_shown = matches!(compared.verdict, Verdict::Faster | Verdict::Slower);
    let bounds = changed.values().filter(|(_, at_least)| *at_least).count();
    let said = match compared.verdict {
        // What is at least so much is not shown to be less than something else, or the same.
        Verdict::Equivalent if bounds > 0 => "unclear",
        _ if bounds > 0 && metric.is_better(compared.estimate) => "unclear",
        _ if is_shown && metric.is_better(compared.estimate) => "better",
        _ if is_shown => "worse",
        Verdict::Equivalent => "same",
        _ => "unclear",
    };
    let median = |values: &BTreeMap<usize, Known>| {
        let all: Vec<f64> = values.values().map(|(value, _)| *value).collect();
        let middle = paired::median(&all).unwrap_or(0.0);
        metric.value(middle)
    };
    let ends = |ends: lab_stats::Interval| [ends.low, ends.high].map(|end| metric.change(end));
    Some(Change {
        metric: metric.name.to_owned(),
        baseline: median(baseline),
        changed: median(changed),
        estimate: metric.change(compared.estimate),
        interval: compared.interval.map(ends),
        p: compared.difference.p,
        p_adjusted: None,
        // What is at least so much may be any more.
        no_worse_p: if bounds > 0 { Some(1.0) } else { no_worse(metric, differences, seed) },
        bounds,
        said: said.to_owned(),
    })
}

/// The tests of papers on the groups, the first of which is the baseline.
fn of_papers(
    plan: &TuningPlan,
    primary: Metric,
    named: &[usize],
    trial: &Trial,
    all: &mut [Confirmation],
) -> Option<Groups> {
    let measured: Vec<&Measurement> = fresh(trial).collect();
    let names = named.iter().filter_map(|knob| plan.knobs.get(*knob)).map(|knob| &*knob.name);
    let group = |arm: &str| -> Vec<f64> {
        by_block(&primary, &measured, arm).into_values().map(|(value, _)| value).collect()
    };
    let values: Vec<Vec<f64>> = std::iter::once(BASELINE).chain(names).map(group).collect();
    let overall = groups::kruskal_wallis(&values)?;
    let means = groups::all_means(&values, plan.alpha);
    let (dunn, dunnett) = (groups::dunn(&values, Some(0)), groups::dunnett(&values, 0, plan.alpha));
    for (at, one) in all.iter_mut().enumerate() {
        let mine = |pair: &&groups::Pair| pair.group == at + 1 && pair.with == 0;
        one.dunn_p = dunn.iter().find(mine).map(|pair| pair.p);
        one.dunnett_p = dunnett.iter().find(mine).map(|pair| pair.p);
        one.means_p = means.pairs.iter().find(mine).map(|pair| pair.p);
    }
    Some(Groups {
        kruskal_wallis_p: Some(overall.p),
        means_test: test_name(means.test).to_owned(),
        variances_p: means.variances.map(|test| test.p),
        normality_p: means.normality.map(|test| test.p),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_what_is_felt_are_shown_for_all_tests_together() {
        let plan = TuningPlan { alpha: 0.05, ..TuningPlan::default() };
        let change = |metric: &str, p| Change {
            metric: metric.to_owned(),
            p,
            said: "worse".to_owned(),
            ..Change::default()
        };
        let one = |p| Confirmation {
            changes: vec![change("p99", 0.04), change("failures", p), change("resets", 0.04)],
            ..Confirmation::default()
        };
        let mut all = [one(0.04), one(0.001)];
        adjust_felt(&plan, Metric::find("p99").unwrap(), &mut all);
        let said = all.each_ref().map(|one| [0, 1, 2].map(|at| &*one.changes[at].said));
        assert_eq!(said, [["worse"; 3]; 2]);
        let mut all = [one(0.04), one(0.03)];
        adjust_felt(&plan, Metric::find("p99").unwrap(), &mut all);
        let said = all.each_ref().map(|one| [0, 1, 2].map(|at| &*one.changes[at].said));
        assert_eq!(said, [["worse", "unclear", "worse"]; 2]);
        assert_eq!(all[1].changes[1].p_adjusted, Some(0.06));
    }

    #[test]
    fn what_is_no_worse_depends_on_the_direction_that_is_better() {
        let p = |name, difference| {
            no_worse(&Metric::find(name).unwrap(), &[difference; 12], 1).unwrap()
        };
        assert!(p("failures", 0.0) < 0.01 && p("failures", 0.01) > 0.9);
        assert!(p("qps", 0.1) < 0.01 && p("qps", -0.1) > 0.9);
    }
}
