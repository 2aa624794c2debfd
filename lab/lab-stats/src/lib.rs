//! Statistics for comparing servers, and the settings of one, by blocks of load.
//!
//! The unit is a *block*, never a query: queries of one second share queues, caches and the
//! scheduler's moods, and millions of them would make any shift significant. Blocks come in pairs,
//! one of each server next to each other in an order drawn by a coin, and all that is used of a pair
//! is the difference `d`, for most metrics the logarithm of B over A.
//!
//! - [`paired`]: Hodges–Lehmann estimate and the exact sign-flip test, which assumes nothing but
//!   that the coin was fair;
//! - [`bootstrap`]: intervals by BCa, or by stationary blocks if neighbours are correlated;
//! - [`compare()`]: all of it for one metric, with equivalence margins and a verdict;
//! - [`sequential`]: the same for a comparison that may be read after every pair and ended when it is decided;
//! - [`holm`]: many metrics; [`power`]: what can be found with how many pairs;
//! - [`unpaired`]: archives that were not measured in pairs; [`linear`]: CPU = a + b × rate;
//! - [`blocked`]: several groups in blocks; [`order`]: a sample by quantiles;
//! - [`screening`]: which of many factors matter, by permutation within blocks;
//! - [`groups`]: the tests of several groups that papers use, with what they assume;
//! - [`threshold`]: the level from which on something is no longer achieved, by trials that say yes or no.
//!
//! What is deliberately absent: removal of outliers, a clock, files, printing, and tests repeated
//! until they are significant: the number of pairs is fixed beforehand, or the test allows for all looks.

#![forbid(unsafe_code)]

pub mod blocked;
pub mod bootstrap;
mod compare;
pub mod groups;
pub mod holm;
pub mod linear;
mod normal;
pub mod order;
pub mod paired;
pub mod power;
pub mod proportion;
mod ranges;
pub mod screening;
pub mod sequential;
pub mod threshold;
pub mod unpaired;

pub use compare::{Comparison, Margin, Method, Settings, Verdict, compare};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Both ends by `map`, which must be increasing.
    #[must_use]
    pub fn map(self, map: impl Fn(f64) -> f64) -> Self {
        Self { low: map(self.low), high: map(self.high) }
    }
}
