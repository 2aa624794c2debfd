//! What people type: names of servers, times and rates with units, and what is wrong with them.

use crate::load::json;
use crate::{Echo, lab};

fn stderr(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_is_an_address_or_a_name_with_a_port_or_without() {
    let echo = Echo::start();
    let short = ["-Q", "0.2k/s", "-l", "300ms", "-t", "2 s", "--json"];
    let at = format!("127.0.0.1:{}", echo.port);
    for server in
        [&["-s", &at][..], &["-s", "127.0.0.1", "-p", &echo.port], &["-s", &at, "-p", &echo.port]]
    {
        let result = json(&lab(&[&["load"], server, &short].concat()));
        assert_eq!(result.plan.server, at);
        assert!(result.counts.sent > 20 && result.counts.answered == result.counts.sent);
    }
    // Of a name it is said which address was used; that the echo listens there is not certain.
    let output = lab(&[&["load", "-s", "localhost", "-p", &echo.port][..], &short].concat());
    let (result, told) = (json(&output), String::from_utf8(output.stderr).unwrap());
    let used = result.plan.server.rsplit_once(':').unwrap().0.trim_matches(['[', ']']).to_owned();
    assert!(["127.0.0.1", "::1"].contains(&&*used), "{used}");
    let alone = told.contains(&format!("localhost is {used}"));
    assert!(alone || told.contains(&format!("addresses: {used} is used, not ")), "{told}");
    let error = stderr(&["load", "-s", &at, "-p", "53"]);
    assert!(error.contains("--port says 53"), "{error}");
    let error = stderr(&["load", "-s", "nowhere.invalid", "--json"]);
    assert!(error.contains("cannot resolve `nowhere.invalid`"), "{error}");
    let error = stderr(&["ab", "--a", "nowhere.invalid", "--b", &at]);
    assert!(error.contains("--a: cannot resolve `nowhere.invalid`"), "{error}");
}

#[test]
fn what_is_no_server_time_or_rate_is_answered_with_what_was_expected() {
    for (arguments, expected) in [
        (&["load", "-s", "10.0.0.300"][..], "expected an address or a name"),
        (&["load", "-s", "[::1]:dns"], "expected an address or a name"),
        (&["load", "-l", "ten"], "expected seconds, or a number and ns, us, ms, s, min or h"),
        (&["load", "-t=-1"], "expected seconds, or a number and ns, us, ms, s, min or h"),
        (&["load", "-l", "0"], "the duration must be positive"),
        (&["load", "-c", "0"], "the number of clients must be positive"),
        (&["load", "-Q", "-5"], "`-5` is not a rate, expected a number per second"),
        (&["load", "-p", "0"], "`0` is not a port, expected a number from 1 to 65535"),
        (&["zones", "x", "-o", "y", "--port", "0"], "`0` is not a port, expected a number from"),
        (&["replay", "x", "--capture-port", "0"], "`0` is not a port, expected a number from"),
        (&["echo", "-m", "doq", "--close-after", "7"], "--close-after has no effect on doq"),
        (
            &["echo", "-m", "tcp", "--work", "1ms"],
            "--work has no effect on tcp, expected -m with udp",
        ),
        (
            &["echo", "-m", "tcp", "--octets", "200"],
            "--octets has no effect on tcp, expected -m with udp",
        ),
        (&["echo", "--octets", "1233"], "expected at most 1232 octets"),
        (&["echo", "-m", "tcp,dot", "--arrivals"], "--arrivals has no effect on tcp and dot"),
        (&["echo", "--tls-ca-out", "x.pem"], "--tls-ca-out has no effect on udp"),
        (&["load", "-p", "dns"], "`dns` is not a port, expected a number from 1 to 65535"),
        (
            &["load", "--cpus", "two"],
            "`two` is not a CPU number, expected numbers of CPUs, such as 2,3",
        ),
        (
            &["load", "--prometheus", "9053"],
            "`9053` is not an address to listen on, expected an address",
        ),
        (&["load", "--source", "::1"], "expected an IPv4 address"),
        (
            &["echo", "-l", "localhost"],
            "`localhost` is not an address to listen on, expected an address",
        ),
        (&["demo", "-Q", "5"], "--rate: 5 is too low, expected at least 100"),
        (&["demo", "-l", "0"], "--seconds: 0 is too short, expected at least 1 second"),
        (&["load", "-Q", "20q"], "expected a number per second, such as 500, 20k"),
        (&["load", "-Q", "0"], "the rate must be positive"),
        (&["load", "--steps", "1z:10s"], "as 1000:10s,5k:10s"),
        (&["load", "--ramp", "1k"], "as 1000:50k"),
        (&["load", "--hit-rate", "2"], "expected percent or a number from 0 to 1"),
        (&["load", "-m", "tcp", "--handshake-timeout", "0"], "expected a time above 0"),
        (&["load", "--conn-life", "queries=1"], "--conn-life has no effect on udp"),
        (&["load", "-m", "tcp", "--tls-insecure"], "an encrypted transport"),
        (&["load", "--mix", "udp=1,dot=1", "--early-data"], "has no effect on udp and dot"),
        (&["load", "-q", "2", "--arrivals", "uniform"], "cannot be used with '--arrivals"),
        (&["load", "--capture", "x", "--original-timing", "-l", "5"], "cannot be used with"),
        (&["load", "--capture", "x", "--original-timing", "--ramp", "1:5"], "cannot be used with"),
        (&["load", "--baseline-at", "127.0.0.1"], "expected the port"),
        (&["load", "--slo", "p99=5ms", "--slo-floor", "x"], "expected a number per second"),
        (&["ab", "--rates", "1x"], "expected a number per second"),
        (&["ab", "--a", "a:b:c"], "expected an address or a name"),
        (&["bench", "-l", "x"], "expected seconds, or a number"),
    ] {
        let error = stderr(arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn an_error_is_told_once_and_alone() {
    for (arguments, cause) in [
        (&["load", "--source", "192.0.2.9"][..], "os error 99"),
        (&["report", "nowhere.json"], "os error 2"),
        (&["export", "nowhere.json", "-f", "csv"], "os error 2"),
        (&["load", "--cpus", "1023"], "CPU 1023"),
    ] {
        let output = lab(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.matches(cause).count()), (Some(1), 1), "{error}");
        assert!(output.stdout.is_empty(), "nothing is announced that does not happen");
    }
}

#[test]
fn what_demo_and_ab_cannot_do_is_said_before_they_begin() {
    let program = env!("CARGO_BIN_EXE_nodens-lab");
    let error = stderr(&["demo", "--nodens", program, "-o", "/proc/nodens"]);
    assert!(error.contains("--out: cannot create /proc/nodens"), "{error}");
    let error = stderr(&["ab", "--a", "127.0.0.1", "--b", "127.0.0.1", "--names", "a..b"]);
    assert!(error.contains("--names: `a..b` is neither"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let at = format!("127.0.0.1:{}", crate::load::closed_port());
    let output = std::process::Command::new(program)
        .args(["ab", "--a", &at, "--b", &at, "--rates", "100"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("nothing listens at {at}")), "{error}");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no plan of what is not done");
}
