//! The one lookup, for every zone there is.
//!
//! The algorithm is that of RFC 1034 section 4.3.2 step 3, with RFC 4592 (wildcards), RFC 6672
//! (DNAME), and RFC 4035 sections 2.5 and 3.1.4.1 (types that are answered beside a CNAME record,
//! and DS at the parent's side of a cut).

use super::Data;
use super::key::Place;
use super::node::Node;
use super::rrset::{Rrset, Rrsets, name_in};
use super::trie::{Entry, Flags};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, NameRef, Type};
use std::fmt;

/// What a zone has for a question.
#[derive(Clone, Debug)]
pub enum Found<'z> {
    /// The RRset that was asked for.
    Answer {
        /// The RRset.
        rrset: Rrset<'z>,
        /// The wildcard that stands for the qname, if it does not exist itself.
        wildcard: Option<NameRef<'z>>,
    },
    /// To QTYPE ANY all RRsets of the name, to RRSIG its signatures; at least one.
    Several {
        /// The RRsets.
        rrsets: Rrsets<'z>,
        /// As in [`Found::Answer`].
        wildcard: Option<NameRef<'z>>,
    },
    /// The name is an alias of another, which may lie in the zone or not.
    Cname {
        /// The CNAME record.
        rrset: Rrset<'z>,
        /// The other name.
        target: NameRef<'z>,
        /// As in [`Found::Answer`].
        wildcard: Option<NameRef<'z>>,
    },
    /// A name above has a DNAME record: who answers makes a CNAME record of it (RFC 6672 section 3.1).
    Dname {
        /// The DNAME record.
        rrset: Rrset<'z>,
        /// The name that takes the place of its owner.
        target: NameRef<'z>,
    },
    /// Another zone begins at the name or above it.
    Referral(Cut<'z>),
    /// The name exists, or a wildcard stands for it, or there are names below it; but it has nothing
    /// of the type.
    NoData {
        /// As in [`Found::Answer`].
        wildcard: Option<NameRef<'z>>,
    },
    /// The name does not exist.
    NxDomain {
        /// The lowest name above that exists.
        closest_encloser: NameRef<'z>,
        /// Where the name would be, for [`Data::proof`].
        gap: Gap,
    },
    /// The name does not lie in the zone.
    Outside,
}

/// Where another zone begins.
///
/// What there is beside its name is looked for when it is asked for: a referral that was written for an earlier query
/// needs nothing of it.
#[derive(Clone, Copy)]
pub struct Cut<'z> {
    node: &'z Node,
    class: Class,
}

impl<'z> Cut<'z> {
    /// The name.
    pub fn name(&self) -> NameRef<'z> {
        self.node.owner()
    }

    /// The servers of the other zone. [`Data::rrset`] has their addresses, if they lie in this zone or below a cut.
    pub fn ns(&self) -> Option<Rrset<'z>> {
        self.node.set(Type::NS, self.class)
    }

    /// The hashes of its keys.
    pub fn ds(&self) -> Option<Rrset<'z>> {
        self.node.set(Type::DS, self.class)
    }
}

impl fmt::Debug for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cut({})", self.name())
    }
}

/// Between which names one that does not exist would be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gap {
    /// Symbols that its key has in common with the one nearest to it.
    pub(super) common: usize,
    /// Whether that one is less.
    pub(super) is_behind: bool,
}

impl<'z> Found<'z> {
    /// The wildcard that stands for the qname.
    pub fn wildcard(&self) -> Option<NameRef<'z>> {
        match self {
            Self::Answer { wildcard, .. }
            | Self::Several { wildcard, .. }
            | Self::Cname { wildcard, .. }
            | Self::NoData { wildcard } => *wildcard,
            Self::Dname { .. } | Self::Referral(_) | Self::NxDomain { .. } | Self::Outside => None,
        }
    }
}

