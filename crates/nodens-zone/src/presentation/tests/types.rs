//! Every type with a form of its own, as CoreDNS 1.15.0 reads it (miekg/dns 1.1.73).

use super::{PresentationError, read, record};
use nodens_wire::Type;

/// What stands behind the name, and RDATA.
const RECORDS: &[(&str, &str)] = &[
    ("A 192.0.2.1", "c0000201"),
    ("X25 311061700956", "0c333131303631373030393536"),
    ("ISDN 150862028003217 004", "0f31353038363230323830303332313703303034"),
    ("ISDN \"150 004\"", "0331353003303034"),
    ("ISDN a", "016100"),
    ("HINFO a", "016100"),
    ("HINFO \"a b\"", "01610162"),
    ("HINFO a b c", "016103622063"),
    (
        "SIG A 8 2 3600 20300101000000 20200101000000 1 a. AAEC",
        "0001080200000e1070dbd8805e0be1000001016100000102",
    ),
    ("KEY 256 3 8 AAEC", "01000308000102"),
    ("PX 10 a. b.", "000a016100016200"),
    ("GPOS -32.6882 116.8652 10.0", "082d33322e36383832083131362e383635320431302e30"),
    (
        "LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m",
        "000016138b3cf018810cbce0009895b8",
    ),
    ("LOC 42 21 54 N 71 06 18 W -24m 30m", "0033161389172dd070be15f000988d20"),
    ("LOC 90 S 180 W 0", "001216136cb0270059604e0000989680"),
    ("LOC 42 21 43.952 N 71 5 6.344 W -24m 1m 200m", "001224138917069070bf2dd800988d20"),
    (
        "NXT b. A AAAA TYPE1234",
        "016200000440000008041b000000000000000000000000000000000000000000000000000020",
    ),
    ("EID 0102 ab", "0102ab"),
    ("NIMLOC 0102", "0102"),
    ("CERT PGP 1 RSASHA256 AAEC", "0003000108000102"),
    ("CERT 1 2 3 AA EC", "0001000203000102"),
    (
        "APL 1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8",
        "00011503c0a82000011c83c0a82600020801ff",
    ),
    ("APL 1:0.0.0.0/0", "00010000"),
    ("APL", ""),
    ("IPSECKEY 10 1 2 192.0.2.38 AAEC", "0a0102c0000226000102"),
    ("IPSECKEY 10 0 2 . AAEC", "0a0002000102"),
    ("IPSECKEY 10 3 2 g. AAEC", "0a0302016700000102"),
    ("IPSECKEY 10 2 2 2001:db8::1 AAEC", "0a020220010db8000000000000000000000001000102"),
    ("DHCID AAEC", "000102"),
    (
        "HIP 2 200100107B1A74DF365639CC39F1D578 AAEC r1. r2.",
        "10020003200100107b1a74df365639cc39f1d5780001020272310002723200",
    ),
    ("HIP 2 2001 AAEC", "020200032001000102"),
    ("RKEY 0 3 8 AAEC", "00000308000102"),
    ("TALINK a. b.", "016100016200"),
    ("OPENPGPKEY AA EC", "000102"),
    ("CSYNC 66 3 A NS AAAA", "000000420003000460000008"),
    (
        "ZONEMD 1 1 1 abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd",
        "000000010101abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd",
    ),
    ("SPF \"v=spf1 -all\"", "0b763d73706631202d616c6c"),
    ("UINFO a", "0161"),
    ("UID 1000", "000003e8"),
    ("GID 1000", "000003e8"),
    ("NID 10 0014:4fff:ff20:ee64", "000a00144fffff20ee64"),
    ("L32 10 10.1.2.0", "000a0a010200"),
    ("L64 10 2001:0DB8:1140:1000", "000a20010db811401000"),
    ("LP 10 l.", "000a016c00"),
    ("EUI48 00-00-5e-00-53-2a", "00005e00532a"),
    ("EUI64 00-00-5e-ef-10-00-00-2a", "00005eef1000002a"),
    ("TA 1 8 2 abcd", "00010802abcd"),
    ("DLV 1 RSASHA256 2 abcd", "00010802abcd"),
    ("AMTRELAY 10 0 0 .", "0a00"),
    ("AMTRELAY 10 0 2 2001:db8::1", "0a0220010db8000000000000000000000001"),
    ("AMTRELAY 10 0 3 r.", "0a03017200"),
    ("RESINFO qnamemin exterr=15-17", "08716e616d656d696e0c6578746572723d31352d3137"),
    ("NSAP-PTR n.", "016e00"),
    ("MINFO a. b.", "016100016200"),
    ("MB a.", "016100"),
    ("MD a.", "016100"),
    ("MF a.", "016100"),
    ("MG a.", "016100"),
    ("MR a.", "016100"),
    ("NINFO a", "0161"),
    ("AVC a", "0161"),
    ("KX 1 k.", "0001016b00"),
    ("RT 1 k.", "0001016b00"),
    ("AFSDB 1 k.", "0001016b00"),
    ("DNAME d.", "016400"),
    ("CDS 1 8 2 abcd", "00010802abcd"),
    ("CDNSKEY 256 3 8 AAEC", "01000308000102"),
    ("DNSKEY 256 3 8 AAEC", "01000308000102"),
    (
        "RRSIG A 8 2 3600 20300101000000 20200101000000 1 a. AAEC",
        "0001080200000e1070dbd8805e0be1000001016100000102",
    ),
    (
        "RRSIG A RSASHA256 2 3600 1893456000 1577836800 1 a. AAEC",
        "0001080200000e1070dbd8805e0be1000001016100000102",
    ),
    ("NSEC b. A MX", "01620000024001"),
    (
        "NSEC3 1 0 1 ab 2vptu5timamqttgl4luu9kg21e0aor3s A",
        "0100000101ab1417f3df17b2b2adaef615257de4d2020b80ac6c7c000140",
    ),
    (
        "NSEC3 1 0 1 - 2vptu5timamqttgl4luu9kg21e0aor3s",
        "01000001001417f3df17b2b2adaef615257de4d2020b80ac6c7c",
    ),
    ("NSEC3PARAM 1 0 1 -", "0100000100"),
    ("DS 1 RSASHA256 2 abcd", "00010802abcd"),
    ("SMIMEA 3 1 1 abcd", "030101abcd"),
    ("TXT \"\"", "00"),
    ("NULL \\# 2 abcd", "abcd"),
    ("ATMA \\# 2 abcd", "abcd"),
    ("NAPTR 1 2 \"u\" \"s\" \"\" r.", "000100020175017300017200"),
];

