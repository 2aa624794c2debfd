use super::*;
use crate::{Builder, Class, Flags, Message, Records, Section};
use proptest::prelude::*;

/// Well-formed RDATA, and whether it stays so when octets are added at its end.
fn samples() -> Vec<(Type, Vec<u8>, bool)> {
    let name: &[u8] = b"\x02ns\x07example\x00";
    let numbers = [7_u8; 20];
    let of = |parts: &[&[u8]]| parts.concat();
    vec![
        (Type::A, vec![192, 0, 2, 1], false),
        (Type::AAAA, vec![1; 16], false),
        (Type::LOC, vec![0; 16], false),
        (Type::CNAME, name.to_vec(), false),
        (Type::NS, name.to_vec(), false),
        (Type::DNAME, name.to_vec(), false),
        (Type::NSAP_PTR, name.to_vec(), false),
        (Type::SOA, of(&[name, name, &numbers]), false),
        (Type::RP, of(&[name, name]), false),
        (Type::TALINK, of(&[name, name]), false),
        (Type::MX, of(&[&[0, 5], name]), false),
        (Type::LP, of(&[&[0, 5], name]), false),
        (Type::PX, of(&[&[0, 5], name, name]), false),
        (Type::SRV, of(&[&numbers[..6], name]), false),
        (Type::NAPTR, of(&[&numbers[..4], b"\x01U\x03E2U\x00", name]), false),
        (Type::TXT, b"\x05hello\x00\x01x".to_vec(), false),
        (Type::HINFO, b"\x03CPU\x02OS".to_vec(), false),
        (Type::X25, b"\x04text".to_vec(), false),
        (Type::GPOS, b"\x011\x012\x013".to_vec(), false),
        (Type::CAA, b"\x00\x05issueca.example".to_vec(), true),
        (Type::RRSIG, of(&[&numbers[..18], name, b"signature"]), true),
        (Type::NSEC, of(&[name, b"\x00\x02\x40\x01\x01\x01\x40"]), false),
        (Type::NSEC3, b"\x01\x00\x00\x0a\x02ab\x03abc\x00\x01\x40".to_vec(), false),
        (Type::NSEC3PARAM, b"\x01\x00\x00\x0a\x02ab".to_vec(), false),
        (Type::CSYNC, b"\x00\x00\x00\x01\x00\x03\x00\x01\x40".to_vec(), false),
        (Type::DNSKEY, b"\x01\x01\x03\x0dkey".to_vec(), true),
        (Type::DS, b"\x01\x01\x0d\x02digest".to_vec(), true),
        (Type::EUI48, vec![1; 6], false),
        (Type::EUI64, vec![1; 8], false),
        (Type::L64, vec![1; 10], false),
        (
            Type::SVCB,
            of(&[&[0, 1], name, b"\x00\x01\x00\x03\x02h2\x00\x03\x00\x02\x01\xbb"]),
            false,
        ),
        (Type::HTTPS, of(&[&[0, 0], name]), false),
        (Type::OPT, b"\x00\x03\x00\x02ns\x00\x0f\x00\x02\x00\x16".to_vec(), false),
        (Type::APL, b"\x00\x01\x18\x03\xc0\x00\x02\x00\x02\x80\x81\x20".to_vec(), false),
        (Type::HIP, of(&[&[2, 2, 0, 3], b"hikey", name, name]), false),
        (Type::IPSECKEY, of(&[&[10, 3, 2], name, b"key"]), true),
        (Type::IPSECKEY, b"\x0a\x01\x02\x01\x02\x03\x04key".to_vec(), true),
        (Type::AMTRELAY, of(&[&[10, 0x83], name]), false),
        (Type::AMTRELAY, of(&[&[10, 2], &[1; 16]]), false),
        (Type(65_280), b"whatever".to_vec(), true),
    ]
}

/// A message whose only record has this RDATA as it is.
fn message(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    let owner: crate::Name = "www.example.".parse().unwrap();
    Builder::new(&mut wire, 0, Flags::default()).question(owner.view(), rtype, Class::IN);
    wire[7] = 1;
    wire.extend([0xc0, 12]);
    wire.extend(rtype.0.to_be_bytes());
    wire.extend([0, 1, 0, 0, 0, 60]);
    wire.extend((rdata.len() as u16).to_be_bytes());
    wire.extend(rdata);
    wire
}

fn check(rtype: Type, rdata: &[u8]) -> Result<(), WireError> {
    let mut wire = message(rtype, rdata);
    // A record behind it, so that what reaches too far finds octets.
    wire[9] = 1;
    wire.extend(
        b"\x00\x00\x10\x00\x01\x00\x00\x00\x3c\x00\x09\x08\x00\x00\x00\x00\x00\x00\x00\x00",
    );
    let records: Vec<_> = Records::of(&wire).unwrap().map(Result::unwrap).collect();
    assert_eq!((records.len(), records[1].section), (2, Section::Authority));
    records[0].validate(&wire)
}

#[test]
fn every_type_is_whole_and_ends_with_its_last_field() {
    for (rtype, rdata, open) in samples() {
        assert_eq!(check(rtype, &rdata), Ok(()), "{rtype}");
        let longer = [&rdata[..], &[0xfe]].concat();
        assert_eq!(check(rtype, &longer).is_ok(), open, "{rtype} with an octet too many");
    }
}

#[test]
fn no_type_ends_inside_a_field() {
    for (rtype, rdata, open) in samples() {
        let shorter = &rdata[..rdata.len() - 1];
        // An option or parameter less is well-formed; one octet less is not.
        assert_eq!(check(rtype, shorter).is_ok(), open, "{rtype} with an octet too few");
        let empty =
            open && rtype == Type(65_280) || matches!(rtype, Type::OPT | Type::APL | Type::TXT);
        assert_eq!(check(rtype, &[]).is_ok(), empty, "{rtype} without RDATA");
    }
}

#[test]
fn names_are_compressed_only_where_who_reads_them_expects_it() {
    for (rtype, front, behind, fits) in [
        (Type::SRV, &[0; 6][..], &[][..], true),
        (Type::SOA, b"\x00", &[0; 20], true),
        (Type::RRSIG, &[0; 18], b"signature", false),
        (Type::NSEC, b"", b"\x00\x01\x40", false),
        (Type::SVCB, b"\x00\x01", b"", false),
    ] {
        let rdata = [front, &[0xc0, 12], behind].concat();
        assert_eq!(check(rtype, &rdata).is_ok(), fits, "{rtype}");
    }
}

#[test]
fn maps_of_types_have_their_blocks_in_order_and_none_empty() {
    for (map, fits) in [
        (&b""[..], true),
        (b"\x00\x01\x40\x01\x01\x40", true),
        (b"\x01\x01\x40\x00\x01\x40", false),
        (b"\x00\x01\x40\x00\x01\x40", false),
        (b"\x00\x00", false),
        (b"\x00\x21aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
    ] {
        assert_eq!(check(Type::NSEC, &[b"\x00", map].concat()).is_ok(), fits, "{map:?}");
    }
}

proptest! {
    /// What is valid parses, whatever the octets.
    #[test]
    fn what_is_valid_parses(
        rdata in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xc0), 0..16_u8, any::<u8>()], 0..60),
        rtype in (0..66_u16).prop_map(Type),
    ) {
        let wire = message(rtype, &rdata);
        let record = Records::of(&wire).unwrap().next().unwrap().unwrap();
        if record.validate(&wire).is_ok() {
            prop_assert_eq!(record.check(&wire), Ok(()));
            prop_assert!(Message::parse(&wire).is_ok());
        }
    }
}
