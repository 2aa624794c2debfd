use super::*;
use proptest::prelude::*;

/// A header of version 2 with this command, family and rest.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE.as_slice(), &[command, family], &len, rest].concat()
}

const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x30, 0x39, 0, 53];

fn v6() -> Vec<u8> {
    let [a, b]: [Ipv6Addr; 2] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
    [a.octets().as_slice(), &b.octets(), &[0x30, 0x39, 0, 53]].concat()
}

fn header(octets: &[u8]) -> ProxyHeader<'_> {
    match beginning(octets) {
        Ok(Beginning::Header(header)) => header,
        other => panic!("{other:?}"),
    }
}

fn client(source: &str, destination: &str, datagram: bool) -> Origin {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Origin::Client { source, destination, datagram }
}

#[test]
fn clients_are_read_from_both_versions() {
    let of_v4 = |datagram| client("192.0.2.1:12345", "198.51.100.2:53", datagram);
    let of_v6 = |datagram| client("[2001:db8::1]:12345", "[2001:db8::2]:53", datagram);
    let unix = [0; UNIX_LEN];
    let cases = [
        (v2(0x21, 0x11, &V4), of_v4(false)),
        (v2(0x21, 0x12, &V4), of_v4(true)),
        (v2(0x21, 0x21, &v6()), of_v6(false)),
        (v2(0x21, 0x22, &v6()), of_v6(true)),
        (v2(0x21, 0x31, &unix), Origin::Unix),
        (v2(0x20, 0x00, &[]), Origin::Proxy),
        (v2(0x20, 0x00, &[1, 2, 3]), Origin::Proxy),
        (v2(0x20, 0x11, &[]), Origin::Proxy),
        (v2(0x20, 0x11, &V4), Origin::Proxy),
        (b"PROXY UNKNOWN\r\n".to_vec(), Origin::Proxy),
        (b"PROXY UNKNOWN whatever it says\r\n".to_vec(), Origin::Proxy),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 12345 53\r\n".to_vec(), of_v4(false)),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 12345 53\r\n".to_vec(), of_v6(false)),
        (b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.2 12345 53\r\n".to_vec(), of_v4(false)),
    ];
    for (mut octets, origin) in cases {
        let len = octets.len();
        octets.extend(b"what follows");
        assert_eq!((header(&octets).origin, header(&octets).len), (origin, len), "{octets:?}");
        for cut in 0..len {
            let part = beginning(&octets[..cut]).unwrap();
            let Beginning::Part { wanted, certain } = part else { panic!("{cut}: {part:?}") };
            assert!(wanted > cut && wanted <= len, "{cut}: {part:?}");
            let signature = if octets[0] == b'P' { WORD.len() } else { SIGNATURE.len() };
            assert_eq!(certain, cut >= signature, "{cut}");
        }
    }
}

