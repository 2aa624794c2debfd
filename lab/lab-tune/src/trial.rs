//! The two experiments, one after the other.

use crate::metric::Metric;
use crate::{confirmation, screening};
use lab_experiment::disturbance::{Again, Together};
use lab_experiment::screening::{BASELINE, Screening};
use lab_experiment::{Arm, Design, Factor, Measured, Order, Place, Record, Subject, Unit, Wrong};
use lab_result::tuning::{Groups, KnobResult, Measurement, TuningPlan, Values};

/// Purposes of seeds.
const SCREENING_SEED: u64 = 71;
const CONFIRMATION_SEED: u64 = 72;

/// Which experiment a measurement belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Combinations of levels.
    Screening,
    /// Each named knob alone.
    Confirmation,
}

impl Stage {
    /// Its name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screening => "screening",
            Self::Confirmation => "confirmation",
        }
    }
}

/// What can be tuned. Knobs are named by their place in the plan.
pub trait Tuned {
    /// Why it failed; the trial ends with it.
    type Error;

    /// Gives these knobs their high level, and all others their low one.
    ///
    /// # Errors
    ///
    /// What could not be set; [`Tuned::restore`] follows nevertheless.
    fn set(&mut self, high: &[usize]) -> Result<(), Self::Error>;

    /// Measures once. What is drawn for it is drawn from `seed`, which the measurements of a block have
    /// in common. `None` stops the trial.
    ///
    /// # Errors
    ///
    /// What prevented the measurement; [`Tuned::restore`] follows nevertheless.
    fn measure(&mut self, seed: u64) -> Result<Option<Measured<Values>>, Self::Error>;

    /// Gives all knobs the level that they had before.
    ///
    /// # Errors
    ///
    /// What could not be restored.
    fn restore(&mut self) -> Result<(), Self::Error>;

    /// Called after each measurement: how many of how many of this stage are done.
    fn passed(&mut self, stage: Stage, done: usize, all: usize) {
        _ = (stage, done, all);
    }
}

/// Why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum Failed<E> {
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] Wrong),
    /// There is no such metric.
    #[error("`{0}` is not a metric")]
    Metric(String),
    /// What is tuned failed.
    #[error("{0}")]
    Tuned(E),
}

/// What a trial brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// Every measurement, in the order of time.
    pub measurements: Vec<Measurement>,
    /// The findings, in the order of the plan.
    pub knobs: Vec<KnobResult>,
    /// The tests of papers on the groups of the confirmation.
    pub groups: Option<Groups>,
    /// Why the numbers say nothing.
    pub invalid_because: Vec<String>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Whether it was stopped.
    pub interrupted: bool,
}

/// The screening as the engine takes it, and whether it has fold-over.
///
/// # Errors
///
/// A plan with too many knobs, or none, or nothing to measure.
pub fn designs(plan: &TuningPlan) -> Result<Design, Wrong> {
    let screening = Screening::plackett_burman(plan.knobs.len())?;
    let screening = if plan.resolution > 3 { screening.fold_over() } else { screening };
    let seed = lab_random::at(plan.seed, SCREENING_SEED);
    screening.design(factors(plan), plan.blocks, plan.baselines, seed)
}

fn factors(plan: &TuningPlan) -> Vec<Factor> {
    let levels = |low: &str, high: &str| vec![low.to_owned(), high.to_owned()];
    let factor = |knob: &lab_result::tuning::KnobPlan| Factor {
        name: knob.name.clone(),
        levels: levels(&knob.low, &knob.high),
    };
    plan.knobs.iter().map(factor).collect()
}

/// The baseline and each of `named` alone, in `pairs` blocks.
fn confirming(plan: &TuningPlan, named: &[usize], pairs: usize) -> Design {
    let factors = factors(plan);
    let alone = |knob: &usize| {
        let levels = (0..factors.len()).map(|at| usize::from(at == *knob)).collect();
        let name = plan.knobs.get(*knob).map(|knob| knob.name.clone()).unwrap_or_default();
        Arm { levels, ..Arm::new(&name) }
    };
    let baseline = Arm { levels: vec![0; factors.len()], ..Arm::new(BASELINE) };
    let arms: Vec<Arm> = std::iter::once(baseline).chain(named.iter().map(alone)).collect();
    Design {
        // The tests count on a coin for each pair.
        order: Order::Random,
        factors,
        arms,
        blocks: pairs,
        group_blocks: 1,
        conditions: 1,
        stages: Vec::new(),
        seed: lab_random::at(plan.seed, CONFIRMATION_SEED),
    }
}

