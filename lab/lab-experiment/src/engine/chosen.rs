//! Which of several attempts counts.

use super::{Measured, Place, Record};
use crate::disturbance::{Together, severity};
use std::collections::BTreeMap;

impl<V> Record<V> {
    /// What was measured there; whether it counts is decided later.
    pub(super) fn of(place: &Place<'_>, Measured { value, faults }: Measured<V>) -> Self {
        Self {
            arm: place.arm.name.clone(),
            block: place.unit.block.index,
            condition: Some(place.unit.condition),
            turn: place.turn,
            attempt: place.attempt,
            used: false,
            faults,
            value,
        }
    }
}

/// Marks the attempts that count: of each measurement, or of all together, the least disturbed one. Of
/// attempts that are equally disturbed the last one counts.
pub(super) fn choose<V>(records: &mut [Record<V>], together: Together) {
    let key = |record: &Record<V>| match together {
        Together::Block => None,
        Together::Single | Together::Held => Some((record.turn, record.condition)),
    };
    let mut attempts = BTreeMap::<_, (usize, f64)>::new();
    for record in records.iter() {
        let (count, part) = severity(record.faults.iter());
        let sum = attempts.entry((key(record), record.attempt)).or_default();
        *sum = (sum.0 + count, sum.1 + part);
    }
    let mut best = BTreeMap::<_, (usize, (usize, f64))>::new();
    for ((key, attempt), sum) in attempts {
        let kept = best.entry(key).or_insert((attempt, sum));
        if sum <= kept.1 {
            *kept = (attempt, sum);
        }
    }
    for record in records {
        record.used = best.get(&key(record)).is_some_and(|(attempt, _)| record.attempt == *attempt);
    }
}
