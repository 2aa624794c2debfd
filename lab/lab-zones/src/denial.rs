//! Whether a zone proves that a delegation of it is not signed (RFC 4035 section 5.2, RFC 5155 section 8.9).

use crate::response::name_at;
use crate::zone::{Rrset, Zone};
use nodens_wire::{Name, NameRef, Type};
use sha1::{Digest, Sha1};

/// The only hash of NSEC3.
const SHA1: u8 = 1;
/// Names between hashes may be delegated without a record of their own.
const OPT_OUT: u8 = 1;
/// Iterations that resolvers count (RFC 9276 section 3.2): with more, a zone is taken for unsigned.
const ITERATIONS_MAX: u16 = 150;

/// An NSEC3 record: its owner's hash and its fields.
struct Hashed<'z> {
    owner: Vec<u8>,
    flags: u8,
    iterations: u16,
    salt: &'z [u8],
    next: &'z [u8],
    types: &'z [u8],
}

/// Whether signed records of `zone` show that it delegates `cut` and has no DS records for it.
pub(crate) fn proves_unsigned(zone: &Zone, cut: &Name) -> bool {
    if let Some(rrset) = zone.get(cut, Type::NSEC).filter(|rrset| is_signed(rrset)) {
        let types = rrset.rdata.first().and_then(|rdata| {
            let next = name_at(rdata, 0)?;
            rdata.get(next.as_wire().len()..)
        });
        return types.is_some_and(|types| has(types, Type::NS) && !has(types, Type::DS));
    }
    let all: Vec<Hashed<'_>> = hashed(zone).collect();
    let Some(first) = all.first() else { return false };
    let hash = |name: NameRef<'_>| hash(name, first.iterations, first.salt);
    let exact = |name: NameRef<'_>| {
        let hash = hash(name);
        all.iter().find(|record| record.owner == hash)
    };
    if let Some(own) = exact(cut.view()) {
        return has(own.types, Type::NS) && !has(own.types, Type::DS);
    }
    let mut below = cut.view();
    while let Some(above) = below.parent().filter(|above| above.is_in_domain(zone.name.view())) {
        if exact(above).is_some() {
            let hash = hash(below);
            return all.iter().any(|record| record.flags & OPT_OUT != 0 && record.covers(&hash));
        }
        below = above;
    }
    false
}

/// Whether there is a signature.
pub(crate) fn is_signed(rrset: &Rrset) -> bool {
    !rrset.signatures.is_empty()
}

fn hashed(zone: &Zone) -> impl Iterator<Item = Hashed<'_>> {
    zone.records.iter().filter_map(|(owner, rrsets)| {
        let rrset = rrsets.get(&Type::NSEC3).filter(|rrset| is_signed(rrset))?;
        let rdata = rrset.rdata.first()?;
        let (salt, rest) = rdata.get(5..)?.split_at_checked(usize::from(*rdata.get(4)?))?;
        let (next, types) = rest.get(1..)?.split_at_checked(usize::from(*rest.first()?))?;
        let record = Hashed {
            owner: base32(owner.view().labels().next()?)?,
            flags: *rdata.get(1)?,
            iterations: u16::from_be_bytes([*rdata.get(2)?, *rdata.get(3)?]),
            salt,
            next,
            types,
        };
        (rdata.first() == Some(&SHA1) && record.iterations <= ITERATIONS_MAX).then_some(record)
    })
}

impl Hashed<'_> {
    fn covers(&self, hash: &[u8]) -> bool {
        match *self.owner < *self.next {
            true => *self.owner < *hash && *hash < *self.next,
            // The last one, up to the first.
            false => *self.owner < *hash || *hash < *self.next,
        }
    }
}

/// The hash of a name in lower case (RFC 5155 section 5).
fn hash(name: NameRef<'_>, iterations: u16, salt: &[u8]) -> Vec<u8> {
    let once = |octets: &[u8]| Sha1::new().chain_update(octets).chain_update(salt).finalize();
    let first = once(name.to_name().to_folded().as_wire());
    (0..iterations).fold(first, |hash, _| once(&hash)).to_vec()
}

/// The octets that a label stands for (RFC 4648 section 7, without padding).
fn base32(label: &[u8]) -> Option<Vec<u8>> {
    let (mut octets, mut bits, mut held) = (Vec::new(), 0_u32, 0_u32);
    for letter in label {
        let value = match letter.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => digit - b'0',
            letter @ b'a'..=b'v' => letter - b'a' + 10,
            _ => return None,
        };
        (bits, held) = ((bits << 5 | u32::from(value)) & 0xfff, held + 5);
        if held >= 8 {
            held -= 8;
            octets.push((bits >> held) as u8);
        }
    }
    Some(octets)
}

/// Whether a bitmap of types (RFC 4034 section 4.1.2) has one of the first 256.
fn has(mut types: &[u8], rtype: Type) -> bool {
    while let [window, len, rest @ ..] = types {
        let Some((bits, more)) = rest.split_at_checked(usize::from(*len)) else { return false };
        if *window == 0 {
            let octet = bits.get(usize::from(rtype.0 / 8));
            return octet.is_some_and(|octet| octet & (0x80 >> (rtype.0 % 8)) != 0);
        }
        types = more;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashed_as_in_the_standard() {
        // RFC 5155 appendix A: 12 more iterations, salt aabbccdd.
        for (name, expected) in [
            ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("ns1.example.", "2t7b4g4vsa5smi47k61mv5bv1a22bojr"),
            ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            let name = Name::parse(name).unwrap();
            let found = hash(name.view(), 12, &[0xaa, 0xbb, 0xcc, 0xdd]);
            assert_eq!(Some(found), base32(expected.as_bytes()), "{name}");
        }
        assert_eq!(base32(b"w0"), None);
    }

    #[test]
    fn bitmaps_tell_types() {
        // NS and RRSIG, in a bitmap of six octets.
        let types = [0, 6, 0x20, 0, 0, 0, 0, 0x02];
        assert!(has(&types, Type::NS) && !has(&types, Type::DS) && !has(&types, Type::A));
        assert!(!has(&[0, 6, 0x20], Type::NS) && !has(&[1, 1, 0x20], Type::NS));
    }
}
