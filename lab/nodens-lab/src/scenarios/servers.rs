//! The servers of the scenarios: how each is started as a secondary of the lab's primary, or with a master
//! file, and what it takes of the memory.

use super::configs;
use super::zones::member;
use crate::child::{Server, in_path};
use anyhow::{Context, Result};
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that is here.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) version: String,
    kind: Kind,
    program: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Nodens,
    Knot,
    Nsd,
    Bind,
}

const ALL: [(&str, Kind); 4] =
    [("nodens", Kind::Nodens), ("knot", Kind::Knot), ("nsd", Kind::Nsd), ("bind", Kind::Bind)];

/// What a server is started for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It transfers a catalog and its members, and keeps them on disk.
    Members,
    /// It transfers one zone, and keeps it on disk.
    Secondary,
    /// It has one zone in a master file, which it hands on.
    File,
}

/// One server to be started.
pub(super) struct Setup {
    pub(super) role: Role,
    pub(super) address: SocketAddr,
    pub(super) primary: SocketAddr,
    /// For the server's own files, which it finds again when it is started anew.
    pub(super) folder: PathBuf,
    /// CPUs that it may use.
    pub(super) threads: usize,
    /// Members that a server without catalogs is told of.
    pub(super) members: u32,
    /// The master file.
    pub(super) file: PathBuf,
    /// A secondary that is told of changes.
    pub(super) secondaries: Vec<SocketAddr>,
}

/// A name, and why it cannot be measured.
type Missing = (String, String);

/// The names of all servers.
pub(super) fn names() -> Vec<String> {
    ALL.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Looks for the wanted servers; those that are not here come with how to get them.
pub(super) fn find(wanted: &[String], nodens: Option<&Path>) -> Result<(Vec<Peer>, Vec<Missing>)> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for wanted in wanted {
        let Some((name, kind)) = ALL.iter().find(|(name, _)| name == wanted) else {
            anyhow::bail!("unknown server `{wanted}`, expected one of {}", names().join(", "));
        };
        match kind.program(nodens).filter(|program| program.is_file()) {
            Some(program) => {
                // Servers run in a directory of their own.
                let program = std::path::absolute(program)?;
                let version = kind.version(&program);
                found.push(Peer { name, version, kind: *kind, program });
            }
            None => missing.push((wanted.clone(), format!("get it with `{}`", kind.remedy()))),
        }
    }
    Ok((found, missing))
}

impl Kind {
    fn program(self, nodens: Option<&Path>) -> Option<PathBuf> {
        match self {
            Self::Nodens => {
                let beside = || Some(std::env::current_exe().ok()?.with_file_name("nodens"));
                nodens.map(Path::to_owned).or_else(beside)
            }
            Self::Knot => in_path("knotd"),
            Self::Nsd => in_path("nsd"),
            Self::Bind => in_path("named"),
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Nodens => "cargo build --release -p nodens -p nodens-lab",
            Self::Knot => "cargo xtask peers knot",
            Self::Nsd => "cargo xtask peers nsd",
            Self::Bind => "cargo xtask peers bind9",
        }
    }

    fn version(self, program: &Path) -> String {
        let argument = match self {
            Self::Nodens => "-version",
            Self::Knot => "--version",
            Self::Nsd => "-v",
            Self::Bind => "-V",
        };
        let Ok(output) = Command::new(program).arg(argument).output() else {
            return "unknown".to_owned();
        };
        let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        let text = String::from_utf8_lossy(&said);
        let line = text.lines().find(|line| line.bytes().any(|octet| octet.is_ascii_digit()));
        line.unwrap_or("unknown").trim().to_owned()
    }
}

impl Peer {
    /// Whether it has catalogs (RFC 9432).
    pub(super) fn has_catalogs(&self) -> bool {
        // NSD has them since 4.9.
        self.kind != Kind::Nsd
    }

    /// Whether it looks at files only when it gets SIGHUP.
    pub(super) fn needs_signal(&self) -> bool {
        self.kind != Kind::Nodens
    }

    /// Writes its configuration and starts it on `cpus`. Its files stay, those of an earlier start with them.
    pub(super) fn start(&self, setup: &Setup, cpus: &[usize]) -> Result<Server> {
        for folder in ["zones", "db", "store"] {
            std::fs::create_dir_all(setup.folder.join(folder))?;
        }
        let mut command = self.command(setup)?;
        Server::start(self.name, &mut command, cpus, &setup.folder.join("log"))
    }

    fn command(&self, setup: &Setup) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.current_dir(&setup.folder);
        let write = |name: &str, text: &str| {
            let path = setup.folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))
                .map(|()| path)
        };
        match self.kind {
            Kind::Nodens => {
                command.arg("-conf").arg(write("Corefile", &configs::corefile(setup))?);
            }
            Kind::Knot => {
                command.arg("-c").arg(write("knot.conf", &configs::knot(setup))?);
            }
            Kind::Nsd => {
                if setup.role == Role::Members {
                    write_zone_list(&setup.folder.join("zone.list"), setup.members)?;
                }
                command.arg("-d").arg("-c").arg(write("nsd.conf", &configs::nsd(setup))?);
            }
            Kind::Bind => {
                command.arg("-f").args(["-n", &setup.threads.to_string()]);
                command.arg("-c").arg(write("named.conf", &configs::bind(setup))?);
            }
        }
        Ok(command)
    }
}

/// The members as NSD reads them at its start: it has no catalogs.
fn write_zone_list(path: &Path, members: u32) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    writeln!(out, "# NSD zone list\n# name pattern")?;
    for number in 0..members {
        let name = member(number)?.to_string();
        writeln!(out, "add {} member", name.trim_end_matches('.'))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_known_is_refused_with_those_that_are() {
        let error = find(&["bogus".to_owned()], None).err().unwrap().to_string();
        assert_eq!(error, "unknown server `bogus`, expected one of nodens, knot, nsd, bind");
        let (found, missing) = find(&["nodens".to_owned()], Some(Path::new("not/here"))).unwrap();
        assert!(found.is_empty() && missing[0].1.contains("cargo build"));
    }
}
