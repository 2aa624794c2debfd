//! Signatures for the RRsets of a response.

use super::denial::{Denied, nsec};
use super::signatures::Signed;
use super::Dnssec;
use crate::limits::SIGNED_RRSETS_MAX;
use crate::metrics::Cells;
use crate::time::Now;
use nodens_wire::{Class, Message, Name, NameRef, Rcode, Record, Type};
use nodens_zone::dnssec::{Canonical, Validity};
use std::sync::Arc;

/// The TTL that is signed, which validators do not exceed, as in CoreDNS: the TTL of a response may have
/// been counted down.
pub(super) const ORIGINAL_TTL: u32 = 3600;
/// How long signatures have been valid when they are made, for clients whose clock is late.
const INCEPTION_BEFORE_S: u32 = 3 * 3600;
/// How long they remain so.
const EXPIRATION_AFTER_S: u32 = 8 * 24 * 3600;
/// How long they have to remain so to be given again.
const REMAINING_MIN_S: u64 = 2 * 24 * 3600;

/// Signs what one response consists of.
pub(super) struct Signing<'a> {
    handler: &'a Dnssec,
    now: Now,
    cells: &'a Cells,
    /// RRsets that may still be signed.
    left: usize,
}

impl<'a> Signing<'a> {
    pub(super) fn new(handler: &'a Dnssec, now: Now, cells: &'a Cells) -> Self {
        Self { handler, now, cells, left: SIGNED_RRSETS_MAX }
    }

    /// The signatures over an RRset of the zone `signer`, made now or before; nothing if none can be made.
    pub(super) fn sign(&mut self, rrset: &Canonical, signer: NameRef<'_>) -> Option<Signed> {
        self.left = self.left.checked_sub(1)?;
        let (handler, now_s) = (self.handler, self.now.unix_s);
        let digest = rrset.digest(signer);
        let known = handler.signatures.find(&digest);
        let is_fresh = |signed: &Signed| signed.validity.contains(now_s + REMAINING_MIN_S);
        if let Some(signed) = known.filter(is_fresh) {
            self.cells.add(handler.hits, 1);
            return Some(signed);
        }
        self.cells.add(handler.misses, 1);
        let now = now_s as u32;
        let validity = Validity {
            inception: now.wrapping_sub(INCEPTION_BEFORE_S),
            expiration: now.wrapping_add(EXPIRATION_AFTER_S),
        };
        let keys = handler.signers(rrset.rtype());
        let rdatas: Result<Vec<_>, _> = keys.map(|key| rrset.sign(key, signer, validity)).collect();
        let signed = Signed { rdatas: Arc::from(rdatas.ok()?), validity };
        handler.signatures.keep(digest, signed.clone());
        Some(signed)
    }

