//! What lookups in many zones will read, see [`crate::data`].

use super::Zones;
use crate::data::Data;
use crate::limits::{FETCHED_ZONES_MIN, NAMES_AT_ONCE};
use crate::secondary::SecondaryZone;
use nodens_wire::NameRef;

/// Versions that are held at the same time: a thread holds a few at hardly any cost.
const HELD: usize = 4;

impl Zones {
    /// Whether [`Zones::fetch`] is of use.
    pub fn are_fetched(&self) -> bool {
        self.len() >= FETCHED_ZONES_MIN
    }

    /// Has the processor fetch what lookups for these names will read in the secondary zones that they lie in. Of no
    /// other effect. How many names seem to be there.
    pub fn fetch(&self, names: &[NameRef<'_>]) -> usize {
        let mut found = 0;
        for names in names.chunks(NAMES_AT_ONCE) {
            let mut zones: [Option<(&SecondaryZone, NameRef<'_>)>; NAMES_AT_ONCE] =
                [None; NAMES_AT_ONCE];
            for (place, name) in zones.iter_mut().zip(names) {
                *place = self.find(*name).and_then(|(_, zone)| Some((zone.as_secondary()?, *name)));
                place.iter().for_each(|(zone, _)| zone.served().fetch());
            }
            found += zones.chunks(HELD).map(fetch_versions).sum::<usize>();
        }
        found
    }
}

fn fetch_versions(zones: &[Option<(&SecondaryZone, NameRef<'_>)>]) -> usize {
    let held: [_; HELD] = std::array::from_fn(|at| {
        let (zone, name) = zones.get(at).copied().flatten()?;
        Some((zone.served().load(), name))
    });
    Data::fetch_each(held.each_ref().map(|held| {
        let (data, name) = held.as_ref()?;
        Some((data.as_deref()?, *name))
    }))
}
