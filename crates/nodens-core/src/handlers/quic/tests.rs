use crate::config::{QuicServer, QuicSettings};
use crate::testing::Bench;

/// What a server with these lines of `quic` has.
fn server(key: &str, quic: &str) -> Option<QuicServer> {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
    let (cert, private) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&private, made.signing_key.serialize_pem()).unwrap();
    let tls = format!("tls {} {}", cert.display(), private.display());
    let bench = Bench::new(&format!("{key} {{\n {tls}\n {quic}\n whoami\n}}"));
    bench.worker.config().servers[0].quic
}

#[test]
fn each_bound_is_set_alone() {
    let settings = |quic: &str| server("quic://.", quic).unwrap().settings;
    let default = QuicSettings::default();
    assert_eq!(
        (settings(""), settings("quic"), settings("quic {\n }")),
        (default, default, default)
    );
    assert_eq!(
        settings("quic {\n max_connections 0\n }"),
        QuicSettings { connections_max: 0, ..default }
    );
    assert_eq!(
        settings("quic {\n max_streams 16\n max_connections 50\n worker_pool_size 65536\n }"),
        QuicSettings { streams_max: 16, connections_max: 50, in_flight_max: 65_536 }
    );
    // What no client needs is not promised.
    assert_eq!(settings("quic {\n max_streams 5000000000\n }").streams_max, 4096);
    assert_eq!(server("tls://.", "quic").map(|own| own.settings), None);
}

#[test]
fn what_is_no_bound_is_refused() {
    let cases = [
        ("quic 5", "2:7: Wrong argument count"),
        ("quic {\n max_streams\n }", "3:2: Wrong argument count after 'max_streams': expected 1"),
        ("quic {\n max_streams 1 2\n }", "3:16: Wrong argument count"),
        ("quic {\n max_streams 0\n }", "3:14: expected a positive integer, found `0`"),
        ("quic {\n max_streams many\n }", "3:14: expected a positive integer, found `many`"),
        ("quic {\n max_connections -1\n }", "3:18: expected a non-negative integer, found `-1`"),
        ("quic {\n worker_pool_size 0\n }", "3:19: expected a positive integer, found `0`"),
        ("quic {\n max_stream 1\n }", "3:2: unknown property 'max_stream', did you mean"),
        (
            "quic {\n max_streams 1\n max_streams 2\n }",
            "4:2: max_streams already defined for this server block",
        ),
        ("quic\n quic", "3:2: this plugin can only be used once per Server Block"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn nothing_is_spoken_without_a_certificate() {
    let error = Bench::try_new("quic://.:8853 {\n whoami\n}").unwrap_err().to_string();
    let wanted =
        "quic://:8853: without a certificate nothing can be spoken there: 'tls' is missing";
    assert!(error.contains(wanted), "{error}");
}
