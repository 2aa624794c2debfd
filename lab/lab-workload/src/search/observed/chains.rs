//! Which queries belong to one lookup.

use super::lists::remainder;
use super::{Event, Names, Says, WINDOW};
use crate::search::Found;
use nodens_wire::Name;
use std::collections::{BTreeMap, HashMap};

const SECOND: u64 = 1_000_000_000;
/// Lookups of one client that are followed at the same time; more end the oldest.
const OPEN_MAX: usize = 256;
/// A query for the other type of address belongs to the same lookup if it is sent within this time.
const PAIR: u64 = SECOND;

/// What lookups are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) client: u32,
    /// The name that was looked up.
    pub(super) stem: u32,
    pub(super) is_listed_first: bool,
    /// Types of addresses that each name was asked for.
    pub(super) types: u64,
}

/// The lookups with one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) lookups: u64,
    pub(super) names: u64,
    pub(super) queries: u64,
    pub(super) denied: u64,
    pub(super) found: Option<u32>,
    /// Whether one of them asked for more than one name.
    pub(super) walked: bool,
}

/// Everything about the lookups of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Chained {
    pub(super) groups: BTreeMap<Key, Group>,
    pub(super) queries: u64,
    pub(super) repeated: u64,
    pub(super) answered: u64,
    /// Queries that a cache would have answered.
    pub(super) cached: u64,
    /// Time of whole lookups that found something, and how many they are.
    pub(super) time: (u64, u64),
    /// Time that clients waited for each name's answers, and how often.
    pub(super) waits: HashMap<u32, (u64, u64)>,
}

/// One query of a pair for A and AAAA.
#[derive(Clone, Copy, Debug)]
struct Asked {
    answer: Option<Found>,
    /// The server failed; most resolvers continue as if there were no such name.
    failed: bool,
}

/// A lookup under way.
#[derive(Clone, Debug)]
struct Chain {
    number: u64,
    stem: u32,
    is_listed_first: bool,
    /// The place of the last name among those that it may ask for.
    place: usize,
    name: u32,
    asked: [Option<Asked>; 2],
    began: u64,
    name_began: u64,
    last: u64,
    last_answer: u64,
    types: u64,
    names: u64,
    queries: u64,
    denied: u64,
}

/// What identifies a query for its response: client, port, ID, name, type.
type Sent = (u32, u16, u16, u32, bool);

pub(super) struct Chains<'a> {
    names: &'a mut Names,
    search: &'a [Vec<Name>],
    cache_ttl: (u64, u64),
    /// By client.
    open: HashMap<u32, Vec<Chain>>,
    /// Queries without a response yet, and the lookup that each belongs to.
    pending: HashMap<Sent, u64>,
    /// Until when a cache has a name and type.
    kept: HashMap<(u32, bool), u64>,
    next: u64,
    chained: Chained,
}

impl<'a> Chains<'a> {
    pub(super) fn new(
        names: &'a mut Names,
        search: &'a [Vec<Name>],
        cache_ttl: (u64, u64),
    ) -> Self {
        let (open, pending, kept) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { names, search, cache_ttl, open, pending, kept, next: 0, chained: Chained::default() }
    }

    pub(super) fn push(&mut self, event: &Event) {
        let sent = (event.client, event.port, event.id, event.name, event.is_aaaa);
        match event.says {
            Some(says) => {
                if let Some(number) = self.pending.remove(&sent) {
                    self.chained.answered += 1;
                    self.answered(event, says, number);
                }
            }
            None if self.pending.contains_key(&sent) => self.chained.repeated += 1,
            None => {
                self.chained.queries += 1;
                let until = self.kept.get(&(event.name, event.is_aaaa));
                self.chained.cached += u64::from(until.is_some_and(|until| *until > event.time));
                let number = self.asked(event);
                self.pending.insert(sent, number);
            }
        }
    }

