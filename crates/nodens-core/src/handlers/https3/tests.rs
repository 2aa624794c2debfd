use crate::config::QuicSettings;
use crate::testing::Bench;

/// A certificate in a folder, and the directive that names it.
fn certificate() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
    let (cert, private) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&private, made.signing_key.serialize_pem()).unwrap();
    let tls = format!("tls {} {}", cert.display(), private.display());
    (folder, tls)
}

/// What the server of a block with these lines may let clients have.
fn bounds(lines: &str) -> QuicSettings {
    let (_folder, tls) = certificate();
    let bench = Bench::new(&format!("https3://. {{\n {tls}\n {lines}\n whoami\n}}"));
    let server = &bench.worker.config().servers[0];
    assert_eq!(server.label, "https3://:443");
    assert!(server.http.unwrap().responses.is_some());
    let quic = server.quic.unwrap();
    // Responses have a status of HTTP instead of a code of QUIC.
    assert!(quic.responses.is_none());
    quic.settings
}

fn refusal(corefile: &str) -> Option<String> {
    Bench::try_new(corefile).err().map(|error| error.to_string())
}

#[test]
fn bounds_are_those_of_coredns_unless_the_corefile_says_others() {
    let cases = [
        ("", (200, 256)),
        ("https3", (200, 256)),
        ("https3 {\n }", (200, 256)),
        ("https3 {\n max_connections 7\n }", (7, 256)),
        ("https3 {\n max_streams 100\n max_connections +20\n }", (20, 100)),
        // The bound of CoreDNS's library.
        ("https3 {\n max_connections 0\n max_streams 0\n }", (0, 100)),
        // What no client needs is not promised.
        ("https3 {\n max_streams 5000000000\n }", (200, 4096)),
        // Of other kinds of listeners.
        ("https {\n max_streams 3\n }\n quic {\n max_streams 4\n }", (200, 256)),
    ];
    for (lines, wanted) in cases {
        let settings = bounds(lines);
        assert_eq!((settings.connections_max, settings.streams_max), wanted, "{lines}");
    }
    // A block without `https3://` accepts it, and it has no effect there.
    assert_eq!(refusal(". {\n https3 {\n max_streams 1\n }\n whoami\n}"), None);
}

#[test]
fn of_several_blocks_of_one_listener_the_first_counts() {
    let (_folder, tls) = certificate();
    let block = |zone: &str, streams: u32| {
        format!(
            "https3://{zone} {{\n {tls}\n https3 {{\n max_streams {streams}\n }}\n whoami\n}}\n"
        )
    };
    let bench = Bench::new(&(block("a.test", 5) + &block("b.test", 6)));
    let server = &bench.worker.config().servers[0];
    assert_eq!(server.quic.unwrap().settings.streams_max, 5);
}

#[test]
fn what_it_does_not_take_is_refused() {
    let cases = [
        ("https3 x", "2:9: Wrong argument count"),
        ("https3 {\n max_connections\n }", "3:2: Wrong argument count"),
        ("https3 {\n max_streams 1 2\n }", "Wrong argument count"),
        ("https3 {\n max_streams abc\n }", "3:14: invalid max_streams value 'abc'"),
        ("https3 {\n max_streams -1\n }", "3:14: max_streams must be a non-negative integer: -1"),
        ("https3 {\n max_connections 1.5\n }", "invalid max_connections value '1.5'"),
        (
            "https3 {\n max_connections 1\n max_connections 2\n }",
            "4:2: max_connections already defined for this server block",
        ),
        ("https3 {\n max_stream 1\n }", "unknown property 'max_stream', did you mean"),
        ("https3\n https3", "3:2: this plugin can only be used once"),
    ];
    for (line, wanted) in cases {
        let error = refusal(&format!(". {{\n {line}\n whoami\n}}")).unwrap();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn nothing_is_spoken_without_a_certificate_or_behind_a_proxy() {
    let error = refusal("https3://.:8443 {\n whoami\n}").unwrap();
    let wanted =
        "https3://:8443: without a certificate nothing can be spoken there: 'tls' is missing";
    assert!(error.contains(wanted), "{error}");
    let (_folder, tls) = certificate();
    let error = refusal(&format!("https3://. {{\n {tls}\n proxyproto\n whoami\n}}")).unwrap();
    assert!(error.contains("'proxyproto' is not there yet for QUIC"), "{error}");
}
