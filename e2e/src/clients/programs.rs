//! The clients: small programs around the resolvers that applications have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::pods::Pod;

/// Looks names up with `getaddrinfo`.
const C: &str = include_str!("../../../crates/nodens/tests/clients/lookup.c");
/// Looks names up with Go's own resolver.
const GO: &str = include_str!("../../../crates/nodens/tests/clients/lookup.go");
/// Looks names up with `InetAddress`.
const JAVA: &str = include_str!("../../../crates/nodens/tests/clients/Lookup.java");

/// A client, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    command: Vec<String>,
    /// How many types of addresses it asks for.
    pub(super) types: usize,
    is_dig: bool,
}

/// Builds all of them in `folder`.
pub(crate) fn build(folder: &Path) -> Result<Vec<Program>> {
    let glibc = c(folder, "gcc", "gcc")?;
    let musl = c(folder, "musl-gcc", "musl-tools")?;
    let java = java(folder)?;
    let program = |name, command: Vec<String>| Program { name, command, types: 2, is_dig: false };
    need("dig", "-v", "dnsutils")?;
    let dig = Program { name: "dig", command: vec!["dig".to_owned()], types: 1, is_dig: true };
    Ok(vec![
        program("glibc", vec![path(&glibc)]),
        program("musl", vec![path(&musl)]),
        program("Go", vec![path(&go(folder)?)]),
        program(
            "Java",
            vec!["java".to_owned(), "-cp".to_owned(), path(&java), "Lookup".to_owned()],
        ),
        dig,
    ])
}

impl Program {
    /// The command line that looks `names` up.
    pub(crate) fn command(&self, names: &[&str]) -> Vec<String> {
        let mut command = self.command.clone();
        for name in names {
            command.push((*name).to_owned());
            if self.is_dig {
                let options = ["A", "+search", "+noall", "+answer", "+timeout=30"];
                command.extend(options.map(str::to_owned));
            }
        }
        command
    }

    /// Whether a search in this pod ends at a name that exists.
    pub(super) fn finds(&self, pod: &Pod, name: &str) -> bool {
        let domain = match name {
            "www.example.org" | "old.example.org" => return true,
            "printer" => "node.test",
            "box" => "lab.test",
            "web" | "peers" | "peer-0.peers" | "ext" => "default.svc.cluster.local",
            "db.other" => "svc.cluster.local",
            "kubernetes.default.svc" => "cluster.local",
            _ => return false,
        };
        // musl does not search for names with dots enough.
        let searches = self.name != "musl" || name.matches('.').count() < pod.ndots;
        searches && pod.search.contains(&domain)
    }

    /// The lines `NAME ADDRESS` of what it wrote, sorted; dig does not say what it looked for.
    pub(super) fn addresses(&self, output: &str) -> Vec<String> {
        let mut lines: Vec<String> = match self.is_dig {
            true => {
                let records = output.lines().filter(|line| line.contains("\tA\t"));
                records.filter_map(|line| Some(line.rsplit('\t').next()?.to_owned())).collect()
            }
            false => output.lines().filter(|line| !line.contains(": ")).map(spelled).collect(),
        };
        lines.sort();
        lines
    }
}

/// `NAME ADDRESS` with the address in its usual form, which Java does not write.
fn spelled(line: &str) -> String {
    let parsed = line.split_once(' ').and_then(|(name, address)| {
        let address: std::net::IpAddr = address.parse().ok()?;
        Some(format!("{name} {address}"))
    });
    parsed.unwrap_or_else(|| line.to_owned())
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn need(program: &str, version: &str, package: &str) -> Result<()> {
    match Command::new(program).arg(version).output() {
        Ok(_) => Ok(()),
        Err(error) => bail!("'{program}' is missing ({error}): run 'apt-get install {package}'"),
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn compile(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn c(folder: &Path, compiler: &str, package: &str) -> Result<PathBuf> {
    need(compiler, "--version", package)?;
    let folder = folder.join(compiler);
    let source = write(&folder, "lookup.c", C)?;
    let program = folder.join("lookup");
    compile(Command::new(compiler).arg("-o").arg(&program).arg(source))?;
    Ok(program)
}

fn go(folder: &Path) -> Result<PathBuf> {
    need("go", "version", "golang-go")?;
    let folder = folder.join("go");
    write(&folder, "go.mod", "module lookup\n\ngo 1.21\n")?;
    write(&folder, "main.go", GO)?;
    let program = folder.join("lookup");
    let mut build = Command::new("go");
    build.current_dir(&folder).env("CGO_ENABLED", "0").args(["build", "-o"]).arg(&program);
    compile(&mut build)?;
    Ok(program)
}

fn java(folder: &Path) -> Result<PathBuf> {
    need("java", "-version", "default-jdk-headless")?;
    need("javac", "-version", "default-jdk-headless")?;
    let folder = folder.join("java");
    let source = write(&folder, "Lookup.java", JAVA)?;
    compile(Command::new("javac").arg("-d").arg(&folder).arg(source))?;
    Ok(folder)
}
