//! Zones as they are rebuilt.

use nodens_wire::{Name, NameRef, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Records of one owner and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rrset {
    /// Seconds.
    pub ttl: u32,
    /// RDATA without compression.
    pub rdata: BTreeSet<Vec<u8>>,
    /// RDATA of the signatures that cover it.
    pub signatures: Vec<Vec<u8>>,
}

impl Rrset {
    pub(crate) fn unsigned(ttl: u32, rdata: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { ttl, rdata: rdata.into_iter().collect(), signatures: Vec::new() }
    }
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name, in lower case.
    pub name: Name,
    /// The addresses that it is served at.
    pub servers: BTreeSet<IpAddr>,
    /// Its records by owner and type, glue among them, and nothing else below a cut.
    pub records: BTreeMap<Name, BTreeMap<Type, Rrset>>,
}

/// What a server of a zone says to a question, without following aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'z> {
    Records(&'z Rrset),
    Alias(&'z Rrset),
    /// A DNAME record above the name.
    Redirected(&'z Name),
    Delegated(&'z Name, &'z Rrset),
    NoData,
    Denied,
}

impl Zone {
    pub(crate) fn new(name: Name) -> Self {
        Self { name, servers: BTreeSet::new(), records: BTreeMap::new() }
    }

    /// The records of a name and type.
    pub fn get(&self, owner: &Name, rtype: Type) -> Option<&Rrset> {
        self.records.get(owner)?.get(&rtype)
    }

    pub(crate) fn insert(&mut self, owner: Name, rtype: Type, rrset: Rrset) {
        self.records.entry(owner).or_default().insert(rtype, rrset);
    }

    /// Records in it, signatures among them.
    pub fn count(&self) -> usize {
        let rrsets = self.records.values().flat_map(BTreeMap::values);
        rrsets.map(|rrset| rrset.rdata.len() + rrset.signatures.len()).sum()
    }

    /// Whether `name` exists: it has records, or a name below it has.
    pub(crate) fn exists(&self, name: &Name) -> bool {
        let mut following = self.records.range(name.clone()..);
        following.next().is_some_and(|(owner, _)| owner.view().is_in_domain(name.view()))
    }

    /// The steps of RFC 1034 section 4.3.2 in one zone.
    pub(crate) fn find(&self, qname: &Name, qtype: Type) -> Found<'_> {
        let mut above: Vec<Name> = std::iter::successors(Some(qname.view()), |name| name.parent())
            .take_while(|name| *name != self.name.view())
            .map(NameRef::to_name)
            .collect();
        above.reverse();
        if let Some((apex, _)) = self.keyed(&self.name, Type::DNAME).filter(|_| self.name != *qname)
        {
            return Found::Redirected(apex);
        }
        for name in &above {
            let is_qname = name == qname;
            if let Some((cut, rrset)) = self.keyed(name, Type::NS)
                && !(is_qname && qtype == Type::DS)
            {
                return Found::Delegated(cut, rrset);
            }
            if let Some((owner, _)) = self.keyed(name, Type::DNAME).filter(|_| !is_qname) {
                return Found::Redirected(owner);
            }
        }
        if self.exists(qname) {
            return self.at(qname, qtype);
        }
        let mut encloser = qname.view().parent();
        while let Some(name) = encloser {
            if name == self.name.view() || self.exists(&name.to_name()) {
                let wildcard = Name::from_wire(b"\x01*\x00").and_then(|star| star.join(name));
                return match wildcard {
                    Ok(wildcard) if self.records.contains_key(&wildcard) => {
                        self.at(&wildcard, qtype)
                    }
                    _ => Found::Denied,
                };
            }
            encloser = name.parent();
        }
        Found::Denied
    }

    fn at(&self, owner: &Name, qtype: Type) -> Found<'_> {
        match (self.get(owner, qtype), self.get(owner, Type::CNAME)) {
            (Some(rrset), _) => Found::Records(rrset),
            (None, Some(rrset)) => Found::Alias(rrset),
            (None, None) => Found::NoData,
        }
    }

    fn keyed(&self, owner: &Name, rtype: Type) -> Option<(&Name, &Rrset)> {
        let (owner, rrsets) = self.records.get_key_value(owner)?;
        rrsets.get(&rtype).map(|rrset| (owner, rrset))
    }
}
