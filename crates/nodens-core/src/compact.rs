//! Compact denials (RFC 9824): names that do not exist are said to have no records but those that prove
//! it, and type NXNAME.

use nodens_wire::{Records, Section, Type};

/// Whether a response denies its name with NXNAME in the bitmap of an NSEC record.
pub(crate) fn denies_name(wire: &[u8]) -> bool {
    let Ok(records) = Records::of(wire) else { return false };
    let mut records = records.map_while(Result::ok);
    records.any(|record| {
        let is_proof = record.section == Section::Authority && record.rtype == Type::NSEC;
        is_proof && wire.get(record.rdata).is_some_and(has_nxname)
    })
}

/// Whether NSEC RDATA has NXNAME in its bitmap.
fn has_nxname(rdata: &[u8]) -> bool {
    let mut at = 0;
    while let Some(len @ 1..=63) = rdata.get(at) {
        at += 1 + usize::from(*len);
    }
    let mut rest = rdata.get(at + 1..).unwrap_or_default();
    let [high, low] = Type::NXNAME.0.to_be_bytes();
    while let [window, len, behind @ ..] = rest {
        let Some((bits, next)) = behind.split_at_checked(usize::from(*len)) else { return false };
        if *window == high {
            let octet = bits.get(usize::from(low / 8)).copied().unwrap_or(0);
            return octet & 0x80 >> (low % 8) != 0;
        }
        rest = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::Name;
    use nodens_zone::dnssec::nsec_rdata;

    #[test]
    fn nxname_is_found_in_bitmaps_whatever_else_they_hold() {
        let next: Name = "a.example.org.".parse().unwrap();
        let has = |types: &[Type]| has_nxname(&nsec_rdata(next.view(), types.iter().copied()));
        assert!(has(&[Type::RRSIG, Type::NSEC, Type::NXNAME]));
        assert!(has(&[Type::NXNAME, Type::CAA]));
        assert!(!has(&[Type::RRSIG, Type::NSEC, Type::CAA]));
        assert!(!has(&[]));
        let whole = nsec_rdata(next.view(), [Type::NXNAME]);
        for len in 0..whole.len() {
            assert!(!has_nxname(&whole[..len]), "{len}");
        }
    }
}
