//! `local`: answers what should never leave the machine (RFC 6761 section 6.3, RFC 6303).

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use crate::handlers::Handler;
use crate::metrics::Counter;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Name, NameRef, Rcode, Section, Type};

mod config;
#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("local", setup);

/// Seconds: one week.
const TTL: u32 = 604_800;
/// `localhost.` as octets.
const LOCALHOST: &[u8] = b"\x09localhost\x00";

/// The directive at work.
#[derive(Debug)]
pub struct Local {
    /// Whether `localhost.ANYTHING` is answered too.
    prefix: bool,
    names: Names,
    prefix_requests: Counter,
}

#[derive(Debug)]
struct Names {
    localhost: Name,
    /// Zones of RFC 1912 section 4.1 and RFC 6303 section 4.2.
    reverse: [Name; 3],
    loopback: Name,
}

/// Reads `local`. Occurrences in one block add up, the last word counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let earlier = block.handlers.iter_mut().find_map(|handler| match handler {
        Handler::Local(local) => Some(local),
        _ => None,
    });
    if let Some(local) = earlier {
        return config::read(directive, &mut local.prefix);
    }
    let mut prefix = true;
    config::read(directive, &mut prefix)?;
    let name = |text: &str| Name::parse(text).map_err(|error| directive.invalid(error.to_string()));
    let names = Names {
        localhost: name("localhost")?,
        reverse: [name("0.in-addr.arpa")?, name("127.in-addr.arpa")?, name("255.in-addr.arpa")?],
        loopback: name("1.0.0.127.in-addr.arpa")?,
    };
    let prefix_requests = block.shared.registry.counter(
        "coredns_local_localhost_requests_total",
        "Queries for names below localhost or with localhost as first label.",
        &[],
    );
    block.push(Local { prefix, names, prefix_requests });
    Ok(())
}

/// What to say.
enum Reply<'n> {
    /// One record, owned by the name asked.
    Record(Type, &'n [u8]),
    /// The name exists but not this type; the SOA record belongs to this name.
    NoData(NameRef<'n>),
    /// There is no such name in this zone.
    NxDomain(NameRef<'n>),
}

impl Handle for Local {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        if !self.concerns(q.qname.view()) {
            return Step::Next;
        }
        let (qname, qtype) = (q.qname.clone(), q.qtype);
        let reply = if self.is_special(qname.view()) {
            cx.worker.cells.add(self.prefix_requests, 1);
            address(qname.view(), qtype)
        } else if let Some(reply) = self.in_zones(qname.view(), qtype) {
            reply
        } else {
            return Step::Next;
        };
        write(cx, qname.view(), &reply);
        Step::Answered
    }
}

impl Local {
    fn concerns(&self, qname: NameRef<'_>) -> bool {
        let in_domain = |zone: &Name| qname.is_in_domain(zone.view());
        self.is_special(qname)
            || in_domain(&self.names.localhost)
            || self.names.reverse.iter().any(in_domain)
    }

    /// Names below `localhost.`, and those that a resolver made by appending a search domain.
    fn is_special(&self, qname: NameRef<'_>) -> bool {
        if qname.label_count() < 2 {
            return false;
        }
        let first = || qname.labels().next().is_some_and(|l| l.eq_ignore_ascii_case(b"localhost"));
        (self.prefix && first()) || qname.is_in_domain(self.names.localhost.view())
    }

    fn in_zones<'n>(&'n self, qname: NameRef<'n>, qtype: Type) -> Option<Reply<'n>> {
        let apex_of = |zone: &Name| apex(qname, zone.view());
        if apex_of(&self.names.localhost).is_some() {
            return Some(match qtype {
                Type::A | Type::AAAA => address(qname, qtype),
                _ => at_apex(qname, qtype),
            });
        }
        let zone = self.names.reverse.iter().find_map(apex_of)?;
        Some(if zone.as_wire().len() == qname.as_wire().len() {
            at_apex(qname, qtype)
        } else if qname != self.names.loopback.view() {
            Reply::NxDomain(zone)
        } else if qtype == Type::PTR {
            Reply::Record(Type::PTR, LOCALHOST)
        } else {
            Reply::NoData(zone)
        })
    }
}

/// The part of `qname` that is `zone`, in the letters of the question.
fn apex<'n>(qname: NameRef<'n>, zone: NameRef<'_>) -> Option<NameRef<'n>> {
    if !qname.is_in_domain(zone) {
        return None;
    }
    let mut name = qname;
    while name.as_wire().len() > zone.as_wire().len() {
        name = name.parent()?;
    }
    Some(name)
}

fn address(qname: NameRef<'_>, qtype: Type) -> Reply<'_> {
    match qtype {
        Type::A => Reply::Record(Type::A, &[127, 0, 0, 1]),
        Type::AAAA => Reply::Record(Type::AAAA, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        _ => Reply::NoData(qname),
    }
}

fn at_apex(qname: NameRef<'_>, qtype: Type) -> Reply<'_> {
    match qtype {
        Type::SOA => Reply::Record(Type::SOA, SOA),
        Type::NS => Reply::Record(Type::NS, LOCALHOST),
        _ => Reply::NoData(qname),
    }
}

/// MNAME `localhost.`, RNAME `root.localhost.`, serial 1, no times, MINIMUM as [`TTL`].
const SOA: &[u8] = b"\x09localhost\x00\x04root\x09localhost\x00\
    \x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x3a\x80";
const _: () = assert!(TTL == 0x0009_3a80);

fn write(cx: &mut Cx<'_>, qname: NameRef<'_>, reply: &Reply<'_>) {
    let (section, rcode, owner, rtype, rdata) = match reply {
        Reply::Record(rtype, rdata) => (Section::Answer, Rcode::NOERROR, qname, *rtype, *rdata),
        Reply::NoData(zone) => (Section::Authority, Rcode::NOERROR, *zone, Type::SOA, SOA),
        Reply::NxDomain(zone) => (Section::Authority, Rcode::NXDOMAIN, *zone, Type::SOA, SOA),
    };
    let fields = (rtype, Class::IN, TTL);
    let fits = cx.q().reply(rcode, false).record(section, owner, fields, rdata);
    debug_assert!(fits.is_ok(), "one record fits any message");
}
