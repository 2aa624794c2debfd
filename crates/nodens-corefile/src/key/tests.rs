use super::*;
use crate::syntax::Position;

fn token(text: &str) -> Token {
    let position = Position { file: "Corefile".into(), line: 1, column: 1 };
    Token { text: text.to_owned(), quoted: false, position }
}

/// `scheme zone port`, separated by `; `, or the error.
fn show(key: &str) -> String {
    match parse_key(&token(key)) {
        Ok(keys) => {
            let show = |ZoneKey { scheme, zone, port }: &ZoneKey| match port {
                Some(port) => format!("{scheme} {zone} {port}"),
                None => format!("{scheme} {zone}"),
            };
            keys.iter().map(show).collect::<Vec<_>>().join("; ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn keys_name_zones() {
    let table = [
        (".", "dns ."),
        (".:53", "dns . 53"),
        ("example.org", "dns example.org."),
        ("Example.ORG.", "dns example.org."),
        ("example.org:1053", "dns example.org. 1053"),
        ("example.org.:1053", "dns example.org. 1053"),
        ("example.org:+1053", "dns example.org. 1053"),
        ("example.org:0", "dns example.org. 0"),
        ("dns://example.org", "dns example.org."),
        ("tls://example.org", "tls example.org."),
        ("tls://.:5553", "tls . 5553"),
        ("quic://example.org", "quic example.org."),
        ("grpc://example.org:1443", "grpc example.org. 1443"),
        ("https://example.org", "https example.org."),
        ("https3://example.org", "https3 example.org."),
        // Not a number: part of the name.
        ("example.org:dns", "dns example.org:dns."),
        (r"a\.b.org", r"dns a\.b.org."),
        (r"a.org\.", r"dns a.org\.."),
        (r"a\046b.org", r"dns a\046b.org."),
        ("10.0.0.0", "dns 10.0.0.0."),
        // Prefixes.
        ("10.0.0.0/24", "dns 0.0.10.in-addr.arpa."),
        ("10.0.0.0/24:53", "dns 0.0.10.in-addr.arpa. 53"),
        ("tls://10.0.0.0/16:53", "tls 0.10.in-addr.arpa. 53"),
        ("10.2.0.0/15", "dns 2.10.in-addr.arpa.; dns 3.10.in-addr.arpa."),
        ("2001:db8::/32", "dns 8.b.d.0.1.0.0.2.ip6.arpa."),
        ("2001:db8::/32:53", "dns 8.b.d.0.1.0.0.2.ip6.arpa. 53"),
        ("10.0.0.0/33", "dns 10.0.0.0/33."),
    ];
    for (key, expected) in table {
        assert_eq!(show(key), expected, "{key}");
    }
}

#[test]
fn wrong_keys_say_what_was_expected() {
    let one_of = "dns, tls, quic, grpc, https, https3";
    let table = [
        (
            "example.org:",
            "expecting data after last colon: \"example.org:\": expected a port such \
                          as `:53`, or no colon"
                .to_owned(),
        ),
        (
            "",
            "expecting data after last colon: \"\": expected a port such as `:53`, or no colon"
                .to_owned(),
        ),
        (
            "tls://",
            "expecting data after last colon: \"\": expected a port such as `:53`, or no \
                    colon"
                .to_owned(),
        ),
        ("example.org:65536", "expected a port from 0 to 65535, found `65536`".to_owned()),
        ("example.org:-1", "expected a port from 0 to 65535, found `-1`".to_owned()),
        (":53", "zone is not a valid domain name: ".to_owned()),
        (".example.org", "zone is not a valid domain name: .example.org".to_owned()),
        ("example..org", "zone is not a valid domain name: example..org".to_owned()),
        (r"example.org\", r"zone is not a valid domain name: example.org\".to_owned()),
        (
            "::/0",
            "invalid CIDR ::/0: expected a prefix such as 10.0.0.0/8 or 2001:db8::/32".to_owned(),
        ),
        (
            "0::/64",
            "invalid CIDR 0::/64: expected a prefix such as 10.0.0.0/8 or 2001:db8::/32".to_owned(),
        ),
        ("http://example.org", "unknown scheme 'http://', did you mean 'https'?".to_owned()),
        ("unix://example.org", format!("unknown scheme 'unix://': expected one of {one_of}")),
    ];
    for (key, expected) in table {
        assert_eq!(show(key), format!("Corefile:1:1: {expected}"), "{key}");
    }
}

#[test]
fn names_and_labels_have_limits() {
    let label = "a".repeat(63);
    assert_eq!(show(&label), format!("dns {label}."));
    assert!(show(&format!("{label}a")).contains("not a valid domain name"));
    let name = [label.as_str(), &label, &label, &label[..62]].join(".");
    assert_eq!(name.len(), 254);
    assert_eq!(show(&name), format!("dns {name}."));
    assert_eq!(show(&format!("{name}.")), format!("dns {name}."));
    assert!(show(&format!("{name}a")).contains("specified zone is too long: 256 > 255"));
}

#[test]
fn arguments_name_zones_too() {
    let args = ["Example.org", "tls://10.2.0.0/15", "a:53"].map(token);
    let zones = parse_zones(&args).unwrap();
    assert_eq!(zones, ["example.org.", "2.10.in-addr.arpa.", "3.10.in-addr.arpa.", "a."]);
    assert!(parse_zones(&[token("a:")]).is_err());
}
