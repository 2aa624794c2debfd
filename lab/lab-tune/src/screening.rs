//! What the screening says: effects, which knobs it names, and what the tests of papers say of the
//! same numbers.

use crate::metric::{self, Metric};
use crate::trial::{Stage, Trial};
use lab_experiment::screening::BASELINE;
use lab_result::tuning::{Classical, Effect, KnobResult, Measurement, TuningPlan, Values};
use lab_stats::groups::{self, MeansTest};
use lab_stats::screening::{Run, Settings, half_normal, screen};
use lab_stats::{Interval, holm};

/// What follows from the screening.
pub(crate) struct Found {
    /// The knobs that it named.
    pub(crate) named: Vec<usize>,
}

/// The runs that count. Baselines are not among them: their levels are in no balance with the others.
pub(crate) fn runs(trial: &Trial) -> impl Iterator<Item = &Measurement> + Clone {
    let of_stage = |one: &&Measurement| one.phase == Stage::Screening.name();
    trial.measurements.iter().filter(of_stage).filter(|one| one.used && one.arm != BASELINE)
}

/// Puts a finding for every knob into the trial; `None` if there can be none, with the reason there.
pub(crate) fn findings(plan: &TuningPlan, primary: Metric, trial: &mut Trial) -> Option<Found> {
    let unknown = |knob: &lab_result::tuning::KnobPlan| KnobResult {
        knob: knob.name.clone(),
        ..KnobResult::default()
    };
    trial.knobs = plan.knobs.iter().map(unknown).collect();
    let measured: Vec<&Measurement> = runs(trial).collect();
    let run = |one: &&Measurement| {
        let high = (0..plan.knobs.len()).map(|knob| one.high.contains(&knob)).collect();
        Some(Run { block: one.block, high, value: primary.of(&one.values)? })
    };
    let all: Vec<Run> = measured.iter().filter_map(run).collect();
    let bounds = measured.iter().filter(|one| primary.is_bound(&one.values)).count();
    let missing = measured.len() - all.len();
    let (name, count) = (primary.name, measured.len());
    if missing > 0 {
        trial
            .notes
            .push(format!("{missing} of {count} measurements have no {name} and are left out"));
    }
    if bounds > 0 {
        trial.notes.push(format!(
            "in {bounds} of {count} measurements the {name} is among lost queries: it is at least the timeout, which stands for it"
        ));
    }
    let settings = Settings {
        alpha: plan.alpha,
        permutations: plan.permutations,
        seed: lab_random::at(plan.seed, 73),
    };
    let screened = match screen(&all, &settings) {
        Ok(screened) => screened,
        Err(error) => {
            trial.invalid_because.push(format!("the screening says nothing: {error}"));
            return None;
        }
    };
    let classical = classical(plan, &all);
    let others = others(plan, primary, trial);
    let statistics: Vec<f64> = screened.effects.iter().map(|effect| effect.statistic).collect();
    let expected = half_normal(&statistics);
    let effects = screened.effects.iter().zip(expected);
    let parts = trial.knobs.iter_mut().zip(effects).zip(classical).zip(others);
    for (((knob, (effect, expected)), classical), others) in parts {
        let ends =
            |interval: Interval| [interval.low, interval.high].map(|end| primary.change(end));
        knob.effect = Some(Effect {
            estimate: primary.change(effect.estimate),
            interval: effect.interval.map(ends),
            statistic: effect.statistic,
            expected,
            p: effect.p,
            named: effect.named,
        });
        knob.classical = Some(classical);
        knob.others = others;
    }
    let named = screened.named().collect();
    Some(Found { named })
}

/// The tests of papers on each knob, adjusted for all.
fn classical(plan: &TuningPlan, runs: &[Run]) -> Vec<Classical> {
    let one = |knob: usize| {
        let group = |level: bool| -> Vec<f64> {
            let has = |run: &&Run| run.high.get(knob) == Some(&level);
            runs.iter().filter(has).map(|run| run.value).collect()
        };
        let both = [group(false), group(true)];
        let means = groups::all_means(&both, plan.alpha);
        Classical {
            dunn_p: groups::dunn(&both, Some(0)).first().map(|pair| pair.p),
            means_test: test_name(means.test).to_owned(),
            means_p: means.pairs.first().map(|pair| pair.p),
            variances_p: means.variances.map(|test| test.p),
            normality_p: means.normality.map(|test| test.p),
        }
    };
    let mut all: Vec<Classical> = (0..plan.knobs.len()).map(one).collect();
    adjust(&mut all, |one| &mut one.dunn_p);
    adjust(&mut all, |one| &mut one.means_p);
    all
}

/// The name of a test in result files.
pub(crate) fn test_name(test: MeansTest) -> &'static str {
    match test {
        MeansTest::Tukey => "tukey",
        MeansTest::GamesHowell => "games_howell",
    }
}

/// Holm's adjustment of one p-value of each element; one that is missing counts as 1.
pub(crate) fn adjust<T>(all: &mut [T], p: impl Fn(&mut T) -> &mut Option<f64>) {
    let raw: Vec<f64> = all.iter_mut().map(|one| p(one).unwrap_or(1.0)).collect();
    for (one, adjusted) in all.iter_mut().zip(holm::adjusted(&raw)) {
        let p = p(one);
        *p = p.map(|_| adjusted);
    }
}

/// For each knob how the other metrics differ between its levels.
fn others(plan: &TuningPlan, primary: Metric, trial: &Trial) -> Vec<Values> {
    let metrics = metric::measured(primary, runs(trial).map(|one| &one.values));
    let of_knob = |knob: usize| {
        let shift = |metric: &Metric| {
            let mean = |level: bool| {
                let has = |one: &&Measurement| one.high.contains(&knob) == level;
                let values = runs(trial).filter(has).filter_map(|one| metric.of(&one.values));
                let (count, sum) =
                    values.fold((0.0, 0.0), |(n, sum), value| (n + 1.0, sum + value));
                (count > 0.0).then_some(sum / count)
            };
            Some((metric.name.to_owned(), metric.change(mean(true)? - mean(false)?)))
        };
        metrics.iter().skip(1).filter_map(shift).collect()
    };
    (0..plan.knobs.len()).map(of_knob).collect()
}
