use super::*;
use nodens_wire::Name;

mod types;

/// `OWNER TTL CLASS TYPE hex` of a record.
fn read(text: &str) -> String {
    match record(text) {
        Ok(Record { owner, rtype, class, ttl, rdata }) => {
            let hex: String = rdata.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("{owner} {ttl} {class} {rtype} {hex}")
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn what_stands_before_the_type_may_be_left_out_or_swapped() {
    for (text, expected) in [
        ("x.org. 60 IN A 1.1.1.1", "x.org. 60 IN A 01010101"),
        ("x.org. in 5 a 1.1.1.1", "x.org. 5 IN A 01010101"),
        ("x.org A 1.1.1.1", "x.org. 3600 IN A 01010101"),
        ("\n\nx.org. 1h30m IN A 1.1.1.1", "x.org. 5400 IN A 01010101"),
        ("@ 5 A 1.1.1.1", ". 5 IN A 01010101"),
        ("x. 60 CH TXT a", "x. 60 CH TXT 0161"),
        ("*.X\\.y.org. 60 A 1.1.1.1", "*.X\\.y.org. 60 IN A 01010101"),
        ("x. 5 A 1.1.1.1 ; comment", "x. 5 IN A 01010101"),
        ("x. 5 A 1.1.1.1\ny. 5 A 2.2.2.2", "x. 5 IN A 01010101"),
        ("x. ( 5 A\n 1.1.1.1 )", "x. 5 IN A 01010101"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

/// Record, and its type and RDATA.
const RDATA: &[(&str, &str)] = &[
    ("x. AAAA 2001:db8::1", "AAAA 20010db8000000000000000000000001"),
    ("x. CNAME y.z.", "CNAME 017901 7a00"),
    ("x. MX 10 m.", "MX 000a 016d00"),
    ("x. SRV 1 2 53 t.", "SRV 0001 0002 0035 017400"),
    ("x. PTR p", "PTR 017000"),
    ("x. NS n.", "NS 016e00"),
    (
        "x. SOA a. b. 1 1h 1m 1w 1d",
        "SOA 016100 016200 00000001 00000e10 0000003c 00093a80 00015180",
    ),
    (
        "x. SOA a. b. (1 60 60\n60 60)",
        "SOA 016100 016200 00000001 0000003c 0000003c 0000003c 0000003c",
    ),
    ("x. TXT (a\n \"b c\" \\065\\\"\"\")", "TXT 0161 03622063 024122 00"),
    ("x. HINFO a b", "HINFO 0161 0162"),
    ("x. NAPTR 1 2 u s \"\" r.", "NAPTR 0001 0002 0175 0173 00 017200"),
    ("x. CAA 0 issue \"ca\"", "CAA 00 056973737565 6361"),
    ("x. TLSA 3 1 1 ab cd", "TLSA 030101abcd"),
    ("x. SSHFP 1 2 ABCD", "SSHFP 0102abcd"),
    ("x. URI 1 2 \"http://x\"", "URI 0001 0002 687474703a2f2f78"),
    ("x. RP a. b.", "RP 016100 016200"),
    ("x. TYPE65280 \\# 2 abcd", "TYPE65280 abcd"),
    ("x. A \\# 4 01020304", "A 01020304"),
    ("x. NULL \\# 0", "NULL "),
    ("x. DS 1 8 2 abcd", "DS 0001 08 02 abcd"),
    (
        "x. HTTPS 1 . alpn=\"h2,h3\" port=443",
        "HTTPS 0001 00 0001 0006 026832 026833 0003 0002 01bb",
    ),
    (
        "x. SVCB 0 y. ipv6hint=::1 ipv4hint=1.2.3.4,1.2.3.5 mandatory=key9,ipv4hint no-default-alpn key9=a",
        "SVCB 0000 017900 0000 0004 0004 0009 0002 0000 0004 0008 01020304 01020305 \
             0006 0010 00000000000000000000000000000001 0009 0001 61",
    ),
    // RFC 9460 appendix D.2.
    (
        "x. SVCB 16 foo.example.org. alpn=\"f\\\\\\\\oo\\\\,bar,h2\"",
        "SVCB 0010 03666f6f076578616d706c65036f726700 0001 000c 08665c6f6f2c626172 026832",
    ),
    (
        "x. SVCB 16 foo.example.org. alpn=f\\\\\\092oo\\092,bar,h2",
        "SVCB 0010 03666f6f076578616d706c65036f726700 0001 000c 08665c6f6f2c626172 026832",
    ),
    // RFC 4034 section 2.2: algorithms may be mnemonics.
    ("x. DNSKEY 257 3 ECDSAP256SHA256 AQ ID", "DNSKEY 0101 03 0d 010203"),
    ("x. CDNSKEY 0 3 0 AA==", "CDNSKEY 0000 03 00 00"),
    ("x. HTTPS 1 . ech=AAEC", "HTTPS 0001 00 0005 0003 000102"),
];

#[test]
fn rdata_of_many_types() {
    for (text, expected) in RDATA {
        let expected = expected.split_once(' ').map(|(rtype, hex)| (rtype, hex.replace(' ', "")));
        let (rtype, hex) = expected.unwrap();
        assert_eq!(read(text), format!("x. 3600 IN {rtype} {hex}"), "{text}");
    }
}

#[test]
fn long_text_is_cut_into_strings() {
    let rdata = record(&format!("x. TXT {}", "a".repeat(300))).unwrap().rdata;
    assert_eq!((rdata.len(), rdata[0], rdata[256]), (302, 255, 45));
    let error = record(&format!("x. TXT {}", "a ".repeat(33_000))).unwrap_err();
    assert_eq!(error, PresentationError::TooLong);
}

/// BIND's resolvers answer SERVFAIL for a name with such a record, and BIND, Knot and NSD refuse a file with it.
#[test]
fn a_record_without_what_it_calls_mandatory_is_refused() {
    for (parameters, list) in [
        ("mandatory=port", "port"),
        ("mandatory=port,alpn alpn=h2", "port,alpn"),
        ("mandatory=alpn,mandatory alpn=h2", "alpn,mandatory"),
        ("alpn=h2 mandatory=alpn,alpn", "alpn,alpn"),
    ] {
        let expected = "error: expected a list of keys that the record has, each once";
        for head in ["x. HTTPS 1 .", "x. SVCB 0 ."] {
            let found = read(&format!("{head} {parameters}"));
            assert_eq!(found, format!("{expected}, found `{list}`"), "{parameters}");
        }
    }
    for parameters in ["mandatory=alpn,port port=1 alpn=h2", "no-default-alpn"] {
        let found = read(&format!("x. SVCB 1 . {parameters}"));
        assert!(!found.starts_with("error"), "{parameters}: {found}");
    }
}

#[test]
fn what_is_no_record_is_refused() {
    for (text, expected) in [
        ("", "error: expected a record, found nothing"),
        ("; comment", "error: expected a record, found nothing"),
        ("$ORIGIN x.", "error: expected a record, found the directive `$ORIGIN`"),
        ("x.", "error: expected a TTL, class or type, found the end of the record"),
        ("x. 60 IN BOGUS a", "error: expected a type such as AAAA, found `BOGUS`"),
        ("x. 60 IN ANY a", "error: expected a type such as AAAA, found `ANY`"),
        ("x. 60 ANY A 1.1.1.1", "error: expected a type such as AAAA, found `ANY`"),
        ("  x.org. 60 IN A 1.1.1.1", "x.org. 60 IN A 01010101"),
        ("x..y A 1.1.1.1", "error: expected a domain name, found `x..y`"),
        ("x. TXT \"a", "error: a quote is not closed"),
        ("x. TXT (a", "error: a parenthesis is not closed"),
        ("x. TXT a)", "error: expected the end of the record, found `)`"),
        ("x. SOA a. b. 1 2 3 4 5 6", "error: expected the end of the record, found `6`"),
        ("x. CAA 256 issue ca", "error: expected a number, found `256`"),
        ("x. TLSA 3 1 1 abc", "error: expected an even number of digits, found `abc`"),
        ("x. TYPE65280 \\# 3 abcd", "error: expected the number of octets, found `3`"),
        ("x. DS 1", "error: expected an algorithm, found the end of the record"),
        ("x. MX bogus", "error: expected a number, found `bogus`"),
        ("x. MX 10 a..b.", "error: expected a domain name, found `a..b.`"),
        ("x. \x0c TXT a", "error: expected a type such as AAAA, found `\x0c`"),
        ("x. A 1.1.1.1 junk", "error: expected the end of the record, found `junk`"),
        ("x. A", "error: expected an IPv4 address, found the end of the record"),
        ("x. A 1.1.1", "error: expected an IPv4 address, found `1.1.1`"),
        ("x. AAAA 1.1.1.1", "error: expected an IPv6 address, found `1.1.1.1`"),
        ("x. HTTPS 1 . port=x", "error: expected a port, found `x`"),
        (
            "x. HTTPS 1 . port=1 port=2",
            "error: expected a parameter such as port=443, each key once, found `port=2`",
        ),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    for text in [
        "x. KEY 1",
        "x. KEY 1 3 8 AAEC=junk",
        "x. KEY 1 256 8 AAEC",
        "x. KEY 65539 3 8 AAEC",
        "x. NSEC3PARAM 1 259 0 -",
        "x. ZONEMD 4294967296 1 1 00112233445566778899aabb",
        "x. MX \\# 2 abcd",
    ] {
        assert!(read(text).starts_with("error: bad RDATA of type "), "{text}: {}", read(text));
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_fault(text in "[a-z0-9.@$\\\\\"(); \n#=,-]{0,60}") {
        _ = record(&text);
        _ = record(&format!("x. HTTPS {text}"));
        _ = record(&format!("x. SOA {text}"));
        _ = record(&format!("x. NSEC {text}"));
        for rtype in ["APL", "HIP", "LOC", "ISDN", "IPSECKEY", "EUI48", "NXT"] {
            _ = record(&format!("x. {rtype} {text}"));
        }
    }
}

/// Whether the text of a record reads as the record.
fn assert_reads_back(record: &Record) {
    let text = record_text(&crate::RecordRef::from(record));
    let again = super::record(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again, *record, "{text}");
}

#[test]
fn records_as_text_read_back_the_same() {
    for (text, _) in RDATA {
        assert_reads_back(&record(text).unwrap());
    }
    for (text, wanted) in [
        ("x. 5 A 192.0.2.1", "x.\t5\tIN\tA\t192.0.2.1"),
        ("x\\.y. 5 CH TXT \"a b\" c", "x\\.y.\t5\tCH\tTXT\t\"a b\" \"c\""),
        ("x. 5 TYPE65280 \\# 2 0aff", "x.\t5\tIN\tTYPE65280\t\\# 2 0A FF"),
        ("x. 5 A \\# 3 0a0b0c", "error"),
        ("x. 5 AVC \\# 0", "x.\t5\tIN\tAVC\t\\# 0"),
    ] {
        let text = record(text).map_or_else(
            |_| "error".to_owned(),
            |record| record_text(&crate::RecordRef::from(&record)),
        );
        assert_eq!(text.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    }
}

proptest::proptest! {
    #[test]
    fn any_rdata_as_text_reads_back_the_same(
        rtype in 1_u16..270,
        rdata in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
    ) {
        let owner: Name = "a\\.\\000\\\"b.x.".parse().unwrap();
        let record = Record { owner, rtype: Type(rtype), class: Class::IN, ttl: 5, rdata };
        let is_data = !matches!(Type(rtype), Type::ANY | Type::OPT);
        if is_data && is_readable(&record) {
            assert_reads_back(&record);
        }
    }
}
