//! The loop that leads a subject through a plan.

mod beside;
mod chosen;
mod subject;

use crate::disturbance::{Again, Fault, Together, severity};
use crate::{Arm, Block, Design, Plan};
use chosen::choose;
use std::ops::Range;

pub use subject::{Measured, Place, Ready, Simultaneous, Subject, Unit};

/// One measurement, and where it stood.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<V> {
    /// The name of the arm.
    pub arm: String,
    /// The block.
    pub block: usize,
    /// The condition; `None` for what was measured before a group.
    pub condition: Option<usize>,
    /// Its place in the order of the block.
    pub turn: usize,
    /// How often it was measured before.
    pub attempt: usize,
    /// Whether it counts: one attempt of each does, the last one if it is not disturbed.
    pub used: bool,
    /// Why it is disturbed.
    pub faults: Vec<Fault>,
    /// What it brought.
    pub value: V,
}

/// Everything that was measured, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Results<V> {
    /// The measurements.
    pub records: Vec<Record<V>>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Whether the subject had enough before the last block.
    pub enough: bool,
}

impl<V> Default for Results<V> {
    fn default() -> Self {
        Self { records: Vec::new(), interrupted: false, enough: false }
    }
}

impl<V> Results<V> {
    /// What counts of the arm called `name`, without what was measured before groups.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Record<V>> {
        let mine = move |r: &&Record<V>| r.arm == name && r.used && r.condition.is_some();
        self.records.iter().filter(mine)
    }

    /// What counts although it is disturbed.
    pub fn disturbed(&self) -> impl Iterator<Item = &Record<V>> {
        self.records.iter().filter(|record| record.used && !record.faults.is_empty())
    }
}

/// Leads `subject` through `plan`, which must be that of `design`.
///
/// What was set is restored, and what was started is ended, before this returns, whatever happened but
/// a panic. `stop` is asked between measurements.
///
/// # Errors
///
/// The first error of the subject.
pub fn run<S: Subject>(
    design: &Design,
    plan: &Plan,
    again: Again,
    subject: &mut S,
    stop: &dyn Fn() -> bool,
) -> Result<Results<S::Value>, S::Error> {
    let left_out = vec![false; design.arms.len()];
    let results = Results::default();
    let mut engine = Engine { design, again, subject, stop, left_out, results };
    for blocks in plan.blocks.chunks(design.group_blocks.max(1)) {
        let measured = if stop() { Ok(false) } else { engine.group(blocks) };
        let ended = engine.subject.end();
        let all = measured?;
        ended?;
        if !all {
            engine.results.interrupted = true;
            break;
        }
        if engine.results.enough {
            break;
        }
    }
    Ok(engine.results)
}

/// The measurements of an attempt; `None` if it was stopped.
type Attempt<S> = Option<Vec<Record<<S as Subject>::Value>>>;

struct Engine<'a, S: Subject> {
    design: &'a Design,
    again: Again,
    subject: &'a mut S,
    stop: &'a dyn Fn() -> bool,
    /// Arms that failed, by their index.
    left_out: Vec<bool>,
    results: Results<S::Value>,
}

/// What is measured again together: turns of a block under the conditions of a stage.
#[derive(Clone, Copy)]
struct Part<'a> {
    block: &'a Block,
    /// Places in the order of the block, with the arms.
    turns: &'a [(usize, usize)],
}

