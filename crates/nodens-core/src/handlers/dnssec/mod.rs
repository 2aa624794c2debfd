//! `dnssec`: signs responses as they are given, and proves what does not exist with NSEC records that are
//! made for the question (compact denial, RFC 9824, with NOERROR for names that do not exist).

mod config;
mod denial;
mod signatures;
mod signing;

use crate::handler::{Cx, Handle, Spec, Step};
use crate::metrics::Counter;
use crate::zones::Zones;
use nodens_wire::{Class, Opcode, Rcode, Section, Type};
use nodens_zone::dnssec::{Canonical, SigningKey};
use signatures::Signatures;
use signing::{ORIGINAL_TTL, Signing};
use std::sync::Arc;

use config::setup;

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
        let mut signing = Signing::new(self, cx.now, &cx.worker.cells);
        let q = &mut cx.job.current;
        let rdatas = || self.keys.iter().map(SigningKey::rdata);
        let ttl = self.keys.iter().map(SigningKey::ttl).min().unwrap_or(ORIGINAL_TTL);
        let mut signed = None;
        if q.dnssec_ok() {
            let sort = (Type::DNSKEY, Class::IN);
            let rrset = Canonical::new(q.qname.view(), sort, ORIGINAL_TTL, rdatas());
            signed = signing.sign(&rrset, q.qname.view());
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

impl Handle for Dnssec {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let is_for_keys = q.qtype == Type::DNSKEY && q.flags.opcode() == Opcode::QUERY;
        if is_for_keys && !self.keys.is_empty() && self.zones.names().contains(&q.qname) {
            return self.answer_keys(cx);
        }
        Step::Next
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
        let mut signing = Signing::new(self, cx.now, &cx.worker.cells);
        let (qname, qtype, rcode) = (&q.qname, q.qtype, q.response.rcode);
        let mut signed_rcode = rcode;
        let edited = q.response.edit(|message| {
            signed_rcode = signing.message(message, qname.view(), qtype, rcode);
            message.flags = message.flags.with_rcode(signed_rcode);
        });
        // A message that cannot be read stays as it is, and does not validate.
        if edited.is_ok() {
            q.response.rcode = signed_rcode;
        }
    }
}
