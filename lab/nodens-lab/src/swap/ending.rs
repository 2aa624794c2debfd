//! A subject whose errors end an experiment as a stop does, so that what was measured before is kept.

use lab_experiment::{Arm, Measured, Place, Subject, Unit};

/// A subject, and the error that it ended with.
pub(super) struct Ending<'s, S: Subject> {
    pub(super) subject: &'s mut S,
    pub(super) failed: Option<S::Error>,
}

impl<S: Subject> Subject for Ending<'_, S> {
    type Value = S::Value;
    type Error = S::Error;

    fn start(&mut self, arm: &Arm, index: usize) -> Result<(), S::Error> {
        self.subject.start(arm, index)
    }

    fn set(&mut self, place: &Place<'_>) -> Result<(), S::Error> {
        // The measurement ends the experiment.
        self.failed = self.subject.set(place).err();
        Ok(())
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<S::Value>>, S::Error> {
        if self.failed.is_some() {
            return Ok(None);
        }
        self.subject.measure(place).or_else(|error| {
            self.failed = Some(error);
            Ok(None)
        })
    }

    fn restore(&mut self, place: &Place<'_>) -> Result<(), S::Error> {
        self.subject.restore(place)
    }

    fn passed(&mut self, unit: &Unit<'_>) {
        self.subject.passed(unit);
    }
}
