//! Which of many two-level factors matter, from runs in blocks: step-down maxT by permutation within
//! blocks (Westfall and Young, 1993).
//!
//! If no factor matters, the runs of a block were in an order drawn by chance, so every permutation of
//! their values within the block was equally likely. For each permutation the largest statistic of all
//! factors is taken, and a factor is named if few permutations have a larger one than it has. That keeps
//! the chance of naming any factor wrongly at the level for all of them together, assumes nothing about
//! distributions, and keeps whatever the factors have in common.
//!
//! Values are replaced by their ranks within the block, so that blocks may be slower and noisier than
//! others, and a disturbed run cannot hide an effect. A factor that was named is taken out of the values,
//! by its Hodges–Lehmann estimate, before the next one is looked for. The first step is exact; the later
//! ones are as exact as these estimates are (Freedman and Lane, 1983).

mod table;

use crate::Interval;
use lab_random::Stream;
use table::Table;

/// One run: values of the same scale for all, for times their logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The block, any number that the runs of a block share.
    pub block: usize,
    /// For each factor whether it was at its high level.
    pub high: Vec<bool>,
    /// What was measured.
    pub value: f64,
}

/// What is fixed before the first run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The chance of naming any factor wrongly.
    pub alpha: f64,
    /// Permutations drawn.
    pub permutations: usize,
    /// What they are drawn from.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { alpha: 0.05, permutations: 9_999, seed: 1 }
    }
}

/// What is known about one factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// By how much the high level is higher (Hodges–Lehmann, differences within blocks), other named
    /// factors being equal.
    pub estimate: f64,
    /// The interval of the estimate, for all factors together; `None` with too few runs for one.
    pub interval: Option<Interval>,
    /// The difference of the ranks by level, in standard deviations that it has if the factor does not
    /// matter.
    pub statistic: f64,
    /// The p-value, for all factors together.
    pub p: f64,
    /// The step in which it was named, from 1.
    pub named: Option<usize>,
}

/// The verdict on all factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Screen {
    /// In the order of the factors.
    pub effects: Vec<Effect>,
    /// The settings, which with the runs give the same result again.
    pub settings: Settings,
    /// The runs that were used.
    pub runs: usize,
    /// Their blocks.
    pub blocks: usize,
}

impl Screen {
    /// The factors that were named, by their index.
    pub fn named(&self) -> impl Iterator<Item = usize> {
        self.effects.iter().enumerate().filter(|(_, e)| e.named.is_some()).map(|(at, _)| at)
    }
}

/// Why runs cannot be screened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are no runs, or they have no factors.
    #[error("there is no run with a factor")]
    Empty,
    /// A run has another number of factors than the first one.
    #[error("run {0} has another number of factors than the first one")]
    Factors(usize),
    /// A value that is not a finite number.
    #[error("the value of run {0} is not a finite number")]
    NotFinite(usize),
    /// A factor with the same level in all runs of every block.
    #[error("factor {0} has the same level in all runs of each block")]
    Constant(usize),
    /// Two factors that no run tells apart.
    #[error("factors {0} and {1} cannot be told apart: in each block they change together")]
    Same(usize, usize),
    /// Too few permutations for the level.
    #[error(
        "{permutations} permutations cannot show anything at a level of {alpha}: expected at least {least}"
    )]
    Permutations {
        /// How many were asked for.
        permutations: usize,
        /// The level, as text.
        alpha: String,
        /// How many would do.
        least: usize,
    },
}

/// The fewest permutations that can show anything at the level `alpha`.
pub fn least_permutations(alpha: f64) -> usize {
    ((1.0 / alpha).ceil() as usize).saturating_sub(1)
}

/// Screens `runs`; factors and runs in errors count from 0.
///
/// # Errors
///
/// Runs that say nothing about a factor, or settings that can name none.
pub fn screen(runs: &[Run], settings: &Settings) -> Result<Screen, Refused> {
    let least = least_permutations(settings.alpha);
    if settings.permutations < least {
        let (permutations, alpha) = (settings.permutations, settings.alpha.to_string());
        return Err(Refused::Permutations { permutations, alpha, least });
    }
    let table = Table::new(runs)?;
    let mut search = Search { table: &table, settings, named: Vec::new(), lowest: 0.0 };
    let mut effects = vec![None; table.factors];
    let mut values = table.values.clone();
    let critical = loop {
        let step = search.step(&values);
        match search.best(&step) {
            Some((at, p)) if p <= settings.alpha => {
                search.lowest = p;
                search.named.push(at);
                let estimate = table.shift(&values, at, 0.0).0;
                table.subtract(&mut values, at, estimate);
                let named = Some(search.named.len());
                let statistic = step.observed.get(at).copied().unwrap_or(0.0) / step.spread;
                set(&mut effects, at, Effect { estimate, interval: None, statistic, p, named });
            }
            _ => {
                search.rest(&step, &mut effects);
                break step.critical(settings.alpha);
            }
        }
    };
    let finished = effects.into_iter().enumerate().map(|(at, effect)| {
        let mut effect = effect.unwrap_or_else(nothing);
        let (shift, around) = table.shift(&values, at, critical);
        // What is left in the values of a named factor is the rest of its estimate.
        let taken = if effect.named.is_some() { effect.estimate } else { 0.0 };
        effect.estimate = taken + shift;
        effect.interval = around.map(|interval| interval.map(|end| taken + end));
        effect
    });
    let effects = finished.collect();
    Ok(Screen { effects, settings: *settings, runs: runs.len(), blocks: table.blocks.len() })
}

