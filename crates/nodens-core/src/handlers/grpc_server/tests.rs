use crate::testing::Bench;

fn refusal(corefile: &str) -> Option<String> {
    Bench::try_new(corefile).err().map(|error| error.to_string())
}

#[test]
fn bounds_are_those_of_coredns_unless_the_corefile_says_others() {
    let cases = [
        ("", (Some(200), Some(256))),
        ("grpc_server", (Some(200), Some(256))),
        ("grpc_server {\n max_streams 50\n max_connections 100\n }", (Some(100), Some(50))),
        ("grpc_server {\n max_streams 0\n max_connections 0\n }", (None, None)),
        ("https {\n max_streams 3\n }", (Some(200), Some(256))),
    ];
    for (lines, wanted) in cases {
        let bench = Bench::new(&format!("grpc://. {{\n {lines}\n whoami\n}}"));
        let server = bench.worker.config().servers[0].http.unwrap();
        assert_eq!((server.connections, server.streams), wanted, "{lines}");
        assert!(server.responses.is_none());
    }
}

#[test]
fn what_it_does_not_take_is_refused() {
    let cases = [
        ("grpc_server x", "2:14: Wrong argument count"),
        ("grpc_server {\n max_streams\n }", "3:2: Wrong argument count"),
        ("grpc_server {\n max_streams abc\n }", "3:14: invalid max_streams value 'abc'"),
        ("grpc_server {\n max_streams -1\n }", "max_streams must be a non-negative integer: -1"),
        ("grpc_server {\n max_streams 1\n max_streams 2\n }", "max_streams already defined"),
        ("grpc_server {\n max_connections -1\n }", "must be a non-negative integer: -1"),
        ("grpc_server {\n unknown 1\n }", "3:2: unknown property 'unknown'"),
        ("grpc_server\n grpc_server", "3:2: this plugin can only be used once"),
    ];
    for (line, wanted) in cases {
        let error = refusal(&format!("grpc://. {{\n {line}\n whoami\n}}")).unwrap();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
