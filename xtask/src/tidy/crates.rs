//! Rules on crates: which may depend on which, where `unsafe` may be, and that every library has its reason.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tokens::SANS_IO;
use super::{Finding, Tree, finding};
use crate::repo;

/// What each crate of the workspace may depend on inside the workspace (development dependencies aside). A name that
/// ends in `*` stands for every crate whose name begins so.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("nodens-wire", &[]),
    ("nodens-corefile", &[]),
    ("nodens-goregex", &[]),
    ("nodens-gotemplate", &[]),
    ("nodens-expr", &["nodens-goregex"]),
    ("nodens-tls", &[]),
    ("nodens-zone", &["nodens-wire"]),
    (
        "nodens-core",
        &[
            "nodens-wire",
            "nodens-tls",
            "nodens-zone",
            "nodens-corefile",
            "nodens-goregex",
            "nodens-gotemplate",
            "nodens-expr",
        ],
    ),
    ("nodens-net", &["nodens-wire", "nodens-tls", "nodens-zone", "nodens-core"]),
    ("nodens-acme", &["nodens-wire", "nodens-tls", "nodens-core"]),
    ("nodens-kube", &["nodens-wire", "nodens-tls", "nodens-zone", "nodens-core"]),
    ("nodens-insight", &["nodens-wire", "nodens-core"]),
    ("nodens-node", &["nodens-wire", "nodens-core", "nodens-net", "nodens-kube"]),
    ("nodens-top", &["nodens-insight"]),
    ("nodens", &["nodens-*"]),
    ("nodens-fuzz-bodies", &["nodens-*", "lab-workload"]),
    ("nodens-lab", &["nodens-wire", "lab-*"]),
    ("lab-*", &["nodens-wire", "lab-*"]),
    ("nodens-judge", &[]),
    (TESTKIT, &[]),
    ("nodens-e2e", &["nodens-judge", "nodens-wire", "lab-*"]),
    ("xtask", &["nodens-judge"]),
];

/// Crates with sockets, clocks or an async runtime in them, which the crates of [`SANS_IO`] must do without.
const IO_CRATES: &[&str] =
    &["tokio", "mio", "async-std", "smol", "socket2", "libc", "nix", "rustix", "hyper", "reqwest"];

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Only development dependencies may name it.
const TESTKIT: &str = "nodens-testkit";

/// The crates that may hold `unsafe`: one for the server, one for the lab, and the counting allocator of tests.
const UNSAFE_CRATES: &[&str] = &["nodens-net", "lab-sys", TESTKIT];

/// The part of `cargo metadata` that the rules look at.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
    #[serde(default)]
    features: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: String,
}

/// Reads the packages of the workspace from the JSON of `cargo metadata --no-deps`, with paths made relative.
pub(super) fn packages(metadata: &str) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let metadata: Metadata = serde_json::from_str(metadata).context("cargo metadata")?;
    let root = format!("{}/", repo::root().display());
    let mut packages = metadata.packages;
    for package in &mut packages {
        package.manifest_path = package.manifest_path.replace(&root, "");
        for target in &mut package.targets {
            target.src_path = target.src_path.replace(&root, "");
        }
    }
    Ok(packages)
}

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        direction(tree, package, &mut findings);
        if !UNSAFE_CRATES.contains(&&*package.name) {
            forbids_unsafe(tree, package, &mut findings);
        }
    }
    libraries(tree, packages, &mut findings);
    findings
}

/// The table under the heading `Libraries` names in its first column what the crates use, and nothing else.
fn libraries(tree: &Tree, packages: &[Package], findings: &mut Vec<Finding>) {
    let listed = listed_libraries(tree.file(ARCHITECTURE).map_or("", |file| &file.text));
    for package in packages {
        for dependency in package.dependencies.iter().filter(|d| d.path.is_none()) {
            if !listed.iter().any(|(_, name)| *name == dependency.name) {
                let manifest = &package.manifest_path;
                let line = line_of(tree, manifest, &dependency.name);
                let message = format!(
                    "`{}` has no reason: add it to the table of libraries in {ARCHITECTURE}",
                    dependency.name
                );
                findings.push(finding(manifest, line, message));
            }
        }
    }
    for (line, name) in listed {
        let mut manifests = tree.with_extension("toml").filter(|f| f.path.ends_with("Cargo.toml"));
        if !manifests.any(|file| file.text.lines().any(|line| line.starts_with(name))) {
            findings.push(finding(ARCHITECTURE, line, format!("no crate uses `{name}`")));
        }
    }
}

