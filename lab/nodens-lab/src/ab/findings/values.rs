//! What a block, or several together, say about a metric.

use super::Metric;
use crate::ab::DISTURBED_MAX;
use lab_histogram::Histogram;
use lab_result::comparison::{Block, Known, Load};
use lab_stats::paired;

/// A value of a block, or of several blocks together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    /// Whether it is only a bound, because the quantile lies among the lost queries or the capacity is out
    /// of reach: at least this.
    pub(super) is_bound: bool,
    /// Whether it is a bound in the other direction: at most this.
    pub(super) at_most: bool,
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self { value, is_bound: false, at_most: false }
    }
}

/// The values of both sides, pair by pair.
pub(super) struct Values {
    pub(super) pairs: Vec<(Value, Value)>,
    pub(super) pooled: usize,
    /// Pairs without a value.
    pub(super) left_out: usize,
}

impl Values {
    /// The median of one side, only a bound if a value in the middle is one.
    pub(super) fn median(&self, side: fn(&(Value, Value)) -> Value) -> Value {
        let of: Vec<Value> = self.pairs.iter().map(side).collect();
        let known = of.iter().filter(|value| !value.is_bound).count();
        let values: Vec<f64> = of.iter().map(|value| value.value).collect();
        let is_bound = known <= of.len() / 2 && known < of.len();
        let value = paired::median(&values).unwrap_or(0.0);
        Value { value, is_bound, at_most: false }
    }

    /// The median of one side, a bound as soon as one value is: a search that ended too early does so
    /// because of what it searched for.
    pub(super) fn strict_median(&self, side: fn(&(Value, Value)) -> Value) -> Value {
        let any = |is: fn(&Value) -> bool| self.pairs.iter().map(side).any(|value| is(&value));
        let (is_bound, at_most) = (any(|value| value.is_bound), any(|value| value.at_most));
        Value { is_bound, at_most, ..self.median(side) }
    }

    /// How many values are only bounds.
    pub(super) fn bounds(&self) -> usize {
        let both = self.pairs.iter().flat_map(|(a, b)| [a, b]);
        both.filter(|value| value.is_bound || value.at_most).count()
    }
}

/// Pairs of values of a metric at a load. `questions` of a block, if they are given, decide about pooling
/// in place of those it had.
pub(super) fn values(
    metric: Metric,
    blocks: &[Block],
    load: &Load,
    questions: Option<u64>,
) -> Result<Values, String> {
    let all = pairs(blocks, load);
    if all.is_empty() {
        return Err("nothing was measured".to_owned());
    }
    let pairs = known(metric, &all);
    let left_out = all.len() - pairs.len();
    let (values, pooled) = match metric {
        Metric::Quantile(part) => {
            let needed = metric.questions_needed();
            let pooled = pool(&pairs, needed, questions)?;
            let mut quantile = |blocks: &[&Block]| {
                quantile(blocks, part).ok_or_else(|| "nothing was answered".to_owned())
            };
            (each(&pairs, pooled, &mut quantile)?, pooled)
        }
        Metric::Loss => (each(&pairs, 1, &mut |blocks| Ok(loss(blocks).into()))?, 1),
        Metric::Cpu => {
            let mut cost = |of: &[&Block]| {
                of.first().map_or(Err(String::new()), |b| Ok(cpu(b, blocks)?.into()))
            };
            (each(&pairs, 1, &mut cost)?, 1)
        }
        Metric::Memory => {
            let mut memory = |of: &[&Block]| {
                let octets = of.first().and_then(|block| block.memory).filter(|octets| *octets > 0);
                octets
                    .map(|octets| (octets as f64).into())
                    .ok_or_else(|| "memory is not known".to_owned())
            };
            (each(&pairs, 1, &mut memory)?, 1)
        }
        Metric::Capacity => (capacities(&pairs)?, 1),
    };
    Ok(Values { pairs: values, pooled, left_out })
}

/// The pairs whose counters were read in both blocks; all if too many were not, so that the metric has no value.
fn known<'b>(metric: Metric, all: &[(&'b Block, &'b Block)]) -> Vec<(&'b Block, &'b Block)> {
    let is_known = |block: &Block| match metric {
        Metric::Cpu => block.cpu_ns.is_some(),
        Metric::Memory => block.memory.is_some_and(|octets| octets > 0),
        _ => true,
    };
    let known: Vec<_> = all.iter().copied().filter(|(a, b)| is_known(a) && is_known(b)).collect();
    let is_enough = (all.len() - known.len()) as f64 <= DISTURBED_MAX * all.len() as f64;
    if is_enough { known } else { all.to_vec() }
}

