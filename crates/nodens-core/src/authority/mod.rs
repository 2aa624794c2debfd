//! Responses out of the data of a zone, the same for every directive that has zones.
//!
//! [`nodens_zone::data::Data`] finds what there is for one name. Here it becomes a message: aliases are followed,
//! within the zone here and out of it by a lookup of the whole server; the servers of the zone stand
//! in the authority section, or the SOA record if there is no such name or type (RFC 2308), or the
//! servers of another zone with their addresses; addresses of names that records lead to are added
//! (RFC 1035 section 3.3, RFC 2782, RFC 9460), and signatures and proofs for those who want them
//! (RFC 4035 section 3.1). An answer that needs no other lookup allocates nothing but what is kept for later queries.

mod chain;
pub(crate) mod metrics;
mod out;
mod pending;
pub(crate) mod set;
pub(crate) mod source;

use crate::job::{Resolution, States};
use crate::response::Known;
use chain::{Chain, End};
use nodens_wire::shape::Traits;
use nodens_wire::{HEADER_LEN, NameRef, Owner, Rcode, Section, Type};
use nodens_zone::data::{Data, Found, Part};
use out::Out;
use std::sync::Arc;

pub(crate) use pending::Pending;

/// What became of a query.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The response is written.
    Answered,
    /// The zone has nothing under this name, and another handler may try.
    Pass,
    /// There is no response but an RCODE, for this reason.
    Failed(&'static str),
    /// An alias leads out of the zone: its target has to be looked up, for [`Pending::finish`].
    Lookup(Box<Pending>),
}

