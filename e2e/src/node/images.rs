//! The images of the checks, made by the project's own recipe.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::{Node, PAUSE};
use super::tools;
use crate::control_plane::peers;

/// Nodens, as the manifest and the chart name it.
pub(super) const NODENS: &str = "localhost/nodens:0.1.0";
/// The same program in the node role: root, because it changes the node's network.
pub(super) const NODENS_NODE: &str = "localhost/nodens-node:0.1.0";
/// CoreDNS of the peers' cache.
pub(super) const COREDNS: &str = "localhost/coredns:1.15.0";
/// This program: what runs in a pod's sandbox, and the clients.
pub(super) const CLIENTS: &str = PAUSE;

/// Makes the images and gives them to the node; `program` is Nodens.
pub(super) fn provide(node: &Node, folder: &Path, program: &Path) -> Result<()> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let coredns = peers().join("bin/coredns");
    let file = |program: &Path, path: &str| format!("{}:{path}", program.display());
    let images: [(&str, Vec<String>); 4] = [
        ("nodens", vec!["--program".into(), program.display().to_string()]),
        (
            "nodens-node",
            ["--role", "node", "--tag", NODENS_NODE, "--program"]
                .map(str::to_owned)
                .into_iter()
                .chain([program.display().to_string()])
                .collect(),
        ),
        (
            "coredns",
            vec!["--tag".into(), COREDNS.into(), "--file".into(), file(&coredns, "/coredns")],
        ),
        (
            "clients",
            ["--tag", CLIENTS, "--command", "idle", "--file"]
                .map(str::to_owned)
                .into_iter()
                .chain([file(&own, "/nodens-e2e")])
                .collect(),
        ),
    ];
    for (name, arguments) in images {
        let archive = folder.join(format!("{name}.tar"));
        write(&archive, &arguments).with_context(|| format!("image {name}"))?;
        node.import(&archive)?;
        std::fs::remove_file(&archive)?;
    }
    Ok(())
}

/// Gives the node an image of one program that is called `path` in it, with a capability that the container then
/// has to have, or `none`.
pub(super) fn add(
    node: &Node,
    folder: &Path,
    tag: &str,
    (program, path): (&Path, &str),
    capability: &str,
) -> Result<()> {
    let archive = folder.join("more.tar");
    let file = format!("{}:{path}", program.display());
    let arguments = ["--tag", tag, "--file", &file, "--capability", capability].map(str::to_owned);
    write(&archive, &arguments).with_context(|| format!("image {tag}"))?;
    node.import(&archive)?;
    Ok(std::fs::remove_file(&archive)?)
}

fn write(archive: &Path, arguments: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(repository()).args(["xtask", "image", "--out"]).arg(archive);
    tools::output(command.args(arguments)).map(|_| ())
}

/// The repository's root.
pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
