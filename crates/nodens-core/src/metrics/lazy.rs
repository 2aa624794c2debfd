//! Series that are registered when they are first used.

use super::{Cells, Counter, Histogram, Registry};
use std::sync::OnceLock;

/// Counters that are registered when they are first used, so that a label combination that does
/// not occur makes no series. The set of combinations is fixed and small.
#[derive(Debug)]
pub struct LazyCounters {
    counters: Box<[OnceLock<Counter>]>,
}

impl LazyCounters {
    /// Room for `len` counters.
    pub fn new(len: usize) -> Self {
        Self { counters: (0..len).map(|_| OnceLock::new()).collect() }
    }

    /// Adds one to counter `index` of writer `writer`, whose cells are `cells`; the first use
    /// registers the counter. An index out of range counts nothing.
    pub fn add(
        &self,
        index: usize,
        cells: &mut Cells,
        writer: usize,
        registry: &Registry,
        register: impl FnOnce() -> Counter,
    ) {
        let Some(slot) = self.counters.get(index) else { return };
        let counter = *slot.get_or_init(register);
        if !cells.try_add(counter, 1) {
            *cells = registry.cells(writer);
            cells.add(counter, 1);
        }
    }
}

/// Histograms that are registered when they are first used, as [`LazyCounters`] are.
#[derive(Debug)]
pub struct LazyHistograms {
    histograms: Box<[OnceLock<Histogram>]>,
}

impl LazyHistograms {
    /// Room for `len` histograms.
    pub fn new(len: usize) -> Self {
        Self { histograms: (0..len).map(|_| OnceLock::new()).collect() }
    }

    /// Adds observation `value` to histogram `index` of writer `writer`, as
    /// [`LazyCounters::add`] does.
    pub fn observe(
        &self,
        (index, value): (usize, u64),
        cells: &mut Cells,
        writer: usize,
        registry: &Registry,
        register: impl FnOnce() -> Histogram,
    ) {
        let Some(slot) = self.histograms.get(index) else { return };
        let histogram = *slot.get_or_init(register);
        if !cells.try_observe(histogram, value, 1) {
            *cells = registry.cells(writer);
            cells.observe(histogram, value);
        }
    }
}
