//! A response that waits for the target of an alias outside the zone.

use super::chain::Chain;
use super::out::{Out, before_target, target};
use crate::job::{Resolution, States};
use crate::limits::ADDITIONAL_NAMES_MAX;
use crate::response::Response;
use nodens_wire::{Builder, Flags, Message, Name, NameRef, Rcode, Record, Section};
use nodens_zone::data::Data;

/// The aliases so far, and the version of the zone that has them.
#[derive(Debug)]
pub struct Pending {
    data: Data,
    answer: Vec<Record>,
    /// The name to look up.
    pub(crate) target: Name,
}

impl Pending {
    /// Nothing if the chain is empty.
    pub(super) fn new(
        data: &Data,
        chain: &Chain<'_>,
        qname: NameRef<'_>,
        dnssec: bool,
    ) -> Option<Self> {
        let target = chain.last()?.to_name();
        let mut wire = Vec::new();
        let mut builder = Builder::new(&mut wire, 0, Flags::default());
        chain.write(&mut Out::new(&mut builder, data, dnssec), qname);
        let answer = Message::parse(&wire).map(|message| message.answer).unwrap_or_default();
        Some(Self { data: data.clone(), answer, target })
    }

    /// Writes the response with what the lookup of the target came to.
    pub(crate) fn finish<S: States>(self, q: &mut Resolution<S>, inner: Option<&Response>) {
        let Self { data, mut answer, .. } = self;
        let dnssec = q.dnssec_ok();
        let rcode = inner.map_or(Rcode::NOERROR, |inner| inner.rcode);
        let message = inner.filter(|inner| inner.written).map(|inner| Message::parse(&inner.wire));
        let message = message.and_then(Result::ok).unwrap_or_default();
        // What nobody here serves is no failure: the alias is the answer.
        let is_negative = rcode == Rcode::NXDOMAIN
            || (rcode == Rcode::NOERROR && inner.is_some() && message.answer.is_empty());
        let rcode = match rcode {
            Rcode::NXDOMAIN | Rcode::SERVFAIL => rcode,
            _ => Rcode::NOERROR,
        };
        let is_cut = message.flags.has(Flags::TC);
        answer.extend(message.answer);
        q.reply_with(rcode, true, |builder, _| {
            for record in &answer {
                _ = builder.push(Section::Answer, record);
            }
            let mut out = Out::new(builder, &data, dnssec);
            if is_negative {
                out.soa()
            } else {
                out.servers()
            }
            additional(&mut out, &answer);
        });
        if is_cut {
            let flags = q.response.flags();
            q.response.set_flags(flags.with(Flags::TC, true));
        }
    }
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
