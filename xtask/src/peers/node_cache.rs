//! node-cache, the program whose place the node role takes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo;

/// The version whose behaviour is the reference, and its commit: its tags are not those of a Go module.
const VERSION: &str = "1.26.7";
const COMMIT: &str = "1d8f1a620b92e5a61242e9efa499b3bf3d274975";
const MODULE: &str = "k8s.io/dns";
/// A checkout of kubernetes/dns at that version, for where no module proxy has it.
const CHECKOUT: &str = "NODENS_KUBERNETES_DNS";

/// The path of the program, built in `cache` when it is not there yet.
pub(crate) fn build(cache: &Path) -> Result<PathBuf> {
    let bin = cache.join("bin");
    let path = bin.join("node-cache");
    if is_wanted(&path) {
        return Ok(path);
    }
    let go = super::go()?;
    eprintln!("building node-cache {VERSION} (once, a few minutes) …");
    std::fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
    let flags = format!("-s -w -X {MODULE}/pkg/version.VERSION={VERSION}");
    let mut command = Command::new(go);
    command.env("CGO_ENABLED", "0").env("GOBIN", &bin);
    match std::env::var_os(CHECKOUT) {
        Some(checkout) => {
            command.current_dir(checkout).args([
                "build",
                "-mod=vendor",
                "-trimpath",
                "-ldflags",
                &flags,
            ]);
            command.arg("-o").arg(&path).arg("./cmd/node-cache");
        }
        None => {
            command.args(["install", "-trimpath", "-ldflags", &flags]);
            command.arg(format!("{MODULE}/cmd/node-cache@{COMMIT}"));
        }
    }
    repo::run(&mut command).with_context(|| {
        format!("where no module proxy has {MODULE}, {CHECKOUT} names a checkout of kubernetes/dns at {VERSION}")
    })?;
    if !is_wanted(&path) {
        bail!("{} does not report version {VERSION}", path.display());
    }
    Ok(path)
}

/// The program says its version and then that it has no address to listen on.
fn is_wanted(path: &Path) -> bool {
    let Ok(output) = Command::new(path).output() else { return false };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).contains(&format!("Starting node-cache image: {VERSION}\n"))
}
