//! Puts the compiler's version and the commit into the binary.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let rustc = output(&rustc, &["--version"]).unwrap_or_else(|| "rustc unknown".to_owned());
    let words: Vec<_> = rustc.split_whitespace().take(2).collect();
    println!("cargo::rustc-env=NODENS_RUSTC={}", words.join(""));
    let commit = output("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    println!("cargo::rustc-env=NODENS_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Grows with every commit that is checked out; without a repository there is nothing to follow.
    let log = output("git", &["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| std::path::Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
