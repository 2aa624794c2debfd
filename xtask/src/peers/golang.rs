//! Programs that `go install` builds from their modules.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo;

/// Programs of one module, under the name that `cargo xtask peers` gives them.
struct Group {
    name: &'static str,
    module: &'static str,
    version: &'static str,
    /// Folder of the cache.
    folder: &'static str,
    /// Packages below the module, or `.`; the last part of each one's path is the program's name.
    packages: &'static [&'static str],
}

impl Group {
    /// The path of one of its packages.
    fn path(&self, package: &str) -> String {
        match package {
            "." => self.module.to_owned(),
            package => format!("{}/{package}", self.module),
        }
    }
}

const GROUPS: &[Group] = &[
    Group {
        name: "containerd",
        module: "github.com/containerd/containerd/v2",
        version: "v2.2.1",
        folder: "bin",
        packages: &["cmd/containerd", "cmd/containerd-shim-runc-v2", "cmd/ctr"],
    },
    Group {
        name: "cni",
        module: "github.com/containernetworking/plugins",
        version: "v1.9.0",
        folder: "cni",
        packages: &[
            "plugins/main/bridge",
            "plugins/main/loopback",
            "plugins/ipam/host-local",
            "plugins/meta/portmap",
        ],
    },
    Group {
        name: "helm",
        module: "helm.sh/helm/v3",
        version: "v3.22.0",
        folder: "bin",
        packages: &["cmd/helm"],
    },
    // The release before the reference, for comparisons of two releases.
    Group {
        name: "coredns-before",
        module: "github.com/coredns/coredns",
        version: "v1.14.7",
        folder: "before",
        packages: &["."],
    },
    Group {
        name: "pebble",
        module: "github.com/letsencrypt/pebble/v2",
        version: "v2.8.0",
        folder: "bin",
        packages: &["cmd/pebble"],
    },
];

/// The names of the groups.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|group| group.name)
}

/// The folder of a group's programs, built in `cache` when they are not there yet.
pub(super) fn build(cache: &Path, name: &str) -> Result<PathBuf> {
    let group = GROUPS.iter().find(|group| group.name == name);
    let group = group.with_context(|| format!("no group '{name}' of programs"))?;
    let folder = cache.join(group.folder);
    let go = super::go()?;
    for package in group.packages {
        let path = group.path(package);
        let program = folder.join(path.rsplit('/').next().unwrap_or(&path));
        if is_wanted(&go, &program, group) {
            continue;
        }
        eprintln!("building {} {} (once) …", program.display(), group.version);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        repo::run(
            Command::new(&go)
                .args(["install", "-trimpath", "-ldflags", "-s -w"])
                .arg(format!("{path}@{}", group.version))
                .env("GOBIN", &folder)
                .env("CGO_ENABLED", "0"),
        )?;
        if !is_wanted(&go, &program, group) {
            bail!("{} is not {} {}", program.display(), group.module, group.version);
        }
    }
    Ok(folder)
}

/// Go notes in a program which version of its module it is from.
fn is_wanted(go: &Path, program: &Path, group: &Group) -> bool {
    let wanted = ["mod", group.module, group.version];
    program.is_file()
        && repo::output(Command::new(go).args(["version", "-m"]).arg(program))
            .is_ok_and(|text| text.lines().any(|line| line.split_whitespace().take(3).eq(wanted)))
}
