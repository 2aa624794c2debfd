use crate::config::HttpServer;
use crate::testing::Bench;

/// What the first server may let clients have: connections, requests of each.
fn bounds(corefile: &str) -> (Option<usize>, Option<u32>) {
    let bench = Bench::new(corefile);
    let server: HttpServer = bench.worker.config().servers[0].http.unwrap();
    (server.connections, server.streams)
}

fn refusal(corefile: &str) -> Option<String> {
    Bench::try_new(corefile).err().map(|error| error.to_string())
}

#[test]
fn bounds_are_those_of_coredns_unless_the_corefile_says_others() {
    let cases = [
        ("", (Some(200), Some(250))),
        ("https", (Some(200), Some(250))),
        ("https {\n }", (Some(200), Some(250))),
        ("https {\n max_connections 7\n }", (Some(7), Some(250))),
        ("https {\n max_streams 100\n max_connections +20\n }", (Some(20), Some(100))),
        ("https {\n max_connections 0\n max_streams 0\n }", (None, Some(250))),
        ("https {\n max_streams 4294967295\n }", (Some(200), Some(u32::MAX))),
        // Of another kind of listener.
        ("grpc_server {\n max_streams 3\n }", (Some(200), Some(250))),
    ];
    for (lines, wanted) in cases {
        assert_eq!(bounds(&format!("https://. {{\n {lines}\n whoami\n}}")), wanted, "{lines}");
    }
    // A block without `https://` accepts it, and it has no effect there.
    assert_eq!(refusal(". {\n https {\n max_streams 1\n }\n whoami\n}"), None);
}

#[test]
fn blocks_of_one_listener_agree_on_requests_and_the_first_says_how_many_connections() {
    let two = |one: &str, other: &str| {
        format!("https://a.test {{\n {one}\n}}\nhttps://b.test {{\n {other}\n}}")
    };
    let of = |text: &str| format!("https {{\n {text}\n }}");
    let conflict = refusal(&two(&of("max_streams 1"), &of("max_streams 2"))).unwrap();
    let wanted = "conflicting max_streams values for shared HTTPS listener https://:443: 1 and 2";
    assert!(conflict.contains(wanted), "{conflict}");
    assert_eq!(bounds(&two("whoami", &of("max_streams 5"))), (Some(200), Some(5)));
    assert_eq!(bounds(&two("whoami", &of("max_connections 5"))), (Some(200), Some(250)));
    assert_eq!(bounds(&two(&of("max_connections 5"), "whoami")), (Some(5), Some(250)));
}

#[test]
fn what_it_does_not_take_is_refused() {
    let cases = [
        ("https x", "2:8: Wrong argument count"),
        ("https {\n max_connections\n }", "3:2: Wrong argument count"),
        ("https {\n max_connections 1 2\n }", "Wrong argument count"),
        ("https {\n max_connections abc\n }", "3:18: invalid max_connections value 'abc'"),
        (
            "https {\n max_connections -1\n }",
            "3:18: max_connections must be a non-negative integer: -1",
        ),
        (
            "https {\n max_connections 1\n max_connections 2\n }",
            "4:2: max_connections already defined for this server block",
        ),
        ("https {\n max_streams\n }", "3:2: Wrong argument count"),
        ("https {\n max_streams 1.5\n }", "invalid max_streams value '1.5'"),
        ("https {\n max_streams -1\n }", "max_streams must be a non-negative integer: -1"),
        (
            "https {\n max_streams 4294967296\n }",
            "max_streams must not exceed 4294967295: 4294967296",
        ),
        ("https {\n max_streams 1\n max_streams 2\n }", "max_streams already defined"),
        ("https {\n max_stream 1\n }", "unknown property 'max_stream', did you mean"),
        ("https\n https", "3:2: this plugin can only be used once"),
    ];
    for (line, wanted) in cases {
        let error = refusal(&format!("https://. {{\n {line}\n whoami\n}}")).unwrap();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
