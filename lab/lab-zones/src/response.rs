//! A recorded response, taken apart.

use nodens_wire::reader::Reader;
use nodens_wire::record::{RdataPart, rdata_layout};
use nodens_wire::{Class, Flags, Message, Name, NameRef, Opcode, Rcode, Record, Type};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Octets of RRSIG RDATA before the signer's name (RFC 4034 section 3.1).
const SIGNER_AT: usize = 18;
/// CNAME records that are followed within a response.
const CHAIN_MAX: usize = 16;

/// A record with its names in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rr {
    pub(crate) owner: Name,
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) rdata: Vec<u8>,
}

/// Records of one owner and type in one section, with the signatures that cover them.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) owner: Name,
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) rdata: BTreeSet<Vec<u8>>,
    pub(crate) signatures: Vec<Vec<u8>>,
}

/// A response of an authoritative server, without what differs from one to the next: ID, EDNS, and the order of records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Response {
    pub(crate) server: IpAddr,
    pub(crate) qname: Name,
    pub(crate) qtype: Type,
    pub(crate) is_denial: bool,
    /// It would ask others as well.
    pub(crate) is_recursive: bool,
    pub(crate) answer: Vec<Rr>,
    pub(crate) authority: Vec<Rr>,
    pub(crate) additional: Vec<Rr>,
    /// Its NS records say where the zone of this name is served, and it says nothing else.
    pub(crate) referral: Option<Name>,
}

/// Why a response says nothing about a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It is no DNS message, or a broken one.
    Unreadable,
    /// Another operation than a query, another class than IN, or not one question.
    OtherOperation,
    /// It was cut; what the server said over TCP counts.
    Truncated,
    /// Zone transfers are not read.
    Transfer,
    /// The RCODE is neither NOERROR nor NXDOMAIN.
    Failed(Rcode),
    /// Neither authoritative nor a referral: from a cache, or from a server that does not have the zone.
    NotAuthoritative,
    /// The same, and the server would ask others: a resolver.
    Resolver,
    /// A referral to the root, or to a zone that the name is not in.
    WrongReferral,
    /// Of dnstap without the address of the server.
    NoServer,
}

impl LeftOut {
    /// What it is, in the plural.
    pub fn text(self) -> String {
        match self {
            Self::Unreadable => "unreadable".to_owned(),
            Self::OtherOperation => "no responses to one question of class IN".to_owned(),
            Self::Truncated => "truncated".to_owned(),
            Self::Transfer => "zone transfers".to_owned(),
            Self::Failed(rcode) => rcode.to_string(),
            Self::NotAuthoritative => "neither authoritative nor referrals".to_owned(),
            Self::Resolver => "of resolvers".to_owned(),
            Self::WrongReferral => "referrals to the root or to a zone beside the name".to_owned(),
            Self::NoServer => "without the server's address".to_owned(),
        }
    }
}

impl Response {
    /// Takes a response apart. The error has the question, if there is one.
    pub(crate) fn read(
        server: IpAddr,
        octets: &[u8],
    ) -> Result<Self, (LeftOut, Option<(Name, Type)>)> {
        if server.is_unspecified() {
            return Err((LeftOut::NoServer, None));
        }
        let message = Message::parse(octets).map_err(|_| (LeftOut::Unreadable, None))?;
        let [question] = &*message.questions else { return Err((LeftOut::OtherOperation, None)) };
        let (qname, qtype) = (question.qname.to_folded(), question.qtype);
        let asked = || Some((qname.clone(), qtype));
        let rcode = message.flags.rcode();
        let no = |why| Err((why, asked()));
        if message.flags.opcode() != Opcode::QUERY || question.qclass != Class::IN {
            return no(LeftOut::OtherOperation);
        }
        if matches!(qtype, Type::AXFR | Type::IXFR) {
            return no(LeftOut::Transfer);
        }
        if message.flags.has(Flags::TC) {
            return no(LeftOut::Truncated);
        }
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return no(LeftOut::Failed(rcode));
        }
        let section = |records: &[Record]| section(records).ok_or((LeftOut::Unreadable, asked()));
        let mut response = Self {
            server: server.to_canonical(),
            is_denial: rcode == Rcode::NXDOMAIN,
            is_recursive: message.flags.has(Flags::RA),
            answer: section(&message.answer)?,
            authority: section(&message.authority)?,
            additional: section(&message.additional)?,
            referral: None,
            qname: qname.clone(),
            qtype,
        };
        response.referral = response.delegated().cloned();
        match &response.referral {
            Some(zone) if zone.view().is_root() || !qname.view().is_in_domain(zone.view()) => {
                no(LeftOut::WrongReferral)
            }
            None if !message.flags.has(Flags::AA) => match response.is_recursive {
                true => no(LeftOut::Resolver),
                false => no(LeftOut::NotAuthoritative),
            },
            _ => Ok(response),
        }
    }

    /// The owner of NS records, if there is neither an answer nor the SOA record of a denial beside them.
    fn delegated(&self) -> Option<&Name> {
        if !self.answer.is_empty() || self.is_denial {
            return None;
        }
        let is = |rtype: Type| move |record: &&Rr| record.rtype == rtype;
        match self.authority.iter().find(is(Type::SOA)) {
            Some(_) => None,
            None => self.authority.iter().find(is(Type::NS)).map(|record| &record.owner),
        }
    }

    /// The name at the end of the CNAME records that begin at the qname, and how many there are.
    pub(crate) fn chain_end(&self) -> (Name, usize) {
        let mut name = self.qname.clone();
        for steps in 0..CHAIN_MAX {
            let is_next = |record: &&Rr| record.rtype == Type::CNAME && record.owner == name;
            let next = self.answer.iter().find(is_next);
            match next.and_then(|record| name_at(&record.rdata, 0)) {
                Some(target) if self.qtype != Type::CNAME => name = target,
                _ => return (name, steps),
            }
        }
        (name, CHAIN_MAX)
    }
}