#[test]
fn what_is_no_header_is_left_alone() {
    for octets in [
        &b"\0\x1d\0\x01"[..],
        b"\x0d\x0a\x00\x01\x01\x00",
        b"\r\n\r\n\0\r\nQUIT\r",
        b"PROPER",
        b"P\0",
        b"X",
    ] {
        assert_eq!(beginning(octets), Ok(Beginning::Absent), "{octets:?}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_as_soon_as_it_is_seen() {
    let long =
        |family, len: u16| [SIGNATURE.as_slice(), &[0x21, family], &len.to_be_bytes()].concat();
    let line = |text: &str| format!("PROXY {text}\r\n").into_bytes();
    let cases = [
        (v2(0x11, 0x11, &V4), ProxyError::Command),
        (v2(0x22, 0x11, &V4), ProxyError::Command),
        (v2(0x21, 0x00, &[]), ProxyError::Family),
        (v2(0x21, 0x10, &V4), ProxyError::Family),
        (v2(0x21, 0x13, &V4), ProxyError::Family),
        (v2(0x20, 0x13, &V4), ProxyError::Family),
        (v2(0x21, 0x41, &V4), ProxyError::Family),
        (v2(0x21, 0x11, &V4[..11]), ProxyError::Length),
        (v2(0x21, 0x21, &v6()[..35]), ProxyError::Length),
        (v2(0x21, 0x31, &[0; UNIX_LEN - 1]), ProxyError::Length),
        (long(0x11, REST_MAX as u16 + 1), ProxyError::Length),
        (long(0x11, u16::MAX), ProxyError::Length),
        (b"PROXYTCP4 ".to_vec(), ProxyError::Malformed),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 1 53\n".to_vec(), ProxyError::Malformed),
        (line("TCP4 192.0.2.1 198.51.100.2 1"), ProxyError::Malformed),
        (line("TCP4 192.0.2.1 198.51.100.2 1 53 "), ProxyError::Malformed),
        (line("TCP4 192.0.2.1  198.51.100.2 1 53"), ProxyError::Malformed),
        (line("TCP4 192.0.2.1 198.51.100.2 01 53"), ProxyError::Malformed),
        (line("TCP4 192.0.2.1 198.51.100.2 +1 53"), ProxyError::Malformed),
        (line("TCP4 192.0.2.1 198.51.100.2 65536 53"), ProxyError::Malformed),
        (line("TCP4 192.0.2.01 198.51.100.2 1 53"), ProxyError::Malformed),
        (line("TCP4 2001:db8::1 198.51.100.2 1 53"), ProxyError::Malformed),
        (line("TCP6 192.0.2.1 198.51.100.2 1 53"), ProxyError::Malformed),
        (line("TCP6 fe80::1%eth0 2001:db8::2 1 53"), ProxyError::Malformed),
        (line("UDP4 192.0.2.1 198.51.100.2 1 53"), ProxyError::Family),
        (line(""), ProxyError::Family),
        (line("\u{e9}"), ProxyError::Family),
        (b"PROXY TCP4 \xff\r\n".to_vec(), ProxyError::Malformed),
        ([b"PROXY UNKNOWN ".as_slice(), &[b'x'; 93]].concat(), ProxyError::Line),
    ];
    for (octets, error) in cases {
        assert_eq!(beginning(&octets), Err(error), "{}", String::from_utf8_lossy(&octets));
    }
}

#[test]
fn the_longest_headers_are_read() {
    let mut rest = V4.to_vec();
    rest.resize(REST_MAX, 0);
    let octets = v2(0x21, 0x11, &rest);
    assert_eq!((header(&octets).len, octets.len()), (PROXY_HEADER_MAX, PROXY_HEADER_MAX));
    assert_eq!(header(&octets).tlvs.len(), REST_MAX - V4_LEN);
    let line = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 91], b"\r\n"].concat();
    assert_eq!((header(&line).len, line.len()), (LINE_MAX, LINE_MAX));
}

#[test]
fn tlvs_are_told_as_they_are_but_for_what_fills_space() {
    let cases: [(&[u8], Option<&[u8]>); 7] = [
        (&[], None),
        (&[0xea, 0, 2, 1, 2], Some(&[0xea, 0, 2, 1, 2])),
        (&[0x04, 0, 3, 9, 9, 9, 0xea, 0, 0], Some(&[0x04, 0, 0, 0xea, 0, 0])),
        (&[0xea, 0, 2, 1], None),
        (&[0xea, 0, 1, 1, 5], None),
        (&[0xea, 0], None),
        (&[0xea, 0xff, 0xff, 1], None),
    ];
    for (raw, vector) in cases {
        assert_eq!(tlv_vector(raw).as_deref(), vector, "{raw:?}");
    }
    // Behind LOCAL nothing means anything.
    let rest = [V4.as_slice(), &[0xea, 0, 0]].concat();
    assert_eq!(header(&v2(0x21, 0x11, &rest)).tlvs, [0xea, 0, 0]);
    assert!(header(&v2(0x20, 0x11, &rest)).tlvs.is_empty());
}

proptest! {
    #[test]
    fn any_octets_end_in_a_bounded_header_or_none(
        start in prop_oneof![Just(&b""[..]), Just(&SIGNATURE[..]), Just(&b"PROXY "[..])],
        fixed in prop::collection::vec(prop_oneof![any::<u8>(), Just(0x21), Just(0x11), Just(0)], 0..5),
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let octets = [start, &fixed, &rest].concat();
        check(&octets);
    }
}

/// More octets change nothing about what was certain.
fn check(octets: &[u8]) {
    let found = beginning(octets);
    if let Ok(Beginning::Header(header)) = &found {
        assert!(header.len <= octets.len().min(PROXY_HEADER_MAX));
        assert_eq!(beginning(&octets[..header.len]), found);
        _ = tlv_vector(header.tlvs);
    }
    if let Ok(Beginning::Part { wanted, .. }) = found {
        assert!(wanted > octets.len() && wanted <= PROXY_HEADER_MAX);
    }
    for cut in 0..octets.len() {
        match beginning(&octets[..cut]) {
            Ok(Beginning::Part { .. }) => {}
            part => assert_eq!(part, found, "{cut}"),
        }
    }
}
