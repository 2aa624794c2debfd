//! `cargo xtask fuzz`: each fuzz target for a bounded time. A finding is written to `fuzz/artifacts` and fails the task.

use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// How long each target runs if nothing else is asked for.
const SECONDS_DEFAULT: u64 = 30;
/// An input that takes longer than this is a finding.
const INPUT_SECONDS_MAX: u64 = 10;

pub(crate) fn run(args: &[String]) -> anyhow::Result<bool> {
    let seconds = match args {
        [] => SECONDS_DEFAULT,
        [flag, value] if flag == "--seconds" => {
            value.parse().context("--seconds takes a whole number")?
        }
        _ => bail!("usage: cargo xtask fuzz [--seconds N]"),
    };
    let root = crate::repo::root();
    need_cargo_fuzz()?;
    let targets = targets(&root)?;
    let mut failed = Vec::new();
    for target in &targets {
        println!("== fuzz {target} for {seconds} s");
        if !fuzz(&root, target, seconds)? {
            failed.push(target.as_str());
        }
    }
    println!(
        "{} passed, {} failed {}",
        targets.len() - failed.len(),
        failed.len(),
        failed.join(" ")
    );
    Ok(failed.is_empty())
}

/// The nightly compiler has the coverage instrumentation that libFuzzer needs.
fn need_cargo_fuzz() -> anyhow::Result<()> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        bail!("a nightly toolchain is missing: rustup toolchain install nightly");
    }
    let known = Command::new("cargo").args(["fuzz", "--version"]).output();
    if known.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    println!("installing cargo-fuzz");
    let status = Command::new("cargo").args(["install", "--locked", "cargo-fuzz"]).status()?;
    if status.success() { Ok(()) } else { bail!("cargo install cargo-fuzz failed") }
}

fn targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        if let Some(name) = path.file_stem() {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn fuzz(root: &Path, target: &str, seconds: u64) -> anyhow::Result<bool> {
    // New inputs go to a folder that is not committed; the corpus proper only grows by hand.
    let scratch = root.join("fuzz/target/corpus").join(target);
    std::fs::create_dir_all(&scratch)?;
    let status = Command::new("cargo")
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("fuzz/target"))
        .args(["+nightly", "fuzz", "run", target])
        .arg(&scratch)
        .arg(root.join("fuzz/corpus").join(target))
        .args(["--", "-max_len=4096", "-print_final_stats=1"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .status()?;
    Ok(status.success())
}