#[test]
fn rdata_is_read_as_coredns_reads_it() {
    for (text, rdata) in RECORDS {
        let rtype = text.split(' ').next().unwrap();
        assert_eq!(read(&format!("x. {text}")), format!("x. 3600 IN {rtype} {rdata}"), "{text}");
    }
}

/// What cannot stand in a zone has no form to be read in, and a few are too old to have one.
#[test]
fn every_type_has_a_form_or_is_given_as_octets() {
    let formless = [
        Type::NONE,
        Type::NULL,
        Type::ATMA,
        Type::OPT,
        Type::UNSPEC,
        Type::NXNAME,
        Type::TKEY,
        Type::TSIG,
        Type::IXFR,
        Type::AXFR,
        Type::MAILB,
        Type::MAILA,
        Type::ANY,
        Type::RESERVED,
    ];
    let elsewhere = super::RDATA.iter().map(|(text, _)| text.trim_start_matches("x. "));
    let read: Vec<_> = RECORDS.iter().map(|(text, _)| *text).chain(elsewhere).collect();
    for code in 0..=u16::MAX {
        let rtype = Type(code);
        let Some(name) = rtype.mnemonic().filter(|_| !formless.contains(&rtype)) else { continue };
        let start = format!("{name} ");
        assert!(
            read.iter().any(|text| text.starts_with(&start) && !text.contains("\\#")),
            "{name}"
        );
    }
}

