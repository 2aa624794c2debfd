//! Members of catalogs that are not served, and what the log says of them.

use super::super::ORIGIN;
use crate::limits::CLASHES_NAMED;
use foldhash::fast::RandomState;
use nodens_core::log::{Level, Sink};
use nodens_wire::SharedName;
use nodens_zone::secondary::RefusedMembers;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// Members of a catalog that are not served, by reason.
#[derive(Default)]
pub(super) struct Refused {
    outside: HashSet<SharedName, RandomState>,
    clashing: HashSet<SharedName, RandomState>,
    without_room: HashSet<SharedName, RandomState>,
}

/// Those that were served, or were none, before.
#[derive(Default)]
pub(super) struct New {
    outside: usize,
    without_room: usize,
    clashes: Clashes,
}

impl Refused {
    /// What becomes of this one is about to be known; gives whether it was one of them.
    pub(super) fn forget(&mut self, zone: &SharedName) -> bool {
        // Mostly there are none, and a name need not be hashed for that.
        let goes =
            |from: &mut HashSet<SharedName, RandomState>| !from.is_empty() && from.remove(zone);
        goes(&mut self.outside) | goes(&mut self.clashing) | goes(&mut self.without_room)
    }

    /// It lies outside of the zones that are accepted.
    pub(super) fn add_outside(&mut self, zone: &SharedName, new: Option<&mut New>) {
        self.outside.insert(zone.clone());
        new.into_iter().for_each(|new| new.outside += 1);
    }

    /// Another zone of its name is in its place.
    pub(super) fn add_clashing(&mut self, zone: &SharedName, new: Option<&mut New>) {
        self.clashing.insert(zone.clone());
        new.into_iter().for_each(|new| new.clashes.add(zone));
    }

    /// There is no memory for it.
    pub(super) fn add_without_room(&mut self, zone: &SharedName, new: Option<&mut New>) {
        self.without_room.insert(zone.clone());
        new.into_iter().for_each(|new| new.without_room += 1);
    }

    /// Those that wait for memory.
    pub(super) fn without_room(&self) -> impl Iterator<Item = &SharedName> {
        self.without_room.iter()
    }

    /// How many there are.
    pub(super) fn counts(&self) -> RefusedMembers {
        RefusedMembers {
            outside: self.outside.len(),
            clashing: self.clashing.len(),
            without_room: self.without_room.len(),
        }
    }
}

impl New {
    /// Says which members of a catalog these are.
    pub(super) fn say(&self, origin: &SharedName, sink: &Sink) {
        let Self { outside, without_room, clashes } = self;
        if *outside > 0 {
            let text = format!(
                "Skipped {outside} member zones from catalog {origin}: outside configured member zones"
            );
            sink.line(Level::Warning, ORIGIN, text);
        }
        if *without_room > 0 {
            let text = format!(
                "Skipped {without_room} member zones from catalog {origin}: there is no more memory for zones"
            );
            sink.line(Level::Warning, ORIGIN, text);
        }
        if clashes.count > 0 {
            let text =
                format!("Skipping member zones of catalog {origin}, which exist already:{clashes}");
            sink.line(Level::Warning, ORIGIN, text);
        }
    }
}

/// Members in whose places other zones are, the first of them by name.
#[derive(Default)]
struct Clashes {
    first: BTreeSet<SharedName>,
    count: usize,
}

impl Clashes {
    fn add(&mut self, zone: &SharedName) {
        self.count += 1;
        let is_first = self.first.last().is_none_or(|last| zone < last);
        if is_first || self.first.len() < CLASHES_NAMED {
            self.first.insert(zone.clone());
        }
        if self.first.len() > CLASHES_NAMED {
            self.first.pop_last();
        }
    }
}

impl fmt::Display for Clashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.iter().try_for_each(|zone| write!(f, " {zone}"))?;
        match self.count.saturating_sub(self.first.len()) {
            0 => Ok(()),
            others => write!(f, " and {others} others"),
        }
    }
}
