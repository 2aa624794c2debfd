//! Zones signed as a whole: signatures over every RRset that is the zone's own, and NSEC records that
//! chain its names (RFC 4035 section 2), or NSEC3 records.

use super::canonical::{Canonical, Validity};
use super::ds::{DigestType, ds_rdata};
use super::key::SigningKey;
use super::nsec::nsec_rdata;
use super::nsec3::{Chain, PARAMETERS};
use crate::data::room::Claim;
use crate::data::{Data, Edit, Incomplete, Refused};
use crate::zone::{Advance, Cursor, RecordRef};
use nodens_wire::{Name, NameRef, Type};

/// What proves that a name or type does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// NSEC records, with which all names of the zone can be found out.
    #[default]
    Nsec,
    /// NSEC3 records: hashes of names, without opt-out, iterations and salt.
    Nsec3,
}

/// A version that has been signed, and its memory ([`room`](crate::data::room)).
#[derive(Debug)]
pub struct SignedZone {
    /// The version.
    pub data: Data,
    _room: Claim,
}

/// Why a zone is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignZoneError {
    /// A record that signing adds has no room.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The zone has no SOA record.
    #[error("{0}")]
    Incomplete(#[from] Incomplete),
    /// The system has no random numbers.
    #[error("signing failed")]
    Sign,
    /// A cut or a DNAME record hides, or no longer hides, too many names at once.
    #[error("more than {0} names would have to be signed again")]
    TooManyNames(usize),
    /// The version that it was to be made of is not signed as a whole.
    #[error("the chain of NSEC or NSEC3 records is broken")]
    Broken,
    /// There is no room for a hash in front of the origin.
    #[error("the origin is too long for NSEC3 records")]
    LongOrigin,
    /// The caller did not want it any more.
    #[error("signing was stopped")]
    Stopped,
}

/// Types that signing makes, so what the zone has of them is left out.
pub(super) const MADE: [Type; 7] = [
    Type::RRSIG,
    Type::NSEC,
    Type::NSEC3,
    Type::NSEC3PARAM,
    Type::DNSKEY,
    Type::CDS,
    Type::CDNSKEY,
];

/// Octets of SOA RDATA from the serial number on.
const SOA_NUMBERS: usize = 20;

/// A version of `data` with this serial number, signed with each of the keys, whose DNSKEY, CDS (SHA-256)
/// and CDNSKEY records (RFC 7344) are at the apex. What `data` has of these types, and of RRSIG, NSEC and
/// NSEC3, is left out. While it works, the memory of the unsigned and the signed version is claimed, and
/// then that of the signed one, until what is given is dropped.
///
/// `goes_on` is asked for each name.
///
/// # Errors
/// [`SignZoneError`].
pub fn sign_zone(
    data: Data,
    how: (&[SigningKey], Denial),
    (serial, validity): (u32, Validity),
    goes_on: &dyn Fn() -> bool,
) -> Result<SignedZone, SignZoneError> {
    sign_whole(data, how, (serial, &|_| validity), goes_on)
}

/// When the signature over an RRset is valid.
pub(super) type ValidityOf<'v> = dyn Fn(&Canonical) -> Validity + 'v;