    /// Finds the lookup that a query belongs to, or begins one; its number.
    fn asked(&mut self, event: &Event) -> u64 {
        let mut open = self.open.remove(&event.client).unwrap_or_default();
        let (ended, mut left): (Vec<Chain>, Vec<Chain>) =
            open.drain(..).partition(|chain| chain.last + WINDOW < event.time);
        ended.into_iter().for_each(|chain| self.end(event.client, chain));
        let type_at = usize::from(event.is_aaaa);
        let beside = left.iter_mut().find(|chain| {
            // Resolvers ask once more after a failure.
            let may_ask = |asked: &Option<Asked>| asked.is_none_or(|asked| asked.failed);
            let may_ask = chain.asked.get(type_at).is_some_and(may_ask);
            chain.name == event.name && may_ask && chain.last + PAIR >= event.time
        });
        if let Some(chain) = beside {
            chain.add(event);
            let number = chain.number;
            self.open.insert(event.client, left);
            return number;
        }
        // One whose last name is known to be denied is likelier than one that has no answer yet.
        let follows = |denied: bool| {
            let fits = |chain: &Chain| chain.found().is_some() == denied && chain.may_continue();
            let mut open = left.iter().enumerate().filter(move |(_, chain)| fits(chain));
            open.find_map(|(at, chain)| Some((at, self.place(chain, event)?)))
        };
        let next = follows(true).or_else(|| follows(false));
        let number = match next.and_then(|(at, place)| Some((left.get_mut(at)?, place))) {
            Some((chain, place)) => {
                chain.close_name(&mut self.chained.waits);
                chain.place = place;
                chain.begin_name(event);
                chain.number
            }
            None => {
                let chain = self.begin(event);
                let number = chain.number;
                if left.len() >= OPEN_MAX {
                    let oldest = left.remove(0);
                    self.end(event.client, oldest);
                }
                left.push(chain);
                number
            }
        };
        self.open.insert(event.client, left);
        number
    }

    fn list(&self, client: u32) -> &'a [Name] {
        self.search.get(client as usize).map_or(&[], Vec::as_slice)
    }

    /// The place of a name among those that the lookup may ask for next.
    fn place(&self, chain: &Chain, event: &Event) -> Option<usize> {
        let list = self.list(event.client);
        let at = if chain.stem == event.name {
            if chain.is_listed_first { list.len() } else { 0 }
        } else {
            let domain = remainder(self.names.get(event.name), self.names.get(chain.stem))?;
            let at = list.iter().position(|listed| *listed == domain)?;
            if chain.is_listed_first { at } else { at + 1 }
        };
        (at > chain.place).then_some(at)
    }

    /// A lookup that begins with this query.
    fn begin(&mut self, event: &Event) -> Chain {
        let searched = self.list(event.client).first().and_then(|domain| {
            let name = self.names.get(event.name);
            let more = name.view().label_count().checked_sub(domain.view().label_count())?;
            let is_below = more > 0 && name.view().is_in_domain(domain.view());
            is_below.then(|| first_labels(name, more))?
        });
        let is_listed_first = searched.is_some();
        let stem = searched.map_or(event.name, |stem| self.names.number(stem));
        self.next += 1;
        let mut chain = Chain {
            number: self.next,
            stem,
            is_listed_first,
            place: 0,
            name: event.name,
            asked: [None; 2],
            began: event.time,
            name_began: event.time,
            last: event.time,
            last_answer: event.time,
            types: 0,
            names: 0,
            queries: 0,
            denied: 0,
        };
        chain.begin_name(event);
        chain
    }

    fn answered(&mut self, event: &Event, says: Says, number: u64) {
        let (success, denial) = self.cache_ttl;
        if let Says::Found(found, ttl) = says {
            let most = if found == Found::Addresses { success } else { denial };
            let until = event.time.saturating_add((u64::from(ttl) * SECOND).min(most));
            self.kept.insert((event.name, event.is_aaaa), until);
        }
        let chains = self.open.get_mut(&event.client);
        let chain = chains.and_then(|chains| chains.iter_mut().find(|c| c.number == number));
        let Some(chain) = chain.filter(|chain| chain.name == event.name) else { return };
        chain.last = chain.last.max(event.time);
        let Some(slot) = chain.asked.get_mut(usize::from(event.is_aaaa)) else { return };
        match says {
            // The same is asked again over TCP.
            Says::Truncated => *slot = None,
            Says::Failed => *slot = Some(Asked { answer: None, failed: true }),
            Says::Found(found, _) => *slot = Some(Asked { answer: Some(found), failed: false }),
        }
        if says != Says::Truncated {
            chain.last_answer = chain.last_answer.max(event.time);
        }
    }

    fn end(&mut self, client: u32, mut chain: Chain) {
        let found = chain.found() == Some(Found::Addresses);
        chain.close_name(&mut self.chained.waits);
        let (stem, is_listed_first) = (chain.stem, chain.is_listed_first);
        let key = Key { client, stem, is_listed_first, types: chain.types };
        let group = self.chained.groups.entry(key).or_default();
        group.lookups += 1;
        group.names += chain.names;
        group.queries += chain.queries;
        group.denied += chain.denied;
        group.walked |= chain.names > 1;
        if found {
            group.found = Some(chain.name);
            self.chained.time.0 += chain.last_answer - chain.began;
            self.chained.time.1 += 1;
        }
    }

    pub(super) fn finish(mut self) -> Chained {
        for (client, chains) in std::mem::take(&mut self.open) {
            chains.into_iter().for_each(|chain| self.end(client, chain));
        }
        self.chained
    }
}

