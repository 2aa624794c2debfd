//! Changes of the packet filter, as messages.

use super::{
    ACCEPT, BATCH_BEGIN, BATCH_END, CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TYPE, DELRULE,
    DELTABLE, HOOK_NUMBER, HOOK_PRIORITY, INET, IPV4, IPV6, LOCAL_IN, NEWCHAIN, NEWRULE, NEWTABLE,
    OWNER, RULE_CHAIN, RULE_HANDLE, SUBSYSTEM, TABLE_FLAGS, TABLE_NAME,
};
use crate::network::netlink::{ACK, APPEND, Body, CREATE, Message, Requests};
use crate::network::rules::{Chain, End, Rule};
use std::net::IpAddr;

const TABLE_USERDATA: u16 = 6;
const RULE_EXPRESSIONS: u16 = 4;
const RULE_USERDATA: u16 = 7;
const ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// The register that all comparisons go through.
const REGISTER: u32 = 1;
/// `RTN_LOCAL`
const RTN_LOCAL: u32 = 2;

/// Chains: name, hook and priority.
const CHAINS: [(Chain, &str, u32, i32); 4] = [
    (Chain::RawPrerouting, "raw-prerouting", 0, -300),
    (Chain::RawOutput, "raw-output", 3, -300),
    (Chain::FilterInput, "filter-input", LOCAL_IN, 0),
    (Chain::FilterOutput, "filter-output", 3, 0),
];

/// What our table is to be.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    /// Who made it, for whoever reads the list of tables.
    pub(crate) mark: &'a str,
    pub(crate) rules: &'a [Rule],
    pub(crate) owned: bool,
    pub(crate) local: bool,
}

/// Changes that are made together or not at all.
pub(super) struct Batch {
    requests: Requests,
    /// The number of the last one, and how many there are without the first.
    pub(super) last: usize,
}

impl Batch {
    pub(super) fn begin() -> Self {
        let mut requests = Requests::default();
        requests.add(BATCH_BEGIN, 0, |body| {
            body.octets(&about(0, SUBSYSTEM));
        });
        Self { requests, last: 0 }
    }

    /// The requests, and the number of the last that is acknowledged.
    pub(super) fn end(mut self) -> (Requests, usize) {
        self.requests.add(BATCH_END, 0, |body| {
            body.octets(&about(0, SUBSYSTEM));
        });
        (self.requests, self.last)
    }

    fn add(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Body)) {
        self.last += 1;
        self.requests.add(kind, flags | ACK, |inner| {
            inner.octets(&about(INET, 0));
            body(inner);
        });
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.add(DELTABLE, 0, |body| {
            body.text(TABLE_NAME, name);
        });
    }

    pub(super) fn delete_rule(&mut self, family: u8, rule: &Message) {
        self.last += 1;
        let attributes = rule.attributes(4);
        self.requests.add(DELRULE, ACK, |body| {
            body.octets(&about(family, 0));
            for kind in [TABLE_NAME, RULE_CHAIN, RULE_HANDLE] {
                body.attribute(kind, attributes.get(kind).unwrap_or_default());
            }
        });
    }

    pub(super) fn create(&mut self, wanted: &Wanted<'_>) {
        self.add(NEWTABLE, CREATE, |body| {
            body.text(TABLE_NAME, wanted.name);
            body.number(TABLE_FLAGS, if wanted.owned { OWNER } else { 0 });
            body.attribute(TABLE_USERDATA, &comment(wanted.mark));
        });
        for (_, chain, hook, priority) in CHAINS {
            self.add(NEWCHAIN, CREATE, |body| {
                body.text(TABLE_NAME, wanted.name).text(CHAIN_NAME, chain);
                body.nested(CHAIN_HOOK, |body| {
                    body.number(HOOK_NUMBER, hook).number(HOOK_PRIORITY, priority.cast_unsigned());
                });
                body.number(CHAIN_POLICY, ACCEPT).text(CHAIN_TYPE, "filter");
            });
        }
    }

    pub(super) fn rule(&mut self, wanted: &Wanted<'_>, rule: &Rule) {
        let names = CHAINS.iter().find(|(chain, ..)| *chain == rule.chain);
        let chain = names.map_or("", |(_, name, ..)| name);
        self.add(NEWRULE, CREATE | APPEND, |body| {
            body.text(TABLE_NAME, wanted.name).text(RULE_CHAIN, chain);
            body.nested(RULE_EXPRESSIONS, |body| expressions(body, rule, wanted.local));
            body.attribute(RULE_USERDATA, &comment(rule.chain.comment()));
        });
    }
}

/// `struct nfgenmsg`
pub(super) fn about(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// A comment as `nft` keeps and shows it: type, length, text, zero.
fn comment(text: &str) -> Vec<u8> {
    let text = text.as_bytes().get(..text.len().min(127)).unwrap_or_default();
    [&[0, text.len() as u8 + 1], text, &[0]].concat()
}

fn expressions(body: &mut Body, rule: &Rule, local: bool) {
    let (family, octets) = match rule.ip {
        IpAddr::V4(ip) => (IPV4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (IPV6, ip.octets().to_vec()),
    };
    // Where addresses and ports stand in their headers.
    let (address, port) = match (rule.end, rule.ip) {
        (End::Destination, IpAddr::V4(_)) => (16, 2),
        (End::Destination, IpAddr::V6(_)) => (24, 2),
        (End::Source, IpAddr::V4(_)) => (12, 0),
        (End::Source, IpAddr::V6(_)) => (8, 0),
    };
    meta(body, 15);
    equals(body, &[family]);
    payload(body, 1, address, octets.len() as u32);
    equals(body, &octets);
    meta(body, 16);
    equals(body, &[rule.protocol.number()]);
    payload(body, 2, port, 2);
    equals(body, &rule.port.to_be_bytes());
    if local && rule.only_if_local() {
        expression(body, "fib", |body| {
            body.number(1, REGISTER).number(2, FIB_ADDRTYPE).number(3, FIB_DADDR);
        });
        equals(body, &RTN_LOCAL.to_ne_bytes());
    }
    expression(body, "counter", |_| {});
    if rule.chain.is_raw() {
        expression(body, "notrack", |_| {});
        return;
    }
    expression(body, "immediate", |body| {
        // To the register of the verdict.
        body.number(1, 0).nested(2, |body| {
            body.nested(2, |body| {
                body.number(1, ACCEPT);
            });
        });
    });
}

/// `NFT_FIB_RESULT_ADDRTYPE`
const FIB_ADDRTYPE: u32 = 3;
/// `NFTA_FIB_F_DADDR`
const FIB_DADDR: u32 = 2;

fn expression(body: &mut Body, name: &str, data: impl FnOnce(&mut Body)) {
    body.nested(ELEMENT, |body| {
        body.text(EXPRESSION_NAME, name).nested(EXPRESSION_DATA, data);
    });
}

/// Loads what the kernel knows of a packet: 15 its family, 16 its protocol.
fn meta(body: &mut Body, key: u32) {
    expression(body, "meta", |body| {
        body.number(1, REGISTER).number(2, key);
    });
}

/// Loads octets of the network header (1) or the transport header (2).
fn payload(body: &mut Body, header: u32, offset: u32, len: u32) {
    expression(body, "payload", |body| {
        body.number(1, REGISTER).number(2, header).number(3, offset).number(4, len);
    });
}

fn equals(body: &mut Body, value: &[u8]) {
    expression(body, "cmp", |body| {
        body.number(1, REGISTER).number(2, 0).nested(3, |body| {
            body.attribute(1, value);
        });
    });
}
