//! Answers that say that the server or an upstream could not answer: a comparison of those is about errors.

use super::measure::COMPARISON;
use super::plan::ARMS;
use crate::term;
use lab_load::Outcome;
use lab_result::comparison::{Block, ComparisonPlan, Load};
use nodens_wire::Rcode;
use std::collections::BTreeMap;

/// RCODEs of queries that were answered.
const ANSWERED: [&str; 2] = ["NOERROR", "NXDOMAIN"];

/// The counts of RCODEs without those of queries that were answered.
pub(crate) fn of(rcodes: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    rcodes.filter(|(rcode, count)| *count > 0 && !ANSWERED.contains(&rcode.as_str())).collect()
}

/// The same of one load.
pub(super) fn of_load(outcome: &Outcome) -> BTreeMap<String, u64> {
    let rcodes = outcome.tally.rcodes.iter();
    of(rcodes.map(|(rcode, count)| (Rcode(rcode).to_string(), count)))
}

/// A note for each side, set and load that had such answers.
pub(super) fn notes(plan: &ComparisonPlan, blocks: &[Block]) -> Vec<String> {
    let each = plan.loads.iter().flat_map(|load| ARMS.map(|side| (load, side)));
    each.filter_map(|(load, side)| note(load, side, blocks)).collect()
}

fn note(load: &Load, side: &str, blocks: &[Block]) -> Option<String> {
    let mut answered = 0;
    let mut failures = BTreeMap::<&str, u64>::new();
    for block in blocks.iter().filter(|block| block.used && block.phase == COMPARISON) {
        if (block.side.as_str(), &block.set, &block.load) != (side, &load.set, &load.name) {
            continue;
        }
        answered += block.answered;
        for (rcode, count) in &block.failures {
            *failures.entry(rcode).or_default() += count;
        }
    }
    let part = failures.values().sum::<u64>() as f64 / answered as f64;
    let (side, rcodes) = (side.to_uppercase(), failures.into_keys().collect::<Vec<_>>().join(", "));
    let (part, load, set) = (term::percent(part), &load.name, &load.set);
    (!rcodes.is_empty())
        .then(|| format!("{set} at {load}: {part} of the answers of {side} are {rcodes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_failed_are_told_of_each_side() {
        let counts = [("NOERROR", 50), ("NXDOMAIN", 20), ("REFUSED", 0), ("SERVFAIL", 30)];
        let failures = of(counts.iter().map(|(rcode, count)| ((*rcode).to_owned(), *count)));
        assert_eq!(failures, BTreeMap::from([("SERVFAIL".to_owned(), 30)]));
        let load = |set: &str| Load { name: "10/s".into(), set: set.into(), rate: 10.0 };
        let plan = ComparisonPlan {
            loads: vec![load("internal"), load("external")],
            ..Default::default()
        };
        let block = |side: &str, set: &str, failures: BTreeMap<String, u64>| Block {
            phase: COMPARISON.into(),
            side: side.into(),
            set: set.into(),
            load: "10/s".into(),
            used: true,
            answered: 100,
            failures,
            ..Block::default()
        };
        let mut blocks = vec![
            block("a", "internal", BTreeMap::new()),
            block("b", "internal", BTreeMap::new()),
            block("a", "external", BTreeMap::new()),
            block("b", "external", failures.clone()),
        ];
        assert_eq!(
            notes(&plan, &blocks),
            ["external at 10/s: 30.0 % of the answers of B are SERVFAIL"]
        );
        blocks[3].used = false;
        blocks.push(Block { phase: "noise".into(), ..block("b", "external", failures) });
        assert!(notes(&plan, &blocks).is_empty());
    }
}
