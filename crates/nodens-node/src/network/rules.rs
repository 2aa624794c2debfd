//! The rules, whoever carries them out.

use super::Plan;
use std::net::IpAddr;

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chain {
    /// What arrives, before connection tracking.
    RawPrerouting,
    /// What this machine sends, before connection tracking.
    RawOutput,
    /// What this machine receives.
    FilterInput,
    /// What this machine sends.
    FilterOutput,
}

/// Which end of a packet is at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Destination,
    Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// A rule: no connection tracking in a raw chain, let pass in a filter chain.
///
/// Without connection tracking a packet meets none of kube-proxy's rules, so it is such a rule that
/// diverts queries from the central servers. Those for a destination therefore apply only while
/// that is an address of this machine: once it is gone they are without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) chain: Chain,
    pub(crate) protocol: Protocol,
    pub(crate) end: End,
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
}

/// What node-cache writes beside its rules, and hence what they are known by.
pub(crate) const SKIP: &str = "NodeLocal DNS Cache: skip conntrack";
/// As [`SKIP`], in filter chains.
pub(crate) const ALLOW: &str = "NodeLocal DNS Cache: allow DNS traffic";

impl Chain {
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Self::RawPrerouting | Self::RawOutput)
    }

    pub(crate) fn comment(self) -> &'static str {
        if self.is_raw() { SKIP } else { ALLOW }
    }
}

impl Rule {
    /// Whether it applies only while its address is one of this machine.
    pub(crate) fn only_if_local(&self) -> bool {
        self.chain.is_raw() && self.end == End::Destination
    }
}

/// The rules of a plan, twelve for each address, in node-cache's order.
pub(crate) fn rules(plan: &Plan) -> Vec<Rule> {
    use Chain::{FilterInput, FilterOutput, RawOutput, RawPrerouting};
    use End::{Destination, Source};
    let mut rules = Vec::new();
    for &ip in &plan.addresses {
        let mut both = |chain, end| {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                rules.push(Rule { chain, protocol, end, ip, port: plan.dns_port });
            }
        };
        both(RawPrerouting, Destination);
        both(FilterInput, Destination);
        both(RawOutput, Source);
        both(FilterOutput, Source);
        both(RawOutput, Destination);
        for end in [Destination, Source] {
            let (chain, protocol, port) = (RawOutput, Protocol::Tcp, plan.health_port);
            rules.push(Rule { chain, protocol, end, ip, port });
        }
    }
    rules
}
