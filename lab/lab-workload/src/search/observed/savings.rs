//! What the lookups of a recording would cost with other settings.

use super::chains::Chained;
use super::{Names, Options, text};
use crate::search::{Found, Libc, Measure, Resolver};
use nodens_wire::Name;
use std::collections::HashMap;

/// An `ndots` with which every name is searched first.
const SEARCH_FIRST: usize = 15;

/// What lookups cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Queries of clients.
    pub queries: u64,
    /// Of these, those for names that are denied.
    pub denied: u64,
    /// Lookups that find an address.
    pub found: u64,
    /// Nanoseconds that the lookups wait, one name after the other: at least, and at most. The time of a
    /// name that was not asked for in the recording is the mean of all.
    pub wait: (u64, u64),
}

/// A measure and what all lookups would cost with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// The measure; [`Measure::AsItIs`] is what the model says to the lookups as they were.
    pub measure: Measure,
    /// The cost.
    pub cost: Cost,
}

/// What is known of names.
struct Known<'a> {
    found: &'a HashMap<&'a Name, Found>,
    /// Mean time of each name's answers.
    waits: HashMap<&'a Name, u64>,
    /// The same of all names.
    mean: u64,
}

impl Known<'_> {
    /// Names that were not asked for are taken not to exist.
    fn find(&self, name: &Name) -> Found {
        self.found.get(name).copied().unwrap_or(Found::NoName)
    }

    fn wait(&self, name: &Name) -> u64 {
        self.waits.get(name).copied().unwrap_or(self.mean)
    }
}

pub(super) fn work_out(
    chained: &Chained,
    search: &[Vec<Name>],
    found: &HashMap<&Name, Found>,
    names: &Names,
    options: &Options,
) -> Vec<Saving> {
    let (sum, count) = chained.waits.values().fold((0, 0), |(s, c), (sum, n)| (s + sum, c + n));
    let mean = sum / count.max(1);
    let waits = chained.waits.iter();
    let waits = waits.map(|(name, (sum, count))| (names.get(*name), sum / (*count).max(1)));
    let known = Known { found, waits: waits.collect(), mean };
    let measures = [Measure::AsItIs, Measure::TrailingDot]
        .into_iter()
        .chain(options.ndots.iter().map(|ndots| Measure::Ndots(*ndots)))
        .chain([Measure::Autopath]);
    measures
        .map(|measure| Saving {
            measure,
            cost: cost(measure, chained, search, &known, names, options.libc),
        })
        .collect()
}

fn cost(
    measure: Measure,
    chained: &Chained,
    search: &[Vec<Name>],
    known: &Known<'_>,
    names: &Names,
    libc: Libc,
) -> Cost {
    let mut all = Cost::default();
    for (key, group) in &chained.groups {
        let list = search.get(key.client as usize).map_or(&[][..], Vec::as_slice);
        let resolver = Resolver {
            libc,
            search: list.iter().map(text).collect(),
            ndots: if key.is_listed_first { SEARCH_FIRST } else { 0 },
        };
        let stem = names.get(key.stem);
        // A complete name that was not searched is one whatever the settings are.
        let is_whole = !key.is_listed_first && !group.walked;
        let written = if is_whole { stem.to_string() } else { text(stem) };
        let mut course = resolver.with(measure, &written, |name| known.find(name));
        if course.asked.is_empty() {
            // No resolver would look it up, but this client did.
            course.asked.push(stem.clone());
            course.denied = usize::from(known.find(stem) != Found::Addresses);
        }
        all.queries += course.asked.len() as u64 * key.types * group.lookups;
        all.denied += course.denied as u64 * key.types * group.lookups;
        let is_found = course.denied < course.asked.len();
        all.found += if is_found { group.lookups } else { 0 };
        let (least, most) = course.wait(|name| known.wait(name));
        all.wait.0 += least * group.lookups;
        all.wait.1 += most * group.lookups;
    }
    all
}
