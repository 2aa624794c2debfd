//! Arms that are measured at the same time.

use super::{Attempt, Engine, Part, Place, Record, Simultaneous, Subject, Unit};

impl<S: Subject> Engine<'_, S> {
    /// All arms of a block at once, under one condition after the other.
    pub(super) fn beside(
        &mut self,
        part: Part<'_>,
        conditions: &[usize],
        attempt: usize,
    ) -> Result<Attempt<S>, S::Error> {
        let mut records = Vec::with_capacity(part.turns.len() * conditions.len());
        for condition in conditions.iter().copied() {
            let unit = Unit { block: part.block, condition };
            let design = self.design;
            let place = |(turn, index): &(usize, usize)| {
                let arm = design.arms.get(*index).filter(|arm| arm.is_measured(condition))?;
                Some(Place { arm, index: *index, unit, turn: *turn, attempt })
            };
            let places: Vec<Place<'_>> = part.turns.iter().filter_map(place).collect();
            if places.is_empty() {
                continue;
            }
            if (self.stop)() {
                return Ok(None);
            }
            let Some(measured) = self.measure_all(&places)? else { return Ok(None) };
            let each = places.iter().zip(measured);
            records.extend(each.map(|(place, measured)| Record::of(place, measured)));
        }
        Ok(Some(records))
    }

    /// What is measured at the same time: set, measured and restored.
    fn measure_all(&mut self, places: &[Place<'_>]) -> Result<Simultaneous<S::Value>, S::Error> {
        let mut reached = 0;
        let set = places.iter().try_for_each(|place| {
            reached += 1;
            self.subject.set(place)
        });
        let measured = set.and_then(|()| self.subject.measure_all(places));
        let mut restored = Ok(());
        for place in places.iter().take(reached).rev() {
            let one = self.subject.restore(place);
            restored = restored.and(one);
        }
        let measured = measured?;
        restored?;
        Ok(measured)
    }
}
