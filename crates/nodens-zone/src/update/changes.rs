//! What the records of an update section change (RFC 2136 sections 2.5 and 3.4).

use super::types::{Kind, is_known, is_meta};
use crate::data::{Data, Edit, Refused, is_same};
use crate::dnssec::is_made;
use crate::limits::TTL_MAX;
use crate::serial::Serial;
use crate::zone::RecordRef;
use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::rdata::ParseAnyRecordData;
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use nodens_wire::{Class, Name, NameRef, Rcode, Record, RecordView, Section, Type};
use std::collections::BTreeSet;

/// Whether all records can be what an update section has, before any change is made.
///
/// # Errors
/// The RCODE of the response.
pub(super) fn check((origin, kind): (NameRef<'_>, Kind), updates: &[Record]) -> Result<(), Rcode> {
    for record in updates {
        let Record { owner, rtype, class, ttl, rdata } = record;
        if !owner.view().is_in_domain(origin) {
            return Err(Rcode::NOTZONE);
        }
        let fits = match *class {
            Class::IN => {
                !is_meta(*rtype) && (!kind.can_have(*rtype) || can_be_added(origin, record))
            }
            Class::ANY => {
                *ttl == 0 && rdata.is_empty() && (!is_meta(*rtype) || *rtype == Type::ANY)
            }
            Class::NONE => *ttl == 0 && !is_meta(*rtype),
            _ => false,
        };
        if !is_known(*rtype) || !fits {
            return Err(Rcode::FORMERR);
        }
        if let Some(rcode) = kind.refuses(*rtype) {
            return Err(rcode);
        }
    }
    Ok(())
}

fn can_be_added(origin: NameRef<'_>, record: &Record) -> bool {
    let Record { owner, rtype, rdata, .. } = record;
    if !is_rdata(*rtype, rdata) {
        return false;
    }
    // A serial number of 0 is avoided (RFC 2136 sections 4.2 and 7.11).
    *rtype != Type::SOA || owner.view() == origin && serial_in(rdata) != Some(Serial(0))
}

/// Whether octets are RDATA of the type, without compressed names.
fn is_rdata(rtype: Type, rdata: &[u8]) -> bool {
    if rdata.is_empty() {
        return matches!(rtype, Type::NULL | Type::APL);
    }
    if !has_its_form(rtype, rdata) {
        return false;
    }
    let mut parser = Parser::from_ref(rdata);
    let read = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(
        Rtype::from_int(rtype.0),
        &mut parser,
    );
    read.is_ok() && parser.remaining() == 0
}

/// Whether octets have the fields of the type, its names as they are: what a record keeps is read in other messages,
/// where a compression pointer leads elsewhere (RFC 3597 section 4).
fn has_its_form(rtype: Type, rdata: &[u8]) -> bool {
    let message = [&[0], rdata].concat();
    let (section, class, rdata) = (Section::Authority, Class::IN, 1..message.len());
    let view = RecordView { section, owner_at: 0, rtype, class, ttl: 0, ttl_at: 0, rdata };
    view.validate(&message).is_ok()
}

/// The serial number in the RDATA of a SOA record.
fn serial_in(rdata: &[u8]) -> Option<Serial> {
    let numbers = rdata.get(rdata.len().checked_sub(SOA_NUMBERS)?..)?;
    numbers.first_chunk().copied().map(u32::from_be_bytes).map(Serial)
}

/// Octets of SOA RDATA behind its two names.
const SOA_NUMBERS: usize = 20;

/// A version that is being made.
pub(super) struct Changes {
    edit: Edit,
    origin: Name,
    /// The serial number of the version that it is made of.
    before: Serial,
    /// Whether anything was changed, even if it was changed back.
    changed: bool,
    /// Whether the update has brought a serial number.
    has_serial: bool,
    /// Names at which another zone may begin, or begin no more.
    cuts: BTreeSet<Name>,
}

impl Changes {
    pub(super) fn of(data: &Data) -> Self {
        let (origin, before) = (data.origin().to_name(), data.soa().serial());
        let (edit, cuts) = (data.edit(), BTreeSet::new());
        Self { edit, origin, before, changed: false, has_serial: false, cuts }
    }

    /// Makes the change that a record stands for; one that would break a rule of zones is none.
    ///
    /// # Errors
    /// If the zone cannot hold the record.
    pub(super) fn make(&mut self, record: &Record) -> Result<(), Refused> {
        if matches!(record.rtype, Type::NS | Type::DS | Type::ANY) {
            self.cuts.insert(record.owner.clone());
        }
        match (record.class, record.rtype) {
            (Class::IN, Type::SOA) => self.add_soa(record),
            (Class::IN, Type::CNAME) => self.add_cname(record),
            (Class::IN, Type::DNAME) => self.add_dname(record),
            (Class::IN, _) => self.add(record),
            (Class::ANY, Type::ANY) => {
                self.remove_name(record.owner.view());
                Ok(())
            }
            (Class::ANY, rtype) => {
                if !self.is_kept(record.owner.view(), rtype) {
                    self.changed |= self.edit.remove_rrset(record.owner.view(), rtype);
                }
                Ok(())
            }
            _ => {
                self.remove(record);
                Ok(())
            }
        }
    }

    /// The version; nothing if nothing has changed.
    ///
    /// # Errors
    /// What keeps it from being a zone.
    pub(super) fn finish(mut self) -> Result<Option<Data>, String> {
        if !self.changed {
            return Ok(None);
        }
        self.remove_orphans();
        if !self.has_serial {
            self.count_serial().map_err(|error| error.to_string())?;
        }
        self.edit.finish().map(Some).map_err(|error| error.to_string())
    }

    /// A serial number counts if it is later than that of the zone before the update, too: two steps of which
    /// each leads to a later one may lead to an earlier one together (RFC 1982 section 3.2).
    fn add_soa(&mut self, record: &Record) -> Result<(), Refused> {
        let present = self.edit.rrset(self.origin.view(), Type::SOA);
        let present = present.and_then(|set| serial_in(set.first()));
        let is_later = present
            .zip(serial_in(&record.rdata))
            .is_some_and(|(old, new)| new > old && new > self.before);
        if is_later {
            self.edit.remove_rrset(self.origin.view(), Type::SOA);
            self.edit.add(record.into())?;
            (self.changed, self.has_serial) = (true, true);
        }
        Ok(())
    }

    /// Takes out DS records where no other zone begins: at the origin, and without NS records (RFC 4035 section 2.4).
    /// BIND does the same.
    fn remove_orphans(&mut self) {
        for name in std::mem::take(&mut self.cuts) {
            let is_cut = name != self.origin && self.edit.rrset(name.view(), Type::NS).is_some();
            if !is_cut {
                self.edit.remove_rrset(name.view(), Type::DS);
            }
        }
    }

    fn add_cname(&mut self, record: &Record) -> Result<(), Refused> {
        let owner = record.owner.view();
        // What signing has made does not count, and is made anew.
        let is_other = |rtype: Type| rtype != Type::CNAME && !is_made(rtype);
        if self.edit.rrsets(owner).any(|set| is_other(set.rtype())) {
            return Ok(());
        }
        self.add_only(record)
    }

    /// Two DNAME records of a name would lead nowhere (RFC 6672 section 5.2).
    fn add_dname(&mut self, record: &Record) -> Result<(), Refused> {
        if self.edit.rrset(record.owner.view(), Type::CNAME).is_some() {
            return Ok(());
        }
        self.add_only(record)
    }

    /// Adds a record in the place of the one of its type.
    fn add_only(&mut self, record: &Record) -> Result<(), Refused> {
        let (owner, rtype) = (record.owner.view(), record.rtype);
        if let Some(present) = self.edit.rrset(owner, rtype) {
            let is_alone = present.count() == 1 && present.ttl() == ttl_of(record);
            if is_alone && is_same(rtype, present.first(), &record.rdata) {
                return Ok(());
            }
        }
        self.edit.remove_rrset(owner, rtype);
        self.edit.add(record.into())?;
        self.changed = true;
        Ok(())
    }

    /// The TTL of the record becomes that of all records of the RRset, which have one (RFC 2181 section
    /// 5.2).
    fn add(&mut self, record: &Record) -> Result<(), Refused> {
        let (owner, rtype) = (record.owner.view(), record.rtype);
        if self.edit.rrset(owner, Type::CNAME).is_some() {
            return Ok(());
        }
        let ttl_before = self.edit.rrset(owner, rtype).map(|set| set.ttl());
        self.changed |= self.edit.add(record.into())?;
        if ttl_before.is_some_and(|before| before != ttl_of(record)) {
            self.edit.set_ttl(owner, rtype, ttl_of(record));
            self.changed = true;
        }
        Ok(())
    }

    fn remove_name(&mut self, owner: NameRef<'_>) {
        let types: Vec<Type> = self.edit.rrsets(owner).map(|set| set.rtype()).collect();
        for rtype in types {
            // An NSEC3 record may have the same owner, and proves something of another name.
            if !self.is_kept(owner, rtype) && !is_made(rtype) {
                self.changed |= self.edit.remove_rrset(owner, rtype);
            }
        }
    }

    fn remove(&mut self, record: &Record) {
        let (owner, rtype) = (record.owner.view(), record.rtype);
        let is_last = || self.edit.rrset(owner, rtype).is_none_or(|set| set.count() <= 1);
        if self.is_kept(owner, rtype) && (rtype == Type::SOA || is_last()) {
            return;
        }
        let in_zone = RecordRef { class: Class::IN, ..record.into() };
        self.changed |= self.edit.remove(in_zone);
    }

    /// Whether a zone has to have such records: SOA and NS records of its origin.
    fn is_kept(&self, owner: NameRef<'_>, rtype: Type) -> bool {
        matches!(rtype, Type::SOA | Type::NS) && owner == self.origin.view()
    }

    /// Gives the zone the next serial number, which is never 0 (RFC 2136 section 7.11).
    ///
    /// # Errors
    /// If the zone cannot hold the record.
    fn count_serial(&mut self) -> Result<(), Refused> {
        let Some(soa) = self.edit.rrset(self.origin.view(), Type::SOA) else { return Ok(()) };
        let Some(record) = soa.iter().next() else { return Ok(()) };
        let (owner, mut rdata) = (record.owner.to_name(), record.rdata.to_vec());
        let RecordRef { rtype, class, ttl, .. } = record;
        let serial = serial_in(&rdata).map_or(0, |serial| serial.0).wrapping_add(1).max(1);
        let at = rdata.len().saturating_sub(SOA_NUMBERS);
        if let Some(slot) = rdata.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *slot = serial.to_be_bytes();
        }
        // It takes the place of the one that is there.
        self.edit.add((&Record { owner, rtype, class, ttl, rdata }).into()).map(drop)
    }
}

/// The TTL that a record gets in a zone (RFC 2181 section 8).
fn ttl_of(record: &Record) -> u32 {
    if record.ttl > TTL_MAX { 0 } else { record.ttl }
}
