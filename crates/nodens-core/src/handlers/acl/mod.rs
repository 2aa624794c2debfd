//! `acl`: who may ask what.
//!
//! Nested lookups run through the chain like questions of the client, so a CNAME made by
//! `template` or a search path of `autopath` leads to nothing the client may not ask itself.

mod config;

use crate::handler::{Cx, Handle, Spec, Step};
use crate::metrics::Counter;
use crate::zones::Zones;
use crate::networks::Networks;
use nodens_wire::edns::extended_error;
use nodens_wire::{Opcode, Rcode, Type};
use std::net::IpAddr;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("acl", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Acl {
    /// In the order of the Corefile.
    rules: Vec<Rule>,
    allowed: Counter,
}

/// One `acl` of the Corefile.
#[derive(Debug)]
struct Rule {
    zones: Zones,
    /// The first that matches counts.
    policies: Vec<Policy>,
    /// One per zone.
    counters: Vec<Counters>,
}

#[derive(Debug)]
struct Counters {
    blocked: Counter,
    filtered: Counter,
    dropped: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allow,
    Block,
    Filter,
    Drop,
}

/// A line of the block: `ACTION [type QTYPE…] [net SOURCE…]`.
#[derive(Debug)]
struct Policy {
    verdict: Verdict,
    /// `None` stands for all types.
    types: Option<Vec<Type>>,
    /// `None` stands for all addresses.
    networks: Option<Networks>,
}

impl Handle for Acl {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let client = cx.job.client().peer.ip().to_canonical();
        let qtype = cx.job.current.qtype;
        for rule in &self.rules {
            let Some(zone) = rule.zones.longest(cx.job.current.qname.view()) else { continue };
            match rule.verdict(client, qtype) {
                None => {}
                Some(Verdict::Allow) => break,
                Some(verdict) => return rule.refuse(cx, verdict, zone),
            }
        }
        cx.worker.cells.add(self.allowed, 1);
        Step::Next
    }
}

impl Rule {
    fn verdict(&self, client: IpAddr, qtype: Type) -> Option<Verdict> {
        self.policies.iter().find(|policy| policy.wants(client, qtype)).map(|p| p.verdict)
    }

    fn refuse(&self, cx: &mut Cx<'_>, verdict: Verdict, zone: usize) -> Step {
        let count = |cx: &Cx<'_>, counter: fn(&Counters) -> Counter| {
            if let Some(counters) = self.counters.get(zone) {
                cx.worker.cells.add(counter(counters), 1);
            }
        };
        match verdict {
            Verdict::Drop => {
                count(cx, |counters| counters.dropped);
                Step::Drop
            }
            Verdict::Filter => {
                count(cx, |counters| counters.filtered);
                // NOERROR would say of an UPDATE that it was done (RFC 2136 section 2.2).
                let is_update = cx.job.current.flags.opcode() == Opcode::UPDATE;
                let rcode = if is_update { Rcode::REFUSED } else { Rcode::NOERROR };
                reply(cx, rcode, extended_error::FILTERED)
            }
            Verdict::Block | Verdict::Allow => {
                count(cx, |counters| counters.blocked);
                reply(cx, Rcode::REFUSED, extended_error::BLOCKED)
            }
        }
    }
}

/// An empty response that says why (RFC 8914 sections 4.16 and 4.18).
fn reply(cx: &mut Cx<'_>, rcode: Rcode, info_code: u16) -> Step {
    cx.q().reply(rcode, false);
    cx.q().response.extended_error(info_code, "");
    Step::Answered
}

impl Policy {
    fn wants(&self, client: IpAddr, qtype: Type) -> bool {
        self.types.as_ref().is_none_or(|types| types.contains(&qtype))
            && self.networks.as_ref().is_none_or(|networks| networks.contain(client))
    }
}