/// Whom else a name may belong to.
pub(crate) trait Others {
    /// Whether the next handler may answer for a name that the zone has nothing under.
    fn may_pass(&self, name: NameRef<'_>) -> bool;

    /// Whether a zone below this one, which `origin` is the name of, is served here and contains
    /// `name`, although this one does not say so.
    fn is_below(&self, name: NameRef<'_>, origin: NameRef<'_>) -> bool;
}

/// Answers the query of `q` out of the zone.
pub(crate) fn answer<S: States>(
    data: &Arc<Data>,
    q: &mut Resolution<S>,
    others: &impl Others,
) -> Reply {
    let (qtype, dnssec) = (q.qtype, q.dnssec_ok());
    let mut chain = Chain::default();
    let end = chain.follow(data, q.qname.view(), qtype, others);
    q.response.below_wildcard = below(match &end {
        End::Found(found) if chain.is_empty() => found.wildcard().and_then(NameRef::parent),
        _ => chain.made_below(),
    });
    match end {
        End::Pass => Reply::Pass,
        End::Elsewhere => {
            let pending = Pending::new(data, &chain, q.qname.view(), dnssec);
            pending.map_or(Reply::Failed("an alias without a target"), |pending| {
                Reply::Lookup(Box::new(pending))
            })
        }
        End::TooLong => {
            q.reply_with(Rcode::YXDOMAIN, true, |builder, qname| {
                let mut out = Out::new(builder, data, dnssec);
                chain.write(&mut out, qname);
                chain.prove(&mut out, qname, None);
            });
            Reply::Answered
        }
        End::Many => {
            q.reply_with(Rcode::NOERROR, true, |builder, qname| {
                let mut out = Out::new(builder, data, dnssec);
                chain.write(&mut out, qname);
                out.servers();
                chain.prove(&mut out, qname, None);
            });
            Reply::Answered
        }
        End::Found(found) => {
            let rcode = match found {
                Found::NxDomain { .. } => Rcode::NXDOMAIN,
                _ => Rcode::NOERROR,
            };
            let known = known(data, (q.qname.view(), qtype), (&found, &chain), dnssec);
            let is_referral = matches!(found, Found::Referral(_)) && chain.is_empty();
            q.reply_with(rcode, !is_referral, |builder, qname| {
                let mut out = Out::new(builder, data, dnssec);
                if is_referral && referral(&mut out, qtype, &found) {
                    return;
                }
                let name = chain.write(&mut out, qname);
                // The question has it already, unless it is the root.
                let owner = match chain.is_empty() && !qname.is_root() {
                    true => Owner::At(HEADER_LEN as u16),
                    false => Owner::Name(name),
                };
                write(&mut out, (name, owner), qtype, &found);
                chain.prove(&mut out, qname, Some((name, &found)));
                additional(&mut out, &found);
            });
            let optional_extras = !matches!(found, Found::Referral(_));
            let gain_max = is_referral.then(|| octets_below(data.origin(), q.qname.view()));
            q.response.traits = Traits { without_opt: true, gain_max, optional_extras };
            q.response.known = known;
            Reply::Answered
        }
    }
}

/// What was found says beside the response.
fn known(
    data: &Data,
    (qname, qtype): (NameRef<'_>, Type),
    (found, chain): (&Found<'_>, &Chain<'_>),
    dnssec: bool,
) -> Known {
    if is_cut(data, qname, qtype, found, chain) {
        Known::Cut(out::negative_ttl(data))
    } else if dnssec && lacks_beside_dname(data, chain.last().unwrap_or(qname), found) {
        Known::Dname
    } else {
        Known::Nothing
    }
}

/// Whether what was found says that another zone begins at a name: a referral does, and that there are no
/// DS records beside NS records.
fn is_cut(
    data: &Data,
    qname: NameRef<'_>,
    qtype: Type,
    found: &Found<'_>,
    chain: &Chain<'_>,
) -> bool {
    let has_servers = || data.rrsets(qname).any(|rrset| rrset.rtype() == Type::NS);
    match found {
        Found::Referral(_) => true,
        Found::NoData { .. } if qtype == Type::DS => {
            chain.is_empty() && qname != data.origin() && has_servers()
        }
        _ => false,
    }
}

/// Whether a name that has no records of a type has a DNAME record, as names do that a wildcard stands for which has
/// one (RFC 4592 section 4.4).
fn lacks_beside_dname(data: &Data, name: NameRef<'_>, found: &Found<'_>) -> bool {
    matches!(found, Found::NoData { .. })
        && matches!(data.lookup(name, Type::DNAME), Found::Answer { .. })
}

/// Octets of a name in front of another that it ends with. Those of the qname are what a referral that was written
/// for other names may have once more: it leads to the rest of the qname alone.
fn octets_below(upper: NameRef<'_>, name: NameRef<'_>) -> u8 {
    let octets = name.as_wire().len().saturating_sub(upper.as_wire().len());
    u8::try_from(octets).unwrap_or(u8::MAX)
}

/// Octets of that name.
fn below(parent: Option<NameRef<'_>>) -> u8 {
    parent.map_or(0, |parent| u8::try_from(parent.as_wire().len()).unwrap_or(u8::MAX))
}

/// Writes a referral as it was written for other names below the same cut; false if it was not.
fn referral<'z>(out: &mut Out<'_, '_, 'z>, qtype: Type, found: &Found<'z>) -> bool {
    let Found::Referral(cut) = found else { return false };
    let cut = cut.name();
    let base = (cut, out.above(cut));
    out.prepared((Part::Referral, cut), base, |out| {
        write(out, base, qtype, found);
        additional(out, found);
    })
}

/// Writes what was found for `name`, and what proves that it is all.
fn write<'z>(
    out: &mut Out<'_, '_, 'z>,
    (name, owner): (NameRef<'_>, Owner<'_>),
    qtype: Type,
    found: &Found<'z>,
) {
    match found {
        Found::Answer { rrset, .. } => {
            out.whole(Section::Answer, owner, rrset);
            // The servers of the zone are the answer already.
            if rrset.rtype() != Type::NS || name != out.data.origin() {
                out.servers();
            }
        }
        Found::Several { rrsets, .. } => {
            for rrset in rrsets.clone() {
                out.alone(Section::Answer, owner, &rrset);
            }
            if qtype != Type::ANY || name != out.data.origin() {
                out.servers();
            }
        }
        Found::Referral(cut) => {
            let owner = out.above(cut.name());
            if let Some(ns) = cut.ns() {
                out.alone(Section::Authority, owner, &ns);
            }
            if let Some(ds) = cut.ds().filter(|_| out.dnssec) {
                out.whole(Section::Authority, owner, &ds);
            }
        }
        Found::NoData { .. } | Found::NxDomain { .. } => out.soa(),
        // These do not end a chain, and queries for other zones do not come here.
        Found::Cname { .. } | Found::Dname { .. } | Found::Outside => out.servers(),
    }
    out.proof(name, found);
}

/// Writes the addresses of names that what was found leads to.
fn additional(out: &mut Out<'_, '_, '_>, found: &Found<'_>) {
    match found {
        Found::Answer { rrset, .. } => out.additional(rrset),
        Found::Referral(cut) => cut.ns().iter().for_each(|ns| out.additional(ns)),
        Found::Several { rrsets, .. } => {
            for (at, rrset) in rrsets.clone().enumerate() {
                let leads_to = |name: NameRef<'_>| {
                    // Those of the name itself are in the answer.
                    let mut before = rrsets.clone().take(at);
                    name == rrset.owner() || before.any(|before| out::leads_to(&before, name))
                };
                out.additional_beside(&rrset, leads_to);
            }
        }
        _ => {}
    }
}

/// The wildcard that stands for `name`, if one does.
pub(crate) fn wildcard<'d>(data: &'d Data, name: NameRef<'_>, qtype: Type) -> Option<NameRef<'d>> {
    match data.lookup(name, qtype) {
        Found::NoData { .. } => None,
        found => found.wildcard(),
    }
}

#[cfg(test)]
mod tests;
