//! Experiments: what is measured in which order, and the loop that does it.
//!
//! A [`Design`] is arms, factors with levels, blocks, an order and a seed; [`Design::plan`] makes of it
//! the same [`Plan`] on every machine. A [`Subject`] is what is measured: it starts arms, sets their
//! levels, measures and restores. [`run`] leads it through the plan, measures again what was disturbed,
//! and returns the results by the names of arms.
//!
//! - [`screening`]: Plackett–Burman designs and their fold-over, which find the few of many factors
//!   that matter;
//! - [`limit`]: the search for the highest rate at which a requirement holds;
//! - [`disturbance`]: the one rule by which a measurement counts as disturbed;
//! - [`placement`]: the one rule by which CPUs are given to what is measured and to what measures.
//!
//! What is deliberately absent: servers, DNS, files, printing, a clock, and statistics of
//! its own: the search has those of `lab-stats`.

#![forbid(unsafe_code)]

mod design;
pub mod disturbance;
mod engine;
pub mod limit;
pub mod placement;
pub mod screening;

pub use design::{Arm, Block, Design, Factor, Order, Plan, Wrong};
pub use engine::{Measured, Place, Ready, Record, Results, Simultaneous, Subject, Unit, run};
