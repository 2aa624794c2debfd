//! Trials of settings: which of many knobs matter, whether fresh data says so too, and whether the
//! change is better for users.
//!
//! [`tune`] leads something that is [`Tuned`] through two experiments. The screening measures
//! combinations of levels in randomized blocks, each with baselines, and names knobs by permutation
//! within blocks. The confirmation measures each named knob alone beside the baseline; nothing of the
//! screening is used again, because the largest of many estimates is too large (the winner's curse).
//! [`metric`] says what can be measured, [`verdict`] what *better* means, and [`simulated`] is a server
//! whose truth is known, on which all of this is tested.
//!
//! What is deliberately absent: servers, knobs of any system, files, printing, and a clock.

#![forbid(unsafe_code)]

mod confirmation;
mod disturbed;
pub mod metric;
mod screening;
pub mod simulated;
mod trial;
pub mod verdict;

pub use metric::Metric;
pub use trial::{Failed, Stage, Trial, Tuned, designs, tune};