impl<S: Subject> Engine<'_, S> {
    /// A group of blocks; false if it was stopped.
    fn group(&mut self, blocks: &[Block]) -> Result<bool, S::Error> {
        let Some(first) = blocks.first() else { return Ok(true) };
        for (index, arm) in self.design.arms.iter().enumerate() {
            let started = self.subject.start(arm, index);
            started.or_else(|error| self.fail(arm, index, error))?;
        }
        let Some(ready) = self.subject.ready(first)? else { return Ok(false) };
        for (arm, value) in self.design.arms.iter().zip(ready.values) {
            self.results.records.push(Record {
                arm: arm.name.clone(),
                block: first.index,
                condition: None,
                turn: 0,
                attempt: 0,
                used: true,
                faults: Vec::new(),
                value,
            });
        }
        for block in blocks {
            for stage in self.design.stages() {
                if (self.stop)() || !self.stage(block, stage.clone(), &ready.faults)? {
                    return Ok(false);
                }
                for condition in stage {
                    self.subject.passed(&Unit { block, condition });
                }
            }
            if self.subject.enough(&self.results.records) {
                self.results.enough = true;
                break;
            }
        }
        Ok(true)
    }

    /// What is measured at the same time is measured again together.
    fn together(&self) -> Together {
        if self.subject.side_by_side() { Together::Block } else { self.again.together }
    }

    fn fail(&mut self, arm: &Arm, index: usize, error: S::Error) -> Result<(), S::Error> {
        self.subject.failed(arm, error)?;
        if let Some(left_out) = self.left_out.get_mut(index) {
            *left_out = true;
        }
        Ok(())
    }

    /// All arms of a block under the conditions of a stage; false if it was stopped.
    fn stage(
        &mut self,
        block: &Block,
        stage: Range<usize>,
        of_group: &[Fault],
    ) -> Result<bool, S::Error> {
        let turns: Vec<(usize, usize)> = block.order.iter().copied().enumerate().collect();
        let parts: Vec<&[(usize, usize)]> = match self.together() {
            Together::Block => vec![&turns],
            Together::Single | Together::Held => turns.chunks(1).collect(),
        };
        for turns in parts {
            if !self.part(Part { block, turns }, stage.clone(), of_group)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is measured again together, until it is not disturbed; false if it was stopped.
    fn part(
        &mut self,
        part: Part<'_>,
        stage: Range<usize>,
        of_group: &[Fault],
    ) -> Result<bool, S::Error> {
        let begin = self.results.records.len();
        let mut left: Vec<usize> = stage.collect();
        for attempt in 0..=self.again.retries {
            let Some(mut records) = self.attempt(part, &left, attempt)? else { return Ok(false) };
            let disturbed = |of: Option<usize>| {
                let mine = records.iter().filter(|record| of.is_none() || record.condition == of);
                severity(mine.flat_map(|record| &record.faults)).0 > 0
            };
            match self.together() {
                Together::Block if disturbed(None) => {}
                Together::Single => left.retain(|condition| disturbed(Some(*condition))),
                // Where arms stay set, the measurements were repeated at once.
                Together::Block | Together::Held => left.clear(),
            }
            for record in &mut records {
                record.faults.extend_from_slice(of_group);
            }
            self.results.records.append(&mut records);
            if left.is_empty() {
                break;
            }
        }
        let together = self.together();
        choose(self.results.records.get_mut(begin..).unwrap_or_default(), together);
        Ok(true)
    }

    fn attempt(
        &mut self,
        part: Part<'_>,
        conditions: &[usize],
        attempt: usize,
    ) -> Result<Attempt<S>, S::Error> {
        if self.subject.side_by_side() {
            return self.beside(part, conditions, attempt);
        }
        let mut all = Vec::with_capacity(part.turns.len() * conditions.len());
        for (turn, index) in part.turns.iter().copied() {
            let Some(arm) = self.design.arms.get(index) else { continue };
            if self.left_out.get(index).is_none_or(|left_out| *left_out) {
                continue;
            }
            let conditions = conditions.iter().copied().filter(|at| arm.is_measured(*at));
            let conditions: Vec<usize> = conditions.collect();
            let Some(condition) = conditions.first().copied() else { continue };
            if (self.stop)() {
                return Ok(None);
            }
            let unit = Unit { block: part.block, condition };
            let place = Place { arm, index, unit, turn, attempt };
            let measured = match self.subject.set(&place) {
                Ok(()) => self.measured(&place, &conditions),
                Err(error) => Err(error),
            };
            let restored = self.subject.restore(&place);
            let measured = measured.map_err(|error| self.fail(arm, index, error));
            match measured {
                Ok(records) => {
                    restored?;
                    let Some(mut records) = records else { return Ok(None) };
                    all.append(&mut records);
                }
                Err(tolerated) => tolerated.and(restored)?,
            }
        }
        Ok(Some(all))
    }

    /// The conditions of an arm that is set, those that are disturbed at once again where arms stay set.
    fn measured(
        &mut self,
        place: &Place<'_>,
        conditions: &[usize],
    ) -> Result<Attempt<S>, S::Error> {
        let last = match self.again.together {
            Together::Held => self.again.retries,
            Together::Block | Together::Single => place.attempt,
        };
        let mut records = Vec::with_capacity(conditions.len());
        for condition in conditions.iter().copied() {
            for attempt in place.attempt..=last {
                // Before the first one this was asked when the arm was not set yet.
                if !records.is_empty() && (self.stop)() {
                    return Ok(None);
                }
                let unit = Unit { condition, ..place.unit };
                let place = Place { unit, attempt, ..*place };
                let Some(measured) = self.subject.measure(&place)? else { return Ok(None) };
                let is_disturbed = severity(measured.faults.iter()).0 > 0;
                records.push(Record::of(&place, measured));
                if !is_disturbed {
                    break;
                }
            }
        }
        Ok(Some(records))
    }
}

#[cfg(test)]
mod tests;
