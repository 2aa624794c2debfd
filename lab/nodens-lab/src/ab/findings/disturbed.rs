//! Whether the machine was quiet enough for a metric at a load.

use crate::ab::DISTURBED_MAX;
use crate::ab::plan::Metric;
use lab_result::comparison::{Block, Cell, ComparisonPlan, Load};
use std::collections::BTreeSet;

/// An error if too many of the pairs that decide are disturbed.
pub(crate) fn decides_undisturbed(plan: &ComparisonPlan, blocks: &[Block]) -> Result<(), String> {
    let Cell { set, load, metric } = &plan.primary;
    let planned = plan.loads.iter().find(|planned| planned.set == *set && planned.name == *load);
    let Some((metric, planned)) = Metric::of(metric).zip(planned) else { return Ok(()) };
    undisturbed(metric, blocks, planned).map_err(|why| format!("at {load} ({set}) {why}"))
}

/// An error if too many pairs of a load have a block whose faults speak against this metric: of a latency all do,
/// lateness too.
pub(super) fn undisturbed(metric: Metric, blocks: &[Block], load: &Load) -> Result<(), String> {
    let mine = || blocks.iter().filter(|b| b.used && b.set == load.set && b.load == load.name);
    let is_late = |block: &&Block| block.only_late;
    let spoils = |block: &&Block| match block.only_late {
        true => metric.is_latency(),
        false => !block.faults.is_empty(),
    };
    let pairs = |block: &Block| block.pair;
    let all: BTreeSet<usize> = mine().map(pairs).collect();
    let spoilt: BTreeSet<usize> = mine().filter(spoils).map(pairs).collect();
    if spoilt.len() as f64 <= DISTURBED_MAX * all.len() as f64 {
        return Ok(());
    }
    let (late, disturbed) = (mine().filter(is_late).count(), mine().filter(spoils).count());
    let blocks = mine().count();
    Err(match metric.is_latency() {
        true if late == disturbed => {
            format!("the generator sent queries late in {late} of {blocks} blocks")
        }
        true if late > 0 => format!(
            "{disturbed} of {blocks} blocks are disturbed, with queries that left late in {late} of them"
        ),
        _ => format!("{disturbed} of {blocks} blocks are disturbed"),
    })
}
