//! What a zone says of its keys to its parent (RFC 4034 section 5, RFC 7344).

use nodens_wire::NameRef;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// How the digest of a DS or CDS record is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestType {
    /// SHA-1, number 1.
    Sha1,
    /// SHA-256, number 2 (RFC 4509).
    Sha256,
}

/// The RDATA of a DS or CDS record for the DNSKEY RDATA `dnskey` of `zone`, whose key tag is `tag`.
pub fn ds_rdata(zone: NameRef<'_>, dnskey: &[u8], tag: u16, digest_type: DigestType) -> Vec<u8> {
    let mut octets = Vec::new();
    zone.fold_into(&mut octets);
    octets.extend(dnskey);
    let algorithm = dnskey.get(3).copied().unwrap_or_default();
    let mut rdata = tag.to_be_bytes().to_vec();
    match digest_type {
        DigestType::Sha1 => {
            rdata.extend([algorithm, 1]);
            rdata.extend(Sha1::digest(&octets));
        }
        DigestType::Sha256 => {
            rdata.extend([algorithm, 2]);
            rdata.extend(Sha256::digest(&octets));
        }
    }
    rdata
}

/// The key tag of DNSKEY RDATA (RFC 4034 appendix B).
pub(super) fn key_tag(dnskey: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for (at, octet) in dnskey.iter().enumerate() {
        let octet = u32::from(*octet);
        sum = sum.wrapping_add(if at % 2 == 0 { octet << 8 } else { octet });
    }
    sum.wrapping_add(sum >> 16) as u16
}
