//! `dns64`: makes AAAA records from A records (RFC 6147).

use crate::config::BlockBuilder;
use crate::handler::{Cx, Event, Handle, Lookup, Resolution, Scope, Spec, Step};
use crate::handlers::{Handler, LookupState};
use crate::kind::{Kind, kind_of};
use crate::response::Response;
use crate::metrics::Counter;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Flags, Message, Rcode, Record, RecordView, Records, Section, Type};
use std::net::{IpAddr, Ipv6Addr};

mod config;
#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("dns64", setup);

/// Seconds a synthetic record may be kept at most if the zone does not say (RFC 6147 5.1.7).
const TTL_MAX: u32 = 600;

/// The directive at work.
#[derive(Debug)]
pub struct Dns64 {
    prefix: Prefix,
    /// AAAA records that exist are replaced too.
    translate_all: bool,
    /// Clients that ask over IPv4 are helped too.
    allow_ipv4: bool,
    translated: Counter,
}

/// A prefix of RFC 6052 section 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    network: [u8; 16],
    /// 4, 5, 6, 7, 8 or 12 octets.
    octets: usize,
}

impl Prefix {
    /// The address behind the prefix; octet 8 stays zero.
    fn embed(self, v4: [u8; 4]) -> Ipv6Addr {
        let mut octets = self.network;
        let places = (self.octets..16).filter(|place| *place != 8);
        for (place, octet) in places.zip(v4) {
            if let Some(slot) = octets.get_mut(place) {
                *slot = octet;
            }
        }
        Ipv6Addr::from(octets)
    }
}

/// Reads `dns64`. Occurrences in one block add up.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let earlier = block.handlers.iter_mut().find_map(|handler| match handler {
        Handler::Dns64(dns64) => Some(dns64),
        _ => None,
    });
    if let Some(dns64) = earlier {
        return config::read(directive, dns64);
    }
    let translated = block.shared.registry.counter(
        "coredns_dns64_requests_translated_total",
        "Responses that dns64 made from A records.",
        &[("server", &block.server)],
    );
    // 64:ff9b::/96, the well-known prefix (RFC 6052 section 2.1).
    let network = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0).octets();
    let prefix = Prefix { network, octets: 12 };
    let mut dns64 = Dns64 { prefix, translate_all: false, allow_ipv4: false, translated };
    config::read(directive, &mut dns64)?;
    block.push(dns64);
    Ok(())
}

/// What the handler remembers between lookups.
#[derive(Debug)]
pub enum State {
    /// The question itself is being answered.
    Asked,
    /// The name's A records are being looked up.
    Addresses {
        /// Seconds that the zone's SOA record allows.
        ttl_max: u32,
    },
}

impl Handle for Dns64 {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let v4 = matches!(cx.job.client().peer.ip().to_canonical(), IpAddr::V4(_));
        let q = cx.q();
        if q.qtype != Type::AAAA || q.qclass != Class::IN || (v4 && !self.allow_ipv4) {
            return Step::Next;
        }
        q.state.lookup = LookupState::Dns64(State::Asked);
        lookup(q, Type::AAAA, Scope::Behind)
    }

    fn resumed(&self, cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        let Some(inner) = cx.job.inner.take() else { return Step::Fail(Rcode::SERVFAIL) };
        let q = cx.q();
        match std::mem::take(&mut q.state.lookup) {
            LookupState::Dns64(State::Addresses { ttl_max }) => {
                // A failure of this lookup becomes the answer, it is none of the question.
                cx.job.error.clear();
                self.synthesize(cx.q(), &inner, ttl_max);
                cx.worker.cells.add(self.translated, 1);
                Step::Answered
            }
            _ if !inner.response.written => Step::Fail(inner.response.rcode),
            _ if self.wants(&inner.response) => {
                let ttl_max = soa_ttl(&inner.response.wire).unwrap_or(TTL_MAX);
                q.state.lookup = LookupState::Dns64(State::Addresses { ttl_max });
                lookup(q, Type::A, Scope::Server)
            }
            _ => {
                q.response = inner.response;
                Step::Answered
            }
        }
    }
}

fn lookup(q: &Resolution, qtype: Type, scope: Scope) -> Step {
    Step::Lookup(Lookup { qname: q.qname.clone(), qtype, qclass: q.qclass, scope })
}

/// The TTL of the last SOA record of the authority section.
fn soa_ttl(wire: &[u8]) -> Option<u32> {
    let records = Records::of(wire).ok()?.flatten();
    let soa = |r: &RecordView| r.section == Section::Authority && r.rtype == Type::SOA;
    records.filter(soa).last().map(|record| record.ttl)
}

impl Dns64 {
    /// Whether an AAAA response is one to improve: no error of the name and, unless everything is
    /// translated, no AAAA record in it. Of a truncated response that is not known.
    fn wants(&self, response: &Response) -> bool {
        if kind_of(&response.wire, response.rcode, Type::AAAA) == Kind::NameError {
            return false;
        }
        let aaaa = |r: RecordView| r.section == Section::Answer && r.rtype == Type::AAAA;
        let has_aaaa = || {
            let records = Records::of(&response.wire);
            records.is_ok_and(|mut all| all.any(|r| r.is_ok_and(aaaa)))
        };
        self.translate_all || !(response.flags().has(Flags::TC) || has_aaaa())
    }

    /// The response to the A question with AAAA in place of A.
    fn synthesize(&self, q: &mut Resolution, inner: &Resolution, ttl_max: u32) {
        let mut message = Message::parse(&inner.response.wire).unwrap_or_default();
        let rcode = inner.response.rcode;
        q.reply(rcode, false);
        let Ok(question) = Message::parse(&q.response.wire) else { return };
        message.flags = question.flags.with(Flags::TC, message.flags.has(Flags::TC));
        message.questions = question.questions;
        for record in &mut message.answer {
            self.translate(record, ttl_max);
        }
        q.response.options.clone_from(&inner.response.options);
        if message.write(&mut q.response.wire).is_err() {
            // An address takes 12 octets more: a message can become too long.
            q.reply(Rcode::SERVFAIL, false);
        }
    }

    fn translate(&self, record: &mut Record, ttl_max: u32) {
        if let (Type::A, Ok(v4)) = (record.rtype, <[u8; 4]>::try_from(record.rdata.as_slice())) {
            record.rtype = Type::AAAA;
            record.rdata = self.prefix.embed(v4).octets().to_vec();
            record.ttl = record.ttl.min(ttl_max);
        }
    }
}
