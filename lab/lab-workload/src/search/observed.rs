//! Lookups in recorded traffic: which queries belong to one lookup of an application, which search list
//! a client has, and what its lookups would cost with other settings.
//!
//! A lookup is a row of names that one address asks for, one after the other, each within five seconds
//! of the one before: the same name with one domain of a search list after the other, and as it is. The
//! list of an address is taken from its own walks, unless it is given. Two lookups of one name at the
//! same time are told apart by their IDs.
//!
//! What this cannot see: which name an application wrote where the first query was answered, so a
//! complete name below the first domain of the list counts as a search; clients behind one address;
//! the beginning of lookups that were under way when the recording began.

mod chains;
mod lists;
mod outcome;
mod savings;

pub use savings::{Cost, Saving};

use super::{Found, Libc};
use crate::recorded::{Content, Record};
use chains::Chains;
use nodens_wire::reader::Reader;
use nodens_wire::{HEADER_LEN, Header, Name, Type};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Messages that are kept: 32 octets each, and each different name once.
const MESSAGES_MAX: usize = 16 << 20;
/// The longest pause between two queries of a lookup: what resolvers wait for an answer.
const WINDOW: u64 = 5_000_000_000;

/// A recording is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {MESSAGES_MAX} queries and responses for A and AAAA, expected a shorter recording"
)]
pub struct TooLong;

/// What is known beforehand, and what is to be worked out.
#[derive(Clone, Debug)]
pub struct Options {
    /// The search list of all clients; without it each client's own walks tell it.
    pub search: Option<Vec<Name>>,
    /// Whose stub resolver clients would use with other settings.
    pub libc: Libc,
    /// The values of `ndots` that are worked out.
    pub ndots: Vec<usize>,
    /// How long a cache on the node keeps answers at most, in nanoseconds: addresses, and denials.
    pub cache_ttl: (u64, u64),
}

/// What was found in a recording.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Queries for A and AAAA.
    pub queries: u64,
    /// Of these, those whose names were denied: no name, no address, or a failure.
    pub denied: u64,
    /// Queries that were sent again with the same ID, or recorded twice; counted nowhere else.
    pub repeated: u64,
    /// Queries for other types, and messages without a readable question.
    pub others: u64,
    /// Responses that belong to the queries.
    pub answered: u64,
    /// From the first query to the last, in nanoseconds.
    pub span: u64,
    /// Clients, those with most queries first.
    pub clients: Vec<Client>,
    /// Lookups by client and name, those with most queries first.
    pub lookups: Vec<Looked>,
    /// Time that lookups took all together, of those whose last name was answered, and how many these are.
    pub time: (u64, u64),
    /// What the lookups would cost, with one measure each.
    pub savings: Vec<Saving>,
    /// Queries that a cache on the clients' node would answer; `None` without responses.
    pub cached: Option<u64>,
}

/// An address that queries came from.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address.
    pub address: IpAddr,
    /// The search list that it seems to have; empty if no walk shows one.
    pub search: Vec<Name>,
    /// The least and the greatest `ndots` with which it would ask as it did.
    pub ndots: (usize, usize),
    /// Its lookups.
    pub lookups: u64,
    /// Its queries.
    pub queries: u64,
}

/// What one client's lookups of one name were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Whose: the place in [`Observed::clients`].
    pub client: usize,
    /// The name that was looked up, as far as queries show it, without the final dot.
    pub text: String,
    /// Whether the search list came first.
    pub is_listed_first: bool,
    /// Lookups.
    pub lookups: u64,
    /// Names that they asked for.
    pub names: u64,
    /// Queries that they took.
    pub queries: u64,
    /// Of these, those for names that were denied.
    pub denied: u64,
    /// The name that was found last, if any was.
    pub found: Option<Name>,
}

/// A query or a response, as far as it matters.
#[derive(Clone, Copy, Debug)]
struct Event {
    time: u64,
    client: u32,
    name: u32,
    port: u16,
    id: u16,
    is_aaaa: bool,
    /// What a response says; `None` for queries.
    says: Option<Says>,
}

/// What a response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// That, for so many seconds.
    Found(Found, u32),
    /// A failure.
    Failed,
    /// To ask again over TCP.
    Truncated,
}

/// Each different name once.
#[derive(Clone, Debug, Default)]
struct Names {
    names: Vec<Name>,
    numbers: HashMap<Name, u32>,
}

impl Names {
    fn number(&mut self, name: Name) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    fn get(&self, number: u32) -> &Name {
        static ROOT: std::sync::LazyLock<Name> = std::sync::LazyLock::new(Name::root);
        self.names.get(number as usize).unwrap_or(&ROOT)
    }
}

/// Collects messages, in any order.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    names: Names,
    clients: Vec<IpAddr>,
    numbers: HashMap<IpAddr, u32>,
    events: Vec<Event>,
    others: u64,
}

impl Observer {
    /// Takes a message in.
    pub fn push(&mut self, record: &Record) -> Result<(), TooLong> {
        let (message, is_response) = match &record.content {
            Content::Query(message) => (message, false),
            Content::Response(message) => (message, true),
            Content::Opened | Content::Ended => return Ok(()),
        };
        let Some((id, name, is_aaaa)) = question(message) else {
            self.others += u64::from(!is_response);
            return Ok(());
        };
        if self.events.len() >= MESSAGES_MAX {
            return Err(TooLong);
        }
        let address = record.client.ip();
        let next = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        let client = *self.numbers.entry(address).or_insert_with(|| {
            self.clients.push(address);
            next
        });
        self.events.push(Event {
            time: record.time,
            client,
            name: self.names.number(name),
            port: record.client.port(),
            id,
            is_aaaa,
            says: is_response.then(|| outcome::says(message, is_aaaa)),
        });
        Ok(())
    }

