//! Aliases that lead from the qname to the name that answers, within one zone.

use super::Others;
use super::out::Out;
use crate::limits::{ALIASES_MAX, PROOFS_MAX};
use nodens_wire::{Name, NameRef, Section, Type};
use nodens_zone::data::{Data, Found, Rrset};

/// One alias.
enum Link<'z> {
    Cname {
        rrset: Rrset<'z>,
        target: NameRef<'z>,
        wildcard: Option<NameRef<'z>>,
    },
    /// A DNAME record, and the target of the CNAME record that it makes, unless that is too long.
    Dname {
        rrset: Rrset<'z>,
        target: Option<Name>,
    },
}

impl Link<'_> {
    fn target(&self) -> Option<NameRef<'_>> {
        match self {
            Self::Cname { target, .. } => Some(*target),
            Self::Dname { target, .. } => target.as_ref().map(Name::view),
        }
    }
}

/// The aliases so far.
#[derive(Default)]
pub(super) struct Chain<'z> {
    links: [Option<Link<'z>>; ALIASES_MAX],
}

/// Where aliases lead.
pub(super) enum End<'z> {
    /// To what the zone has for the last name.
    Found(Found<'z>),
    /// To the next handler, as the zone has nothing under the qname.
    Pass,
    /// To a name that has to be looked up by the whole server.
    Elsewhere,
    /// To a name that is too long (RFC 6672 section 2.2).
    TooLong,
    /// To more aliases than are followed, or round in a circle.
    Many,
}

impl<'z> Chain<'z> {
    /// Whether the qname is no alias.
    pub(super) fn is_empty(&self) -> bool {
        self.links.first().is_none_or(Option::is_none)
    }

