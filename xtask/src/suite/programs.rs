//! The test programs of the workspace: cargo builds them and says where they are.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Deserialize;

use crate::repo;

/// The programs that take longest and mostly wait. They start first: started last, one of them would run on alone. Those
/// that compute as long are not among them, as they would take the CPU from all three at once.
const LONGEST: [&str; 3] =
    ["-p nodens --test it", "-p nodens-lab --test it", "-p nodens-net --test it"];

/// The options with which `cargo test` runs all examples in documentation.
const EXAMPLES: [&str; 2] = ["--workspace", "--doc"];

/// How many of its tests run beside each other, for each CPU: nearly all of them wait, and it ends last.
const LONGEST_THREADS: usize = 3;

/// One program of tests, or all examples of the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The options with which `cargo test` runs nothing else: `-p nodens --test it`.
    pub(super) target: String,
    /// What is run; cargo itself for the examples.
    executable: Option<PathBuf>,
    /// Where cargo runs it: the folder of its package.
    folder: PathBuf,
    /// Whether it has unit tests: these compute, where integration tests mostly wait.
    computes: bool,
}

impl Program {
    /// The command that runs its tests, with arguments of its own.
    pub(super) fn command(&self, arguments: &[String]) -> Command {
        let Some(executable) = &self.executable else {
            let mut cargo = repo::cargo();
            cargo.current_dir(&self.folder).args(["test", "--no-fail-fast"]).args(EXAMPLES);
            return cargo;
        };
        let mut command = Command::new("nice");
        command.args(["-n", if self.computes { "5" } else { "0" }]).arg(executable).args(arguments);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        if self.target == LONGEST[0] {
            let cpus = std::thread::available_parallelism().map_or(2, usize::from);
            command.env("RUST_TEST_THREADS", (LONGEST_THREADS * cpus).to_string());
        }
        command
    }

    /// Arguments with which it runs this test and no other; of examples, all of them.
    pub(super) fn only(&self, test: &str) -> Vec<String> {
        match self.executable {
            Some(_) => ["--exact", test].map(str::to_owned).to_vec(),
            None => Vec::new(),
        }
    }

    fn rank(&self) -> (usize, bool) {
        let longest = LONGEST.iter().position(|target| *target == self.target);
        (longest.unwrap_or(LONGEST.len()), self.computes)
    }
}

/// A line of `cargo --message-format=json`, of which nothing else is needed.
#[derive(Deserialize)]
struct Message {
    package_id: Option<String>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

/// Builds what `cargo test` with these arguments would run. `None` if it cannot be built; cargo has said why.
pub(super) fn build(arguments: &[String]) -> anyhow::Result<Option<Vec<Program>>> {
    let mut cargo = repo::cargo();
    cargo.arg("test").args(arguments);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(lines).lines() {
        programs.extend(program(&line?));
    }
    programs.sort_by_key(Program::rank);
    Ok(child.wait()?.success().then_some(programs))
}

/// The examples in the documentation of all libraries, which cargo builds and runs itself.
pub(super) fn examples() -> Program {
    Program { target: EXAMPLES.join(" "), executable: None, folder: repo::root(), computes: true }
}

fn program(line: &str) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    // Programs and examples are built for the tests as well.
    message.profile.filter(|profile| profile.test)?;
    let (target, executable) = (message.target?, message.executable?);
    let package = package(message.package_id.as_deref()?)?;
    let (option, computes) = match target.kind.first()?.as_str() {
        "bin" => (format!("--bin {}", target.name), true),
        "test" => (format!("--test {}", target.name), false),
        _ => ("--lib".to_owned(), true),
    };
    Some(Program {
        target: format!("-p {package} {option}"),
        executable: Some(executable),
        folder: message.manifest_path?.parent()?.to_owned(),
        computes,
    })
}

/// The name in `path+file:///nodens/xtask#0.1.0` or `path+file:///nodens/judge#nodens-judge@0.1.0`.
fn package(id: &str) -> Option<&str> {
    let (path, version) = id.rsplit_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => path.rsplit('/').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn line(package: &str, kind: &str, name: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///n/{package}","manifest_path":"/n/a/Cargo.toml",
            "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":true}},"executable":"/n/t/x-1"}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn a_program_is_what_cargo_says() {
        let it = program(&line("nodens#0.1.0", "test", "it")).unwrap();
        assert_eq!((it.target.as_str(), it.computes), ("-p nodens --test it", false));
        assert_eq!(it.folder, Path::new("/n/a"));
        let unit = program(&line("judge#nodens-judge@0.1.0", "lib", "nodens_judge")).unwrap();
        assert_eq!((unit.target.as_str(), unit.computes), ("-p nodens-judge --lib", true));
        let main = program(&line("xtask#0.1.0", "bin", "xtask")).unwrap();
        assert_eq!(main.target, "-p xtask --bin xtask");
        let plain =
            line("nodens#0.1.0", "bin", "nodens").replace(r#""test":true"#, r#""test":false"#);
        for other in [&plain, r#"{"reason":"build-finished","success":true}"#, "", "warning: x"] {
            assert_eq!(program(other), None, "{other}");
        }
    }

    #[test]
    fn the_longest_come_first_and_those_that_compute_last() {
        let kinds = [("a#1", "lib", "a"), ("a#1", "test", "it"), ("nodens#1", "test", "it")];
        let mut programs: Vec<_> =
            kinds.iter().filter_map(|(id, kind, name)| program(&line(id, kind, name))).collect();
        programs.sort_by_key(Program::rank);
        let targets: Vec<_> = programs.iter().map(|program| program.target.as_str()).collect();
        assert_eq!(targets, ["-p nodens --test it", "-p a --test it", "-p a --lib"]);
    }
}
