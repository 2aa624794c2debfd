//! Whether the search finds the limit of a server that has a known one.

use crate::{Echo, lab};
use lab_result::search::SearchFile;
use std::path::Path;

/// Queries a second that an echo answers.
const LIMIT: f64 = 2_000.0;

/// A search for the highest rate at which the echo keeps up.
fn search(seed: u64, probe: &str) -> SearchFile {
    let echo = Echo::with(&["--service-time", "500us"]);
    let seed = seed.to_string();
    let arguments =
        ["load", "-p", &echo.port, "--slo", "p90=5ms,loss=0.1%", "--arrivals", "uniform"];
    let more =
        ["--slo-probe", probe, "--slo-floor", "500", "--seed", &seed, "--json", "--no-version"];
    let output = lab(&[&arguments[..], &more].concat());
    lab_result::search::from_json(Path::new("stdout"), &output.stdout).unwrap()
}

fn is_near(file: &SearchFile) -> bool {
    file.median.is_some_and(|rate| (rate / LIMIT - 1.0).abs() <= 0.03)
}

#[test]
fn the_limit_of_an_echo_is_found() {
    let files: Vec<_> = (1..=2).map(|seed| search(seed, "600ms")).collect();
    let found = |file: &SearchFile| (file.median, file.range, file.limited_by.clone());
    let found: Vec<_> = files.iter().map(found).collect();
    // A machine that is too busy to send on time must say just that; one that is busy now and then may
    // spoil one of them.
    let by_server = |file: &SearchFile| file.limited_by.as_deref() == Some("server");
    let mut decided = files.iter().filter(|file| by_server(file)).peekable();
    assert!(decided.peek().is_none() || decided.any(is_near), "{found:?}");
    assert!(files.iter().all(|file| file.confidence.is_some() == by_server(file)), "{found:?}");
}

/// What the lab promises on a quiet machine; prints every search.
#[test]
#[ignore = "twenty searches take ten minutes"]
fn nineteen_of_twenty_searches_find_the_limit_of_an_echo_within_three_percent() {
    let mut near = 0;
    for seed in 1..=20 {
        let file = search(seed, "1s");
        near += usize::from(is_near(&file));
        println!("{seed}: {:?} {:?} {} probes", file.median, file.range, file.probes.len());
    }
    assert!(near >= 19, "{near} of 20");
}