impl Data {
    /// Looks up a question. Allocates nothing; what it gives lies in the zone.
    pub fn lookup(&self, qname: NameRef<'_>, qtype: Type) -> Found<'_> {
        let origin = self.origin();
        let mut place = Place::unknown(qname);
        if !place.find(origin) {
            return Found::Outside;
        }
        let walk = self.names.walk(&place, origin);
        if let Some(upper) = walk.hidden_by {
            return self.hidden(upper).unwrap_or(Found::NoData { wildcard: None });
        }
        if let Some(Entry { flags, node }) = walk.hit {
            // The parent answers for DS (RFC 4035 section 3.1.4.1).
            return if flags.has(Flags::CUT) && qtype != Type::DS {
                self.referral(node)
            } else {
                self.at(node, qtype, None)
            };
        }
        let Some(encloser) = self.names.encloser(&place.key, walk.common, origin) else {
            return Found::NxDomain { closest_encloser: origin, gap: Gap::default() };
        };
        let closest_encloser = encloser.node.owner();
        let wildcard = if encloser.flags.has(Flags::WILDCARD) {
            self.wildcard(closest_encloser)
        } else {
            None
        };
        match wildcard {
            // Neither NS nor DNAME records of a wildcard act on names that it stands for (RFC 4592
            // sections 4.2 and 4.4); they are data.
            Some(entry) => self.at(entry.node, qtype, Some(entry.node.owner())),
            None => {
                let gap = Gap { common: walk.common, is_behind: walk.is_behind };
                Found::NxDomain { closest_encloser, gap }
            }
        }
    }

    /// What there is below a name that hides it. NS records win where DNAME stands beside them.
    fn hidden<'z>(&self, upper: Entry<'z>) -> Option<Found<'z>> {
        if upper.flags.has(Flags::CUT) {
            return Some(self.referral(upper.node));
        }
        let rrset = upper.node.set(Type::DNAME, self.class)?;
        Some(Found::Dname { rrset, target: name_in(rrset.first(), 0)? })
    }

    fn referral<'z>(&self, node: &'z Node) -> Found<'z> {
        Found::Referral(Cut { node, class: self.class })
    }

    /// What a name has that exists.
    fn at<'z>(&self, node: &'z Node, qtype: Type, wildcard: Option<NameRef<'z>>) -> Found<'z> {
        let nodata = Found::NoData { wildcard };
        let sets = match qtype {
            Type::ANY => Some(node.sets(self.class)),
            Type::RRSIG => Some(node.sets(self.class).only(Type::RRSIG)),
            _ => None,
        };
        if let Some(rrsets) = sets {
            let none = rrsets.clone().next().is_none();
            return if none { nodata } else { Found::Several { rrsets, wildcard } };
        }
        let (mut answer, mut alias) = (None, None);
        for rrset in node.sets(self.class) {
            let rtype = rrset.rtype();
            if rtype == qtype {
                answer = Some(rrset);
            } else if rtype == Type::CNAME && !is_beside_cname(qtype) {
                alias = name_in(rrset.first(), 0).map(|target| (rrset, target));
            } else if rtype > qtype.max(Type::CNAME) && rtype != Type::RRSIG {
                break;
            }
        }
        match (alias, answer) {
            // An alias at the apex hides neither of what makes it one, as in CoreDNS.
            (Some(_), Some(rrset))
                if matches!(qtype, Type::SOA | Type::NS) && node.owner() == self.origin() =>
            {
                Found::Answer { rrset, wildcard }
            }
            (Some((rrset, target)), _) => Found::Cname { rrset, target, wildcard },
            (None, Some(rrset)) => Found::Answer { rrset, wildcard },
            (None, None) => nodata,
        }
    }

    /// The wildcard right below a name.
    pub(super) fn wildcard(&self, encloser: NameRef<'_>) -> Option<Entry<'_>> {
        let mut buffer = [0; NAME_LEN_MAX];
        self.entry(&self.names, wildcard_name(encloser, &mut buffer)?)
    }
}

/// The name `*` right below another; nothing if that is too long.
pub(super) fn wildcard_name<'b>(
    encloser: NameRef<'_>,
    buffer: &'b mut [u8; NAME_LEN_MAX],
) -> Option<NameRef<'b>> {
    let rest = encloser.as_wire();
    let wire = buffer.get_mut(..rest.len() + 2)?;
    let (label, tail) = wire.split_at_mut_checked(2)?;
    label.copy_from_slice(b"\x01*");
    tail.copy_from_slice(rest);
    NameRef::new(wire).ok()
}

/// Whether records of the type may stand beside a CNAME record, and are answered there (RFC 4035
/// section 2.5, RFC 4034 section 4.1.1).
pub(super) fn is_beside_cname(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::CNAME | Type::RRSIG | Type::NSEC | Type::KEY | Type::SIG | Type::NXT | Type::NSEC3
    )
}
