//! What is measured: what the loop calls, and what it tells and is told.

use super::Record;
use crate::disturbance::Fault;
use crate::{Arm, Block};

/// What is measured. Arms are named by their index in the design, too.
pub trait Subject {
    /// What one measurement brings.
    type Value;
    /// Why it failed; the experiment ends with it.
    type Error;

    /// Starts an arm for a group of blocks. All arms are started before the group's first block, in the
    /// order of the design.
    ///
    /// # Errors
    ///
    /// What prevented the start; [`Subject::end`] follows nevertheless.
    fn start(&mut self, arm: &Arm, index: usize) -> Result<(), Self::Error>;

    /// Called when all arms of a group are started; `first` is its first block. `None` stops the
    /// experiment.
    ///
    /// # Errors
    ///
    /// What prevented the check.
    fn ready(&mut self, first: &Block) -> Result<Option<Ready<Self::Value>>, Self::Error> {
        _ = first;
        Ok(Some(Ready::default()))
    }

    /// Gives the factors the levels of an arm, right before its measurement or, where conditions share a
    /// stage, before the first of them: that is the condition of `place`.
    ///
    /// # Errors
    ///
    /// What could not be set; [`Subject::restore`] follows nevertheless and undoes the rest.
    fn set(&mut self, place: &Place<'_>) -> Result<(), Self::Error>;

    /// Measures an arm once. `None` stops the experiment; what belongs to this attempt is left out.
    ///
    /// # Errors
    ///
    /// What prevented the measurement; [`Subject::restore`] follows nevertheless.
    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Self::Value>>, Self::Error>;

    /// Whether all arms of a block are measured at the same time, by [`Subject::measure_all`]. They are measured
    /// again together then, and an error of one ends the experiment.
    fn side_by_side(&self) -> bool {
        false
    }

    /// Measures the arms of `places` at the same time; all are set before and restored after. `None`
    /// stops the experiment.
    ///
    /// # Errors
    ///
    /// What prevented one of the measurements; [`Subject::restore`] follows nevertheless.
    fn measure_all(
        &mut self,
        places: &[Place<'_>],
    ) -> Result<Simultaneous<Self::Value>, Self::Error> {
        places.iter().map(|place| self.measure(place)).collect()
    }

    /// Undoes what [`Subject::set`] did for the same place, right after the measurements.
    ///
    /// # Errors
    ///
    /// What could not be restored; the experiment ends with it.
    fn restore(&mut self, place: &Place<'_>) -> Result<(), Self::Error>;

    /// Asks what follows from an error of one arm, in its start, its setting or its measurement. `Ok` leaves
    /// the arm out from then on, with what was measured of it so far.
    ///
    /// # Errors
    ///
    /// The error that ends the experiment, which is the rule.
    fn failed(&mut self, arm: &Arm, error: Self::Error) -> Result<(), Self::Error> {
        _ = arm;
        Err(error)
    }

    /// Ends what [`Subject::start`] started; called for every group, also after an error.
    ///
    /// # Errors
    ///
    /// What could not be ended.
    fn end(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called after every unit that is complete.
    fn passed(&mut self, unit: &Unit<'_>) {
        _ = unit;
    }

    /// Called after every block that is complete, with everything so far: whether that is enough. The
    /// rule must be one that allows for all these looks.
    fn enough(&mut self, so_far: &[Record<Self::Value>]) -> bool {
        _ = so_far;
        false
    }
}

/// What was found before a group of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready<V> {
    /// What holds for the whole group, whatever is measured again.
    pub faults: Vec<Fault>,
    /// What was measured of each arm before the first block, such as its costs without load.
    pub values: Vec<V>,
}

impl<V> Default for Ready<V> {
    fn default() -> Self {
        Self { faults: Vec::new(), values: Vec::new() }
    }
}

/// Which blocks are measured: one block under one condition.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The block.
    pub block: &'a Block,
    /// The condition, from 0.
    pub condition: usize,
}

/// Where a measurement stands in the experiment.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The arm.
    pub arm: &'a Arm,
    /// Its index.
    pub index: usize,
    /// The block and the condition.
    pub unit: Unit<'a>,
    /// Its place in the order of the block, from 0.
    pub turn: usize,
    /// How often it was measured before.
    pub attempt: usize,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured<V> {
    /// What it brought.
    pub value: V,
    /// Why it is disturbed; see [`crate::disturbance::Signs::faults`].
    pub faults: Vec<Fault>,
}

/// What was measured at the same time; `None` if it was stopped.
pub type Simultaneous<V> = Option<Vec<Measured<V>>>;
