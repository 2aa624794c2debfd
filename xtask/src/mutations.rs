//! `cargo xtask mutations`: breaks the lab on purpose, place by place, and sees that a test notices.
//!
//! The work is done in a copy of the repository below `target/`, so the tree that it is started in
//! is never broken, not even when it is interrupted.

pub(crate) mod list;

use crate::repo;
use anyhow::{Context, Result, ensure};
use list::{Invariant, Mutation, ProgramAndTest};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask mutations [--write | I1 I2 …]
  (nothing)   break what each of the invariants rests on and see that its test fails
  I1 I2 …     only for these
  --write     make docs/truth.md from the list";

/// A test that has not ended by then was caught in a loop.
const TEST_TIME: Duration = Duration::from_secs(180);

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let root = repo::root();
    let text = std::fs::read_to_string(root.join(list::LIST)).context(list::LIST)?;
    let list = list::parse(&text)?;
    if args.iter().any(|arg| arg == "--write") {
        std::fs::write(root.join(list::PAGE), list::page(&list)).context(list::PAGE)?;
        return Ok(true);
    }
    let known = |arg: &String| list.invariants.iter().any(|invariant| invariant.id == *arg);
    ensure!(args.iter().all(known), "{USAGE}");
    let chosen = |invariant: &&Invariant| args.is_empty() || args.contains(&invariant.id);
    let invariants: Vec<_> = list.invariants.iter().filter(chosen).collect();

    let (copy, begin) = (Copy::make(&root)?, Instant::now());
    let broken = copy.broken_before(&invariants);
    let mut missed = BTreeSet::new();
    for (id, mutation) in in_order(&invariants) {
        let began = Instant::now();
        let verdict = match broken.get(&mutation.program_and_test()) {
            Some(why) => Verdict::Unknown(why.clone()),
            None => copy.try_out(mutation).unwrap_or_else(|error| Verdict::Unknown(told(&error))),
        };
        println!("{id:>4}  {verdict} {:>4} s  {}", began.elapsed().as_secs(), mutation.what);
        if !verdict.is_caught() {
            missed.insert(id);
        }
    }
    let (caught, all) = (invariants.len() - missed.len(), invariants.len());
    println!("{caught} of {all} caught, in {:.1} min", begin.elapsed().as_secs_f64() / 60.0);
    if !missed.is_empty() {
        println!("not caught: {}", missed.into_iter().collect::<Vec<_>>().join(" "));
    }
    Ok(caught == all)
}

/// The mutations of a crate one after the other: the crate of the last one must be compiled again without
/// it, which the next one does in any case if it is of the same crate.
fn in_order<'i>(invariants: &[&'i Invariant]) -> Vec<(&'i str, &'i Mutation)> {
    let of = |invariant: &'i Invariant| {
        invariant.mutations.iter().map(|mutation| (&*invariant.id, mutation))
    };
    let mut all: Vec<_> = invariants.iter().copied().flat_map(of).collect();
    all.sort_by_key(|(_, mutation)| (mutation.crate_folder().to_owned(), mutation.program()));
    all
}

fn told(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Caught,
    /// The test did not end.
    Hung,
    Missed,
    /// It was not tried: why.
    Unknown(String),
}

impl Verdict {
    fn is_caught(&self) -> bool {
        matches!(self, Self::Caught | Self::Hung)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Caught => f.write_str("caught     "),
            Self::Hung => f.write_str("did not end"),
            Self::Missed => f.write_str("MISSED     "),
            Self::Unknown(why) => write!(f, "NOT TRIED, {why}:"),
        }
    }
}

/// A copy of the repository with a target directory of its own.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
    /// Locked: two runs would break each other's copy.
    _lock: File,
}

