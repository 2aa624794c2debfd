//! Answers that pass from one process to its successor, which so begins with a warm cache.
//!
//! Each travels with the fingerprint of its server block and finds the block that says the same in
//! the successor's configuration. Ages travel, not times, so the two may use different clocks.

use super::entry;
use super::store::Store;
use super::table::Sweep;
use crate::time::Now;

/// Octets of a fingerprint.
const FINGERPRINT_LEN: usize = 8;

impl Store {
    /// Names the form of [`Store::export`]; a program that knows another one cannot take it. The form
    /// before this one did not say whether recursion was desired.
    pub const FORMAT: u16 = 2;

    /// Shows `visit` the answers that may still be served, one after the other, in a form that
    /// [`Store::import`] takes. Those of blocks that no configuration has any more are left out.
    /// Ends when `visit` says false.
    pub fn export(&self, now: Now, mut visit: impl FnMut(&[u8]) -> bool) {
        let mut packed = Vec::new();
        let mut on = true;
        for index in 0.. {
            // The table may grow meanwhile: what moves is then shown twice.
            if index >= self.table.len() || !on {
                return;
            }
            let Some(bucket) = self.table.bucket(index) else { return };
            bucket.each(|_, slot| {
                let held = slot.load();
                let Some(view) = held.as_ref().map(entry::view) else { return Sweep::On };
                if !view.is_dead(now) {
                    packed.clear();
                    packed.extend(view.scope().fingerprint.to_be_bytes());
                    view.pack(now, &mut packed);
                    on = visit(&packed);
                }
                if on { Sweep::On } else { Sweep::Stop }
            });
        }
    }

    /// Takes an answer of [`Store::export`], if it can be one and its server block is among those
    /// of a configuration; says whether. An answer that is here already stays.
    pub fn import(&self, packed: &[u8], now: Now) -> bool {
        let Some((fingerprint, packed)) = packed.split_first_chunk::<FINGERPRINT_LEN>() else {
            return false;
        };
        let Some(scope) = self.scope(u64::from_be_bytes(*fingerprint)) else { return false };
        let Some(entry) = entry::unpack(packed, &scope, now) else { return false };
        let view = entry::view(&entry);
        let key = view.key();
        let hash = self.hash(&scope, &key);
        if view.is_dead(now) || self.find(&scope, &key, hash, 1, |_| 1).is_some() {
            return false;
        }
        let kind = view.kind();
        self.insert(entry.clone(), now, |old| old == kind, None, &mut |_, _| {});
        true
    }
}
