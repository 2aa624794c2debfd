//! Which search list a client has, from what it asked for.
//!
//! A name that is asked for after one that was denied, and that is the same without its end, shows one
//! domain of the list: `www.example.org.svc.cluster.local`, then `www.example.org`. One of which a
//! part in the middle is missing shows two: `db.shop.default.svc.cluster.local`, then
//! `db.shop.svc.cluster.local`. The name that is searched is known then, and so is every further domain.
//! The order in which domains are asked for is the order of the list.

use super::{Event, Names, Says, WINDOW};
use crate::search::Found;
use nodens_wire::Name;
use std::collections::{HashMap, VecDeque};

/// Names of a client that a new one is compared with.
const RECENT_MAX: usize = 32;
/// Domains of a client's list.
const DOMAINS_MAX: usize = 32;

/// A name that a client asked for.
struct Recent {
    name: u32,
    time: u64,
    /// Whether it is known to be denied, or to have addresses.
    denied: bool,
    found: bool,
}

/// What speaks for a domain.
struct Vote {
    /// The first name that was searched there, and whether there was another one.
    stem: u32,
    has_others: bool,
    /// Whether a denial was seen before the next name.
    was_denied: bool,
}

#[derive(Default)]
struct Evidence {
    recent: VecDeque<Recent>,
    /// Names that a search is under way for, as two of its queries show, and when that was.
    searched: VecDeque<(u32, u64)>,
    votes: HashMap<u32, Vote>,
    /// How often the first domain was asked for before the second.
    before: HashMap<(u32, u32), u64>,
    /// Domains in the order in which they were seen.
    order: Vec<u32>,
}

/// The lists of all clients, by number; empty where nothing shows one.
pub(super) fn infer(events: &[Event], names: &mut Names, clients: usize) -> Vec<Vec<Name>> {
    let mut all: Vec<Evidence> = (0..clients).map(|_| Evidence::default()).collect();
    for event in events {
        let Some(evidence) = all.get_mut(event.client as usize) else { continue };
        match event.says {
            None => evidence.asked(event, names),
            Some(says) => evidence.answered(event.name, says),
        }
    }
    all.iter().map(|evidence| evidence.list(names)).collect()
}

impl Evidence {
    fn answered(&mut self, name: u32, says: Says) {
        if let Some(recent) = self.recent.iter_mut().find(|recent| recent.name == name) {
            match says {
                Says::Found(Found::Addresses, _) => recent.found = true,
                Says::Found(..) | Says::Failed => recent.denied = true,
                Says::Truncated => {}
            }
        }
    }

    fn asked(&mut self, event: &Event, names: &mut Names) {
        self.recent.retain(|recent| recent.time + WINDOW >= event.time);
        self.searched.retain(|(_, time)| time + WINDOW >= event.time);
        while self.searched.len() > RECENT_MAX {
            self.searched.pop_front();
        }
        if let Some(known) = self.recent.iter_mut().find(|recent| recent.name == event.name) {
            known.time = event.time;
            return;
        }
        let mut shown = Vec::new();
        for recent in self.recent.iter().filter(|recent| !recent.found) {
            let relation = relation(names.get(recent.name), names.get(event.name));
            if let Some((stem, domains)) = relation
                && !self.is_over(&stem, names)
            {
                shown.push((stem, domains, recent.denied));
            }
        }
        if shown.is_empty() {
            shown.extend(self.further(event.name, names));
        }
        let mut stems = Vec::new();
        for (stem, domains, denied) in shown {
            let number = names.number(stem);
            for domain in domains {
                self.vote(names.number(domain), number, denied);
            }
            if !stems.contains(&number) {
                stems.push(number);
            }
        }
        for stem in stems {
            self.searched.push_back((stem, event.time));
            self.note_order(names.get(stem), event.name, names);
        }
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        let recent = Recent { name: event.name, time: event.time, denied: false, found: false };
        self.recent.push_back(recent);
    }

    /// Whether the search for `stem` has come to its end before: to the name itself, behind the list.
    fn is_over(&self, stem: &Name, names: &Names) -> bool {
        let name = |recent: &Recent| names.get(recent.name);
        let end = self.recent.iter().position(|recent| name(recent) == stem);
        end.is_some_and(|end| {
            let mut before = self.recent.iter().take(end);
            before.any(|recent| remainder(name(recent), stem).is_some())
        })
    }