/// Carries the plan out. What was measured until `stop` says so is in the trial.
///
/// # Errors
///
/// A plan that cannot be carried out, or the first error of what is tuned.
pub fn tune<T: Tuned>(
    plan: &TuningPlan,
    tuned: &mut T,
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed<T::Error>> {
    let Some(primary) = Metric::find(&plan.primary) else {
        return Err(Failed::Metric(plan.primary.clone()));
    };
    let mut trial = Trial::default();
    measure(plan, (&designs(plan)?, Stage::Screening), tuned, stop, &mut trial)?;
    let found = screening::findings(plan, primary, &mut trial);
    let named = found.map(|found| found.named).unwrap_or_default();
    if !named.is_empty() && !trial.interrupted && plan.confirm_pairs != [0, 0] {
        let needed = confirmation::needed(plan, primary, &trial, &named);
        let [least, most] = plan.confirm_pairs;
        // A knob that needs more than can be planned gets as many as there may be.
        let pairs = needed.iter().map(|needed| needed.unwrap_or(most)).max().unwrap_or(0);
        let pairs = pairs.clamp(least.min(most), most);
        let design = confirming(plan, &named, pairs);
        measure(plan, (&design, Stage::Confirmation), tuned, stop, &mut trial)?;
        confirmation::findings(plan, primary, (&named, &needed), &mut trial);
    }
    let disturbed = crate::disturbed::tell(&mut trial);
    crate::verdict::judge(plan, primary, &disturbed, &mut trial);
    unanswered(primary, &mut trial);
    Ok(trial)
}

/// Says in how many measurements nothing was answered, for which a floor stands.
fn unanswered(primary: Metric, trial: &mut Trial) {
    let used = trial.measurements.iter().filter(|one| one.used);
    let (all, none) =
        (used.clone().count(), used.filter(|one| primary.is_none(&one.values)).count());
    if none > 0 {
        let name = primary.name;
        trial.notes.push(format!(
            "in {none} of {all} measurements no query was answered: their {name} counts as the lowest of all"
        ));
    }
}

fn measure<T: Tuned>(
    plan: &TuningPlan,
    (design, stage): (&Design, Stage),
    tuned: &mut T,
    stop: &dyn Fn() -> bool,
    trial: &mut Trial,
) -> Result<(), Failed<T::Error>> {
    let order = design.plan()?;
    let all = order.blocks.iter().map(|block| block.order.len()).sum();
    let mut staged = Staged { tuned, stage, seed: plan.seed, done: 0, all };
    let again = Again { retries: plan.retries, together: Together::Single };
    let results =
        lab_experiment::run(design, &order, again, &mut staged, stop).map_err(Failed::Tuned)?;
    trial.interrupted |= results.interrupted;
    let levels = |name: &str| {
        let arm = design.arms.iter().find(|arm| arm.name == name);
        arm.map_or(Vec::new(), |arm| highs(&arm.levels))
    };
    let kept = |record: Record<Values>| Measurement {
        phase: stage.name().to_owned(),
        high: levels(&record.arm),
        faults: record.faults.iter().map(ToString::to_string).collect(),
        values: record.value,
        arm: record.arm,
        block: record.block,
        turn: record.turn,
        attempt: record.attempt,
        used: record.used,
    };
    trial.measurements.extend(results.records.into_iter().map(kept));
    Ok(())
}

/// The factors at their second level.
fn highs(levels: &[usize]) -> Vec<usize> {
    levels.iter().enumerate().filter(|(_, level)| **level == 1).map(|(at, _)| at).collect()
}

/// What is tuned, as the engine leads it.
struct Staged<'t, T> {
    tuned: &'t mut T,
    stage: Stage,
    seed: u64,
    done: usize,
    all: usize,
}

impl<T: Tuned> Subject for Staged<'_, T> {
    type Value = Values;
    type Error = T::Error;

    fn start(&mut self, _: &Arm, _: usize) -> Result<(), T::Error> {
        Ok(())
    }

    fn set(&mut self, place: &Place<'_>) -> Result<(), T::Error> {
        self.tuned.set(&highs(&place.arm.levels))
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Values>>, T::Error> {
        let stage = match self.stage {
            Stage::Screening => SCREENING_SEED,
            Stage::Confirmation => CONFIRMATION_SEED,
        };
        let seed = lab_random::at(self.seed ^ stage, place.unit.block.index as u64);
        let measured = self.tuned.measure(seed)?;
        if place.attempt == 0 {
            self.done += 1;
        }
        self.tuned.passed(self.stage, self.done, self.all);
        Ok(measured)
    }

    fn restore(&mut self, _: &Place<'_>) -> Result<(), T::Error> {
        self.tuned.restore()
    }

    fn passed(&mut self, _: &Unit<'_>) {}
}

#[cfg(test)]
mod tests;
