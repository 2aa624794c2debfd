//! What was done to the zones beside copying what was recorded.

use nodens_wire::Name;
use schemars::JsonSchema;
use serde::Serialize;

/// Something that was done to a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Note {
    /// The zone.
    pub zone: String,
    /// What was done, and why.
    pub what: String,
}

/// An RRset that was different at different times, or at different servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Conflict {
    /// The zone.
    pub zone: String,
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// So many versions were recorded.
    pub versions: usize,
    /// Responses with the version that was taken.
    pub taken: u64,
    /// Responses with any version.
    pub responses: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Notes {
    /// What no response had, and was added so that a resolver can find its way.
    pub filled: Vec<Note>,
    /// What was recorded, and is not in the zones.
    pub dropped: Vec<Note>,
    /// What was recorded in several versions.
    pub conflicts: Vec<Conflict>,
    /// What was recorded and denied.
    pub contradictions: Vec<Note>,
    /// Wildcards that signatures show, with the names that came from them.
    pub wildcards: Vec<Note>,
}

impl Notes {
    pub(crate) fn fill(&mut self, zone: &Name, what: String) {
        self.filled.push(Note { zone: zone.to_string(), what });
    }

    pub(crate) fn drop(&mut self, zone: &Name, what: String) {
        self.dropped.push(Note { zone: zone.to_string(), what });
    }

    pub(crate) fn contradict(&mut self, zone: &Name, what: String) {
        self.contradictions.push(Note { zone: zone.to_string(), what });
    }

    pub(crate) fn sort(&mut self) {
        for notes in
            [&mut self.filled, &mut self.dropped, &mut self.contradictions, &mut self.wildcards]
        {
            notes.sort();
            notes.dedup();
        }
        self.conflicts.sort();
    }
}
