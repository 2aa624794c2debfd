//! RRsets and records into the sections of a response.

use crate::limits::ADDITIONAL_NAMES_MAX;
use nodens_wire::{Block, Builder, Class, NameRef, Owner, Record, Section, Type};
use nodens_zone::data::{Data, Denial, Found, Part, Rrset};

/// A response that is being written.
pub(super) struct Out<'b, 'm, 'd> {
    builder: &'b mut Builder<'m>,
    pub(super) data: &'d Data,
    /// Whether signatures and proofs are wanted.
    pub(super) dnssec: bool,
    /// The origin, as an owner.
    origin: Owner<'d>,
    /// Where the names stand that the last RRset leads to, see [`Builder::records`].
    standing: [u16; ADDITIONAL_NAMES_MAX],
    /// Whether that is the zone's servers.
    servers_written: bool,
}

impl<'b, 'm, 'd> Out<'b, 'm, 'd> {
    /// Begins behind the question.
    pub(super) fn new(builder: &'b mut Builder<'m>, data: &'d Data, dnssec: bool) -> Self {
        let origin = data.origin();
        let origin = builder.end_of_question(origin).unwrap_or(Owner::Name(origin));
        Self {
            builder,
            data,
            dnssec,
            origin,
            standing: [0; ADDITIONAL_NAMES_MAX],
            servers_written: false,
        }
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
        self.whole(section, Owner::Name(owner), rrset);
    }

    /// Writes an RRset, with its signatures if they are wanted.
    pub(super) fn whole(&mut self, section: Section, owner: Owner<'_>, rrset: &Rrset<'_>) {
        self.with_ttl(section, owner, rrset, rrset.ttl());
    }

    /// Writes an RRset without signatures.
    pub(super) fn alone(&mut self, section: Section, owner: Owner<'_>, rrset: &Rrset<'_>) {
        self.records(section, owner, rrset, rrset.ttl());
    }

