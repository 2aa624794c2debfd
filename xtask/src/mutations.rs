//! `cargo xtask mutations`: breaks the lab on purpose, place by place, and sees that a test notices.
//!
//! The work is done in a copy of the repository below `target/`, so the tree that it is started in
//! is never broken, not even when it is interrupted.

pub(crate) mod list;

use crate::repo;
use anyhow::{Context, Result, bail, ensure};
use list::{Invariant, Mutation};
use std::collections::BTreeSet;
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

    let copy = Copy::make(&root)?;
    copy.check_unbroken(&invariants)?;
    let mut caught = 0;
    for invariant in &invariants {
        let mut all = true;
        for mutation in &invariant.mutations {
            let verdict = copy.try_out(mutation).with_context(|| mutation.what.clone())?;
            println!("{:>4}  {verdict:<12} {}", invariant.id, mutation.what);
            all &= verdict != Verdict::Missed;
        }
        caught += usize::from(all);
    }
    println!("{caught} of {} caught", invariants.len());
    Ok(caught == invariants.len())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Caught,
    /// The test did not end.
    Hung,
    Missed,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Caught => "caught",
            Self::Hung => "did not end",
            Self::Missed => "MISSED",
        })
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
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
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

    /// Every test passes while nothing is broken: else its failure would say nothing.
    fn check_unbroken(&self, invariants: &[&Invariant]) -> Result<()> {
        let mutations = invariants.iter().flat_map(|invariant| &invariant.mutations);
        let mut seen = BTreeSet::new();
        for mutation in mutations {
            if !seen.insert((&mutation.package, &mutation.test)) {
                continue;
            }
            self.build(mutation)?;
            match self.test(mutation)? {
                Some(true) => {}
                Some(false) => bail!("{} fails though nothing is broken", mutation.test),
                None => bail!("{} does not end", mutation.test),
            }
        }
        println!("{} tests pass while nothing is broken", seen.len());
        Ok(())
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
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        // Warnings are of no interest: broken code often has a variable too many.
        command.env("RUSTFLAGS", "-Awarnings").env("RUST_BACKTRACE", "0");
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