impl Copy {
    /// Copies what git tracks and what it does not ignore. Files that have not changed since the
    /// last time are left alone, so that cargo does not build them again.
    fn make(root: &Path) -> Result<Self> {
        let target = repo::target();
        let (tree, target) = (target.join("mutations/tree"), target.join("mutations/target"));
        let listing = repo::output(Command::new("git").current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        std::fs::create_dir_all(&target)?;
        let lock = File::create(target.join("lock"))?;
        lock.lock().context("another run has the copy")?;
        let mut kept = BTreeSet::new();
        for path in listing.split_terminator('\0') {
            let Ok(octets) = std::fs::read(root.join(path)) else { continue };
            let to = tree.join(path);
            if std::fs::read(&to).ok().as_ref() != Some(&octets) {
                std::fs::create_dir_all(to.parent().unwrap_or(&tree))?;
                std::fs::write(&to, octets).with_context(|| to.display().to_string())?;
            }
            kept.insert(to);
        }
        remove_others(&tree, &kept)?;
        Ok(Self { tree, target, _lock: lock })
    }

    /// The tests that fail while nothing is broken, with the reason: their failure says nothing.
    fn broken_before(&self, invariants: &[&Invariant]) -> BTreeMap<ProgramAndTest, String> {
        let (mut seen, mut broken) = (BTreeSet::new(), BTreeMap::new());
        for (_, mutation) in in_order(invariants) {
            let test = mutation.program_and_test();
            if !seen.insert(test.clone()) {
                continue;
            }
            let why = match self.build(mutation).and_then(|()| self.test(mutation)) {
                Ok(Some(true)) => continue,
                Ok(Some(false)) => "its test fails though nothing is broken".to_owned(),
                Ok(None) => "its test does not end though nothing is broken".to_owned(),
                Err(error) => told(&error),
            };
            println!("{} of {}: {why}", mutation.test, mutation.package);
            broken.insert(test, why);
        }
        println!("{} tests pass while nothing is broken", seen.len() - broken.len());
        broken
    }

    /// Breaks one place, runs the test that should notice, and mends the place.
    fn try_out(&self, mutation: &Mutation) -> Result<Verdict> {
        let path = self.tree.join(&mutation.file);
        let text = std::fs::read_to_string(&path).with_context(|| mutation.file.clone())?;
        let broken = mutation.apply(&text).map_err(anyhow::Error::msg)?;
        std::fs::write(&path, broken)?;
        let result = self.build(mutation).and_then(|()| self.test(mutation));
        std::fs::write(&path, text)?;
        Ok(match result? {
            Some(true) => Verdict::Missed,
            Some(false) => Verdict::Caught,
            None => Verdict::Hung,
        })
    }

    fn cargo(&self, mutation: &Mutation) -> Command {
        let mut command = repo::cargo();
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.env("RUST_BACKTRACE", "0");
        // Each build differs from the last one by a line or two, and needs no debug information.
        command.env("CARGO_INCREMENTAL", "1");
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
        command.args(["test", "--quiet"]).args(mutation.program());
        command
    }

    /// A mutation must compile: what the compiler refuses needs no test.
    fn build(&self, mutation: &Mutation) -> Result<()> {
        repo::output(self.cargo(mutation).arg("--no-run")).map(drop)
    }

    /// Whether the one test passes; `None` if it does not end.
    fn test(&self, mutation: &Mutation) -> Result<Option<bool>> {
        let mut command = self.cargo(mutation);
        command.args(["--", "--exact", &mutation.test]).stderr(Stdio::null());
        // A file and not a pipe, which would fill up while nobody reads.
        let path = self.target.join("output.txt");
        command.stdout(File::create(&path)?).process_group(0);
        let Some(passed) = wait(command.spawn()?, TEST_TIME)? else { return Ok(None) };
        let output = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let ran = output.contains("running 1 test");
        ensure!(ran, "{} has no test {}: {output}", mutation.package, mutation.test);
        Ok(Some(passed))
    }
}

/// Whether `child` ended well; `None`, and its end, if it has not done so in `time`.
fn wait(mut child: Child, time: Duration) -> Result<Option<bool>> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Not only cargo but also the test that it runs: its process group.
    let group = format!("-{}", child.id());
    repo::run(Command::new("kill").args(["-KILL", "--", &group]))?;
    child.wait()?;
    Ok(None)
}

/// Removes files below `folder` that are not in `kept`.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mutations_of_a_crate_follow_each_other() {
        let mutation = |file: &str| {
            format!(
                "[[invariant.mutation]]\nwhat = \"it breaks\"\nfile = \"{file}\"\nfrom = 'a'\nto = 'b'\n\
                 package = \"p\"\ntest = \"m::t\"\n"
            )
        };
        let invariant = |id: &str, files: [&str; 2]| {
            let text = files.map(mutation).concat();
            format!("[[invariant]]\nid = \"{id}\"\nsays = \"it holds\"\n{text}")
        };
        let text = invariant("I1", ["lab/x/src/a.rs", "lab/y/src/a.rs"])
            + &invariant("I2", ["lab/x/src/b/c.rs", "lab/y/src/c.rs"]);
        let list = list::parse(&text).unwrap();
        let all: Vec<_> = list.invariants.iter().collect();
        let order = in_order(&all).into_iter().map(|(id, of)| format!("{id} {}", of.file));
        let expected =
            ["I1 lab/x/src/a.rs", "I2 lab/x/src/b/c.rs", "I1 lab/y/src/a.rs", "I2 lab/y/src/c.rs"];
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }
}