#[test]
fn what_has_another_form_is_refused() {
    for text in [
        "LOC 91 N 0 E 0",
        "LOC 90 0 1 N 0 E 0",
        "LOC 1 60 N 0 E 0",
        "LOC 1 1.5 N 0 E 0",
        "LOC 1 N 1 N 0",
        "LOC 1 N 1 E",
        "LOC 1 N 1 E x",
        "LOC 1 N 1 E 0 1 2 3 4",
        "LOC 1 N 1 E 0 90000001",
        "LOC 1 1 1 1 N 1 E 0",
        "LOC 1 N 1 E NaN",
        "APL 2:192.0.2.0/24",
        "APL 3:192.0.2.0/24",
        "APL 1:192.0.2.0/33",
        "APL x",
        "HIP 2 2 AAEC",
        "HIP 2 20 A",
        "HIP 2 20 AAEC a..",
        "IPSECKEY 1 0 2 a. AAEC",
        "IPSECKEY 1 1 2 ::1 AAEC",
        "IPSECKEY 1 4 2 . AAEC",
        "IPSECKEY 1 0 2",
        "AMTRELAY 1 2 0 .",
        "AMTRELAY 1 0 0 . x",
        "EUI48 00-00-5e-00-53",
        "EUI48 00-00-5e-00-53-2",
        "EUI48 00-00-5e-00-53-2g",
        "NID 1 0014:4fff:ff20",
        "L32 1 ::1",
        "GPOS a 1 2",
        "CERT FOO 1 2 AAEC",
        "CERT 1 2 256 AAEC",
        "DHCID ?",
        "CSYNC 1 2 FOO",
        "UID x",
        "SIG A 8",
        "KEY 256 3",
        "TA 1 8",
        "X25",
    ] {
        assert!(read(&format!("x. {text}")).starts_with("error: "), "{text}: {}", read(text));
    }
    // One character-string cannot be cut into several.
    for text in ["ISDN ", "X25 1", "CAA 0 issue"] {
        let value = if text.starts_with("CAA") { " x" } else { "" };
        let error = record(&format!("x. {text}{}{value}", "1".repeat(256))).unwrap_err();
        assert!(matches!(error, PresentationError::Expected { .. }), "{text}");
    }
}

/// The address of the relay, which CoreDNS leaves out of an IPv4 address with the bit of discovery.
#[test]
fn a_relay_has_its_address() {
    assert_eq!(read("x. AMTRELAY 10 1 1 192.0.2.1"), "x. 3600 IN AMTRELAY 0a81c0000201");
}

#[test]
fn types_in_a_map_may_stand_in_any_order() {
    assert_eq!(
        read("x. CSYNC 1 0 TYPE257 AAAA A"),
        "x. 3600 IN CSYNC 000000010000000440000008010140"
    );
    assert!(read("x. NXT b. TYPE1234 AAAA A").ends_with(
        " 016200000440000008041b000000000000000000000000000000000000000000000000000020"
    ));
}

/// Where CoreDNS sends RDATA without any character-string.
#[test]
fn no_text_is_an_empty_string() {
    assert_eq!(read("x. TXT"), "x. 3600 IN TXT 00");
    assert_eq!(read("x. 60 IN SPF ; nothing"), "x. 60 IN SPF 00");
}

/// What BIND, Knot and NSD read, or write.
#[test]
fn rdata_is_read_as_other_servers_write_it() {
    for (text, rdata) in [
        ("NID 1 14:4fff:0:e4", "000100144fff000000e4"),
        ("L64 1 2001:db8::1", ""),
        ("L64 1 2001:db8:1140:1", "000120010db811400001"),
        (
            "APL 1:192.168.32.1/21 2:2001:db8::1/32",
            "00011504c0a8200100022010 20010db8000000000000000000000001",
        ),
        ("HTTPS 1 . alpn=h2 ohttp", "000100000100030268320008 0000"),
    ] {
        let record = record(&format!("x. {text}"));
        match rdata {
            "" => assert!(record.is_err(), "{text}"),
            _ => assert_eq!(hex(&record.unwrap().rdata), rdata.replace(' ', ""), "{text}"),
        }
    }
    assert!(record("x. HTTPS 1 . ohttp=1").is_err());
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
