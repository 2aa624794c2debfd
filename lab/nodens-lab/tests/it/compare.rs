//! `nodens-lab compare`: results of other days beside each other.

use crate::{Echo, lab};

/// A run of a second.
fn run(echo: &Echo, folder: &std::path::Path, seed: &str) -> String {
    let path = folder.join(format!("{seed}.json")).display().to_string();
    let load = ["load", "-s", "127.0.0.1", "-p", &echo.port, "-Q", "200", "-l", "1", "--quiet"];
    let rest = ["--seed", seed, "-o", &path, "--no-html", "--no-version"];
    lab(&[&load[..], &rest].concat());
    assert!(std::path::Path::new(&path).is_file());
    path
}

#[test]
fn a_run_stands_beside_runs_and_counts_once() {
    let (echo, folder) = (Echo::start(), tempfile::tempdir().unwrap());
    let [a, b, c] = ["1", "2", "3"].map(|seed| run(&echo, folder.path(), seed));
    let told = |arguments: &[&str]| {
        let output = lab(&[&["compare"][..], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
    };
    // The p99.9 of a second and that of a whole run are not alike even if the server is.
    let (code, text) = told(&[&a, "--with", &b, &c]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("before: 1 run; with fewer than 4"), "{text}");
    assert!(!text.contains("seconds stand for runs"), "{text}");
    assert!(told(&[&a, "--with", &b]).1.contains("seconds stand for runs"));
    std::fs::copy(&b, folder.path().join("again.json")).unwrap();
    let again = folder.path().join("again.json").display().to_string();
    let (code, text) = told(&[&a, "--with", &b, &again]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("are the same run"), "{text}");
}