/// The words in backquotes in the first column of the table, with their lines.
fn listed_libraries(text: &str) -> Vec<(usize, &str)> {
    let section = text.lines().enumerate().skip_while(|(_, line)| *line != "## Libraries");
    let section = section.skip(1).take_while(|(_, line)| !line.starts_with("## "));
    let cells = section.filter_map(|(index, line)| {
        let (first, _) = line.strip_prefix('|')?.split_once('|')?;
        Some((index + 1, first))
    });
    cells
        .flat_map(|(line, cell)| cell.split('`').skip(1).step_by(2).map(move |n| (line, n)))
        .collect()
}

fn direction(tree: &Tree, package: &Package, findings: &mut Vec<Finding>) {
    let manifest = &package.manifest_path;
    let entry = MAY_DEPEND_ON
        .iter()
        .find(|(name, _)| *name == package.name)
        .or_else(|| MAY_DEPEND_ON.iter().find(|(pattern, _)| matches(pattern, &package.name)));
    let Some((_, allowed)) = entry else {
        let message = format!(
            "crate `{}` has no place in the dependency direction: add it to MAY_DEPEND_ON in \
             xtask/src/tidy/crates.rs",
            package.name
        );
        findings.push(finding(manifest, 1, message));
        return;
    };
    for dependency in &package.dependencies {
        let line = line_of(tree, manifest, &dependency.name);
        if dependency.kind.as_deref() != Some("dev")
            && dependency.path.is_some()
            && (dependency.name == TESTKIT
                || !allowed.iter().any(|pattern| matches(pattern, &dependency.name)))
        {
            let message = format!(
                "`{}` must not depend on `{}` (allowed: {})",
                package.name,
                dependency.name,
                if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") }
            );
            findings.push(finding(manifest, line, message));
        }
        if dependency.kind.as_deref() != Some("dev")
            && dependency.features.iter().any(|feature| feature == "testing")
            && package.name != "nodens-fuzz-bodies"
        {
            let message = "the feature `testing` is for development dependencies and fuzz targets";
            findings.push(finding(manifest, line, message));
        }
        if SANS_IO.contains(&package.name.as_str()) && IO_CRATES.contains(&&*dependency.name) {
            let message = format!(
                "`{}` must do without `{}`: sockets and clocks belong to nodens-net",
                package.name, dependency.name
            );
            findings.push(finding(manifest, line, message));
        }
    }
}

