//! `cargo xtask tidy`: the repository's rules as code.
//!
//! A rule is a function from the tree (or from what `cargo metadata` says) to findings. It reads no file itself, so
//! that its tests give it a bad sample and see that it fails.

mod crates;
mod deny;
mod docs;
mod floors;
mod handlers;
mod lengths;
mod limits;
mod tokens;
mod truth;
mod words;

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo;

/// A breach of a rule: where and what, with what to do instead.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

fn finding(path: &str, line: usize, message: impl Into<String>) -> Finding {
    Finding { path: path.to_owned(), line, message: message.into() }
}

/// A file of the repository with its path relative to the root, `/` between parts.
struct File {
    path: String,
    text: String,
}

/// The files of the repository that are text: those that git tracks and new ones that it does not ignore.
struct Tree {
    files: Vec<File>,
    /// Every path, of binary files too.
    paths: Vec<String>,
}

impl Tree {
    fn read() -> Result<Self> {
        let root = repo::root();
        let listing = repo::output(Command::new("git").current_dir(&root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut tree = Tree { files: Vec::new(), paths: Vec::new() };
        for path in listing.split_terminator('\0') {
            // A file that was deleted but not yet committed is still listed.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            tree.paths.push(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(File { path: path.to_owned(), text });
            }
        }
        Ok(tree)
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| {
            file.path.rsplit_once('.').is_some_and(|(_, actual)| actual == extension)
        })
    }

    /// A path counts as present when a file has it or lies below it.
    fn has_path(&self, path: &str) -> bool {
        let below = format!("{path}/");
        path.is_empty() || self.paths.iter().any(|p| p == path || p.starts_with(&below))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Tree { files, paths }
    }
}

/// Checks every rule; true when none is broken.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    anyhow::ensure!(args.is_empty(), "tidy takes no arguments");
    let tree = Tree::read()?;
    let packages = crates::packages(&metadata(&["--no-deps".to_owned(), "--offline".to_owned()])?)?;
    let rules = deny::rules(&tree.file(deny::RULES).context(deny::RULES)?.text)?;
    let libraries = deny::libraries(&metadata(&rules.platforms())?)?;
    let indexes = deny::Indexes::find();

    let mut findings = Vec::new();
    findings.extend(tokens::check(&tree));
    findings.extend(lengths::check(&tree));
    findings.extend(crates::check(&tree, &packages));
    findings
        .extend(deny::check(&rules, &libraries, |name, version| indexes.is_yanked(name, version)));
    findings.extend(handlers::check(&tree));
    findings.extend(docs::check(&tree));
    findings.extend(floors::check(&tree));
    findings.extend(limits::check(&tree));
    findings.extend(truth::check(&tree));
    findings.extend(words::check(&tree));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {}", floors::summary(&tree));
    println!("tidy: {} files, {} findings", tree.paths.len(), findings.len());
    Ok(findings.is_empty())
}

fn metadata(arguments: &[String]) -> Result<String> {
    let mut command = repo::cargo();
    command.current_dir(repo::root()).args(["metadata", "--format-version=1", "--locked"]);
    repo::output(command.args(arguments))
}
