//! The responses of a recording, each once, with how often and when they were seen.

use crate::response::{LeftOut, Response};
use lab_workload::recorded::{Content, Record};
use nodens_wire::{Name, Type};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// Different responses that are kept in memory.
const DISTINCT_MAX: usize = 8_000_000;
/// Failed questions that are named.
const FAILURES_MAX: usize = 10_000;

/// How often something was seen, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Tally {
    pub(crate) fn once(time: u64) -> Self {
        Self { count: 1, first: time, last: time }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// More different responses than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {DISTINCT_MAX} different responses, expected a shorter recording or --resolver")]
pub struct TooMany;

/// A question that a server failed to answer: server, qname, qtype, and why.
pub(crate) type Failure = (IpAddr, Name, Type, LeftOut);

/// What recordings have of authoritative servers.
#[derive(Debug, Default)]
pub struct Trace {
    /// Only what these addresses were answered counts; all if there is none.
    resolvers: BTreeSet<IpAddr>,
    /// Servers that answered without authority and would ask others.
    caches: HashSet<IpAddr>,
    pub(crate) distinct: HashMap<Response, Tally>,
    pub(crate) left_out: BTreeMap<LeftOut, u64>,
    pub(crate) failures: BTreeSet<Failure>,
    pub(crate) responses: u64,
    pub(crate) others: u64,
}

impl Trace {
    /// An empty one. Only responses to `resolvers` count, or all if there are none.
    pub fn new(resolvers: &[IpAddr]) -> Self {
        let resolvers = resolvers.iter().map(IpAddr::to_canonical).collect();
        Self { resolvers, ..Self::default() }
    }

    /// Responses that counted so far, those that were left out among them.
    pub fn responses(&self) -> u64 {
        self.responses
    }

    /// Takes in what was recorded; all but responses is passed over.
    pub fn push(&mut self, record: &Record) -> Result<(), TooMany> {
        let Content::Response(message) = &record.content else { return Ok(()) };
        let client = record.client.ip().to_canonical();
        if !self.resolvers.is_empty() && !self.resolvers.contains(&client) {
            self.others += 1;
            return Ok(());
        }
        self.responses += 1;
        let server = record.server.ip().to_canonical();
        match Response::read(server, message) {
            Ok(response) => {
                let seen = Tally::once(record.time);
                if let Some(tally) = self.distinct.get_mut(&response) {
                    tally.add(seen);
                } else if self.distinct.len() < DISTINCT_MAX {
                    self.distinct.insert(response, seen);
                } else {
                    return Err(TooMany);
                }
            }
            Err((why, asked)) => {
                if why == LeftOut::Resolver {
                    self.caches.insert(server);
                }
                *self.left_out.entry(why).or_default() += 1;
                if let (LeftOut::Failed(_), Some((qname, qtype))) = (why, asked)
                    && self.failures.len() < FAILURES_MAX
                {
                    self.failures.insert((server, qname, qtype, why));
                }
            }
        }
        Ok(())
    }

    /// Whether it comes from a resolver, which answers for zones such as `localhost` with authority, too.
    pub(crate) fn is_of_resolver(&self, response: &Response) -> bool {
        response.is_recursive && self.caches.contains(&response.server)
    }

    /// The responses in an order that does not depend on that of the table.
    pub(crate) fn ordered(&self) -> Vec<(&Response, Tally)> {
        let mut all: Vec<_> =
            self.distinct.iter().map(|(response, tally)| (response, *tally)).collect();
        all.sort_by(|(a, of_a), (b, of_b)| {
            let key =
                |response: &Response, tally: &Tally| (tally.first, response.server, response.qtype);
            let records = |response: &Response| {
                response.answer.iter().map(|rr| rr.rdata.clone()).collect::<Vec<_>>()
            };
            key(a, of_a)
                .cmp(&key(b, of_b))
                .then_with(|| a.qname.cmp(&b.qname))
                .then_with(|| records(a).cmp(&records(b)))
        });
        all
    }
}
