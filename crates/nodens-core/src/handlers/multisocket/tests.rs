use crate::testing::Bench;

fn sockets(line: &str) -> Option<usize> {
    let bench = Bench::new(&format!(". {{\n {line}\n whoami\n}}"));
    bench.worker.config().listeners[0].sockets
}

#[test]
fn the_number_goes_to_the_listener() {
    assert_eq!(sockets("multisocket 4"), Some(4));
    assert_eq!(sockets("multisocket 1024"), Some(1024));
    assert_eq!(sockets("multisocket"), None);
    assert_eq!(sockets("whoami"), None);
}

#[test]
fn what_is_no_number_of_sockets_is_refused() {
    let cases = [
        ("multisocket 0", "2:14: expected a number from 1 to 1024, found `0`"),
        ("multisocket 1025", "expected a number from 1 to 1024"),
        ("multisocket -1", "expected a number from 1 to 1024"),
        ("multisocket many", "expected a number from 1 to 1024"),
        ("multisocket 1 2", "2:16: Wrong argument count"),
        ("multisocket\n multisocket 2", "3:2: this plugin can only be used once"),
        ("multisocket {\n }", "takes no block"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
