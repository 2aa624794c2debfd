//! What changed between versions of a zone: kept for secondaries that ask for no more (RFC 1995).

mod packed;

use crate::data::room;
use crate::serial::Serial;
use crate::zone::{Advance, Cursor, RecordRef, Soa};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

pub use packed::Packed;
pub(crate) use packed::record_at;

#[cfg(test)]
mod tests;

/// What leads from one version of a zone to a later one: the part of an IXFR response that RFC 1995
/// section 4 calls a difference sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The SOA record of the older version.
    pub from: Soa,
    /// The SOA record of the later one.
    pub to: Soa,
    /// Records of the older version that the later one does not have, the SOA record apart.
    pub removed: Packed,
    /// Records of the later version that the older one did not have, the SOA record apart.
    pub added: Packed,
}

impl Step {
    /// Octets of memory that it takes, about.
    pub fn octets(&self) -> usize {
        let soas = self.from.record().rdata.len() + self.to.record().rdata.len();
        size_of::<Self>() + soas + self.removed.octets() + self.added.octets()
    }

    /// Records that a transfer of it has, the two SOA records among them.
    pub fn records(&self) -> u64 {
        self.removed.len() + self.added.len() + 2
    }
}

/// The steps that led to the present version of a zone, the oldest first, within a budget in octets.
/// Each begins with the version that the one before it ends with.
#[derive(Debug)]
pub struct Journal {
    steps: VecDeque<Arc<Step>>,
    octets: usize,
    budget: usize,
}

impl Journal {
    /// Keeps steps of so many octets; the oldest go first.
    pub fn new(budget: usize) -> Self {
        Self { steps: VecDeque::new(), octets: 0, budget }
    }

    /// Octets of memory that the steps take, about.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// The zone has become another version. A step that does not begin where the last one ended makes
    /// the earlier ones useless.
    pub fn push(&mut self, step: Arc<Step>) {
        if self.steps.back().is_some_and(|last| last.to.serial() != step.from.serial()) {
            self.forget();
        }
        let mut octets = self.octets + step.octets();
        self.steps.push_back(step);
        while octets > self.budget || self.steps.len() > crate::limits::JOURNAL_STEPS_MAX {
            let Some(first) = self.steps.pop_front() else { break };
            octets -= first.octets();
        }
        self.count(octets);
    }

    /// The steps take so many octets now, of the memory of all zones.
    fn count(&mut self, octets: usize) {
        let before = std::mem::replace(&mut self.octets, octets);
        room::replaced(before as u64, octets as u64);
    }

    /// Keeps only the latest steps, which together have fewer than so many records.
    pub fn trim(&mut self, records: u64) {
        let mut total: u64 = 0;
        let fits = self.steps.iter().rev().take_while(|step| {
            total += step.records();
            total < records
        });
        let useless = self.steps.len() - fits.count();
        let gone: usize = self.steps.drain(..useless).map(|step| step.octets()).sum();
        self.count(self.octets - gone);
    }

    /// The zone has become a version of which it is not known what changed.
    pub fn forget(&mut self) {
        self.steps.clear();
        self.count(0);
    }

    /// The steps from the version with this serial number to the present one; none if that version is
    /// not known any more, or never was.
    pub fn since(&self, serial: Serial) -> Option<Vec<Arc<Step>>> {
        let first = self.steps.iter().rposition(|step| step.from.serial() == serial)?;
        Some(self.steps.range(first..).cloned().collect())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Goes through the records of steps as a response to IXFR has them between its first and its last
/// record: for each step the older SOA record, what is removed, the later SOA record, what is added.
pub struct Steps {
    steps: std::vec::IntoIter<Arc<Step>>,
    current: Option<Arc<Step>>,
    place: Place,
}

/// Where a cursor stands in a step; octets of the record in [`Packed`], and of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Older,
    Removed(usize, usize),
    Later,
    Added(usize, usize),
}

impl Steps {
    /// Goes through `steps` in their order.
    pub fn new(steps: Vec<Arc<Step>>) -> Self {
        Self { steps: steps.into_iter(), current: None, place: Place::Older }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steps({} left, {:?})", self.steps.len(), self.place)
    }
}

impl Cursor for Steps {
    fn advance(&mut self) -> Advance {
        let after = |packed: &Packed, at: usize| packed.read(at).map(|(_, next)| (at, next));
        let next = self.current.as_ref().and_then(|step| match self.place {
            Place::Older | Place::Removed(..) => {
                let at = if let Place::Removed(_, next) = self.place { next } else { 0 };
                let removed = after(&step.removed, at).map(|(at, next)| Place::Removed(at, next));
                Some(removed.unwrap_or(Place::Later))
            }
            Place::Later | Place::Added(..) => {
                let at = if let Place::Added(_, next) = self.place { next } else { 0 };
                after(&step.added, at).map(|(at, next)| Place::Added(at, next))
            }
        });
        if let Some(place) = next {
            self.place = place;
            return Advance::Record;
        }
        (self.current, self.place) = (self.steps.next(), Place::Older);
        if self.current.is_some() { Advance::Record } else { Advance::End }
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        let step = self.current.as_ref()?;
        match self.place {
            Place::Older => Some(step.from.record().into()),
            Place::Later => Some(step.to.record().into()),
            Place::Removed(at, _) => step.removed.read(at).map(|(record, _)| record),
            Place::Added(at, _) => step.added.read(at).map(|(record, _)| record),
        }
    }
}