    /// The zone that signs records of a name; nothing for names that are not ours.
    fn signer(&self, name: NameRef<'_>) -> Option<&'a Name> {
        let zones = &self.handler.zones;
        zones.longest(name).and_then(|index| zones.names().get(index))
    }

    /// Adds signatures to `message`, the response to a query for `qname`, and what proves a denial. Gives
    /// the RCODE it then has.
    pub(super) fn message(
        &mut self,
        message: &mut Message,
        qname: NameRef<'_>,
        qtype: Type,
        rcode: Rcode,
    ) -> Rcode {
        let is_negative = matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
        let has_soa = message.authority.iter().any(|record| record.rtype == Type::SOA);
        if !is_negative {
            return rcode;
        }
        let end = end_of_aliases(&message.answer, qname);
        let answers = |record: &Record| {
            record.owner.view() == end.view() && (record.rtype == qtype || qtype == Type::ANY)
        };
        let is_alias = qtype == Type::CNAME && !message.answer.is_empty();
        if has_soa && !is_alias && !message.answer.iter().any(answers) {
            return self.deny(message, end.view(), qtype, rcode);
        }
        if message.answer.is_empty() && !has_soa && rcode == Rcode::NOERROR && self.refer(message) {
            return rcode;
        }
        self.sections(message);
        rcode
    }

    fn sections(&mut self, message: &mut Message) {
        self.section(&mut message.answer);
        self.section(&mut message.authority);
        self.section(&mut message.additional);
    }

    /// Signs every RRset of a section that is ours.
    fn section(&mut self, records: &mut Vec<Record>) {
        let mut signatures = Vec::new();
        let mut done: Vec<(&Name, Type)> = Vec::new();
        for record in records.iter() {
            let Record { owner, rtype, .. } = record;
            let is_signed = !matches!(*rtype, Type::RRSIG | Type::OPT | Type::TSIG);
            if !is_signed || record.class != Class::IN || done.contains(&(owner, *rtype)) {
                continue;
            }
            done.push((owner, *rtype));
            let Some(signer) = self.signer(owner.view()) else { continue };
            let is_same = |other: &&Record| other.rtype == *rtype && other.owner == *owner;
            let rrset: Vec<&Record> = records.iter().filter(is_same).collect();
            self.rrset(&rrset, signer.view(), &mut signatures);
        }
        records.extend(signatures);
    }

    /// Adds the signatures over an RRset to `out`; false if there are none.
    fn rrset(&mut self, rrset: &[&Record], signer: NameRef<'_>, out: &mut Vec<Record>) -> bool {
        let Some(Record { owner, rtype, ttl, .. }) = rrset.first() else { return false };
        let rdatas = rrset.iter().map(|record| record.rdata.as_slice());
        let canonical = Canonical::new(owner.view(), (*rtype, Class::IN), ORIGINAL_TTL, rdatas);
        let Some(signed) = self.sign(&canonical, signer) else { return false };
        out.extend(signed.rdatas.iter().map(|rdata| Record {
            owner: owner.clone(),
            rtype: Type::RRSIG,
            class: Class::IN,
            ttl: *ttl,
            rdata: rdata.clone(),
        }));
        true
    }

    /// Proves that `name` has no records of the type, by a record that says it had others. The RCODE is
    /// NOERROR then: the name is said to exist.
    fn deny(
        &mut self,
        message: &mut Message,
        name: NameRef<'_>,
        qtype: Type,
        rcode: Rcode,
    ) -> Rcode {
        self.section(&mut message.answer);
        let ([soa], Some(signer)) = (message.authority.as_slice(), self.signer(name)) else {
            // It has proofs of its own, or is not ours.
            return rcode;
        };
        let mut signatures = Vec::new();
        self.rrset(&[soa], signer.view(), &mut signatures);
        let denied = Denied { name, zone: signer.view(), qtype, is_referral: false };
        let Some(nsec) = nsec(&denied, soa.ttl) else { return rcode };
        let mut proof = Vec::new();
        if !self.rrset(&[&nsec], signer.view(), &mut proof) {
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

    /// Signs the DS records of a referral, or proves that there are none; false if the message is none.
    fn refer(&mut self, message: &mut Message) -> bool {
        let is_ns = |record: &&Record| record.rtype == Type::NS;
        let Some(ns) = message.authority.iter().find(is_ns) else { return false };
        // The parent's zone signs what stands at a cut.
        let above = ns.owner.view().parent().and_then(|parent| self.signer(parent));
        let Some(signer) = above else { return false };
        let is_ds = |record: &&Record| record.rtype == Type::DS;
        let ds: Vec<&Record> = message.authority.iter().filter(is_ds).collect();
        let mut proof = Vec::new();
        if ds.is_empty() {
            let (name, zone) = (ns.owner.view(), signer.view());
            let denied = Denied { name, zone, qtype: Type::DS, is_referral: true };
            let Some(nsec) = nsec(&denied, ns.ttl) else { return true };
            if self.rrset(&[&nsec], zone, &mut proof) {
                proof.push(nsec);
            }
        } else {
            self.rrset(&ds, signer.view(), &mut proof);
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
