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
        (&["load", "-l", "ten"], "expected seconds or a number and ns, us, ms, s, min or h"),
        (&["load", "-t=-1"], "expected seconds or a number and ns, us, ms, s, min or h"),
        (&["load", "-l", "0"], "the duration must be positive"),
        (&["load", "-Q", "20q"], "expected a number a second, as in 500, 20k"),
        (&["load", "-Q", "0"], "the rate must be positive"),
        (&["load", "--steps", "1z:10s"], "as 1000:10s,5k:10s"),
        (&["load", "--ramp", "1k"], "as 1000:50k"),
        (&["load", "--hit-rate", "2"], "expected percent or a number from 0 to 1"),
        (&["load", "-m", "tcp", "--handshake-timeout", "0"], "expected a time above 0"),
        (&["load", "--baseline-at", "127.0.0.1"], "expected the port"),
        (&["load", "--slo", "p99=5ms", "--slo-floor", "x"], "expected a number a second"),
        (&["ab", "--rates", "1x"], "expected a number a second"),
        (&["ab", "--a", "a:b:c"], "expected an address or a name"),
        (&["bench", "-l", "x"], "expected seconds or a number"),
    ] {
        let error = stderr(arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
