//! What is asked in vain, put down to the name that a program looked for.

use crate::domains::{Domains, Sort, labels};
use crate::ledger::{Ledger, Sums};
use crate::limits::{DOMAINS_SHOWN, LEAKS_SHOWN, SOURCES_SHOWN, STORM_NAMES};
use crate::report::{Leak, LeakKind, Source};
use nodens_core::seeing::Trouble;
use nodens_wire::{NameRef, Rcode};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// What a query to an upstream costs more than one that is answered here.
const UPSTREAM_COST: f64 = 4.0;
/// A search that ends at a name is worth something to somebody.
const SEARCH_COST: f64 = 0.5;
/// Names of a storm are looked for less often than this each.
const STORM_LOOKUPS: f64 = 3.0;

/// A name that somebody was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'l> {
    trouble: Trouble<'l>,
    sums: &'l Sums,
}

/// Rows that are put down to one name.
#[derive(Debug, Default)]
struct Group<'l> {
    rcode: Rcode,
    sums: Sums,
    lookups: f64,
    /// The domains the name was looked for in; the empty one is the name itself.
    domains: BTreeMap<(Sort, &'l [u8]), f64>,
    sources: HashMap<IpAddr, f64>,
}

/// Every name that was refused.
pub(crate) fn rows(ledger: &Ledger) -> Vec<Row<'_>> {
    let row = |(key, sums)| Some(Row { trouble: Trouble::of(key)?, sums });
    ledger.troubles.iter().filter_map(row).collect()
}

impl Row<'_> {
    /// QNAME, folded, in wire form.
    pub(crate) fn qname(&self) -> &[u8] {
        self.trouble.qname
    }

    /// Lookups that make these queries: each asks at most once for a type.
    fn lookups(&self) -> f64 {
        let Sums { questions, a, aaaa, .. } = *self.sums;
        a.max(aaaa).max(questions - a - aaaa)
    }
}

