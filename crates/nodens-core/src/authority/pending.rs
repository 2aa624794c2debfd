//! A response that waits for the target of an alias outside the zone.

use super::chain::Chain;
use super::out::{Out, before_target, target};
use crate::job::{Resolution, States};
use crate::limits::ADDITIONAL_NAMES_MAX;
use crate::response::{Known, Response, octets_of};
use nodens_wire::{Builder, Flags, Message, Name, NameRef, Rcode, Record, Section, Type};
use nodens_zone::data::Data;
use std::sync::Arc;

/// The aliases so far, and the version of the zone that has them.
#[derive(Debug)]
pub struct Pending {
    data: Arc<Data>,
    answer: Vec<Record>,
    /// What proves that the aliases have no names of their own.
    proofs: Vec<Record>,
    /// The name to look up.
    pub(crate) target: Name,
}

impl Pending {
    /// Nothing if the chain is empty.
    pub(super) fn new(
        data: &Arc<Data>,
        chain: &Chain<'_>,
        qname: NameRef<'_>,
        dnssec: bool,
    ) -> Option<Self> {
        let target = chain.last()?.to_name();
        let mut wire = Vec::new();
        let mut builder = Builder::new(&mut wire, 0, Flags::default());
        let mut out = Out::new(&mut builder, data, dnssec);
        chain.write(&mut out, qname);
        chain.prove(&mut out, qname, None);
        let Message { answer, authority: proofs, .. } = Message::parse(&wire).unwrap_or_default();
        Some(Self { data: data.clone(), answer, proofs, target })
    }

    /// Octets of memory that its records take.
    pub(crate) fn octets(&self) -> usize {
        size_of::<Self>() + octets_of(&self.answer) + octets_of(&self.proofs)
    }

    /// Writes the response with what the lookup of the target came to.
    pub(crate) fn finish<S: States>(self, q: &mut Resolution<S>, inner: Option<&Response>) {
        let Self { data, mut answer, proofs, .. } = self;
        let dnssec = q.dnssec_ok();
        let rcode = inner.map_or(Rcode::NOERROR, |inner| inner.rcode);
        let message = inner.filter(|inner| inner.written).map(|inner| Message::parse(&inner.wire));
        let message = message.and_then(Result::ok).unwrap_or_default();
        // A target that this server does not serve is not a failure: the alias is the whole answer.
        let is_empty = rcode == Rcode::NOERROR && inner.is_some() && message.answer.is_empty();
        let is_negative = rcode == Rcode::NXDOMAIN || (is_empty && !refers(&message));
        let rcode = match rcode {
            Rcode::NXDOMAIN | Rcode::SERVFAIL => rcode,
            _ => Rcode::NOERROR,
        };
        let is_cut = message.flags.has(Flags::TC);
        let has_answer = !message.answer.is_empty() && !is_negative;
        answer.extend(message.answer);
        // How long a negative answer may be kept says the zone that the target is in, and that has the proofs.
        let is_soa = |record: &Record| record.rtype == Type::SOA;
        let has_denial = is_negative && message.authority.iter().any(is_soa);
        // If a wildcard there made the answer, that zone has to prove it.
        let mut authority = message.authority;
        authority.retain(|record| has_denial || (has_answer && dnssec && is_proof(record)));
        let proofs = proofs.iter().filter(|record| !authority.contains(record));
        q.reply_with(rcode, true, |builder, _| {
            for record in &answer {
                _ = builder.push(Section::Answer, record);
            }
            let mut out = Out::new(builder, &data, dnssec);
            if !is_negative {
                out.servers();
            } else if !has_denial {
                out.soa();
            }
            authority.iter().chain(proofs).for_each(|record| out.authority(record));
            additional(&mut out, &answer);
        });
        q.response.traits.optional_extras = true;
        if is_negative && !has_denial {
            q.response.known = Known::OtherSoa;
        }
        if is_cut {
            let flags = q.response.flags();
            q.response.set_flags(flags.with(Flags::TC, true));
        }
    }
}

/// Whether it says which names or types do not exist, or is a signature over such a record.
fn is_proof(record: &Record) -> bool {
    let covered = |rdata: &[u8]| {
        let covered = rdata.first_chunk().map(|octets| Type(u16::from_be_bytes(*octets)));
        covered.filter(|_| record.rtype == Type::RRSIG)
    };
    let rtype = covered(&record.rdata).unwrap_or(record.rtype);
    matches!(rtype, Type::NSEC | Type::NSEC3)
}

/// Whether a response without an answer only says who has one. That a client can ask them as well; it is not known
/// what they say.
fn refers(message: &Message) -> bool {
    let has = |rtype| message.authority.iter().any(|record| record.rtype == rtype);
    has(Type::NS) && !has(Type::SOA)
}

/// Writes the addresses of names in the zone that records of the answer lead to.
fn additional(out: &mut Out<'_, '_, '_>, answer: &[Record]) {
    let has_target = |record: &&Record| record.rtype != nodens_wire::Type::NS;
    let targets = || {
        let records = answer.iter().filter(has_target);
        records.filter_map(|record| target(&record.rdata, before_target(record.rtype)?))
    };
    for (at, name) in targets().take(ADDITIONAL_NAMES_MAX).enumerate() {
        if !targets().take(at).any(|before| before == name) {
            out.addresses(name);
        }
    }
}
