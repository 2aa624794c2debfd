//! `dnssec`: signs responses as they are given, and proves what does not exist with NSEC records that are
//! made for the question (compact denial, RFC 9824). Names that do not exist get NOERROR here; who takes
//! NXDOMAIN gets it at the very end.

mod config;
mod denial;
mod meter;
mod signing;

use crate::handler::{Cx, Handle, Job, Resolution, Spec, Step};
use crate::metrics::Counter;
use crate::signatures::{Signatures, Sort};
use crate::zones::Zones;
use nodens_wire::edns::extended_error;
use nodens_wire::{Class, NameRef, Opcode, Rcode, Section, Type};
use nodens_zone::dnssec::{Canonical, SigningKey};
use signing::{Asked, ORIGINAL_TTL, Signing};
use std::sync::Arc;

use config::setup;
pub use meter::Meter;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("dnssec", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Dnssec {
    zones: Zones,
    keys: Vec<SigningKey>,
    /// Whether keys with the SEP bit sign DNSKEY records alone, and the others everything else.
    is_split: bool,
    signatures: Arc<Signatures>,
    hits: Counter,
    misses: Counter,
    refused: Counter,
}

impl Dnssec {
    /// The keys that sign records of a type.
    fn signers(&self, rtype: Type) -> impl Iterator<Item = &SigningKey> {
        let is_key = rtype == Type::DNSKEY;
        let signs = move |key: &&SigningKey| match self.is_split {
            true if is_key => key.is_ksk(),
            true => key.is_zsk(),
            false => true,
        };
        self.keys.iter().filter(signs)
    }

    /// Answers with the keys, which lie at the apex of every zone.
    fn answer_keys(&self, cx: &mut Cx<'_>) -> Step {
        let (parts, meter) = (&cx.worker.parts, &mut cx.worker.own.dnssec);
        let mut signing = Signing::new(self, cx.now, &parts.cells, (meter, &|_, _| false));
        let q = &mut cx.job.current;
        let rdatas = || self.keys.iter().map(SigningKey::rdata);
        let ttl = self.keys.iter().map(SigningKey::ttl).fold(ORIGINAL_TTL, u32::min);
        let mut signed = None;
        if q.dnssec_ok() {
            let sort = (Type::DNSKEY, Class::IN);
            let rrset = Canonical::new(q.qname.view(), sort, ORIGINAL_TTL, rdatas());
            signed = signing.sign(&rrset, q.qname.view(), Sort::Apex);
        }
        if signing.is_incomplete() {
            parts.cells.add(self.refused, 1);
            refuse(q);
            return Step::Answered;
        }
        q.reply_with(Rcode::NOERROR, true, |builder, qname| {
            let mut add = |rtype, rdata: &[u8]| {
                let sort = (rtype, Class::IN, ttl);
                // What is too long for a message is left out of it.
                _ = builder.record(Section::Answer, qname, sort, rdata);
            };
            rdatas().for_each(|rdata| add(Type::DNSKEY, rdata));
            let rrsigs = signed.iter().flat_map(|signed| signed.rdatas.iter());
            rrsigs.for_each(|rdata| add(Type::RRSIG, rdata));
        });
        Step::Answered
    }
}

/// Answers with a failure that the next query may not have any more. Without its signatures a response would
/// look forged.
#[cold]
fn refuse(q: &mut Resolution) {
    q.reply_with(Rcode::SERVFAIL, false, |_, _| ());
    q.response.live = true;
    q.response.extended_error(extended_error::OTHER, "too many signatures to be made");
}

/// Answers a query for the type that only stands in bitmaps (RFC 9824 section 3.5).
#[cold]
fn reject(q: &mut Resolution) -> Step {
    q.reply_with(Rcode::FORMERR, false, |_, _| ());
    q.response.extended_error(extended_error::INVALID_QUERY_TYPE, "");
    Step::Answered
}

impl Handle for Dnssec {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &mut cx.job.current;
        if self.keys.is_empty() || q.flags.opcode() != Opcode::QUERY {
            return Step::Next;
        }
        match q.qtype {
            Type::DNSKEY if self.zones.names().contains(&q.qname) => self.answer_keys(cx),
            Type::NXNAME if self.zones.longest(q.qname.view()).is_some() => reject(q),
            _ => Step::Next,
        }
    }

    fn amend(&self, cx: &mut Cx<'_>) {
        let q = &mut cx.job.current;
        let is_transfer = matches!(q.qtype, Type::AXFR | Type::IXFR) || q.response.rest.is_some();
        if !q.response.written || !q.dnssec_ok() || self.keys.is_empty() || is_transfer {
            return;
        }
        if q.flags.opcode() != Opcode::QUERY || self.zones.longest(q.qname.view()).is_none() {
            return;
        }
        let (parts, meter) = (&cx.worker.parts, &mut cx.worker.own.dnssec);
        let Job { current: q, recipient, .. } = &mut *cx.job;
        let asker = (recipient.client(), cx.block);
        let is_others = |name: NameRef<'_>, labels| cx.config.is_others(asker, name, labels);
        let mut signing = Signing::new(self, cx.now, &parts.cells, (meter, &is_others));
        let asked = Asked {
            qname: q.qname.view(),
            qtype: q.qtype,
            rcode: q.response.rcode,
            known: q.response.known,
            is_wildcard: q.response.below_wildcard != 0,
        };
        let mut rcode = asked.rcode;
        let edited = q.response.edit(|message| {
            rcode = signing.message(message, asked);
            message.flags = message.flags.with_rcode(rcode);
        });
        if signing.is_incomplete() {
            parts.cells.add(self.refused, 1);
            refuse(q);
        } else if edited.is_ok() {
            // A message that cannot be read stays as it is, and does not validate.
            q.response.rcode = rcode;
        }
    }
}