/// The leaks that `rows` are, most costly first.
pub(crate) fn leaks(rows: &[Row<'_>], domains: &Domains, ledger: &Ledger) -> Vec<Leak> {
    let mut by_client: HashMap<IpAddr, Vec<Row<'_>>> = HashMap::new();
    let mut groups: HashMap<(u16, &[u8]), Group<'_>> = HashMap::new();
    for row in rows {
        if row.trouble.rcode == Rcode::NXDOMAIN {
            by_client.entry(row.trouble.client).or_default().push(*row);
        } else {
            let base = bare(row.trouble.qname);
            let group = groups.entry((row.trouble.rcode.0, base)).or_default();
            group.add(row, base.len());
        }
    }
    for rows in by_client.values() {
        let walks = Walks::new(rows, domains);
        let mut lookups: HashMap<&[u8], f64> = HashMap::new();
        for row in rows {
            let (base, sort) = walks.base_of(row.trouble.qname);
            let group = groups.entry((Rcode::NXDOMAIN.0, base)).or_default();
            group.add_as(row, base.len(), sort);
            let most = lookups.entry(base).or_default();
            *most = most.max(row.lookups());
        }
        for (base, lookups) in lookups {
            groups.entry((Rcode::NXDOMAIN.0, base)).or_default().lookups += lookups;
        }
    }
    let mut leaks = storms(&mut groups, ledger);
    leaks.extend(groups.iter().map(|((_, base), group)| group.leak(base, ledger)));
    leaks.sort_by(|a, b| b.cost.total_cmp(&a.cost).then_with(|| a.name.cmp(&b.name)));
    leaks.truncate(LEAKS_SHOWN);
    leaks
}

/// A name in wire form without its root label.
fn bare(qname: &[u8]) -> &[u8] {
    qname.get(..qname.len().saturating_sub(1)).unwrap_or_default()
}

/// How one client walks its search list.
struct Walks<'l, 'd> {
    domains: &'d Domains,
    /// For each name that may have been looked for, the sorts of domains it was looked for in.
    seen: HashMap<&'l [u8], u8>,
}

impl<'l, 'd> Walks<'l, 'd> {
    fn new(rows: &[Row<'l>], domains: &'d Domains) -> Self {
        let mut walks = Self { domains, seen: HashMap::new() };
        let mut others = Vec::new();
        for qname in rows.iter().map(|row| row.trouble.qname) {
            let ends = domains.ends(qname);
            if ends.is_empty() {
                others.push(qname);
            }
            for (at, sort) in ends {
                *walks.seen.entry(qname.get(..at).unwrap_or_default()).or_default() |= sort.bit();
            }
        }
        // What follows a name that is looked for in the cluster is a domain too, known or not.
        for qname in others {
            for (base, sort) in walks.prefixes(qname) {
                if let Some(seen) = walks.seen.get_mut(base) {
                    *seen |= sort.bit();
                }
            }
        }
        walks
    }

    /// Every name that `qname` may have been made of.
    fn prefixes(&self, qname: &'l [u8]) -> Vec<(&'l [u8], Sort)> {
        let whole = bare(qname);
        let prefix = |label: std::ops::Range<usize>| {
            let base = qname.get(..label.end)?;
            Some((base, if base.len() == whole.len() { Sort::Bare } else { Sort::Other }))
        };
        labels(qname).filter_map(prefix).collect()
    }

    /// What the client looked for when it asked for `qname`: the name that was looked for in
    /// several sorts of domains, or else `qname` itself.
    fn base_of(&self, qname: &'l [u8]) -> (&'l [u8], Sort) {
        let known = self.domains.ends(qname);
        let candidates: Vec<_> = match known.is_empty() {
            true => self.prefixes(qname),
            false => {
                known.into_iter().filter_map(|(at, sort)| Some((qname.get(..at)?, sort))).collect()
            }
        };
        let sorts = |base: &[u8]| self.seen.get(base).map_or(0, |seen| seen.count_ones());
        let best = candidates
            .into_iter()
            .filter(|(base, _)| sorts(base) >= 2)
            .max_by_key(|(base, _)| (sorts(base), base.len()));
        best.unwrap_or((bare(qname), Sort::Bare))
    }
}

impl<'l> Group<'l> {
    fn add(&mut self, row: &Row<'l>, base_len: usize) {
        self.add_as(row, base_len, Sort::Bare);
        self.lookups += row.lookups();
    }

    fn add_as(&mut self, row: &Row<'l>, base_len: usize, sort: Sort) {
        self.rcode = row.trouble.rcode;
        self.sums.merge(row.sums);
        let domain = match sort {
            Sort::Bare => &[],
            _ => row.trouble.qname.get(base_len..).unwrap_or_default(),
        };
        *self.domains.entry((sort, domain)).or_default() += row.sums.questions;
        *self.sources.entry(row.trouble.client).or_default() += row.sums.questions;
    }

    fn kind(&self) -> LeakKind {
        let bare = self.domains.keys().any(|(sort, _)| *sort == Sort::Bare);
        match self.rcode {
            Rcode::NXDOMAIN if bare => LeakKind::Name,
            Rcode::NXDOMAIN => LeakKind::Search,
            _ => LeakKind::Failure,
        }
    }

    fn leak(&self, base: &[u8], ledger: &Ledger) -> Leak {
        let kind = self.kind();
        let name = text(&[base, &[0]].concat());
        self.describe(kind, name, self.sums.questions, ledger)
    }

    fn describe(&self, kind: LeakKind, name: String, questions: f64, ledger: &Ledger) -> Leak {
        let rate = ledger.rate(questions);
        let upstream = rate * (self.sums.waited / self.sums.questions.max(1e-9)).min(1.0);
        let lookups = ledger.rate(self.lookups);
        let mut sources: Vec<_> = self.sources.iter().collect();
        sources.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let source = |(address, sum): &(&IpAddr, &f64)| Source {
            address: **address,
            place: None,
            rate: ledger.rate(**sum),
        };
        let domains = self.domains.keys().filter(|(sort, _)| *sort != Sort::Bare);
        let mut seen = HashSet::new();
        let domains = domains.map(|(_, domain)| text(domain)).filter(|d| seen.insert(d.clone()));
        let mut leak = Leak {
            kind,
            name,
            rcode: self.rcode.to_string(),
            rate,
            upstream,
            lookups,
            amplification: rate / lookups.max(1e-9),
            cost: (rate + UPSTREAM_COST * upstream)
                * if kind == LeakKind::Search { SEARCH_COST } else { 1.0 },
            domains: domains.take(DOMAINS_SHOWN).collect(),
            bare: self.domains.keys().any(|(sort, _)| *sort == Sort::Bare),
            sources: sources.iter().take(SOURCES_SHOWN).map(source).collect(),
            source_count: sources.len(),
            command: String::new(),
        };
        leak.command = command(&leak).unwrap_or_default();
        leak
    }

    fn merge(&mut self, other: Group<'l>) {
        self.rcode = other.rcode;
        self.sums.merge(&other.sums);
        self.lookups += other.lookups;
        for (domain, sum) in other.domains {
            *self.domains.entry(domain).or_default() += sum;
        }
        for (client, sum) in other.sources {
            *self.sources.entry(client).or_default() += sum;
        }
    }
}

/// Takes out of `groups` the names below one that are ever new.
fn storms<'l>(groups: &mut HashMap<(u16, &'l [u8]), Group<'l>>, ledger: &Ledger) -> Vec<Leak> {
    let mut below: HashMap<&[u8], Vec<&'l [u8]>> = HashMap::new();
    for (rcode, base) in groups.keys() {
        if *rcode == Rcode::NXDOMAIN.0
            && let Some(first) = labels(base).next()
        {
            below.entry(base.get(first.end..).unwrap_or_default()).or_default().push(base);
        }
    }
    let mut storms = Vec::new();
    for (parent, bases) in below {
        let is_rare = |base: &&[u8]| {
            let group = groups.get(&(Rcode::NXDOMAIN.0, *base));
            group.is_some_and(|group| group.lookups < STORM_LOOKUPS)
        };
        let rare: Vec<_> = bases.into_iter().filter(is_rare).collect();
        if rare.len() < STORM_NAMES {
            continue;
        }
        let mut storm = Group::default();
        for base in rare {
            if let Some(group) = groups.remove(&(Rcode::NXDOMAIN.0, base)) {
                storm.merge(group);
            }
        }
        let below = text(&[parent, &[0]].concat());
        let name = if parent.is_empty() { "*.".to_owned() } else { format!("*.{below}") };
        // The names that left again before they could be counted belong to it as well.
        let all = storm.sums.weight.max(storm.sums.questions);
        storm.lookups *= all / storm.sums.questions.max(1e-9);
        storms.push(storm.describe(LeakKind::Storm, name, all, ledger));
    }
    storms
}

/// The command that stops a leak, if one does: it must be safe to paste, and names come from
/// anybody.
fn command(leak: &Leak) -> Option<String> {
    let plain = |text: &str| {
        let octets = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        // A hyphen in front would make it a flag.
        octets && text.len() > 1 && !text.starts_with('-')
    };
    let bare = leak.name.strip_prefix("*.").unwrap_or(&leak.name);
    if leak.kind == LeakKind::Failure || !plain(bare) || !leak.domains.iter().all(|d| plain(d)) {
        return None;
    }
    let name = match leak.name.starts_with('*') {
        true => format!("'*.{}'", bare.trim_end_matches('.')),
        false => bare.trim_end_matches('.').to_owned(),
    };
    let mut command = format!("nodens blackhole {name}");
    if !leak.domains.is_empty() {
        let only = if leak.bare { "" } else { "-only" };
        let domains: Vec<_> = leak.domains.iter().map(|d| d.trim_end_matches('.')).collect();
        command.push_str(&format!(" -search{only} {}", domains.join(",")));
    }
    Some(command)
}

/// A name in wire form as text; what is no name is empty.
pub(crate) fn text(wire: &[u8]) -> String {
    NameRef::new(wire).map(|name| name.to_string()).unwrap_or_default()
}
