//! The repository on disk and the programs around it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository: the parent of this crate's folder.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    target_of(&root())
}

/// Where cargo puts what it builds of the working tree at `root`.
pub(crate) fn target_of(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Cargo, without what `cargo run` has told this process of its own package.
///
/// Build scripts that read `CARGO_MANIFEST_DIR` run again when it differs: `ring` and all that stands on it, which is
/// most of the workspace, would be compiled anew by each `cargo xtask` after a plain `cargo`, and the other way round.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    forget_package(&mut command);
    command
}

/// Builds the server, and returns its program.
///
/// All is built as `cargo test --workspace` builds it: with other packages, or without tests, libraries get other
/// features, and most of them would be compiled once more.
pub(crate) fn built_nodens() -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--workspace", "--bins", "--tests"];
    run(cargo().current_dir(root()).args(arguments))?;
    Ok(target().join("debug/nodens"))
}

fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
}

/// Whether cargo sets the variable for one package. Settings (`CARGO_HOME`, `CARGO_PROFILE_DEV_DEBUG`) are for all.
fn is_of_package(name: &str) -> bool {
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CFG_", "CARGO_FEATURE_"];
    let names = ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "CARGO_TARGET_TMPDIR", "OUT_DIR"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.contains(&name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_settings_and_nothing_of_this_package() {
        // `cargo test` has told this process of the package as `cargo run` would.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = cargo();
        let forgotten = |name: &str| {
            command.get_envs().any(|(changed, value)| changed == name && value.is_none())
        };
        assert!(forgotten("CARGO_MANIFEST_DIR") && forgotten("CARGO_PKG_NAME"));
        for kept in ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_PROFILE_DEV_DEBUG"] {
            assert!(!is_of_package(kept), "{kept}");
        }
    }
}