    /// One more domain of a search that is under way, if the last one was denied.
    fn further(&self, asked: u32, names: &Names) -> Option<(Name, Vec<Name>, bool)> {
        let asked = names.get(asked);
        let mut searched = self.searched.iter().rev().map(|(stem, _)| names.get(*stem));
        searched.find_map(|stem| {
            let domain = remainder(asked, stem).filter(|_| !self.is_over(stem, names))?;
            let mut before = self.recent.iter().rev();
            let last = before.find(|recent| remainder(names.get(recent.name), stem).is_some())?;
            last.denied.then(|| (stem.clone(), vec![domain], true))
        })
    }

    /// Notes in which order domains were tried for one name, up to the query for `last`.
    fn note_order(&mut self, stem: &Name, last: u32, names: &Names) {
        let asked = self.recent.iter().filter(|recent| !recent.found).map(|recent| recent.name);
        let domains = asked.chain([last]).filter_map(|asked| {
            let domain = remainder(names.get(asked), stem)?;
            names.numbers.get(&domain).copied().filter(|domain| self.votes.contains_key(domain))
        });
        let domains: Vec<u32> = domains.collect();
        for (at, first) in domains.iter().enumerate() {
            for second in domains.iter().skip(at + 1).filter(|second| *second != first) {
                *self.before.entry((*first, *second)).or_default() += 1;
            }
        }
    }

    fn vote(&mut self, domain: u32, stem: u32, denied: bool) {
        if self.votes.len() >= DOMAINS_MAX && !self.votes.contains_key(&domain) {
            return;
        }
        let order = &mut self.order;
        let vote = self.votes.entry(domain).or_insert_with(|| {
            order.push(domain);
            Vote { stem, has_others: false, was_denied: false }
        });
        vote.has_others |= vote.stem != stem;
        vote.was_denied |= denied;
    }

    fn list(&self, names: &Names) -> Vec<Name> {
        let counts = |domain: &&u32| {
            self.votes.get(domain).is_some_and(|vote| vote.has_others || vote.was_denied)
        };
        let mut domains: Vec<u32> = self.order.iter().filter(counts).copied().collect();
        let order: HashMap<u32, usize> =
            domains.iter().enumerate().map(|(at, domain)| (*domain, at)).collect();
        let times = |a: u32, b: u32| self.before.get(&(a, b)).copied().unwrap_or(0);
        let behind = |domain: u32| {
            domains.iter().filter(|other| times(**other, domain) > times(domain, **other)).count()
        };
        let places: HashMap<u32, (usize, usize)> = domains
            .iter()
            .map(|domain| (*domain, (behind(*domain), order.get(domain).copied().unwrap_or(0))))
            .collect();
        domains.sort_by_key(|domain| places.get(domain).copied().unwrap_or_default());
        domains.iter().map(|domain| names.get(*domain).clone()).collect()
    }
}

/// The name that was searched and the domains that were tried for it, if `later` may follow `earlier` in
/// one search.
fn relation(earlier: &Name, later: &Name) -> Option<(Name, Vec<Name>)> {
    let (a, b): (Vec<_>, Vec<_>) = (labels(earlier), labels(later));
    let same = a.iter().zip(&b).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    if same == 0 || same == a.len().max(b.len()) {
        return None;
    }
    let stem = || name(a.get(..same)?);
    let tail = |labels: &[&[u8]]| name(labels.get(same..)?);
    if same == b.len() {
        return Some((stem()?, vec![tail(&a)?]));
    }
    if same == a.len() {
        return Some((stem()?, vec![tail(&b)?]));
    }
    let rest = b.len() - same;
    let is_tail = a.len() > same + rest
        && a.iter().rev().zip(b.iter().rev()).take(rest).all(|(a, b)| a.eq_ignore_ascii_case(b));
    if is_tail { Some((stem()?, vec![tail(&a)?, tail(&b)?])) } else { None }
}

/// What follows the labels of `stem` at the start of `whole`; `None` if nothing does.
pub(super) fn remainder(whole: &Name, stem: &Name) -> Option<Name> {
    let (mut rest, mut labels) = (whole.view(), stem.view().labels());
    labels.try_for_each(|label| {
        let first = rest.labels().next().filter(|first| first.eq_ignore_ascii_case(label));
        rest = rest.parent().filter(|_| first.is_some())?;
        Some(())
    })?;
    (!rest.is_root()).then(|| rest.to_name())
}

fn labels(name: &Name) -> Vec<&[u8]> {
    name.view().labels().collect()
}

/// The name of these labels.
fn name(labels: &[&[u8]]) -> Option<Name> {
    let mut wire = Vec::new();
    for label in labels {
        wire.push(u8::try_from(label.len()).ok()?);
        wire.extend_from_slice(label);
    }
    wire.push(0);
    Name::from_wire(&wire).ok()
}