    /// The name right below which all names are the same alias as the qname, if it is one that a wildcard or a DNAME
    /// record makes.
    pub(super) fn made_below(&self) -> Option<NameRef<'z>> {
        match self.links.first() {
            Some(Some(Link::Cname { wildcard, .. })) => wildcard.and_then(NameRef::parent),
            Some(Some(Link::Dname { rrset, .. })) => Some(rrset.owner()),
            _ => None,
        }
    }

    /// Follows `qname` as far as the zone has it.
    pub(super) fn follow(
        &mut self,
        data: &'z Data,
        qname: NameRef<'_>,
        qtype: Type,
        others: &impl Others,
    ) -> End<'z> {
        for at in 0..ALIASES_MAX {
            let name = self.last().unwrap_or(qname);
            let found = data.lookup(name, qtype);
            if let Some(end) = leave(data, name, &found, others, at > 0) {
                return end;
            }
            let link = match found {
                Found::Cname { rrset, target, wildcard } => Link::Cname { rrset, target, wildcard },
                Found::Dname { rrset, target } => {
                    Link::Dname { rrset, target: replaced(name, rrset.owner(), target) }
                }
                found => return End::Found(found),
            };
            let Some(target) = link.target() else {
                self.push(at, link);
                return End::TooLong;
            };
            let is_known = qname == target || self.targets().any(|known| known == target);
            let is_inside = target.is_in_domain(data.origin());
            let is_made = matches!(link, Link::Dname { .. }) && qtype == Type::CNAME;
            self.push(at, link);
            if is_known || is_made {
                return End::Many;
            }
            if !is_inside {
                return End::Elsewhere;
            }
        }
        End::Many
    }

    fn push(&mut self, at: usize, link: Link<'z>) {
        if let Some(place) = self.links.get_mut(at) {
            *place = Some(link);
        }
    }

    fn targets(&self) -> impl Iterator<Item = NameRef<'_>> {
        self.links.iter().map_while(Option::as_ref).filter_map(Link::target)
    }

    /// The name that the last alias leads to.
    pub(super) fn last(&self) -> Option<NameRef<'_>> {
        self.targets().last()
    }

    /// Writes the aliases, the first of which is `qname`, and gives the name that they lead to.
    pub(super) fn write<'c>(
        &'c self,
        out: &mut Out<'_, '_, '_>,
        qname: NameRef<'c>,
    ) -> NameRef<'c> {
        let mut name = qname;
        for (at, link) in self.links.iter().map_while(Option::as_ref).enumerate() {
            match link {
                Link::Cname { rrset, target, .. } => {
                    out.rrset(Section::Answer, name, rrset);
                    name = *target;
                }
                Link::Dname { rrset, target } => {
                    if !self.has_dname_before(at, rrset.owner()) {
                        out.rrset(Section::Answer, rrset.owner(), rrset);
                    }
                    let Some(target) = target else { return name };
                    let fields = (Type::CNAME, rrset.class(), rrset.ttl());
                    out.record(Section::Answer, name, fields, target.as_wire());
                    name = target.view();
                }
            }
        }
        name
    }

    /// Whether a link before number `at` has used the DNAME record of `owner`, as one that leads below itself does.
    fn has_dname_before(&self, at: usize, owner: NameRef<'_>) -> bool {
        self.links.iter().take(at).flatten().any(|link| match link {
            Link::Dname { rrset, .. } => rrset.owner() == owner,
            Link::Cname { .. } => false,
        })
    }

    /// Writes what proves that the aliases that wildcards stand for have no names of their own, beside what was written
    /// for the `last` name.
    pub(super) fn prove(
        &self,
        out: &mut Out<'_, '_, '_>,
        qname: NameRef<'_>,
        last: Option<(NameRef<'_>, &Found<'_>)>,
    ) {
        let is_wild = |link: &Link<'_>| matches!(link, Link::Cname { wildcard: Some(_), .. });
        if !out.dnssec || !self.links.iter().flatten().any(is_wild) {
            return;
        }
        let mut written = [None; PROOFS_MAX];
        if let Some((name, found)) = last {
            let owners = out.data.proof(name, found);
            let owners = owners.iter().map(|part| Some(part.owner()));
            written.iter_mut().zip(owners).for_each(|(slot, owner)| *slot = owner);
        }
        let mut name = qname;
        for link in self.links.iter().map_while(Option::as_ref) {
            if let Link::Cname { rrset, target, wildcard: Some(wildcard) } = link {
                let (rrset, target, wildcard) = (*rrset, *target, Some(*wildcard));
                out.proof_beside(name, &Found::Cname { rrset, target, wildcard }, &mut written);
            }
            name = link.target().unwrap_or(name);
        }
    }
}

/// Where a name leads that is not answered out of this zone.
fn leave<'z>(
    data: &Data,
    name: NameRef<'_>,
    found: &Found<'_>,
    others: &impl Others,
    is_target: bool,
) -> Option<End<'z>> {
    let is_missing = match found {
        Found::NxDomain { .. } => true,
        // There are only names below it.
        Found::NoData { wildcard: None } => data.rrsets(name).next().is_none(),
        Found::NoData { .. } | Found::Answer { wildcard: Some(_), .. } => false,
        Found::Several { wildcard: Some(_), .. } | Found::Cname { wildcard: Some(_), .. } => false,
        Found::Outside => return Some(End::Elsewhere).filter(|_| is_target),
        Found::Referral(_) => {
            let is_here = is_target && others.is_below(name, data.origin());
            return is_here.then_some(End::Elsewhere);
        }
        _ => return None,
    };
    match is_target {
        false => (is_missing && others.may_pass(name)).then_some(End::Pass),
        true => {
            let elsewhere =
                (is_missing && others.may_pass(name)) || others.is_below(name, data.origin());
            elsewhere.then_some(End::Elsewhere)
        }
    }
}

/// `name` with `target` in the place of its end, `owner`; nothing if that is too long.
fn replaced(name: NameRef<'_>, owner: NameRef<'_>, target: NameRef<'_>) -> Option<Name> {
    let kept = name.as_wire().len().checked_sub(owner.as_wire().len())?;
    let wire = [name.as_wire().get(..kept)?, target.as_wire()].concat();
    Name::from_wire(&wire).ok()
}
