//! Responses out of a version of a zone. Aliases are not followed.

use crate::handler::{Cx, Resolution, Step};
use crate::zones::Fallthrough;
use nodens_wire::{Builder, Class, NameRef, Rcode, Section};
use nodens_zone::data::{Data, Found, Rrset};

/// Answers the query of `cx`.
pub(super) fn answer(cx: &mut Cx<'_>, data: &Data, fallthrough: &Fallthrough) -> Step {
    let q = cx.q();
    let qname = q.qname.clone();
    match data.lookup(qname.view(), q.qtype) {
        Found::Answer { rrset, .. } | Found::Cname { rrset, .. } => {
            q.reply_with(Rcode::NOERROR, true, |builder, owner| {
                push(builder, Section::Answer, owner, &rrset);
            });
        }
        Found::Several { rrsets, .. } => q.reply_with(Rcode::NOERROR, true, |builder, owner| {
            for rrset in rrsets {
                push(builder, Section::Answer, owner, &rrset);
            }
        }),
        Found::Dname { rrset, .. } => q.reply_with(Rcode::NOERROR, true, |builder, _| {
            push(builder, Section::Answer, rrset.owner(), &rrset);
        }),
        Found::Referral { cut, ns, .. } => q.reply_with(Rcode::NOERROR, false, |builder, _| {
            push(builder, Section::Authority, cut, &ns);
        }),
        Found::NoData { .. } | Found::NxDomain { .. } if fallthrough.lets_pass(qname.view()) => {
            return Step::Next;
        }
        Found::NoData { .. } => deny(q, data, Rcode::NOERROR),
        Found::NxDomain { .. } => deny(q, data, Rcode::NXDOMAIN),
        Found::Outside => return Step::Next,
    }
    Step::Answered
}

fn deny(q: &mut Resolution, data: &Data, rcode: Rcode) {
    q.reply_with(rcode, true, |builder, _| {
        _ = builder.push(Section::Authority, data.soa().record());
    });
}

/// What no message can hold is left out.
fn push(builder: &mut Builder<'_>, section: Section, owner: NameRef<'_>, rrset: &Rrset<'_>) {
    for record in rrset.iter() {
        let fields = (record.rtype, Class::IN, record.ttl);
        _ = builder.record(section, owner, fields, record.rdata);
    }
}
