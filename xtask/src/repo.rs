//! The repository on disk and the programs around it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository: the parent of this crate's folder.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Runs `command` and returns its standard output as text; a failure to start or a non-zero exit is an error that
/// carries what the program wrote to standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let what = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {what}"))?;
    if !output.status.success() {
        bail!("{what}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{what}: output is not UTF-8"))
}

/// Runs `command` with its output passed through; a non-zero exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {what}"))?;
    if !status.success() {
        bail!("{what}: {status}");
    }
    Ok(())
}

/// Finds a program by name in `PATH` and in the `sbin` folders that an ordinary user's `PATH` lacks.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(extra).map(|dir| dir.join(name)).find(|file| file.is_file())
}
