//! Signatures for the RRsets of a response.

use super::Dnssec;
use super::denial::{Denied, What, is_common, nsec};
use super::meter::{Meter, units};
use crate::limits::SIGNED_RRSETS_MAX;
use crate::metrics::Cells;
use crate::response::Known;
use crate::signatures::{Signed, Sort};
use crate::time::Now;
use nodens_wire::{Class, Message, Name, NameRef, Rcode, Record, Type};
use nodens_zone::dnssec::{Canonical, Validity};
use std::sync::Arc;

/// The TTL that is signed, which no record is given with more than, as in CoreDNS: the TTL of a response
/// may have been counted down.
pub(super) const ORIGINAL_TTL: u32 = 3600;
/// How long signatures have been valid when they are made, for clients whose clock is late.
const INCEPTION_BEFORE_S: u32 = 3 * 3600;
/// How long they remain so.
const EXPIRATION_AFTER_S: u32 = 8 * 24 * 3600;
/// How long they have to remain so to be given again.
const REMAINING_MIN_S: u64 = 2 * 24 * 3600;

/// What was asked, and what is known of the response beside the message.
#[derive(Clone, Copy)]
pub(super) struct Asked<'q> {
    pub(super) qname: NameRef<'q>,
    pub(super) qtype: Type,
    pub(super) rcode: Rcode,
    pub(super) known: Known,
    /// Whether a wildcard stands for the qname.
    pub(super) is_wildcard: bool,
}

/// Whether a name lies in a zone with more labels than so many that another block of the server has.
pub(super) type IsOthers<'a> = dyn Fn(NameRef<'_>, usize) -> bool + 'a;

/// Signs what one response consists of.
pub(super) struct Signing<'a> {
    handler: &'a Dnssec,
    now: Now,
    cells: &'a Cells,
    meter: &'a mut Meter,
    is_others: &'a IsOthers<'a>,
    /// RRsets that may still be signed.
    left: usize,
    /// Whether a signature is missing that could not be made.
    is_incomplete: bool,
}

