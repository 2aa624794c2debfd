use crate::testing::Bench;
use nodens_wire::{Flags, Rcode};

#[test]
fn what_is_no_certificate_is_refused() {
    let cases = [
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
fn a_listener_without_a_certificate_is_none_of_encryption() {
    assert!(Bench::try_new("tls://. {\n whoami\n}").is_ok());
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

#[test]
fn what_is_no_configuration_of_acme_is_refused() {
    let cases = [
        ("tls", "2:2: ACME requires at least one domain"),
        ("tls {\n email a@b.example\n }", "2:2: ACME requires at least one domain"),
        ("tls {\n acme\n }", "3:2: Wrong argument count"),
        ("tls {\n acme a.example\n email\n }", "4:2: Wrong argument count"),
        ("tls {\n acme a.example\n ca a b\n }", "Wrong argument count"),
        ("tls {\n acme 192.0.2.1\n }", "2:2: invalid ACME domain \"192.0.2.1\""),
        ("tls {\n acme *.*.example\n }", "invalid ACME domain \"*.*.example\""),
        (
            "tls {\n acme a.example\n ca ftp://ca.example\n }",
            "invalid ACME CA URL \"ftp://ca.example\"",
        ),
        ("tls {\n acme a.example\n ca https:///d\n }", "invalid ACME CA URL \"https:///d\""),
        (
            "tls {\n acme a.example\n resolver 192.0.2.1\n }",
            "invalid ACME resolver \"192.0.2.1\": missing port in address",
        ),
        (
            "tls {\n acme a.example\n resolver 2001:db8::1:53\n }",
            "invalid ACME resolver \"2001:db8::1:53\": too many colons in address",
        ),
        (
            "tls {\n acme a.example\n resolver :53\n }",
            "invalid ACME resolver \":53\": host is empty",
        ),
        (
            "tls {\n acme a.example\n resolver 192.0.2.1:dns\n }",
            "invalid ACME resolver port \"dns\"",
        ),
        (
            "tls {\n acme a.example\n resolver 192.0.2.1:65536\n }",
            "invalid ACME resolver port \"65536\"",
        ),
        ("tls {\n acme a.example\n ca_root /none.pem\n }", "reading ACME CA root \"/none.pem\": "),
        ("tls {\n acme a.example\n ca_root Cargo.toml\n }", "Cargo.toml\" contains no certificates"),
        (
            "tls {\n acme a.example\n acme b.example\n }",
            "4:2: ACME option \"acme\" can only be specified once",
        ),
        (
            "tls {\n acme a.example\n client_auth require\n }",
            "4:2: unknown ACME option \"client_auth\"",
        ),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!("tls://. {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

/// `tls` with these lines, which keeps what it has in `storage`.
fn acme(storage: &std::path::Path, lines: &str) -> String {
    format!("tls {{\n storage {}\n {lines}\n }}", storage.display())
}

#[test]
fn blocks_with_the_same_acme_options_share_certificates_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let both = |one: &str, other: &str, port: u16| {
        let (one, other) = (acme(folder.path(), one), acme(folder.path(), other));
        let text = format!("tls://a.test {{\n {one}\n}}\ntls://b.test:{port} {{\n {other}\n}}\n");
        Bench::try_new(&text).map_err(|error| error.to_string())
    };
    let one = "acme a.example B.example.";
    for port in [853, 8853] {
        let bench = both(one, "acme b.example a.example a.example", port).unwrap();
        let config = &bench.worker.config();
        let acme = config.services.acme.as_ref().unwrap();
        assert_eq!(acme.managed.len(), 1);
        assert_eq!(acme.managed[0].options().domains, ["a.example", "b.example"]);
        assert_eq!(acme.managed[0].options().ca, "https://acme-v02.api.letsencrypt.org/directory");
        for other in ["acme a.example", "acme a.example b.example\n email c@a.example"] {
            let error = both(one, other, port).err().unwrap();
            let text = "ACME domain \"a.example\" is configured with conflicting options";
            assert!(error.contains(text), "{error}");
        }
    }
    let error = both(one, "acme c.example", 853).err().unwrap();
    assert!(error.contains("dynamic TLS callbacks differ"), "{error}");
    assert!(both(one, "acme c.example", 8853).is_ok());
}

#[test]
fn challenges_are_answered_on_every_listener_while_somebody_waits() {
    let folder = tempfile::tempdir().unwrap();
    let tls = acme(folder.path(), "acme dns.example");
    let corefile = format!(
        ". {{\n template IN TXT . {{\n rcode REFUSED\n }}\n log\n whoami\n}}\n\
         tls://. {{\n {tls}\n whoami\n}}\n"
    );
    let mut bench = Bench::new(&corefile);
    let challenges = bench.worker.config().services.acme.as_ref().unwrap().challenges.clone();
    for block in &bench.worker.config().blocks {
        assert!(block.handlers.iter().any(|handler| handler.name() == "tls"));
    }
    let name = "_acme-challenge.dns.example.".parse().unwrap();
    let question = "_ACME-challenge.dns.EXAMPLE. TXT";
    assert_eq!(bench.ask(question).flags.rcode(), Rcode::REFUSED);
    let one = challenges.present(&name, "text-b");
    let twice = [challenges.present(&name, "text-a"), challenges.present(&name, "text-a")];
    let answer = bench.ask(question);
    assert!(answer.flags.has(Flags::AA));
    let texts: Vec<_> = answer.answer.iter().map(|record| (record.ttl, &*record.rdata)).collect();
    assert_eq!(texts, [(0, &b"\x06text-a"[..]), (0, &b"\x06text-b"[..])]);
    assert_eq!(answer.answer[0].owner.to_string(), "_ACME-challenge.dns.EXAMPLE.");
    // Everything else goes on to the other handlers.
    for other in ["_acme-challenge.dns.example. A", "dns.example. TXT", &format!("{question} CH")] {
        assert!(bench.ask(other).answer.is_empty(), "{other}");
    }
    let [first, second] = twice;
    drop((one, first));
    assert_eq!(bench.ask(question).answer.len(), 1, "the same text is still waited for");
    drop(second);
    assert_eq!(bench.ask(question).flags.rcode(), Rcode::REFUSED);
}

#[test]
fn without_acme_no_chain_has_the_handler() {
    let bench = Bench::new(". {\n whoami\n}");
    let names: Vec<_> = bench.worker.config().blocks[0].handlers.iter().map(|own| own.name()).collect();
    assert_eq!(names, ["whoami"]);
}
