//! RRsets and records into the sections of a response.

use crate::limits::ADDITIONAL_NAMES_MAX;
use nodens_wire::{Builder, Class, NameRef, Record, Section, Type};
use nodens_zone::data::{Data, Found, Rrset};

/// A response that is being written.
pub(super) struct Out<'b, 'm, 'd> {
    builder: &'b mut Builder<'m>,
    pub(super) data: &'d Data,
    /// Whether signatures and proofs are wanted.
    pub(super) dnssec: bool,
}

impl<'b, 'm, 'd> Out<'b, 'm, 'd> {
    pub(super) fn new(builder: &'b mut Builder<'m>, data: &'d Data, dnssec: bool) -> Self {
        Self { builder, data, dnssec }
    }

    /// Writes one record. What no message can hold is left out; the builder notes it.
    pub(super) fn record(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        fields: (Type, Class, u32),
        rdata: &[u8],
    ) {
        _ = self.builder.record(section, owner, fields, rdata);
    }

    /// Writes a record into the authority section.
    pub(super) fn authority(&mut self, record: &Record) {
        let Record { owner, rtype, class, ttl, rdata } = record;
        self.record(Section::Authority, owner.view(), (*rtype, *class, *ttl), rdata);
    }

    /// Writes an RRset under the name `owner`, with its signatures if they are wanted.
    pub(super) fn rrset(&mut self, section: Section, owner: NameRef<'_>, rrset: &Rrset<'_>) {
        self.with_ttl(section, owner, rrset, rrset.ttl());
    }

    /// Writes an RRset under the name `owner`, without signatures.
    pub(super) fn alone(&mut self, section: Section, owner: NameRef<'_>, rrset: &Rrset<'_>) {
        self.records(section, owner, rrset, rrset.ttl());
    }

    fn with_ttl(&mut self, section: Section, owner: NameRef<'_>, rrset: &Rrset<'_>, ttl: u32) {
        self.records(section, owner, rrset, ttl);
        if let Some(signatures) = rrset.sigs().filter(|_| self.dnssec) {
            self.records(section, owner, &signatures, ttl);
        }
    }

    fn records(&mut self, section: Section, owner: NameRef<'_>, rrset: &Rrset<'_>, ttl: u32) {
        let fields = (rrset.rtype(), rrset.class(), ttl);
        for record in rrset.iter() {
            if self.builder.record(section, owner, fields, record.rdata).is_err() {
                break;
            }
        }
    }

    /// Writes the servers of the zone into the authority section.
    pub(super) fn servers(&mut self) {
        let data = self.data;
        if let Some(servers) = data.rrset(data.origin(), Type::NS) {
            self.rrset(Section::Authority, data.origin(), &servers);
        }
    }

    /// Writes the SOA record of a negative answer. How long it may be kept is the lesser of its
    /// TTL and of its last field (RFC 2308 section 3).
    pub(super) fn soa(&mut self) {
        let data = self.data;
        if let Some(soa) = data.rrset(data.origin(), Type::SOA) {
            let ttl = soa.ttl().min(data.soa().minimum());
            self.with_ttl(Section::Authority, data.origin(), &soa, ttl);
        }
    }

    /// Writes what proves that there is no more than what was found for `name`, if that is wanted.
    pub(super) fn proof(&mut self, name: NameRef<'_>, found: &Found<'_>) {
        let data = self.data;
        if self.dnssec {
            for rrset in data.proof(name, found).iter() {
                self.rrset(Section::Authority, rrset.owner(), &rrset);
            }
        }
    }

    /// Writes the addresses of the names in this zone that the records lead to; of servers, those at and below
    /// the zone that they serve: without these addresses a resolver cannot reach them (glue).
    pub(super) fn additional(&mut self, rrset: &Rrset<'_>) {
        let Some(skip) = before_target(rrset.rtype()) else { return };
        let (are_servers, owner) = (rrset.rtype() == Type::NS, rrset.owner());
        let targets = || {
            let all = rrset.iter().filter_map(|record| target(record.rdata, skip));
            all.filter(|name| !are_servers || name.is_in_domain(owner))
        };
        for (at, name) in targets().take(ADDITIONAL_NAMES_MAX).enumerate() {
            if !targets().take(at).any(|before| before == name) {
                self.addresses(name);
            }
        }
    }

    /// Writes the addresses of a name, if it lies in this zone.
    pub(super) fn addresses(&mut self, name: NameRef<'_>) {
        let data = self.data;
        if name.is_in_domain(data.origin()) {
            for rtype in [Type::A, Type::AAAA] {
                if let Some(addresses) = data.rrset(name, rtype) {
                    self.rrset(Section::Additional, name, &addresses);
                }
            }
        }
    }
}

/// Octets of RDATA before the name whose addresses a client will ask for next.
pub(super) fn before_target(rtype: Type) -> Option<usize> {
    match rtype {
        Type::NS => Some(0),
        Type::MX | Type::SVCB | Type::HTTPS => Some(2),
        Type::SRV => Some(6),
        _ => None,
    }
}

/// The name in RDATA behind `skip` octets.
pub(super) fn target(rdata: &[u8], skip: usize) -> Option<NameRef<'_>> {
    let name = rdata.get(skip..)?;
    let mut at = 0;
    while let Some(len) = name.get(at).filter(|len| **len > 0) {
        at += 1 + usize::from(*len);
    }
    NameRef::new(name.get(..=at)?).ok()
}
