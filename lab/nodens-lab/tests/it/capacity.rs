//! Whether the search finds the limit of a server that has a known one.

use crate::{Echo, lab};
use lab_result::search::SearchFile;
use std::io::Write;
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

#[test]
fn any_seed_makes_a_search() {
    let (echo, seed) = (Echo::start(), u64::MAX.to_string());
    let search = ["load", "-p", &echo.port, "--slo", "p99=1s", "--slo-probes", "2"];
    let more = ["--slo-probe", "100ms", "--seed", &seed, "--json", "--no-version"];
    let output = lab(&[&search[..], &more].concat());
    let file = lab_result::search::from_json(Path::new("stdout"), &output.stdout).unwrap();
    assert_eq!((file.seed, file.probes.len()), (u64::MAX, 2));
}

fn is_near(file: &SearchFile) -> bool {
    file.median.is_some_and(|rate| (rate / LIMIT - 1.0).abs() <= 0.03)
}

/// How many searches there are: a few, or as many as this variable says. The lab promises that 19 of 20
/// are right on a quiet machine.
fn searches() -> u64 {
    std::env::var("NODENS_LAB_SEARCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

#[test]
fn the_limit_of_an_echo_is_found_within_three_percent() {
    let files: Vec<_> = (1..=searches()).map(|seed| search(seed, "600ms")).collect();
    let found = |file: &SearchFile| (file.median, file.range, file.limited_by.clone());
    let found: Vec<_> = files.iter().map(found).collect();
    found.iter().for_each(|found| _ = writeln!(std::io::stdout(), "{found:?}"));
    // A machine that is too busy to send on time must say just that; one that is busy now and then may
    // spoil one of a few.
    let by_server = |file: &&SearchFile| file.limited_by.as_deref() == Some("server");
    let decided = files.iter().filter(by_server).count();
    let near = files.iter().filter(by_server).filter(|file| is_near(file)).count();
    let far = decided.saturating_sub(near);
    assert!(far <= (files.len() / 20).max(1), "{found:?}");
    assert!(files.iter().all(|file| file.confidence.is_some() == by_server(&file)), "{found:?}");
}
