//! Values that many objects have in common, kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// The fewest values after which unused ones are looked for.
const SWEEP_MIN: usize = 64;

/// A set of shared values. What nobody uses any more is dropped from time to time.
#[derive(Debug)]
pub(super) struct Interner<T: ?Sized> {
    values: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The shared value equal to `value`.
    pub(super) fn get<V>(&mut self, value: V) -> Arc<T>
    where
        V: AsRef<T> + Into<Arc<T>>,
    {
        if let Some(known) = self.values.get(value.as_ref()) {
            return known.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = SWEEP_MIN.max(2 * self.values.len());
        }
        let shared: Arc<T> = value.into();
        self.values.insert(shared.clone());
        shared
    }
}