fn nothing() -> Effect {
    Effect { estimate: 0.0, interval: None, statistic: 0.0, p: 1.0, named: None }
}

fn set(effects: &mut [Option<Effect>], at: usize, effect: Effect) {
    if let Some(slot) = effects.get_mut(at) {
        *slot = Some(effect);
    }
}

/// The steps of the search.
struct Search<'a> {
    table: &'a Table,
    settings: &'a Settings,
    named: Vec<usize>,
    /// Adjusted p-values never become smaller from step to step.
    lowest: f64,
}

/// What one step has found.
struct Step {
    /// The statistics of all factors.
    observed: Vec<f64>,
    /// Their standard deviation under permutation.
    spread: f64,
    /// For each permutation, the largest of those that were not named before; sorted.
    largest: Vec<f64>,
    /// For each permutation, the largest of all; sorted.
    largest_of_all: Vec<f64>,
}

impl Step {
    /// The part of the permutations, the observed one among them, with something as large.
    fn p(&self, statistic: f64) -> f64 {
        // Sums of the same numbers in another order differ by rounding and are still ties.
        let size = statistic.abs() - 1e-9 * statistic.abs().max(1.0);
        let smaller = self.largest.partition_point(|largest| *largest < size);
        let as_large = self.largest.len() - smaller;
        (as_large + 1) as f64 / (self.largest.len() + 1) as f64
    }

    /// The size that the largest of all factors exceeds with the chance `alpha` if none matters.
    fn critical(&self, alpha: f64) -> f64 {
        let count = self.largest_of_all.len();
        let at = ((1.0 - alpha) * (count + 1) as f64).ceil() as usize;
        self.largest_of_all.get(at.clamp(1, count.max(1)) - 1).copied().unwrap_or(0.0)
    }
}

impl Search<'_> {
    fn step(&self, values: &[f64]) -> Step {
        let table = self.table;
        let mut ranks = table.ranks(values);
        let mut observed = Vec::new();
        table.statistics(&ranks, &mut observed);
        let spread = table.spread(&ranks);
        let mut stream = Stream::new(self.settings.seed, 51 + self.named.len() as u64);
        let count = self.settings.permutations;
        let (mut largest, mut largest_of_all) =
            (Vec::with_capacity(count), Vec::with_capacity(count));
        let open: Vec<bool> = (0..table.factors).map(|at| !self.named.contains(&at)).collect();
        let mut drawn = Vec::new();
        for _ in 0..count {
            for block in &table.blocks {
                shuffle(ranks.get_mut(block.clone()).unwrap_or_default(), &mut stream);
            }
            table.statistics(&ranks, &mut drawn);
            let (mut most, mut most_of_all) = (0.0_f64, 0.0_f64);
            for (statistic, open) in drawn.iter().zip(&open) {
                most_of_all = most_of_all.max(statistic.abs());
                most = if *open { most.max(statistic.abs()) } else { most };
            }
            largest.push(most);
            largest_of_all.push(most_of_all);
        }
        largest.sort_by(f64::total_cmp);
        largest_of_all.sort_by(f64::total_cmp);
        Step { observed, spread, largest, largest_of_all }
    }

    /// The factor with the largest statistic of those that were not named, with its p-value.
    fn best(&self, step: &Step) -> Option<(usize, f64)> {
        let open = step.observed.iter().enumerate().filter(|(at, _)| !self.named.contains(at));
        let (at, largest) = open.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        Some((at, step.p(*largest).max(self.lowest)))
    }

    /// What is known about factors that no step named.
    fn rest(&self, step: &Step, effects: &mut [Option<Effect>]) {
        for (effect, statistic) in effects.iter_mut().zip(&step.observed) {
            if effect.is_none() {
                let p = step.p(*statistic).max(self.lowest);
                let statistic = *statistic / step.spread;
                *effect = Some(Effect { statistic, p, ..nothing() });
            }
        }
    }
}

/// For each of `statistics` the size that its rank has on average if no factor matters: the quantile of
/// the half-normal distribution (Daniel, 1959). Against these, sizes of no effect lie on a line.
pub fn half_normal(statistics: &[f64]) -> Vec<f64> {
    let count = statistics.len() as f64;
    let sizes: Vec<f64> = statistics.iter().map(|statistic| statistic.abs()).collect();
    let place = |rank: f64| crate::normal::quantile(0.5 + 0.5 * (rank - 0.5) / count);
    crate::paired::mean_ranks(&sizes).into_iter().map(place).collect()
}

/// Every order equally likely (Fisher and Yates).
fn shuffle(values: &mut [f64], stream: &mut Stream) {
    for at in (1..values.len()).rev() {
        values.swap(at, stream.below(at + 1));
    }
}

#[cfg(test)]
mod tests;