    /// Works out what the messages were.
    pub fn finish(mut self, options: &Options) -> Observed {
        // Responses behind queries of the same time: clocks of recordings may be coarse.
        self.events.sort_by_key(|event| (event.time, event.says.is_some()));
        let found = outcome::found(&self.events);
        let given = options.search.as_ref();
        let search: Vec<Vec<Name>> = match given {
            Some(list) => vec![list.clone(); self.clients.len()],
            None => lists::infer(&self.events, &mut self.names, self.clients.len()),
        };
        let mut chains = Chains::new(&mut self.names, &search, options.cache_ttl);
        for event in &self.events {
            chains.push(event);
        }
        let chained = chains.finish();
        let times = || self.events.iter().filter(|event| event.says.is_none());
        let first = times().next().map_or(0, |event| event.time);
        let last = times().next_back().map_or(0, |event| event.time);
        let has_responses = self.events.iter().any(|event| event.says.is_some());
        let named: HashMap<&Name, Found> =
            found.iter().map(|(number, found)| (self.names.get(*number), *found)).collect();
        let savings = savings::work_out(&chained, &search, &named, &self.names, options);
        let mut observed = Observed {
            queries: chained.queries,
            denied: chained.groups.values().map(|group| group.denied).sum(),
            repeated: chained.repeated,
            others: self.others,
            answered: chained.answered,
            span: last - first,
            clients: Vec::new(),
            lookups: Vec::new(),
            time: chained.time,
            savings,
            cached: has_responses.then_some(chained.cached),
        };
        observed.list(&self.names, &self.clients, search, chained);
        observed
    }
}

impl Observed {
    /// Fills in clients and lookups.
    fn list(
        &mut self,
        names: &Names,
        addresses: &[IpAddr],
        search: Vec<Vec<Name>>,
        chained: chains::Chained,
    ) {
        let mut clients: Vec<(usize, Client)> = addresses
            .iter()
            .zip(search)
            .map(|(address, search)| Client {
                address: *address,
                search,
                ndots: (0, super::NDOTS_MAX),
                lookups: 0,
                queries: 0,
            })
            .enumerate()
            .collect();
        for (key, group) in &chained.groups {
            let Some((_, client)) = clients.get_mut(key.client as usize) else { continue };
            client.lookups += group.lookups;
            client.queries += group.queries;
            let dots = names.get(key.stem).view().label_count().saturating_sub(1);
            // Only a walk shows where it began.
            if group.walked && key.is_listed_first {
                client.ndots.0 = client.ndots.0.max(dots + 1);
            } else if group.walked {
                client.ndots.1 = client.ndots.1.min(dots);
            }
        }
        clients.sort_by_key(|(number, client)| (std::cmp::Reverse(client.queries), *number));
        let places: HashMap<usize, usize> =
            clients.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect();
        self.clients = clients.into_iter().map(|(_, client)| client).collect();
        let looked = chained.groups.into_iter().map(|(key, group)| Looked {
            client: places.get(&(key.client as usize)).copied().unwrap_or(0),
            text: text(names.get(key.stem)),
            is_listed_first: key.is_listed_first,
            lookups: group.lookups,
            names: group.names,
            queries: group.queries,
            denied: group.denied,
            found: group.found.map(|number| names.get(number).clone()),
        });
        self.lookups = looked.collect();
        self.lookups.sort_by(|a, b| {
            b.queries.cmp(&a.queries).then_with(|| (a.client, &a.text).cmp(&(b.client, &b.text)))
        });
    }

    /// All lookups.
    pub fn lookup_count(&self) -> u64 {
        self.lookups.iter().map(|looked| looked.lookups).sum()
    }

    /// The different search lists and how many clients have each, the most frequent first.
    pub fn search_lists(&self) -> Vec<(Vec<Name>, usize)> {
        let lists: HashSet<&Vec<Name>> = self.clients.iter().map(|client| &client.search).collect();
        let count = |list: &&Vec<Name>| {
            self.clients.iter().filter(|client| client.search == **list).count()
        };
        let mut lists: Vec<_> = lists
            .into_iter()
            .filter(|list| !list.is_empty())
            .map(|list| (list.clone(), count(&list)))
            .collect();
        lists.sort_by_key(|(list, count)| {
            let text: Vec<_> = list.iter().map(ToString::to_string).collect();
            (std::cmp::Reverse(*count), text)
        });
        lists
    }
}

/// A name without its final dot, as applications write it.
fn text(name: &Name) -> String {
    let mut text = name.to_string();
    if text.len() > 1 {
        text.pop();
    }
    text
}

/// ID, name, and whether the question is for AAAA; `None` if it is for anything but addresses.
fn question(message: &[u8]) -> Option<(u16, Name, bool)> {
    let header = Header::read(message).ok().filter(|header| header.counts[0] == 1)?;
    let mut reader = Reader::new(message, HEADER_LEN);
    let mut wire = Vec::new();
    reader.name(&mut wire).ok()?;
    let is_aaaa = match Type(reader.u16("QTYPE").ok()?) {
        Type::A => false,
        Type::AAAA => true,
        _ => return None,
    };
    Some((header.id, Name::from_wire(&wire).ok()?, is_aaaa))
}

#[cfg(test)]
mod tests;
