use crate::testing::Bench;

#[test]
fn what_is_no_certificate_is_refused() {
    let cases = [
        ("tls", "2:2: expected CERT KEY [CA]: certificates by ACME are not there yet"),
        ("tls cert.pem", "2:2: Wrong argument count"),
        ("tls a b c d", "Wrong argument count"),
        ("tls a b {\n client_auth all\n }", "3:14: expected one of nocert, request, require,"),
        ("tls a b {\n client_auth\n }", "3:2: Wrong argument count"),
        ("tls a b {\n keylogs f\n }", "3:2: unknown property 'keylogs', did you mean 'keylog'?"),
        ("tls Cargo.toml Cargo.toml", "2:2: ./Cargo.toml: expected certificates in PEM format"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!("tls://. {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn a_listener_without_a_certificate_is_none_of_encryption_and_others_are_not_served() {
    assert!(Bench::try_new("tls://. {\n whoami\n}").is_ok());
    let error = Bench::try_new("https3://. {\n whoami\n}").unwrap_err().to_string();
    assert!(error.contains("transport 'https3' is not served yet, only 'dns', 'tls'"), "{error}");
}

#[test]
fn files_that_are_not_there_are_named() {
    let error = Bench::try_new("tls://. {\n tls /none/cert.pem /none/key.pem\n whoami\n}");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("2:2: could not read /none/cert.pem: "), "{error}");
}

#[test]
fn blocks_of_one_listener_have_one_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["a", "b"] {
        let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
        std::fs::write(path(&format!("{name}.pem")), made.cert.pem()).unwrap();
        std::fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
    }
    let tls = |name: &str, more: &str| {
        format!("tls {} {} {more}", path(&format!("{name}.pem")), path(&format!("{name}.key")))
    };
    let both = |one: &str, other: &str| {
        let blocks = [("a.test", one), ("b.test", other)];
        let blocks = blocks.map(|(zone, line)| format!("tls://{zone} {{\n {line}\n whoami\n}}\n"));
        Bench::try_new(&blocks.concat()).err().map(|error| error.to_string())
    };
    let a = tls("a", "");
    assert_eq!((both(&a, &a), both("", "")), (None, None));
    let mut of_clients = tls("a", "");
    of_clients.push_str(&path("b.pem"));
    let require = tls("a", "{\n client_auth require\n }");
    for (other, wanted) in [
        ("", "TLS is configured for only one server block"),
        (&*tls("b", ""), "server certificates differ"),
        (&*of_clients, "client CA pools differ"),
        (&*require, "client authentication policies differ"),
    ] {
        let text = format!(
            "conflicting TLS configuration for shared listener tls://:853 between zones \"a.test.\" \
             and \"b.test.\": {wanted}"
        );
        let error = both(&a, other).unwrap();
        assert!(error.contains(&text), "{error}");
    }
    // Other ports are other listeners.
    let apart = format!("tls://a.test {{\n {a}\n}}\ntls://a.test:8853 {{\n {}\n}}", tls("b", ""));
    assert!(Bench::try_new(&apart).is_ok());
}
