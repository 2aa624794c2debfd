//! Other programs: `ip`, `tc`, and those that read and write files of a namespace.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The file by which `ip` knows a network namespace.
pub(crate) fn namespace_file(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// Runs `ip` and returns what it printed.
pub(crate) fn ip(arguments: &[&str]) -> Result<String, String> {
    run("ip", arguments, None)
}

/// Runs `tc`, in a namespace if there is one.
pub(crate) fn tc(namespace: Option<&str>, arguments: &[&str]) -> Result<String, String> {
    match namespace {
        Some(name) => run("tc", &[&["-n", name], arguments].concat(), None),
        None => run("tc", arguments, None),
    }
}

/// Runs a program in a network namespace, where `/sys` shows that namespace's interfaces.
pub(crate) fn inside(
    namespace: &str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String, String> {
    run("ip", &[&["netns", "exec", namespace], arguments].concat(), input)
}

fn run(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let hint = if missing { " (Debian package iproute2)" } else { "" };
        format!("cannot run {program}{hint}: {error}")
    })?;
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // A program that does not read says why at its end.
        _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().replace('\n', "; ");
    Err(format!("`{program} {}`: {said}", arguments.join(" ")))
}