impl<'a> Signing<'a> {
    pub(super) fn new(
        handler: &'a Dnssec,
        now: Now,
        cells: &'a Cells,
        (meter, is_others): (&'a mut Meter, &'a IsOthers<'a>),
    ) -> Self {
        let (left, is_incomplete) = (SIGNED_RRSETS_MAX, false);
        Self { handler, now, cells, meter, is_others, left, is_incomplete }
    }

    /// Whether a signature is missing because too many were to be made, or the system could make none: the
    /// response must not be given then.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// The signatures over an RRset of the zone `signer`, made now or before; nothing if none can be made.
    pub(super) fn sign(
        &mut self,
        rrset: &Canonical,
        signer: NameRef<'_>,
        sort: Sort,
    ) -> Option<Signed> {
        self.left = self.left.checked_sub(1)?;
        let (handler, now_s) = (self.handler, self.now.unix_s);
        let digest = rrset.digest(signer);
        let known = handler.signatures.find(sort, &digest);
        // Those that begin later were made before the clock was set back.
        let is_fresh = |signed: &Signed| {
            signed.validity.contains(now_s) && signed.validity.contains(now_s + REMAINING_MIN_S)
        };
        if let Some(signed) = known.filter(is_fresh) {
            self.cells.add(handler.hits, 1);
            return Some(signed);
        }
        self.cells.add(handler.misses, 1);
        let signed = self.make(rrset, signer, sort);
        match &signed {
            Some(signed) => handler.signatures.keep(sort, digest, signed.clone()),
            None => self.is_incomplete = true,
        }
        signed
    }

    fn make(&mut self, rrset: &Canonical, signer: NameRef<'_>, sort: Sort) -> Option<Signed> {
        let keys = || self.handler.signers(rrset.rtype());
        let cost = keys().map(units).sum();
        // One that lacks another signature is not given anyway.
        if self.is_incomplete || !self.meter.takes(self.now.mono_ns, cost, sort) {
            return None;
        }
        let now = self.now.unix_s as u32;
        let validity = Validity {
            inception: now.wrapping_sub(INCEPTION_BEFORE_S),
            expiration: now.wrapping_add(EXPIRATION_AFTER_S),
        };
        let rdatas: Result<Vec<_>, _> =
            keys().map(|key| rrset.sign(key, signer, validity)).collect();
        Some(Signed { rdatas: Arc::from(rdatas.ok()?), validity })
    }

    /// The zone that has a name; nothing for names that are not ours. What another block has below, an alias
    /// leads to: that block signs it, or it is not signed, and a signature of the zone above would be none of its zone
    /// (RFC 4035 section 5.3.1).
    fn zone(&self, name: NameRef<'_>) -> Option<&'a Name> {
        let zones = &self.handler.zones;
        let zone = zones.longest(name).and_then(|index| zones.names().get(index))?;
        (!(self.is_others)(name, zone.view().label_count())).then_some(zone)
    }

    /// The zone that signs records of a name: DS records are those of the zone above (RFC 4035 section 2.4).
    fn signer(&self, name: NameRef<'_>, rtype: Type) -> Option<&'a Name> {
        match rtype {
            Type::DS => self.zone(name.parent()?),
            _ => self.zone(name),
        }
    }

    /// Adds signatures to `message`, a response, and what proves a denial. Gives the RCODE it then has.
    pub(super) fn message(&mut self, message: &mut Message, asked: Asked<'_>) -> Rcode {
        let Asked { qname, qtype, rcode, .. } = asked;
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return rcode;
        }
        self.shorten(&mut message.answer);
        self.shorten(&mut message.authority);
        let has_soa = message.authority.iter().any(|record| record.rtype == Type::SOA);
        let end = end_of_aliases(&message.answer, qname);
        let answers = |record: &Record| {
            record.owner.view() == end.view() && (record.rtype == qtype || qtype == Type::ANY)
        };
        let is_alias = qtype == Type::CNAME && !message.answer.is_empty();
        let is_answered = is_alias || message.answer.iter().any(answers);
        self.section(&mut message.answer, asked.is_wildcard);
        if has_soa && !is_answered {
            return self.deny(message, end.view(), asked);
        }
        let may_refer = !has_soa && !is_answered && rcode == Rcode::NOERROR;
        if !may_refer || !self.refer(message, end.view(), asked) {
            let apexes = self.handler.zones.names();
            let (servers, mut others) = std::mem::take(&mut message.authority)
                .into_iter()
                .partition(|record| record.rtype == Type::NS && !apexes.contains(&record.owner));
            self.section(&mut others, false);
            message.authority = servers;
            message.authority.append(&mut others);
        }
        rcode
    }

    /// Gives no record of ours a longer TTL than what is signed (RFC 4034 section 3.1.4).
    fn shorten(&self, records: &mut [Record]) {
        let is_ours = |record: &&mut Record| self.zone(record.owner.view()).is_some();
        let long = records.iter_mut().filter(|record| record.ttl > ORIGINAL_TTL);
        long.filter(is_ours).for_each(|record| record.ttl = ORIGINAL_TTL);
    }

    /// Signs every RRset of a section that is ours and not signed by us already, as what a nested lookup
    /// has found is. Where a wildcard or a DNAME record stands for the qname, names in the answer may be any.
    fn section(&mut self, records: &mut Vec<Record>, is_made: bool) {
        let mut signatures = Vec::new();
        let mut done: Vec<(&Name, Type)> = Vec::new();
        for record in records.iter() {
            let Record { owner, rtype, .. } = record;
            let is_signed = !matches!(*rtype, Type::RRSIG | Type::OPT | Type::TSIG);
            if !is_signed || record.class != Class::IN || done.contains(&(owner, *rtype)) {
                continue;
            }
            if self.left == 0 {
                break;
            }
            done.push((owner, *rtype));
            let Some(signer) = self.signer(owner.view(), *rtype) else { continue };
            let signer = signer.view();
            let is_ours = |other: &Record| other.owner == *owner && self.is_own(other, *rtype, signer);
            if records.iter().any(is_ours) {
                continue;
            }
            let is_same = |other: &&Record| other.rtype == *rtype && other.owner == *owner;
            let rrset: Vec<&Record> = records.iter().filter(is_same).collect();
            // A DNAME record that has made an alias is there itself. One that a wildcard stands for has not.
            let is_above = |alias: &Record| {
                alias.rtype == Type::CNAME && alias.owner != *owner && alias.owner.view().is_in_domain(owner.view())
            };
            let is_there = *rtype == Type::DNAME && records.iter().any(is_above);
            let sort = match *rtype {
                _ if is_made && !is_there => Sort::Made,
                Type::SOA | Type::NS | Type::CDS | Type::CDNSKEY if owner.view() == signer => Sort::Apex,
                _ => Sort::Found,
            };
            self.rrset(&rrset, signer, sort, &mut signatures);
        }
        records.extend(signatures);
    }

    /// Whether a record is a signature of ours over records of the type.
    fn is_own(&self, record: &Record, rtype: Type, signer: NameRef<'_>) -> bool {
        // RFC 4034 section 3.1: the type, the algorithm, and 13 octets later the key tag and the signer.
        let [high, low, algorithm, fields @ ..] = record.rdata.as_slice() else { return false };
        let Some([tag_high, tag_low, name @ ..]) = fields.get(13..) else { return false };
        let tag = u16::from_be_bytes([*tag_high, *tag_low]);
        let wire = signer.as_wire();
        let mut keys = self.handler.signers(rtype);
        record.rtype == Type::RRSIG
            && u16::from_be_bytes([*high, *low]) == rtype.0
            && name.get(..wire.len()).is_some_and(|name| name.eq_ignore_ascii_case(wire))
            && keys.any(|key| key.tag() == tag && key.algorithm().number() == *algorithm)
    }

    /// Adds the signatures over an RRset to `out`; false if there are none.
    fn rrset(
        &mut self,
        rrset: &[&Record],
        signer: NameRef<'_>,
        sort: Sort,
        out: &mut Vec<Record>,
    ) -> bool {
        let Some(Record { owner, rtype, ttl, .. }) = rrset.first() else { return false };
        let rdatas = rrset.iter().map(|record| record.rdata.as_slice());
        let canonical = Canonical::new(owner.view(), (*rtype, Class::IN), ORIGINAL_TTL, rdatas);
        let Some(signed) = self.sign(&canonical, signer, sort) else { return false };
        out.extend(signed.rdatas.iter().map(|rdata| Record {
            owner: owner.clone(),
            rtype: Type::RRSIG,
            class: Class::IN,
            ttl: *ttl,
            rdata: rdata.clone(),
        }));
        true
    }

    /// Proves that `name` does not exist or has no records of the type, by one record of its own. The RCODE
    /// is NOERROR then.
    fn deny(&mut self, message: &mut Message, name: NameRef<'_>, asked: Asked<'_>) -> Rcode {
        let Asked { qname, qtype, rcode, known, .. } = asked;
        // The zone that has the SOA record denies, which for DS records is the one above.
        let [soa] = message.authority.as_slice() else { return rcode };
        let Some(zone) = self.zone(soa.owner.view()).map(Name::view) else { return rcode };
        let at = if qtype == Type::DS { name.parent().unwrap_or(name) } else { name };
        let is_others = (self.is_others)(at, zone.label_count());
        if !name.is_in_domain(zone) || is_others || known == Known::OtherSoa {
            return rcode;
        }
        let what = match rcode {
            // Where a zone begins, there is one.
            Rcode::NXDOMAIN if name != zone => What::Name,
            // Only a zone of this server knows where others begin: to all else, the name would be one that
            // everybody may forge.
            _ if matches!(known, Known::Cut(_)) && qtype == Type::DS && name == qname && name != zone => {
                What::Keys
            }
            _ => What::Type(qtype),
        };
        let has_dname = known == Known::Dname;
        let denied = Denied { name, zone, what, has_dname };
        let Some(nsec) = nsec(&denied, soa.ttl) else { return rcode };
        let (mut signatures, mut proof) = (Vec::new(), Vec::new());
        let of_soa = if soa.owner.view() == zone { Sort::Apex } else { Sort::Found };
        self.rrset(&[soa], zone, of_soa, &mut signatures);
        let sort = match what {
            What::Name => Sort::Made,
            What::Type(rtype) if name == zone && is_common(rtype) => Sort::ApexDenied,
            // A client can ask for hundreds of others.
            What::Type(_) if name == zone => Sort::Made,
            What::Type(_) if asked.is_wildcard => Sort::Made,
            What::Type(_) => Sort::Denied,
            What::Keys => Sort::Found,
        };
        if !self.rrset(&[&nsec], zone, sort, &mut proof) {
            return rcode;
        }
        proof.push(nsec);
        if qtype == Type::NSEC {
            message.answer.extend(proof);
            message.authority.clear();
        } else {
            message.authority.extend(signatures);
            message.authority.extend(proof);
        }
        Rcode::NOERROR
    }

    /// Signs the DS records of a referral for `name`, or proves that there are none; false if the message is
    /// none.
    fn refer(&mut self, message: &mut Message, name: NameRef<'_>, asked: Asked<'_>) -> bool {
        let is_ns = |record: &&Record| record.rtype == Type::NS;
        let Some(ns) = message.authority.iter().find(is_ns) else { return false };
        let cut = ns.owner.view();
        // What else has answered does not know where zones begin: an NS bit would make a name of ours one that
        // everybody may forge.
        let Known::Cut(ttl) = asked.known else { return false };
        if !name.is_in_domain(cut) {
            return false;
        }
        // The parent's zone signs what stands at a cut.
        let Some(zone) = self.signer(cut, Type::DS).map(Name::view) else { return false };
        let is_ds = |record: &&Record| record.rtype == Type::DS && record.owner == ns.owner;
        let ds: Vec<&Record> = message.authority.iter().filter(is_ds).collect();
        let mut proof = Vec::new();
        if ds.is_empty() {
            let denied = Denied { name: cut, zone, what: What::Keys, has_dname: false };
            let Some(nsec) = nsec(&denied, ttl) else { return true };
            if self.rrset(&[&nsec], zone, Sort::Found, &mut proof) {
                proof.push(nsec);
            }
        } else {
            self.rrset(&ds, zone, Sort::Found, &mut proof);
        }
        message.authority.extend(proof);
        true
    }
}

/// The name at the end of the aliases that begin at `qname`.
fn end_of_aliases(answer: &[Record], qname: NameRef<'_>) -> Name {
    let mut name = qname.to_name();
    // An alias more than there are records is a loop.
    for _ in answer {
        let is_alias = |record: &&Record| record.rtype == Type::CNAME && record.owner == name;
        let target = answer.iter().find(is_alias).map(|record| Name::from_wire(&record.rdata));
        match target {
            Some(Ok(target)) => name = target,
            _ => break,
        }
    }
    name
}
