//! Zones signed as a whole: signatures over every RRset that is the zone's own, and NSEC records that
//! chain its names (RFC 4035 section 2).

use super::canonical::{Canonical, Validity};
use super::ds::{DigestType, ds_rdata};
use super::key::SigningKey;
use super::nsec::nsec_rdata;
use crate::data::{Data, Edit, Incomplete, Refused};
use crate::zone::{Advance, RecordRef};
use nodens_wire::{Name, NameRef, Type};

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
    /// The caller did not want it any more.
    #[error("signing was stopped")]
    Stopped,
}

/// Types that signing makes, so what the zone has of them is left out.
const MADE: [Type; 7] = [
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

/// A version of `data` with this serial number, signed with each of the keys, whose DNSKEY, CDS (SHA-1 and
/// SHA-256) and CDNSKEY records (RFC 7344) are at the apex. What `data` has of these types, and of RRSIG,
/// NSEC and NSEC3, is left out.
///
/// `goes_on` is asked for each name.
///
/// # Errors
/// [`SignZoneError`].
pub fn sign_zone(
    data: &Data,
    keys: &[SigningKey],
    (serial, validity): (u32, Validity),
    goes_on: &dyn Fn() -> bool,
) -> Result<Data, SignZoneError> {
    let unsigned = prepared(data, keys, serial)?;
    let mut signing = Signing { edit: unsigned.edit(), zone: &unsigned, keys, validity };
    let names = own_names(&unsigned);
    let soa = unsigned.soa();
    // RFC 9077 section 3.
    let ttl = soa.record().ttl.min(soa.minimum());
    for (at, name) in names.iter().enumerate() {
        if !goes_on() {
            return Err(SignZoneError::Stopped);
        }
        let next = names.get(at + 1).or(names.first()).unwrap_or(name);
        signing.name(name.view(), next.view(), ttl)?;
    }
    Ok(signing.edit.finish()?)
}

/// The records of the zone with those of the keys, and nothing that is made by signing.
fn prepared(data: &Data, keys: &[SigningKey], serial: u32) -> Result<Data, SignZoneError> {
    let mut edit = Edit::new(data.origin(), data.class());
    let soa = data.soa().record();
    let mut rdata = soa.rdata.clone();
    let numbers = rdata.len().saturating_sub(SOA_NUMBERS);
    if let Some(slot) = rdata.get_mut(numbers..numbers + size_of::<u32>()) {
        slot.copy_from_slice(&serial.to_be_bytes());
    }
    edit.add(RecordRef { rdata: &rdata, ..RecordRef::from(soa) })?;
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            Advance::End => break,
            Advance::Nothing => {}
            Advance::Record => {
                let record = cursor.record().filter(|record| !MADE.contains(&record.rtype));
                record.map(|record| edit.add(record)).transpose()?;
            }
        }
    }
    for key in keys {
        let (zone, tag) = (data.origin(), key.tag());
        let ds = |digest_type| ds_rdata(zone, key.rdata(), tag, digest_type);
        for (rtype, rdata) in [
            (Type::DNSKEY, key.rdata().to_vec()),
            (Type::CDNSKEY, key.rdata().to_vec()),
            (Type::CDS, ds(DigestType::Sha1)),
            (Type::CDS, ds(DigestType::Sha256)),
        ] {
            let (class, ttl) = (data.class(), soa.ttl);
            edit.add(RecordRef { owner: zone, rtype, class, ttl, rdata: &rdata })?;
        }
    }
    Ok(edit.finish()?)
}

/// The names with records of the zone itself, in canonical order: not those below a cut or a DNAME record.
fn own_names(data: &Data) -> Vec<Name> {
    let mut names = vec![data.origin().to_name()];
    let mut hides = data.rrset(data.origin(), Type::DNAME).map(|_| data.origin().to_name());
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            Advance::End => return names,
            Advance::Nothing => continue,
            Advance::Record => {}
        }
        let Some(RecordRef { owner, .. }) = cursor.record() else { continue };
        let is_known = names.last().is_some_and(|last| last.view() == owner);
        let is_apex = owner == data.origin();
        let is_hidden = hides.as_ref().is_some_and(|upper| owner.is_in_domain(upper.view()));
        if is_known || is_apex || is_hidden {
            continue;
        }
        names.push(owner.to_name());
        if is_cut(data, owner) || data.rrset(owner, Type::DNAME).is_some() {
            hides = Some(owner.to_name());
        }
    }
}

fn is_cut(data: &Data, name: NameRef<'_>) -> bool {
    name != data.origin() && data.rrset(name, Type::NS).is_some()
}

struct Signing<'z> {
    edit: Edit,
    zone: &'z Data,
    keys: &'z [SigningKey],
    validity: Validity,
}

impl Signing<'_> {
    /// Adds the NSEC record of a name, and signatures over its RRsets.
    fn name(
        &mut self,
        name: NameRef<'_>,
        next: NameRef<'_>,
        ttl: u32,
    ) -> Result<(), SignZoneError> {
        let zone = self.zone;
        let is_cut = is_cut(zone, name);
        // Addresses at a cut are the other zone's (RFC 4035 section 2.3).
        let is_own = |rtype: Type| !is_cut || matches!(rtype, Type::NS | Type::DS);
        let mut types = vec![Type::RRSIG, Type::NSEC];
        for rrset in zone.rrsets(name).filter(|rrset| is_own(rrset.rtype())) {
            types.push(rrset.rtype());
            if is_cut && rrset.rtype() == Type::NS {
                continue;
            }
            let rdatas = rrset.iter().map(|record| record.rdata);
            self.rrset(name, rrset.rtype(), rrset.ttl(), rdatas)?;
        }
        let rdata = nsec_rdata(next, types);
        let class = zone.class();
        self.edit.add(RecordRef { owner: name, rtype: Type::NSEC, class, ttl, rdata: &rdata })?;
        self.rrset(name, Type::NSEC, ttl, [rdata.as_slice()])
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
        for key in self.keys {
            let rrsig = canonical.sign(key, self.zone.origin(), self.validity);
            let rdata = rrsig.map_err(|_| SignZoneError::Sign)?;
            self.edit.add(RecordRef { owner, rtype: Type::RRSIG, class, ttl, rdata: &rdata })?;
        }
        Ok(())
    }
}
