//! `loadbalance`: changes the order of addresses in responses.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec};
use crate::handlers::Handler;
use nodens_corefile::take::Cidr;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Message, Rcode, Record, Section, Type};
use rows::{ADDRESS, Block, MX, Place, group};
use std::net::IpAddr;
use std::sync::Arc;
use weights::Weights;

mod config;
mod rows;
#[cfg(test)]
mod tests;
mod weights;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("loadbalance", setup);

/// The directive at work.
#[derive(Debug, Default)]
pub struct Loadbalance {
    policy: Policy,
    /// Addresses of these networks come first, in this order.
    prefer: Vec<Cidr>,
}

#[derive(Debug, Default)]
enum Policy {
    /// Every order is as likely as any other.
    #[default]
    RoundRobin,
    /// The first address is drawn by weight.
    Weighted(Arc<Weights>),
}

/// Reads `loadbalance`. Occurrences in one block add up.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let at = block.handlers.iter().position(|h| matches!(h, Handler::Loadbalance(_)));
    let mut handler = match at.map(|at| block.handlers.remove(at)) {
        Some(Handler::Loadbalance(handler)) => handler,
        _ => Loadbalance::default(),
    };
    config::read(directive, block, &mut handler)?;
    block.push(handler);
    Ok(())
}

impl Handle for Loadbalance {
    const LOOKS_AT_QUESTIONS: bool = false;

    fn amend(&self, cx: &mut Cx<'_>) {
        let q = &mut cx.job.current;
        let transfer = matches!(q.qtype, Type::AXFR | Type::IXFR);
        if !q.response.written || q.response.rcode != Rcode::NOERROR || transfer {
            return;
        }
        let weights = match &self.policy {
            Policy::Weighted(weights) => Some(&**weights),
            Policy::RoundRobin => None,
        };
        let rng = &mut cx.worker.rng;
        let choice = match weights {
            None => Choice::Any,
            Some(weights) if matches!(q.qtype, Type::A | Type::AAAA | Type::SRV) => {
                Choice::Weighted(weights)
            }
            Some(_) => Choice::AsIs,
        };
        match rows::find(&q.response.wire, !self.prefer.is_empty()) {
            Place::Nothing => {}
            Place::Block(block) => self.order_rows(&mut q.response.wire, &block, &choice, rng),
            Place::Scattered => {
                // A message that does not parse is the server's to deal with.
                _ = q.response.edit(|message| self.order_message(message, &choice, rng));
            }
        }
    }
}

/// What the policy means for one question.
enum Choice<'h> {
    /// A random order.
    Any,
    /// A random first one.
    Weighted(&'h Weights),
    /// Weights are not for this type.
    AsIs,
}

impl Loadbalance {
    /// In place, without allocation unless a name has to be looked up in a weight file.
    fn order_rows(
        &self,
        wire: &mut [u8],
        block: &Block,
        choice: &Choice<'_>,
        rng: &mut fastrand::Rng,
    ) {
        let owner = match choice {
            Choice::Weighted(_) => block.owner(wire),
            Choice::Any | Choice::AsIs => None,
        };
        let mut rows = block.rows(wire);
        match (choice, &owner) {
            (Choice::Any, _) => {
                for at in 0..rows.len() {
                    rows.swap(at, at + rng.usize(..rows.len() - at));
                }
            }
            (Choice::Weighted(weights), Some(owner)) => {
                let first = weights.draw((0..rows.len()).map(|at| (owner, rows.ip(at))), rng);
                rows.swap(0, first);
            }
            (Choice::Weighted(_), None) | (Choice::AsIs, _) => {}
        }
        let mut next = 0;
        for network in &self.prefer {
            let start = next;
            for at in start..rows.len() {
                if rows.ip(at).is_some_and(|ip| network.contains(ip)) {
                    rows.bring_forward(at, next);
                    next += 1;
                }
            }
        }
    }

    fn order_message(&self, message: &mut Message, choice: &Choice<'_>, rng: &mut fastrand::Rng) {
        for section in Section::ALL {
            let records = message.section_mut(section);
            match choice {
                Choice::Any => round_robin(records, rng),
                Choice::Weighted(weights) if section != Section::Authority => {
                    weigh(records, weights, rng);
                }
                Choice::Weighted(_) | Choice::AsIs => {}
            }
            if !self.prefer.is_empty() && section != Section::Authority {
                self.put_preferred_first(records);
            }
        }
    }

    /// CNAMEs, addresses by network, MX, the rest: CoreDNS's order.
    fn put_preferred_first(&self, records: &mut [Record]) {
        let rank = |record: &Record| match record.rtype {
            Type::CNAME => (0, 0),
            Type::A | Type::AAAA => (1, self.rank(record)),
            Type::MX => (2, 0),
            Type::OPT => (4, 0),
            _ => (3, 0),
        };
        records.sort_by_cached_key(rank);
    }

    fn rank(&self, record: &Record) -> usize {
        let within = |ip| self.prefer.iter().position(|network| network.contains(ip));
        ip_of(&record.rdata).and_then(within).unwrap_or(self.prefer.len())
    }
}

/// CNAMEs, the rest, addresses, MX: CoreDNS's order.
fn round_robin(records: &mut [Record], rng: &mut fastrand::Rng) {
    if records.len() > 1 {
        rng.shuffle(sorted(records, ADDRESS));
        rng.shuffle(sorted(records, MX));
    }
}

/// Puts the records into order and gives those of one group.
fn sorted(records: &mut [Record], wanted: u8) -> &mut [Record] {
    let of = |record: &Record| group(record.rtype);
    records.sort_by_key(of);
    let start = records.partition_point(|record| of(record) < wanted);
    let end = records.partition_point(|record| of(record) <= wanted);
    records.get_mut(start..end).unwrap_or_default()
}

fn weigh(records: &mut [Record], weights: &Weights, rng: &mut fastrand::Rng) {
    if !records.iter().any(|record| group(record.rtype) == ADDRESS) {
        return;
    }
    let addresses = sorted(records, ADDRESS);
    let choices = addresses.iter().map(|record| (&record.owner, ip_of(&record.rdata)));
    let first = weights.draw(choices, rng);
    if first < addresses.len() {
        addresses.swap(0, first);
    }
}

/// The address of an A or AAAA record; one of IPv4 in IPv6 counts as IPv4, as it does in Go.
fn ip_of(rdata: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(rdata) {
        return Some(IpAddr::from(octets));
    }
    <[u8; 16]>::try_from(rdata).ok().map(|octets| IpAddr::from(octets).to_canonical())
}
