//! Rules of `deny.toml` on the crates that we build on: licences, versions, and crates that were yanked.

use super::{Finding, finding};
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The rules, in the format of cargo-deny.
pub(super) const RULES: &str = "deny.toml";

#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    advisories: Advisories,
}

#[derive(Debug, Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    multiple_versions: String,
    skip: Vec<Skip>,
}

#[derive(Debug, Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Advisories {
    yanked: String,
}

/// A crate of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(super) struct Library {
    name: String,
    version: String,
    license: Option<String>,
    /// Where it comes from; `None` for our own.
    source: Option<String>,
}

/// Reads `deny.toml`.
pub(super) fn rules(text: &str) -> Result<Rules> {
    toml::from_str(text).context(RULES)
}

impl Rules {
    /// The arguments that have `cargo metadata` tell of the crates of these platforms alone.
    pub(super) fn platforms(&self) -> Vec<String> {
        let platform = |target| format!("--filter-platform={target}");
        self.graph.targets.iter().map(platform).collect()
    }
}

/// Reads the crates of others from the JSON of `cargo metadata`.
pub(super) fn libraries(metadata: &str) -> Result<Vec<Library>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Library>,
    }
    let metadata: Metadata = serde_json::from_str(metadata).context("cargo metadata")?;
    Ok(metadata.packages.into_iter().filter(|library| library.source.is_some()).collect())
}

/// Checks `libraries`; `is_yanked` is `None` for a crate of which the registry's index is not here.
pub(super) fn check(
    rules: &Rules,
    libraries: &[Library],
    is_yanked: impl Fn(&str, &str) -> Option<bool>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (section, word) in [
        ("bans.multiple-versions", &rules.bans.multiple_versions),
        ("advisories.yanked", &rules.advisories.yanked),
    ] {
        if word != "deny" {
            findings.push(finding(RULES, 1, format!("{section} is {word:?}, expected \"deny\"")));
        }
    }
    findings.extend(licences(&rules.licenses, libraries));
    findings.extend(versions(&rules.bans, libraries));
    for library in libraries {
        let Library { name, version, .. } = library;
        match is_yanked(name, version) {
            Some(false) => {}
            Some(true) => {
                findings.push(finding("Cargo.lock", 1, format!("{name} {version} was yanked")))
            }
            None => {
                let text =
                    format!("no index says whether {name} {version} was yanked: run `cargo fetch`");
                findings.push(finding("Cargo.lock", 1, text));
            }
        }
    }
    findings
}

fn licences(rules: &Licenses, libraries: &[Library]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Library { name, version, license, .. } in libraries {
        let exceptions = rules.exceptions.iter().filter(|exception| exception.name == *name);
        let allowed: Vec<&str> = rules
            .allow
            .iter()
            .chain(exceptions.flat_map(|e| &e.allow))
            .map(String::as_str)
            .collect();
        let terms = license.as_deref().unwrap_or_default();
        match is_allowed(terms, &allowed) {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("the licence of {name} {version}, {terms:?}, is not allowed");
                findings.push(finding(RULES, 1, text));
            }
            Err(error) => findings.push(finding(RULES, 1, format!("{name} {version}: {error}"))),
        }
    }
    for Exception { name, .. } in &rules.exceptions {
        if !libraries.iter().any(|library| library.name == *name) {
            findings.push(finding(RULES, 1, format!("an exception for {name}, which is not used")));
        }
    }
    findings
}

/// Whether the licence expression `terms` can be met with the licences of `allowed`.
fn is_allowed(terms: &str, allowed: &[&str]) -> Result<bool> {
    let mode = spdx::ParseMode { allow_postfix_plus_on_gpl: true, ..spdx::ParseMode::LAX };
    let expression = spdx::Expression::parse_mode(terms, mode)
        .map_err(|error| anyhow!("no licence expression: {terms:?}: {}", error.reason))?;
    let allowed: Vec<spdx::Licensee> = allowed
        .iter()
        .map(|text| {
            spdx::Licensee::parse(text).map_err(|error| anyhow!("{text:?}: {}", error.reason))
        })
        .collect::<Result<_>>()?;
    Ok(expression
        .evaluate(|requirement| allowed.iter().any(|licence| licence.satisfies(requirement))))
}

/// Crates in several versions but for those that are skipped.
fn versions(rules: &Bans, libraries: &[Library]) -> Vec<Finding> {
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for library in libraries {
        of.entry(&library.name).or_default().push(&library.version);
    }
    let mut findings = Vec::new();
    for Skip { name, reason } in &rules.skip {
        let (crate_name, prefix) = name.split_once('@').unwrap_or((name, ""));
        let versions = of.get_mut(crate_name);
        let position =
            versions.iter().flat_map(|v| v.iter()).position(|version| has_prefix(version, prefix));
        match (versions, position) {
            (Some(versions), Some(position)) if versions.len() > 1 && !reason.is_empty() => {
                versions.remove(position);
            }
            _ => findings.push(finding(
                RULES,
                1,
                format!("{name} is skipped without need, or without a reason"),
            )),
        }
    }
    for (name, versions) in of.iter().filter(|(_, versions)| versions.len() > 1) {
        let text = format!("{name} is built in several versions: {}", versions.join(", "));
        findings.push(finding("Cargo.lock", 1, text));
    }
    findings
}

