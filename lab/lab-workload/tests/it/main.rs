//! Plans held against the real programs whose behaviour they claim to have.

mod resolvers;

use std::path::Path;
use std::process::Command;

/// Fails with the package to install if `tool` is missing.
fn need(tool: &str, package: &str) {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| Path::new(&folder).join(tool).exists())
    });
    assert!(found, "`{tool}` is missing: apt-get install {package} (or `make setup`)");
}

/// Runs a command that must succeed and returns what it wrote.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}