impl Chain {
    /// Begins to ask for the name of `event`.
    fn begin_name(&mut self, event: &Event) {
        self.name = event.name;
        self.name_began = event.time;
        self.last_answer = event.time;
        self.asked = [None; 2];
        self.names += 1;
        self.add(event);
    }

    /// Takes a query for the name that is asked for.
    fn add(&mut self, event: &Event) {
        self.last = self.last.max(event.time);
        self.queries += 1;
        if let Some(slot) = self.asked.get_mut(usize::from(event.is_aaaa)) {
            self.denied += u64::from(slot.is_some());
            *slot = Some(Asked { answer: None, failed: false });
        }
        self.types = self.types.max(self.asked.iter().flatten().count() as u64);
    }

    /// What the answers for the name said so far.
    fn found(&self) -> Option<Found> {
        let answers = || self.asked.iter().flatten();
        let any = |wanted| answers().any(|asked| asked.answer == Some(wanted));
        [Found::Addresses, Found::NoData, Found::NoName]
            .into_iter()
            .find(|wanted| any(*wanted))
            .or_else(|| answers().any(|asked| asked.failed).then_some(Found::Failed))
    }

    /// Whether another name may be asked for: the last one was not found.
    fn may_continue(&self) -> bool {
        self.found() != Some(Found::Addresses)
    }

    /// Counts the queries for the name if it was denied, and how long its answers took.
    fn close_name(&mut self, waits: &mut HashMap<u32, (u64, u64)>) {
        let found = self.found();
        if matches!(found, Some(Found::NoData | Found::NoName | Found::Failed)) {
            self.denied += self.asked.iter().flatten().count() as u64;
        }
        if found.is_some() {
            let wait = waits.entry(self.name).or_default();
            wait.0 += self.last_answer.saturating_sub(self.name_began);
            wait.1 += 1;
        }
    }
}

/// The first labels of a name, as a name.
fn first_labels(name: &Name, count: usize) -> Option<Name> {
    let mut wire = Vec::new();
    for label in name.view().labels().take(count) {
        wire.push(u8::try_from(label.len()).ok()?);
        wire.extend_from_slice(label);
    }
    wire.push(0);
    Name::from_wire(&wire).ok()
}