fn section(records: &[Record]) -> Option<Vec<Rr>> {
    let kept = records.iter().filter(|record| {
        record.class == Class::IN && !matches!(record.rtype, Type::OPT | Type::TSIG | Type::SIG)
    });
    let folded = kept.map(|record| {
        let rdata = folded(record.rtype, &record.rdata)?;
        // The top bit means 0 (RFC 2181 section 8).
        let ttl = if record.ttl > i32::MAX as u32 { 0 } else { record.ttl };
        Some(Rr { owner: record.owner.to_folded(), rtype: record.rtype, ttl, rdata })
    });
    let mut all = folded.collect::<Option<Vec<_>>>()?;
    all.sort_by(|a, b| {
        let key = |rr: &Rr| (rr.owner.as_wire().to_vec(), rr.rtype);
        key(a).cmp(&key(b)).then_with(|| a.rdata.cmp(&b.rdata))
    });
    all.dedup();
    Some(all)
}

/// RDATA with its names in lower case: a server may have taken the letters over from the query.
fn folded(rtype: Type, rdata: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(rdata.len());
    let mut reader = Reader::new(rdata, 0);
    for part in rdata_layout(rtype) {
        let start = reader.at();
        match part {
            RdataPart::Name => {
                let mut name = Vec::new();
                reader.name(&mut name).ok()?;
                out.extend(name.to_ascii_lowercase());
                continue;
            }
            RdataPart::Octets(len) => _ = reader.take(*len, "RDATA").ok()?,
            RdataPart::CharacterString => {
                let len = reader.u8("character-string").ok()?;
                reader.take(usize::from(len), "character-string").ok()?;
            }
        }
        out.extend_from_slice(rdata.get(start..reader.at())?);
    }
    out.extend_from_slice(rdata.get(reader.at()..)?);
    Some(out)
}

/// The RRsets of a section. Signatures without the records that they cover are left out.
pub(crate) fn groups(section: &[Rr]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for record in section.iter().filter(|record| record.rtype != Type::RRSIG) {
        match groups.last_mut() {
            Some(group) if group.owner == record.owner && group.rtype == record.rtype => {
                group.rdata.insert(record.rdata.clone());
                group.ttl = group.ttl.max(record.ttl);
            }
            _ => groups.push(Group {
                owner: record.owner.clone(),
                rtype: record.rtype,
                ttl: record.ttl,
                rdata: BTreeSet::from([record.rdata.clone()]),
                signatures: Vec::new(),
            }),
        }
    }
    for record in section.iter().filter(|record| record.rtype == Type::RRSIG) {
        let covers = covered(&record.rdata);
        let fits = |group: &&mut Group| group.owner == record.owner && Some(group.rtype) == covers;
        if let Some(group) = groups.iter_mut().find(fits) {
            group.signatures.push(record.rdata.clone());
        }
    }
    groups
}

impl Group {
    /// The zone that the signatures say the records are in.
    pub(crate) fn signer(&self) -> Option<Name> {
        let signer = self.signatures.iter().find_map(|rdata| signer(rdata))?;
        self.owner.view().is_in_domain(signer.view()).then_some(signer)
    }

    /// The wildcard that the records come from: the signature has fewer labels than the owner (RFC 4034 section 3.1.3).
    pub(crate) fn wildcard(&self) -> Option<Name> {
        let labels = self.signatures.iter().find_map(|rdata| rdata.get(3).copied())?;
        let owner = self.owner.view();
        if owner.labels().next() == Some(b"*") {
            return None;
        }
        let above =
            owner.label_count().checked_sub(usize::from(labels)).filter(|count| *count > 0)?;
        let encloser = suffix(owner, owner.label_count() - above)?;
        Name::from_wire(b"\x01*\x00").ok()?.join(encloser.view()).ok()
    }
}

/// The last `labels` labels of a name.
pub(crate) fn suffix(name: NameRef<'_>, labels: usize) -> Option<Name> {
    let mut rest = name;
    for _ in labels..name.label_count() {
        rest = rest.parent()?;
    }
    Some(rest.to_name())
}

/// The signer of a signature.
pub(crate) fn signer(rrsig: &[u8]) -> Option<Name> {
    name_at(rrsig, SIGNER_AT)
}

/// The type that a signature covers.
pub(crate) fn covered(rrsig: &[u8]) -> Option<Type> {
    rrsig.first_chunk().map(|octets| Type(u16::from_be_bytes(*octets)))
}

/// A name within RDATA, in lower case.
pub(crate) fn name_at(rdata: &[u8], at: usize) -> Option<Name> {
    let mut wire = Vec::new();
    Reader::new(rdata, at).name(&mut wire).ok()?;
    Name::from_wire(&wire).ok().map(|name| name.to_folded())
}

/// The address in an A or AAAA record.
pub(crate) fn address(rtype: Type, rdata: &[u8]) -> Option<IpAddr> {
    match rtype {
        Type::A => <[u8; 4]>::try_from(rdata).ok().map(IpAddr::from),
        Type::AAAA => <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from),
        _ => None,
    }
}
