//! `ddr`: tells clients over which encrypted transports this resolver can be asked (RFC 9462).

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Name, NameRef, Rcode, Section, Type};

mod config;
#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("ddr", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Ddr {
    /// `resolver.arpa.`, which every resolver answers by itself (RFC 9462 section 8.2).
    zone: Name,
    /// `_dns.resolver.arpa.`: who has only the resolver's address asks for it.
    of_address: Name,
    /// `_dns.NAME`: who knows the resolver by its name asks for it (RFC 9461).
    of_name: Name,
    /// The resolver's name in its certificate.
    target: Name,
    /// Seconds.
    ttl: u32,
    /// RDATA of SVCB records, the most wanted first.
    services: Vec<Vec<u8>>,
    /// Addresses of the target: type and RDATA.
    addresses: Vec<(Type, Vec<u8>)>,
    /// RDATA of the SOA record of the zone.
    soa: Vec<u8>,
}

fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let ddr = config::read(directive)?;
    block.push(ddr);
    Ok(())
}

impl Handle for Ddr {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        let (qname, qtype) = (q.qname.clone(), q.qtype);
        if qname == self.of_address || (qname == self.of_name && qtype == Type::SVCB) {
            match qtype {
                Type::SVCB => self.tell(cx, qname.view()),
                _ => self.deny(cx, qname.view(), Rcode::NOERROR),
            }
        } else if qname == self.zone {
            self.apex(cx, qname.view(), qtype);
        } else if qname.view().is_in_domain(self.zone.view()) {
            self.deny(cx, qname.view(), Rcode::NXDOMAIN);
        } else {
            return Step::Next;
        }
        Step::Answered
    }
}

impl Ddr {
    /// Answers with the SVCB records, and with the addresses of their target in the additional section, so that clients
    /// need not query them.
    fn tell(&self, cx: &mut Cx<'_>, qname: NameRef<'_>) {
        let mut reply = cx.q().reply(Rcode::NOERROR, true);
        for rdata in &self.services {
            let fields = (Type::SVCB, Class::IN, self.ttl);
            if reply.record(Section::Answer, qname, fields, rdata).is_err() {
                return;
            }
        }
        for (rtype, rdata) in &self.addresses {
            let fields = (*rtype, Class::IN, self.ttl);
            if reply.record(Section::Additional, self.target.view(), fields, rdata).is_err() {
                return;
            }
        }
    }

    fn apex(&self, cx: &mut Cx<'_>, qname: NameRef<'_>, qtype: Type) {
        let (section, owner) = match qtype {
            Type::SOA => (Section::Answer, qname),
            _ => (Section::Authority, self.zone.view()),
        };
        self.write_soa(cx, Rcode::NOERROR, section, owner);
    }

    /// No such name, or no such type of it.
    fn deny(&self, cx: &mut Cx<'_>, qname: NameRef<'_>, rcode: Rcode) {
        // In the letters of the question, as far as it has them.
        let below = qname.label_count().saturating_sub(self.zone.view().label_count());
        let owner = (0..below).try_fold(qname, |name, _| name.parent());
        self.write_soa(cx, rcode, Section::Authority, owner.unwrap_or(self.zone.view()));
    }

    fn write_soa(&self, cx: &mut Cx<'_>, rcode: Rcode, section: Section, owner: NameRef<'_>) {
        let fields = (Type::SOA, Class::IN, self.ttl);
        let fits = cx.q().reply(rcode, true).record(section, owner, fields, &self.soa);
        debug_assert!(fits.is_ok(), "one record fits any message");
    }
}
