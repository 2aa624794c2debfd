//! etcd that tells how far it is, so that API servers stream lists. Debian 12's (3.4) does not.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo;

const VERSION: &str = "3.6.5";
const MODULE: &str = "go.etcd.io/etcd/server/v3";

/// The path of the program, built in `cache` when it is not there yet.
pub(super) fn build(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("etcd");
    let path = folder.join("etcd");
    if is_wanted(&path) {
        return Ok(path);
    }
    let go = super::go()?;
    eprintln!("building etcd {VERSION} (once, a few minutes) …");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // `go install` refuses modules that replace others by folders, as this one does.
    let module = format!("module etcd\n\ngo 1.24\n\nrequire {MODULE} v{VERSION}\n");
    std::fs::write(folder.join("go.mod"), module)?;
    let tools = format!("//go:build tools\n\npackage tools\n\nimport _ \"{MODULE}\"\n");
    std::fs::write(folder.join("tools.go"), tools)?;
    let command = || {
        let mut command = Command::new(&go);
        command.current_dir(&folder).env("CGO_ENABLED", "0");
        command
    };
    repo::run(command().args(["mod", "tidy"]))?;
    let build = ["build", "-trimpath", "-ldflags", "-s -w", "-o", "etcd", MODULE];
    repo::run(command().args(build))?;
    if !is_wanted(&path) {
        bail!("{} does not report version {VERSION}", path.display());
    }
    Ok(path)
}

fn is_wanted(path: &Path) -> bool {
    repo::output(Command::new(path).arg("--version"))
        .is_ok_and(|text| text.lines().next() == Some(&format!("etcd Version: {VERSION}")))
}
