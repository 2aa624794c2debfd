//! Runs as numbers: weights of levels, ranks within blocks, shifts between levels.

use super::{Refused, Run};
use crate::Interval;
use crate::paired::{mean_ranks, median_of};
use std::ops::Range;

/// The runs sorted by block, with numbers in place of levels.
pub(super) struct Table {
    pub(super) factors: usize,
    pub(super) values: Vec<f64>,
    /// For each run and factor +½ or −½: one row after the other.
    halves: Vec<f64>,
    /// The same less its mean in the block, over the root of the sum of squares of the factor.
    weights: Vec<f64>,
    /// The root of the sum of squares, for each factor.
    pub(super) roots: Vec<f64>,
    /// Where the runs of each block are.
    pub(super) blocks: Vec<Range<usize>>,
}

impl Table {
    pub(super) fn new(runs: &[Run]) -> Result<Self, Refused> {
        let factors = runs.first().map_or(0, |run| run.high.len());
        if factors == 0 {
            return Err(Refused::Empty);
        }
        for (at, run) in runs.iter().enumerate() {
            if run.high.len() != factors {
                return Err(Refused::Factors(at));
            }
            if !run.value.is_finite() {
                return Err(Refused::NotFinite(at));
            }
        }
        let mut sorted: Vec<&Run> = runs.iter().collect();
        sorted.sort_by_key(|run| run.block);
        let mut blocks = Vec::new();
        let mut begin = 0;
        for block in sorted.chunk_by(|a, b| a.block == b.block) {
            blocks.push(begin..begin + block.len());
            begin += block.len();
        }
        let half = |high: &bool| if *high { 0.5 } else { -0.5 };
        let halves: Vec<f64> = sorted.iter().flat_map(|run| run.high.iter().map(half)).collect();
        let values = sorted.iter().map(|run| run.value).collect();
        let mut table =
            Self { factors, values, weights: halves.clone(), halves, roots: Vec::new(), blocks };
        table.scale()?;
        table.tell_apart()?;
        Ok(table)
    }

    /// Makes weights of halves.
    fn scale(&mut self) -> Result<(), Refused> {
        for block in &self.blocks {
            let rows = block.start * self.factors..block.end * self.factors;
            let rows = self.weights.get_mut(rows).unwrap_or_default();
            let mut means = vec![0.0; self.factors];
            for row in rows.chunks(self.factors) {
                means.iter_mut().zip(row).for_each(|(mean, weight)| *mean += weight);
            }
            for row in rows.chunks_mut(self.factors) {
                let count = block.len() as f64;
                row.iter_mut().zip(&means).for_each(|(weight, sum)| *weight -= sum / count);
            }
        }
        let mut squares = vec![0.0; self.factors];
        for row in self.weights.chunks(self.factors) {
            squares.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight * weight);
        }
        if let Some(at) = squares.iter().position(|sum: &f64| *sum < 1e-9) {
            return Err(Refused::Constant(at));
        }
        self.roots = squares.into_iter().map(f64::sqrt).collect();
        for row in self.weights.chunks_mut(self.factors) {
            row.iter_mut().zip(&self.roots).for_each(|(weight, root)| *weight /= root);
        }
        Ok(())
    }

    fn tell_apart(&self) -> Result<(), Refused> {
        let column = |at: usize| self.weights.iter().skip(at).step_by(self.factors);
        for one in 0..self.factors {
            for other in 0..one {
                let cosine: f64 = column(one).zip(column(other)).map(|(a, b)| a * b).sum();
                if cosine.abs() > 1.0 - 1e-9 {
                    return Err(Refused::Same(other, one));
                }
            }
        }
        Ok(())
    }

    /// The ranks of values within their blocks.
    pub(super) fn ranks(&self, values: &[f64]) -> Vec<f64> {
        let of = |block: &Range<usize>| mean_ranks(values.get(block.clone()).unwrap_or_default());
        self.blocks.iter().flat_map(of).collect()
    }

    /// The standard deviation of ranks within blocks; 1 if all values of each block are the same.
    pub(super) fn spread(&self, ranks: &[f64]) -> f64 {
        let squares = self.blocks.iter().map(|block| {
            let ranks = ranks.get(block.clone()).unwrap_or_default();
            let mean = ranks.iter().sum::<f64>() / ranks.len().max(1) as f64;
            ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>()
        });
        let variance = squares.sum::<f64>() / (ranks.len() - self.blocks.len()).max(1) as f64;
        if variance > 0.0 { variance.sqrt() } else { 1.0 }
    }

    /// The statistic of every factor.
    pub(super) fn statistics(&self, ranks: &[f64], into: &mut Vec<f64>) {
        into.clear();
        into.resize(self.factors, 0.0);
        for (rank, row) in ranks.iter().zip(self.weights.chunks_exact(self.factors)) {
            into.iter_mut().zip(row).for_each(|(sum, weight)| *sum += rank * weight);
        }
    }

    /// How much higher values are at the high level of a factor, as the median of all differences
    /// within blocks, with the interval of those shifts whose statistic is at most `critical`.
    pub(super) fn shift(
        &self,
        values: &[f64],
        factor: usize,
        critical: f64,
    ) -> (f64, Option<Interval>) {
        let mut differences = Vec::new();
        for block in &self.blocks {
            let mut levels = (Vec::new(), Vec::new());
            for run in block.clone() {
                let Some(value) = values.get(run) else { continue };
                let half = self.halves.get(run * self.factors + factor).copied().unwrap_or(0.0);
                if half > 0.0 { &mut levels.0 } else { &mut levels.1 }.push(*value);
            }
            let (high, low) = levels;
            differences.extend(high.iter().flat_map(|high| low.iter().map(move |low| high - low)));
        }
        // Differences above a shift are counted by the rank sum: the statistic times its root is their
        // number less half of all.
        let half = critical * self.roots.get(factor).copied().unwrap_or(0.0);
        let middle = differences.len() as f64 / 2.0;
        let below = (middle - half).floor();
        let interval = (half > 0.0 && below >= 1.0).then(|| {
            let below = below as usize;
            let high = differences.len() - below;
            let mut end = |at: usize| *differences.select_nth_unstable_by(at, f64::total_cmp).1;
            Interval { low: end(below - 1), high: end(high) }
        });
        (median_of(&mut differences).unwrap_or(0.0), interval)
    }

    /// Takes an effect out of the values.
    pub(super) fn subtract(&self, values: &mut [f64], factor: usize, effect: f64) {
        let column = self.halves.iter().skip(factor).step_by(self.factors);
        values.iter_mut().zip(column).for_each(|(value, half)| *value -= half * effect);
    }
}