/// [`sign_zone`], each RRset with times of its own.
pub(super) fn sign_whole(
    data: Data,
    (keys, denial): (&[SigningKey], Denial),
    (serial, validity): (u32, &ValidityOf<'_>),
    goes_on: &dyn Fn() -> bool,
) -> Result<SignedZone, SignZoneError> {
    let mut room = Claim::default();
    claim(&mut room, 2 * data.octets())?;
    let unsigned = prepared(data, keys, (denial, serial), goes_on)?;
    // Signing copies every name; by how much they grow, the edit itself claims.
    claim(&mut room, 2 * unsigned.octets())?;
    room.shrink_to(2 * unsigned.octets());
    let soa = unsigned.soa();
    // RFC 9077 section 3.
    let ttl = soa.record().ttl.min(soa.minimum());
    let edit = unsigned.edit();
    let mut signing = Signing { edit, zone: &unsigned, keys, validity, ttl, goes_on };
    match denial {
        Denial::Nsec => signing.with_nsec()?,
        Denial::Nsec3 => signing.with_nsec3()?,
    }
    let data = signing.edit.finish()?;
    claim(&mut room, unsigned.octets() + data.octets())?;
    drop(unsigned);
    room.shrink_to(data.octets());
    Ok(SignedZone { data, _room: room })
}

fn claim(room: &mut Claim, octets: u64) -> Result<(), Refused> {
    if room.grow(octets) { Ok(()) } else { Err(Refused::NoRoom) }
}

/// The records of the zone with those of the keys, and nothing that is made by signing.
pub(super) fn prepared(
    data: Data,
    keys: &[SigningKey],
    (denial, serial): (Denial, u32),
    goes_on: &dyn Fn() -> bool,
) -> Result<Data, SignZoneError> {
    let mut edit = data.edit();
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            Advance::End => break,
            Advance::Nothing if !goes_on() => return Err(SignZoneError::Stopped),
            Advance::Nothing => {}
            Advance::Record => {
                let made = cursor.record().filter(|record| MADE.contains(&record.rtype));
                made.map(|record| edit.remove_rrset(record.owner, record.rtype));
            }
        }
    }
    let (soa, class) = (data.soa().record(), data.class());
    let mut rdata = soa.rdata.clone();
    let numbers = rdata.len().saturating_sub(SOA_NUMBERS);
    if let Some(slot) = rdata.get_mut(numbers..numbers + size_of::<u32>()) {
        slot.copy_from_slice(&serial.to_be_bytes());
    }
    edit.add(RecordRef { rdata: &rdata, ..RecordRef::from(soa) })?;
    let owner = data.origin();
    for key in keys {
        let ds = ds_rdata(owner, key.rdata(), key.tag(), DigestType::Sha256);
        for (rtype, rdata) in
            [(Type::DNSKEY, key.rdata()), (Type::CDNSKEY, key.rdata()), (Type::CDS, ds.as_slice())]
        {
            edit.add(RecordRef { owner, rtype, class, ttl: soa.ttl, rdata })?;
        }
    }
    if denial == Denial::Nsec3 {
        // No resolver has a use for it, so that none need keep it.
        let (rtype, rdata) = (Type::NSEC3PARAM, &PARAMETERS);
        edit.add(RecordRef { owner, rtype, class, ttl: 0, rdata })?;
    }
    Ok(edit.finish()?)
}

/// The names with records of the zone itself, in canonical order: not those below a cut or a DNAME record.
struct OwnNames<'z> {
    data: &'z Data,
    cursor: Box<dyn Cursor>,
    /// The name that came last.
    last: Option<Name>,
    /// What lies below this name is hidden.
    hides: Option<Name>,
}

impl<'z> OwnNames<'z> {
    fn new(data: &'z Data) -> Self {
        Self { data, cursor: data.cursor(), last: None, hides: None }
    }

    fn found(&mut self, name: Name) -> Name {
        if self.data.hides_below(name.view()) {
            self.hides = Some(name.clone());
        }
        self.last.insert(name).clone()
    }
}

impl Iterator for OwnNames<'_> {
    type Item = Name;

    fn next(&mut self) -> Option<Name> {
        // Its SOA record is not among those of the cursor.
        let Some(last) = &self.last else { return Some(self.found(self.data.origin().to_name())) };
        loop {
            match self.cursor.advance() {
                Advance::End => return None,
                Advance::Nothing => continue,
                Advance::Record => {}
            }
            let Some(RecordRef { owner, .. }) = self.cursor.record() else { continue };
            let is_known = last.view() == owner || owner == self.data.origin();
            let is_below = |upper: &Name| owner.is_in_domain(upper.view());
            if !is_known && !self.hides.as_ref().is_some_and(is_below) {
                let name = owner.to_name();
                return Some(self.found(name));
            }
        }
    }
}

