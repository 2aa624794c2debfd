//! Plans held against the real programs whose behaviour they claim to have.

mod resolvers;

use nodens_testkit::need;
use std::process::Command;

/// Runs a command that must succeed and returns what it wrote.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}