fn forbids_unsafe(tree: &Tree, package: &Package, findings: &mut Vec<Finding>) {
    const ATTRIBUTE: &str = "#![forbid(unsafe_code";
    let roots = package.targets.iter().filter(|target| {
        target.kind.iter().any(|kind| kind == "lib" || kind == "bin" || kind == "proc-macro")
    });
    for target in roots {
        let has = tree.file(&target.src_path).is_some_and(|file| file.text.contains(ATTRIBUTE));
        if !has {
            let message = "a crate root needs `#![forbid(unsafe_code)]`; only nodens-net and lab-sys may do without";
            findings.push(finding(&target.src_path, 1, message));
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

fn line_of(tree: &Tree, path: &str, word: &str) -> usize {
    let text = tree.file(path).map_or("", |file| &file.text);
    text.lines().position(|line| line.starts_with(word)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependency: &str, kind: Option<&str>, path: Option<&str>) -> Package {
        Package {
            name: name.into(),
            manifest_path: format!("crates/{name}/Cargo.toml"),
            dependencies: vec![Dependency {
                name: dependency.into(),
                kind: kind.map(Into::into),
                path: path.map(Into::into),
                features: Vec::new(),
            }],
            targets: vec![Target {
                kind: vec!["lib".into()],
                src_path: format!("crates/{name}/src/lib.rs"),
            }],
        }
    }

    fn findings(package: Package, root: &str) -> Vec<String> {
        let manifest = format!("[dependencies]\n{} = \"1\"\n", package.dependencies[0].name);
        let reasons = format!("## Libraries\n\n| `{}` | tests |\n", package.dependencies[0].name);
        let tree = Tree::of(&[
            (&package.manifest_path, &manifest),
            (&package.targets[0].src_path, root),
            (ARCHITECTURE, &reasons),
        ]);
        check(&tree, &[package]).iter().map(ToString::to_string).collect()
    }

    const FORBID: &str = "#![forbid(unsafe_code)]\n";

    #[test]
    fn dependencies_point_one_way() {
        let upwards = package("nodens-core", "nodens-net", None, Some("x"));
        assert_eq!(findings(upwards, FORBID).len(), 1);
        let downwards = package("nodens-core", "nodens-wire", None, Some("x"));
        assert!(findings(downwards, FORBID).is_empty());
        let lab = package("lab-stats", "nodens-core", None, Some("x"));
        assert!(findings(lab, FORBID)[0].contains("Cargo.toml:2: `lab-stats` must not"));
        let in_tests = package("nodens-core", "nodens-net", Some("dev"), Some("x"));
        assert!(findings(in_tests, FORBID).is_empty());
        let judge = package("xtask", "nodens-wire", None, Some("x"));
        assert!(findings(judge, FORBID)[0].contains("allowed: nodens-judge"));
    }

    #[test]
    fn what_is_for_tests_is_a_development_dependency() {
        let kit = |kind| package("nodens", TESTKIT, kind, Some("x"));
        assert!(findings(kit(Some("dev")), FORBID).is_empty());
        assert_eq!(findings(kit(None), FORBID).len(), 1);
        let testing = |kind| {
            let mut package = package("nodens", "nodens-core", kind, Some("x"));
            package.dependencies[0].features.push("testing".into());
            findings(package, FORBID)
        };
        assert!(testing(Some("dev")).is_empty());
        assert!(testing(None)[0].contains("feature `testing`"));
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        let new = package("nodens2", "x", None, None);
        assert!(findings(new, FORBID)[0].contains("no place"));
    }

    #[test]
    fn the_core_does_without_io_crates() {
        let core = package("nodens-core", "tokio", None, None);
        assert!(findings(core, FORBID)[0].contains("without `tokio`"));
        assert!(findings(package("nodens-net", "tokio", None, None), "").is_empty());
    }

    #[test]
    fn every_library_has_its_reason_and_every_reason_its_library() {
        let package = package("nodens-wire", "thiserror", None, None);
        let found = |table: &str| {
            let manifest = "[dependencies]\nthiserror = \"2\"\n";
            let root = (&*package.targets[0].src_path, FORBID);
            let files = [(&*package.manifest_path, manifest), root, (ARCHITECTURE, table)];
            let findings = check(&Tree::of(&files), std::slice::from_ref(&package));
            findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found("## Libraries\n| `thiserror` | errors |\n").is_empty());
        let missing = found("## Words\n| `thiserror` | no library |\n## Libraries\n");
        assert!(
            missing[0].starts_with("crates/nodens-wire/Cargo.toml:2: `thiserror` has no reason")
        );
        let spare = found("## Libraries\n| `thiserror`, `slab` | errors |\n");
        assert_eq!(spare, ["ARCHITECTURE.md:2: no crate uses `slab`"]);
    }

    #[test]
    fn unsafe_is_forbidden_but_in_two_crates() {
        let wire = package("nodens-wire", "thiserror", None, None);
        assert!(findings(wire, "//! Docs.\n")[0].contains("forbid(unsafe_code)"));
        for name in UNSAFE_CRATES {
            assert!(findings(package(name, "libc", None, None), "").is_empty());
        }
    }
}
