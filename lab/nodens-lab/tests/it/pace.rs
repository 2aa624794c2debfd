//! Rates, schedules, sources, and the search for the highest rate.

use crate::load::json;
use crate::{Echo, lab};

#[test]
fn rates_change_as_told_and_clients_grow_with_what_they_need() {
    let echo = Echo::start();
    let load =
        |arguments: &[&str]| lab(&[&["load", "-p", &echo.port, "--json"], arguments].concat());
    let result = json(&load(&["--steps", "100:500ms,900:500ms", "--arrivals", "uniform"]));
    assert_eq!(result.counts.sent, 500);
    let result = json(&load(&["--ramp", "0:1000", "-l", "0.6", "--arrivals", "uniform"]));
    assert_eq!(result.counts.sent, 300);
    // 40,000 a second for 60 seconds take 2.4 million IDs.
    let result =
        json(&load(&["-Q", "40000", "-t", "60", "-n", "100", "--source", "127.0.0.5-127.0.0.9"]));
    assert_eq!(result.counts.answered, 100);
    for (arguments, reason) in [
        (["--steps", "100"], "expected RATE:TIME"),
        (["--ramp", "5"], "expected RATE:RATE"),
        (["--arrivals", "often"], "expected uniform, poisson"),
        (["--source", "here"], "`here` is no source"),
    ] {
        let errors = String::from_utf8(load(&arguments).stderr).unwrap();
        assert!(errors.contains(reason), "{errors}");
    }
}
