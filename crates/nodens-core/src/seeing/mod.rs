//! Who asks for what: sketches of a fixed size that each worker fills for itself and a collector
//! empties once a second.
//!
//! Counting must not be felt. What an answer costs decides how it is counted: one that was waited
//! for always, one that was at hand only while there are few of them in a second, later one in
//! [`SAMPLED`] on average. A worker that finds its sketch being emptied counts nothing rather than
//! wait.

mod sketch;
mod table;
mod watcher;

#[cfg(test)]
mod tests;

pub use sketch::{Asked, LATENCIES, RCODES, Sketch, Totals, Trouble};
pub use table::{Row, Table, Tally};
pub use watcher::Watcher;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Of answers that were at hand, one in this many is counted on average once there are many.
pub const SAMPLED: u32 = 16;
/// So many of them are all counted before that, in each interval, worker and of each sort.
pub const COUNTED_WHOLE: u32 = 500;

/// The sketches of all workers. Nothing is counted until [`Seeing::open`].
#[derive(Debug, Default)]
pub struct Seeing {
    panes: OnceLock<Box<[Arc<Pane>]>>,
}

/// One worker's sketch, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pane {
    sketch: Mutex<Box<Sketch>>,
}

impl Seeing {
    /// Lets `workers` workers that are made from now on count.
    pub fn open(&self, workers: usize) {
        let sketch = || Mutex::new(Box::new(Sketch::for_workers(workers)));
        let pane = |_| Arc::new(Pane { sketch: sketch() });
        self.panes.get_or_init(|| (0..workers).map(pane).collect());
    }

    /// Whether workers count.
    pub fn is_open(&self) -> bool {
        self.panes.get().is_some()
    }

    /// What worker `index` counts with.
    pub(crate) fn watcher(&self, index: usize, seed: u64) -> Option<Watcher> {
        Some(Watcher::new(self.panes.get()?.get(index)?.clone(), seed))
    }

    /// The sketches of all workers.
    pub fn panes(&self) -> &[Arc<Pane>] {
        self.panes.get().map_or(&[], |panes| panes)
    }
}

impl Pane {
    /// Takes what was counted since the last call and leaves `empty`, emptied, in its place.
    pub fn take(&self, mut empty: Box<Sketch>) -> Box<Sketch> {
        empty.clear();
        let mut sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner);
        empty.begin_after(&sketch);
        std::mem::replace(&mut *sketch, empty)
    }
}
