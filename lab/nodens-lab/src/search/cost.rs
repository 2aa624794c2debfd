//! What the lookups of some names cost one resolver.

use anyhow::{Result, bail};
use lab_workload::search::{Course, Existing, Found, Libc, Measure, Resolver};
use nodens_wire::Name;
use std::str::FromStr;

/// Types of addresses that are asked for at each name.
pub(super) const TYPES: u64 = 2;

/// A time that the answers for names in a zone take.
#[derive(Clone, Debug)]
pub(crate) struct ZoneTime {
    zone: Name,
    nanos: u64,
}

impl FromStr for ZoneTime {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (zone, time) = text.split_once('=').unwrap_or((".", text));
        let Ok(zone) = Name::parse(zone) else {
            bail!("`{zone}` is not a domain name, expected ZONE=TIME such as cluster.local=150us");
        };
        Ok(Self { zone, nanos: lab_units::nanos(time)? })
    }
}

/// The time of a name: that of the longest zone it is in.
fn time_of(times: &[ZoneTime], name: &Name) -> Option<u64> {
    let within = times.iter().filter(|time| name.view().is_in_domain(time.zone.view()));
    within.max_by_key(|time| time.zone.as_wire().len()).map(|time| time.nanos)
}

/// What a server says to a name that is asked for on behalf of `text`.
pub(super) fn find(existing: Option<&Existing>, text: &str, name: &Name) -> Found {
    match existing {
        Some(existing) => existing.find(name),
        None if Name::parse(text).is_ok_and(|absolute| absolute == *name) => Found::Addresses,
        None => Found::NoName,
    }
}

/// What lookups cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) queries: u64,
    pub(super) denied: u64,
    /// Lookups that find an address.
    pub(super) found: u64,
    /// Queries that reach the servers beyond a cache on the node.
    pub(super) to_servers: u64,
    /// Nanoseconds, at least and at most; `None` if a name's time is not known.
    pub(super) wait: Option<(u64, u64)>,
}

impl Cost {
    fn of(course: &Course, times: &[ZoneTime]) -> Self {
        let mut names = course.asked.iter().chain(&course.by_server);
        let known = !times.is_empty() && names.all(|name| time_of(times, name).is_some());
        let wait = || course.wait(|name| time_of(times, name).unwrap_or(0));
        let queries = course.asked.len() as u64 * TYPES;
        let denied = course.denied as u64 * TYPES;
        let found = u64::from(course.denied < course.asked.len());
        Self { queries, denied, found, to_servers: queries, wait: known.then(wait) }
    }

    fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.denied += other.denied;
        self.found += other.found;
        self.to_servers += other.to_servers;
        let sum = |(a, b): (u64, u64), (c, d)| (a.saturating_add(c), b.saturating_add(d));
        self.wait = self.wait.zip(other.wait).map(|(a, b)| sum(a, b));
    }
}

/// A row of the table: what is changed, and what the lookups cost then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) title: String,
    pub(super) cost: Cost,
}

/// What is looked up, and what is known about the names.
pub(super) struct Lookups<'a> {
    pub(super) texts: &'a [String],
    pub(super) search: &'a [String],
    /// The list as musl takes it.
    pub(super) musl_search: &'a [String],
    pub(super) ndots: usize,
    pub(super) existing: Option<&'a Existing>,
    pub(super) times: &'a [ZoneTime],
    pub(super) cached_time: Option<u64>,
}

impl Lookups<'_> {
    pub(super) fn resolver(&self, libc: Libc) -> Resolver {
        let search = if libc == Libc::Musl { self.musl_search } else { self.search };
        Resolver { libc, search: search.to_vec(), ndots: self.ndots }
    }

    /// What one lookup sends.
    pub(super) fn course(&self, libc: Libc, measure: Measure, text: &str) -> Course {
        let found = |name: &Name| find(self.existing, text, name);
        self.resolver(libc).with(measure, text, found)
    }

    /// The cost of one lookup of each name.
    fn cost(&self, libc: Libc, measure: Measure) -> Cost {
        let fresh = Cost { wait: Some((0, 0)), ..Cost::default() };
        self.texts.iter().fold(fresh, |mut all, text| {
            all.add(Cost::of(&self.course(libc, measure, text), self.times));
            all
        })
    }

    /// The rows of the table, that of nothing changed first.
    pub(super) fn rows(&self, libc: Libc) -> Vec<Row> {
        let row = |measure| Row { title: super::title(measure), cost: self.cost(libc, measure) };
        let as_it_is = row(Measure::AsItIs);
        let cost = as_it_is.cost;
        let ndots = super::NDOTS.into_iter().filter(|ndots| *ndots != self.ndots);
        let mut rows =
            vec![Row { title: format!("{}, ndots:{}", as_it_is.title, self.ndots), cost }];
        rows.extend(ndots.map(|ndots| row(Measure::Ndots(ndots))));
        rows.extend([row(Measure::TrailingDot), row(Measure::Autopath)]);
        // What the node's cache has, it has for as long as it keeps it.
        rows.push(Row { title: "cache on the node, first time".to_owned(), cost });
        let waits = self.cached_time.map(|time| (cost.queries / TYPES).saturating_mul(time));
        let cost = Cost { to_servers: 0, wait: waits.map(|wait| (wait, wait)), ..cost };
        rows.push(Row { title: "cache on the node, after that".to_owned(), cost });
        rows
    }
}