/// Whether `version` is `prefix` or begins with all of its numbers.
fn has_prefix(version: &str, prefix: &str) -> bool {
    version.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What cargo keeps of the registries' indexes.
pub(super) struct Indexes {
    folders: Vec<PathBuf>,
}

impl Indexes {
    /// Those of this user.
    pub(super) fn find() -> Self {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
        let index = home.unwrap_or_default().join("registry/index");
        let folders = std::fs::read_dir(index).into_iter().flatten().flatten();
        Self { folders: folders.map(|folder| folder.path().join(".cache")).collect() }
    }

    /// Whether a version of a crate was yanked; `None` if no index here knows it.
    pub(super) fn is_yanked(&self, name: &str, version: &str) -> Option<bool> {
        let file = index_path(name)?;
        let texts = self.folders.iter().filter_map(|folder| std::fs::read(folder.join(&file)).ok());
        texts.into_iter().find_map(|octets| yanked_in(&octets, version))
    }
}

/// Where an index has a crate: by the length of its name and its first letters.
fn index_path(name: &str) -> Option<PathBuf> {
    let name = name.to_ascii_lowercase();
    let folder = match name.len() {
        1 | 2 => name.len().to_string(),
        3 => format!("3/{}", name.get(..1)?),
        _ => format!("{}/{}", name.get(..2)?, name.get(2..4)?),
    };
    Some(Path::new(&folder).join(name))
}

/// Finds a version in the file that cargo keeps of a crate: texts that end with a zero octet, every
/// other one of them a JSON object.
fn yanked_in(octets: &[u8], version: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct Release {
        vers: String,
        yanked: Option<bool>,
    }
    let objects = octets.split(|octet| *octet == 0).filter(|text| text.first() == Some(&b'{'));
    let mut releases = objects.filter_map(|text| serde_json::from_slice::<Release>(text).ok());
    releases.find(|release| release.vers == version).map(|release| release.yanked.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        exceptions = [{ crate = "odd", allow = ["MPL-2.0"] }]
        [bans]
        multiple-versions = "deny"
        skip = [{ crate = "old@0.1", reason = "because" }]
        [advisories]
        yanked = "deny"
    "#;

    fn library(name: &str, version: &str, license: &str) -> Library {
        let (name, version) = (name.to_owned(), version.to_owned());
        let source = Some("registry".to_owned());
        Library { name, version, license: Some(license.to_owned()), source }
    }

    fn good() -> Vec<Library> {
        vec![
            library("odd", "1.0.0", "MPL-2.0"),
            library("old", "0.1.7", "MIT/Apache-2.0"),
            library("old", "0.2.0", "(GPL-3.0 OR MIT) AND Apache-2.0"),
        ]
    }

    fn messages(libraries: &[Library], yanked: Option<bool>) -> String {
        let found = check(&rules(TEXT).unwrap(), libraries, |_, _| yanked);
        found.into_iter().map(|finding| finding.message + "\n").collect()
    }

    #[test]
    fn what_the_rules_allow_is_allowed() {
        assert_eq!(messages(&good(), Some(false)), "");
    }

    #[test]
    fn a_licence_that_is_not_listed_is_found() {
        for terms in ["GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0", "", "no licence"] {
            let mut libraries = good();
            libraries.push(library("other", "1.0.0", terms));
            assert!(messages(&libraries, Some(false)).contains("other 1.0.0"), "{terms}");
        }
    }

    #[test]
    fn a_second_version_and_a_needless_skip_are_found() {
        let mut libraries = good();
        libraries.push(library("odd", "2.0.0", "MIT"));
        assert!(
            messages(&libraries, Some(false))
                .contains("odd is built in several versions: 1.0.0, 2.0.0")
        );
        libraries.truncate(2);
        assert!(messages(&libraries, Some(false)).contains("old@0.1 is skipped without need"));
        assert!(messages(&[], Some(false)).contains("an exception for odd, which is not used"));
    }

    #[test]
    fn a_yanked_crate_is_found_and_so_is_one_that_no_index_knows() {
        assert!(messages(&good(), Some(true)).contains("odd 1.0.0 was yanked"));
        assert!(messages(&good(), None).contains("no index says whether odd 1.0.0 was yanked"));
    }

    #[test]
    fn the_files_of_an_index_are_read() {
        let file = b"\x03\x02\0\0\0etag: x\x001.0.0\0{\"vers\":\"1.0.0\",\"yanked\":true}\x001.0.1\0{\"vers\":\"1.0.1\"}\0";
        assert_eq!(yanked_in(file, "1.0.0"), Some(true));
        assert_eq!(yanked_in(file, "1.0.1"), Some(false));
        assert_eq!(yanked_in(file, "2.0.0"), None);
        for (name, path) in [("h2", "2/h2"), ("tar", "3/t/tar"), ("Serde", "se/rd/serde")] {
            assert_eq!(index_path(name).unwrap(), Path::new(path));
        }
    }
}