struct Signing<'z> {
    edit: Edit,
    zone: &'z Data,
    keys: &'z [SigningKey],
    validity: &'z ValidityOf<'z>,
    /// That of NSEC and NSEC3 records.
    ttl: u32,
    goes_on: &'z dyn Fn() -> bool,
}

impl Signing<'_> {
    /// Signs all names, and chains them.
    fn with_nsec(&mut self) -> Result<(), SignZoneError> {
        let origin = self.zone.origin().to_name();
        let mut names = OwnNames::new(self.zone);
        let mut name = names.next();
        while let Some(this) = name {
            let types = self.name(this.view())?;
            name = names.next();
            let next = name.as_ref().unwrap_or(&origin);
            let types = types.into_iter().chain([Type::RRSIG, Type::NSEC]);
            self.proof(this.view(), Type::NSEC, &nsec_rdata(next.view(), types))?;
        }
        Ok(())
    }

    /// Signs all names, and chains their hashes.
    fn with_nsec3(&mut self) -> Result<(), SignZoneError> {
        let mut chain = Chain::new(self.zone.origin());
        for name in OwnNames::new(self.zone) {
            let types = self.name(name.view())?;
            // Nothing is signed at a cut to a zone that is not.
            let is_signed = !self.zone.is_cut(name.view()) || types.contains(&Type::DS);
            let sigs = is_signed.then_some(Type::RRSIG);
            chain.push(name.view(), types.into_iter().chain(sigs))?;
        }
        chain.records(|owner, rdata| {
            if !(self.goes_on)() {
                return Err(SignZoneError::Stopped);
            }
            self.proof(owner, Type::NSEC3, rdata)
        })
    }

    /// Adds signatures over the RRsets of a name; gives the types that are the zone's own.
    fn name(&mut self, name: NameRef<'_>) -> Result<Vec<Type>, SignZoneError> {
        if !(self.goes_on)() {
            return Err(SignZoneError::Stopped);
        }
        let zone = self.zone;
        let is_cut = zone.is_cut(name);
        // Addresses at a cut are the other zone's (RFC 4035 section 2.3).
        let is_own = |rtype: Type| !is_cut || matches!(rtype, Type::NS | Type::DS);
        let mut types = Vec::new();
        for rrset in zone.rrsets(name).filter(|rrset| is_own(rrset.rtype())) {
            types.push(rrset.rtype());
            if is_cut && rrset.rtype() == Type::NS {
                continue;
            }
            let rdatas = rrset.iter().map(|record| record.rdata);
            self.rrset(name, rrset.rtype(), rrset.ttl(), rdatas)?;
        }
        Ok(types)
    }

    /// Adds an NSEC or NSEC3 record and signatures over it.
    fn proof(
        &mut self,
        owner: NameRef<'_>,
        rtype: Type,
        rdata: &[u8],
    ) -> Result<(), SignZoneError> {
        let (class, ttl) = (self.zone.class(), self.ttl);
        self.edit.add(RecordRef { owner, rtype, class, ttl, rdata })?;
        self.rrset(owner, rtype, ttl, [rdata])
    }

    fn rrset<'r>(
        &mut self,
        owner: NameRef<'_>,
        rtype: Type,
        ttl: u32,
        rdatas: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), SignZoneError> {
        let class = self.zone.class();
        let canonical = Canonical::new(owner, (rtype, class), ttl, rdatas);
        let validity = (self.validity)(&canonical);
        for key in self.keys {
            let rrsig = canonical.sign(key, self.zone.origin(), validity);
            let rdata = rrsig.map_err(|_| SignZoneError::Sign)?;
            self.edit.add(RecordRef { owner, rtype: Type::RRSIG, class, ttl, rdata: &rdata })?;
        }
        Ok(())
    }
}
