//! The zones of a server at one moment, as plain data: its JSON is what `/debug/zones.json` gives. A page of
//! them is bounded, however many zones there are.

mod page;

pub use page::{policy, render};

use serde::{Deserialize, Serialize};

/// What there is to see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format.
    pub format: u32,
    /// When, in seconds since 1970.
    pub unix_s: i64,
    /// The host's name.
    pub host: String,
    /// Octets of memory that data of zones take, about.
    pub held: u64,
    /// Octets that they may take.
    pub held_max: u64,
    /// Sums by directive.
    pub sums: Vec<Sum>,
    /// Catalogs, by name.
    pub catalogs: Vec<Catalog>,
    /// What was searched for.
    pub search: Search,
    /// How many zones fit.
    pub matched: usize,
    /// The first of those that fit behind [`Search::after`], by name.
    pub zones: Vec<Zone>,
    /// The query of the first page, if this is another one.
    #[serde(default)]
    pub first: Option<String>,
    /// The query of the next page, if there is one.
    pub next: Option<String>,
}

/// Which zones are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// Text that the name contains.
    pub name: String,
    /// Only zones that are not served or whose last attempt failed.
    pub failed: bool,
    /// Only zones behind this name.
    pub after: String,
}

/// The zones of one directive, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The directive.
    pub source: String,
    /// How many.
    pub zones: u64,
    /// How many of them are not served: nothing is here of them, or they have expired.
    pub empty: u64,
    /// How many of them failed at the last attempt to get another version.
    pub failed: u64,
    /// Records of all of them.
    pub records: u64,
    /// Octets of memory.
    pub octets: u64,
    /// Octets of differences that are kept for secondaries.
    pub journal: u64,
}

/// A catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// Its name.
    pub name: String,
    /// The version that is here.
    pub serial: Option<u32>,
    /// Zones that are served for it.
    pub members: u64,
    /// Members that are not, because they lie outside of the zones that are accepted.
    pub outside: u64,
    /// Members that are not, because another zone has the name.
    pub clashing: u64,
    /// Members that are not, because there is no memory for them.
    #[serde(default)]
    pub without_room: u64,
    /// Why the last attempt to get another version failed, if it did.
    pub failure: Option<String>,
}

/// A zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// The directive that has it.
    pub source: String,
    /// The path of its file, or its primaries.
    pub from: String,
    /// The catalog that it is a member of.
    pub catalog: Option<String>,
    /// The serial number of what is served; nothing if the zone is not served.
    pub serial: Option<u32>,
    /// Records that are served.
    pub records: u64,
    /// Octets of memory.
    pub octets: u64,
    /// Seconds since its file was changed, or since a primary was last reached.
    pub age_s: Option<i64>,
    /// Seconds until a primary is asked again.
    pub refresh_s: Option<i64>,
    /// Seconds until it expires without a primary.
    pub expires_s: Option<i64>,
    /// Why the last attempt to get another version failed, if it did.
    pub failure: Option<String>,
}
