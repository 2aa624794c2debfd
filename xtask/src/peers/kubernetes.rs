//! Kubernetes, built from its Go module: the project publishes no binaries for Go's own tools to fetch.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::repo;

/// The version whose API server is the reference.
const VERSION: &str = "1.36.3";
const MODULE: &str = "k8s.io/kubernetes";

/// Programs that are built together, under the name that `cargo xtask peers` gives them.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("kubernetes", &["kube-apiserver", "kube-controller-manager", "kubectl"]),
    ("kubernetes-node", &["kube-proxy", "kube-scheduler", "kubelet"]),
];

/// The folder of a group's programs, built in `cache` when they are not there yet.
pub(super) fn build(cache: &Path, group: &str) -> Result<PathBuf> {
    let programs = GROUPS.iter().find(|(name, _)| *name == group).map(|(_, programs)| *programs);
    let programs = programs.with_context(|| format!("no group '{group}' of programs"))?;
    let folder = cache.join("kube");
    let bin = folder.join("bin");
    let missing: Vec<&str> =
        programs.iter().filter(|program| !is_wanted(&bin, program)).copied().collect();
    if missing.is_empty() {
        return Ok(bin);
    }
    let go = super::go()?;
    eprintln!("building {} {VERSION} (once, some minutes) …", missing.join(", "));
    std::fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
    write_module(&go, &folder)?;
    let version = "-X k8s.io/component-base/version.git";
    let flags = format!("-s -w {version}Version=v{VERSION} {version}Major=1 {version}Minor=36");
    let mut command = Command::new(&go);
    command.current_dir(&folder).env("CGO_ENABLED", "0");
    command.args(["build", "-trimpath", "-ldflags", &flags, "-o", "bin/"]);
    repo::run(command.args(missing.iter().map(|program| format!("{MODULE}/cmd/{program}"))))?;
    match missing.iter().find(|program| !is_wanted(&bin, program)) {
        Some(program) => bail!("{program} in {} does not report {VERSION}", bin.display()),
        None => Ok(bin),
    }
}

fn is_wanted(bin: &Path, program: &str) -> bool {
    let arguments: &[&str] =
        if program == "kubectl" { &["version", "--client"] } else { &["--version"] };
    repo::output(Command::new(bin.join(program)).args(arguments))
        .is_ok_and(|text| text.lines().any(|line| line.ends_with(&format!(" v{VERSION}"))))
}

/// Writes the module whose tools the programs are.
///
/// Kubernetes cannot be installed with `go install`: its go.mod replaces the libraries of its own repository by
/// folders, which are published as modules of the version 0.MINOR.PATCH.
fn write_module(go: &Path, folder: &Path) -> Result<()> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Download {
        go_mod: PathBuf,
    }
    let module = format!("{MODULE}@v{VERSION}");
    let json = repo::output(Command::new(go).args(["mod", "download", "-json", &module]))?;
    let download: Download = serde_json::from_str(&json).context("go mod download -json")?;
    let original = std::fs::read_to_string(&download.go_mod)
        .with_context(|| download.go_mod.display().to_string())?;
    let (text, tools) = module_files(&original)?;
    std::fs::write(folder.join("go.mod"), text)?;
    std::fs::write(folder.join("tools.go"), tools)?;
    repo::run(Command::new(go).current_dir(folder).args(["mod", "tidy"]))
}

/// `go.mod` and a Go file that imports the programs, from Kubernetes's own `go.mod`.
fn module_files(original: &str) -> Result<(String, String)> {
    let go = original.lines().find(|line| line.starts_with("go ")).context("no line 'go …'")?;
    let libraries: Vec<&str> = original
        .lines()
        .filter(|line| line.contains("=> ./staging"))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("k8s.io/")))
        .collect();
    if libraries.is_empty() {
        bail!("go.mod of {MODULE} replaces no library: its layout has changed");
    }
    let library_version = VERSION.replacen('1', "0", 1);
    let mut module = format!("module kube\n\n{go}\n\nrequire {MODULE} v{VERSION}\n\nreplace (\n");
    for library in libraries {
        // Writing to a String cannot fail.
        let _ = writeln!(module, "\t{library} => {library} v{library_version}");
    }
    module.push_str(")\n");
    let mut tools = "//go:build tools\n\npackage tools\n\nimport (\n".to_owned();
    for program in GROUPS.iter().flat_map(|(_, programs)| *programs) {
        let _ = writeln!(tools, "\t_ \"{MODULE}/cmd/{program}\"");
    }
    tools.push_str(")\n");
    Ok((module, tools))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_repository_become_published_modules() {
        let original = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace (\n\
                        \tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let (module, tools) = module_files(original).unwrap();
        assert!(module.contains("\ngo 1.26.0\n"), "{module}");
        assert!(module.contains("\tk8s.io/api => k8s.io/api v0.36.3\n"), "{module}");
        assert!(tools.contains("\t_ \"k8s.io/kubernetes/cmd/kubelet\"\n"), "{tools}");
        assert!(module_files("module k8s.io/kubernetes\n\ngo 1.26.0\n").is_err());
    }
}