    /// A name above the qname, as an owner.
    pub(super) fn above(&mut self, name: NameRef<'d>) -> Owner<'d> {
        self.builder.end_of_question(name).unwrap_or(Owner::Name(name))
    }

    fn with_ttl(&mut self, section: Section, owner: Owner<'_>, rrset: &Rrset<'_>, ttl: u32) {
        let owner = self.records(section, owner, rrset, ttl);
        if let Some(signatures) = self.dnssec.then(|| rrset.sigs()).flatten() {
            self.records(section, owner, &signatures, ttl);
        }
    }

    /// Writes the records of an RRset; gives the owner for more of them.
    fn records<'n>(
        &mut self,
        section: Section,
        owner: Owner<'n>,
        rrset: &Rrset<'_>,
        ttl: u32,
    ) -> Owner<'n> {
        let fields = (rrset.rtype(), rrset.class(), ttl);
        let rdata = rrset.iter().map(|record| record.rdata);
        let standing: &mut [u16] = if fields.0 == Type::NS { &mut self.standing } else { &mut [] };
        // What no message can hold is left out; the builder notes it.
        self.builder.records(section, owner, fields, rdata, standing).unwrap_or(owner)
    }

    /// Writes a part that is the same for all queries of names that end with `base`, which is `name`,
    /// and belongs to `key`; false if the caller has to write it.
    pub(super) fn prepared(
        &mut self,
        (part, key): (Part, NameRef<'_>),
        (name, base): (NameRef<'_>, Owner<'_>),
        make: impl FnOnce(&mut Out<'_, '_, 'd>),
    ) -> bool {
        let (data, dnssec) = (self.data, self.dnssec);
        let at = match base {
            Owner::At(at) => at,
            // Nothing points to the root.
            Owner::Name(name) if name.is_root() => 0,
            // The letters are not those of the question.
            Owner::Name(_) => return false,
        };
        let block = data.prepared(part, key, dnssec, || {
            Block::new(name, |builder| make(&mut Out::new(builder, data, dnssec)))
        });
        block.is_some_and(|block| self.builder.append(block, at))
    }

    fn prepared_at_origin(
        &mut self,
        part: (Part, NameRef<'_>),
        make: impl FnOnce(&mut Out<'_, '_, 'd>),
    ) -> bool {
        self.prepared(part, (self.data.origin(), self.origin), make)
    }

    /// Writes the servers of the zone into the authority section.
    pub(super) fn servers(&mut self) {
        let part = (Part::Servers, self.data.origin());
        if !self.prepared_at_origin(part, |out| out.write_servers()) {
            self.write_servers();
        }
    }

    fn write_servers(&mut self) {
        if let Some(servers) = self.data.apex(Type::NS) {
            self.with_ttl(Section::Authority, self.origin, &servers, servers.ttl());
            self.servers_written = true;
        }
    }

    /// Writes the SOA record of a negative answer. How long it may be kept is the lesser of its
    /// TTL and of its last field (RFC 2308 section 3).
    pub(super) fn soa(&mut self) {
        let part = (Part::Soa, self.data.origin());
        if !self.prepared_at_origin(part, |out| out.write_soa()) {
            self.write_soa();
        }
    }

    fn write_soa(&mut self) {
        let data = self.data;
        if let Some(soa) = data.apex(Type::SOA) {
            self.with_ttl(Section::Authority, self.origin, &soa, negative_ttl(data));
        }
    }

    /// Writes what proves that there is no more than what was found for `name`, if that is wanted.
    pub(super) fn proof(&mut self, name: NameRef<'_>, found: &Found<'_>) {
        let data = self.data;
        if self.dnssec {
            for part in data.proof(name, found).iter() {
                self.proof_of(part);
            }
        }
    }

    /// Like [`Out::proof`], without the RRsets of those owners that are `written` already (RFC 2181 section 5).
    pub(super) fn proof_beside(
        &mut self,
        name: NameRef<'_>,
        found: &Found<'_>,
        written: &mut [Option<NameRef<'d>>],
    ) {
        for part in self.data.proof(name, found).iter() {
            let owner = Some(part.owner());
            if written.contains(&owner) {
                continue;
            }
            if let Some(free) = written.iter_mut().find(|slot| slot.is_none()) {
                *free = owner;
            }
            self.proof_of(part);
        }
    }

    fn proof_of(&mut self, part: Denial<'d>) {
        if !self.prepared_at_origin((Part::Proof, part.owner()), |out| out.write_proof_of(part)) {
            self.write_proof_of(part);
        }
    }

    fn write_proof_of(&mut self, part: Denial<'d>) {
        if let Some(rrset) = part.rrset() {
            self.rrset(Section::Authority, part.owner(), &rrset);
        }
    }

    /// Writes the addresses of the names in this zone that the records lead to; of servers only glue.
    pub(super) fn additional(&mut self, rrset: &Rrset<'_>) {
        self.additional_beside(rrset, |_| false);
    }

    /// Like [`Out::additional`], without those that are `written` already (RFC 2181 section 5).
    pub(super) fn additional_beside(
        &mut self,
        rrset: &Rrset<'_>,
        written: impl Fn(NameRef<'_>) -> bool,
    ) {
        if rrset.rtype() == Type::NS {
            return self.glue(rrset);
        }
        let Some(skip) = before_target(rrset.rtype()) else { return };
        let targets = || rrset.iter().filter_map(|record| target(record.rdata, skip));
        let is_first = |at: usize, name| !targets().take(at).any(|before| before == name);
        let different = targets().enumerate().filter(|(at, name)| is_first(*at, *name));
        // Those that are written count, too: of thousands each would be looked for among thousands.
        let few = different.take(ADDITIONAL_NAMES_MAX).map(|(_, name)| name);
        few.filter(|name| !written(*name)).for_each(|name| self.addresses(name));
    }

    /// Writes the addresses of servers at and below the zone that they serve, then of those below other cuts of this
    /// zone. Without the first a resolver cannot reach them; without the others it cannot where two zones have each
    /// other's servers. The others stand behind, as a response is whole without them (RFC 9471 section 3.2).
    fn glue(&mut self, servers: &Rrset<'_>) {
        let mut left = ADDITIONAL_NAMES_MAX;
        for in_domain in [true, false] {
            for (at, record) in servers.iter().enumerate() {
                let Some(name) = target(record.rdata, 0) else { continue };
                if name.is_in_domain(servers.owner()) != in_domain {
                    continue;
                }
                // Each is a lookup, whether there is an address or not.
                if left == 0 {
                    return;
                }
                left -= 1;
                if in_domain || self.is_below_a_cut(name) {
                    let owner = self.place_of_server(at, name);
                    self.addresses_of(owner, name);
                }
            }
        }
    }

    /// The name of a server, where the message has it already if that is known.
    fn place_of_server<'n>(&self, at: usize, name: NameRef<'n>) -> Owner<'n> {
        match self.standing.get(at) {
            Some(stands @ 1..) if !self.servers_written => Owner::At(*stands),
            _ => Owner::Name(name),
        }
    }

    fn is_below_a_cut(&self, name: NameRef<'_>) -> bool {
        matches!(self.data.lookup(name, Type::A), Found::Referral(_))
    }

    /// Writes the addresses of a name, if it lies in this zone.
    pub(super) fn addresses(&mut self, name: NameRef<'_>) {
        self.addresses_of(Owner::Name(name), name);
    }

    fn addresses_of(&mut self, owner: Owner<'_>, name: NameRef<'_>) {
        let data = self.data;
        for rrset in data.rrsets(name) {
            if matches!(rrset.rtype(), Type::A | Type::AAAA) {
                self.with_ttl(Section::Additional, owner, &rrset, rrset.ttl());
            }
        }
    }
}

/// How long it may be kept that the zone does not have something (RFC 2308 section 3, RFC 9077).
pub(super) fn negative_ttl(data: &Data) -> u32 {
    data.apex(Type::SOA).map_or(0, |soa| soa.ttl().min(data.soa().minimum()))
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

/// Whether a client will ask for the addresses of `name` next.
pub(super) fn leads_to(rrset: &Rrset<'_>, name: NameRef<'_>) -> bool {
    let skip = before_target(rrset.rtype());
    skip.is_some_and(|skip| rrset.iter().any(|record| target(record.rdata, skip) == Some(name)))
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