/// The limits of the pairs of which both searches could tell one, or a bound of it.
fn capacities(pairs: &[(&Block, &Block)]) -> Result<Vec<(Value, Value)>, String> {
    let value = |block: &Block| {
        block.known_capacity().map(|known| match known {
            Known::Is(limit) => Value::from(limit),
            Known::AtLeast(limit) => Value { is_bound: true, ..Value::from(limit) },
            Known::AtMost(limit) => Value { at_most: true, ..Value::from(limit) },
        })
    };
    let told = pairs.iter().filter_map(|(a, b)| Some((value(a)?, value(b)?)));
    let told: Vec<_> = told.collect();
    if told.is_empty() {
        return Err(format!("no limit was found in {}", crate::term::of(pairs.len(), "pair")));
    }
    Ok(told)
}

/// The value of each pair, or of each `pooled` neighbouring pairs together.
fn each(
    pairs: &[(&Block, &Block)],
    pooled: usize,
    value: &mut dyn FnMut(&[&Block]) -> Result<Value, String>,
) -> Result<Vec<(Value, Value)>, String> {
    let (a, b): (Vec<&Block>, Vec<&Block>) = pairs.iter().copied().unzip();
    let chunks = a.chunks_exact(pooled).zip(b.chunks_exact(pooled));
    chunks.map(|(a, b)| Ok((value(a)?, value(b)?))).collect()
}

/// The used blocks of a load as pairs, in the order of time.
fn pairs<'b>(blocks: &'b [Block], load: &Load) -> Vec<(&'b Block, &'b Block)> {
    let mine = |side: &str| {
        blocks
            .iter()
            .filter(move |block| {
                block.used && block.set == load.set && block.load == load.name && block.side == side
            })
            .collect::<Vec<_>>()
    };
    let b = mine("b");
    let partner = |a: &&Block| b.iter().find(|b| b.pair == a.pair).copied();
    mine("a").into_iter().filter_map(|a| Some((a, partner(&a)?))).collect()
}

/// How many neighbouring blocks together have enough queries for a quantile.
fn pool(pairs: &[(&Block, &Block)], needed: u64, questions: Option<u64>) -> Result<usize, String> {
    let fewest = || pairs.iter().map(|(a, b)| a.sent.min(b.sent)).min().unwrap_or(0);
    let fewest = questions.unwrap_or_else(fewest);
    let pooled = needed.div_ceil(fewest.max(1)) as usize;
    let left = pairs.len() / pooled;
    if left < 6 && pooled > 1 {
        return Err(format!(
            "a block has {fewest} queries and {needed} are needed; pooled, {left} pairs would be left"
        ));
    }
    Ok(pooled)
}

fn loss(blocks: &[&Block]) -> f64 {
    let sum = |of: fn(&Block) -> u64| blocks.iter().map(|block| of(block)).sum::<u64>() as f64;
    sum(|block| block.lost) / sum(|block| block.sent).max(1.0)
}

/// CPU per answer in nanoseconds, less what the server uses without load.
fn cpu(block: &Block, blocks: &[Block]) -> Result<f64, String> {
    let used = block.cpu_ns.ok_or("CPU time is not known")? as f64;
    let idle = idle(block, blocks)? * block.elapsed_ns as f64;
    let cost = (used - idle) / block.answered as f64;
    if cost > 0.0 && cost.is_finite() {
        Ok(cost)
    } else {
        Err("its counters are too coarse for such short blocks, or nothing was answered".to_owned())
    }
}

/// The part of a CPU that the server of `block` used without load, in the same process.
fn idle(block: &Block, blocks: &[Block]) -> Result<f64, String> {
    let mut quiet = blocks.iter().filter(|one| {
        one.load == "idle" && one.side == block.side && one.incarnation == block.incarnation
    });
    let Some(quiet) = quiet.next() else { return Ok(0.0) };
    let used = quiet.cpu_ns.ok_or("CPU time without load is not known")?;
    Ok(used as f64 / quiet.elapsed_ns.max(1) as f64)
}

/// The quantile of several blocks together in nanoseconds.
///
/// Within its bucket it is interpolated: differences smaller than a bucket shift ranks.
pub(super) fn quantile(blocks: &[&Block], part: f64) -> Option<Value> {
    let mut all = Histogram::new();
    blocks.iter().for_each(|block| all.merge(&block.response));
    match all.quantile(part) {
        lab_histogram::Quantile::Empty => None,
        lab_histogram::Quantile::AtLeast(bound) => {
            Some(Value { is_bound: true, ..Value::from(bound as f64) })
        }
        lab_histogram::Quantile::Value(value) => {
            let rank = part * (all.recorded() + all.censored()) as f64;
            let mut below = 0.0;
            for (low, high, count) in all.buckets() {
                let count = count as f64;
                if below + count >= rank {
                    let inside = ((rank - below) / count).clamp(0.0, 1.0);
                    return Some((low as f64 + (high - low + 1) as f64 * inside).into());
                }
                below += count;
            }
            Some((value as f64).into())
        }
    }
}
