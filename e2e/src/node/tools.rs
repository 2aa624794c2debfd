//! Programs of others that a node needs, from the peers' cache.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::control_plane::peers;

/// A program in the folder `bin` of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tool {
    Containerd,
    Ctr,
    Helm,
}

impl Tool {
    /// Its file, and the peer that brings it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Tool::Containerd => ("containerd", "containerd"),
            Tool::Ctr => ("ctr", "containerd"),
            Tool::Helm => ("helm", "helm"),
        }
    }
}

/// Where the programs are.
pub(crate) fn folder() -> PathBuf {
    peers().join("bin")
}

/// Where the plug-ins for networks of pods are.
pub(crate) fn network_plugins() -> PathBuf {
    peers().join("cni")
}

/// The path of a program.
pub(crate) fn path(tool: Tool) -> Result<PathBuf> {
    let (file, peer) = tool.names();
    let path = folder().join(file);
    if !path.is_file() {
        bail!("no {}: run 'cargo xtask peers {peer}'", path.display());
    }
    Ok(path)
}

/// Runs a program to its end; the error has what it wrote.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let what = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {what}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}: {}{}", output.status, text, error.trim());
    }
    Ok(text)
}
