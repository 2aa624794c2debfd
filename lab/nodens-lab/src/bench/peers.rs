//! The servers that are compared: where they are and how they are started.

use super::cells::{Arrangement, Cell};
use super::configs::{self, Chain, Setup};
use crate::child::in_path;
use anyhow::{Context, Result, bail};
use lab_load::Transport;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that is here.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) version: String,
    program: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Echo,
    /// With answers as long as those of Nodens.
    EchoLong,
    Nodens(Chain),
    CoreDns(Chain),
    Unbound,
    Dnsdist,
    Kresd,
    Recursor,
    Bind,
    Knot,
    Nsd,
    Pdns,
}

/// Every server that can be compared, by the name that is asked for.
const ALL: [(&str, Kind); 15] = [
    ("echo", Kind::Echo),
    ("echo-long", Kind::EchoLong),
    ("nodens", Kind::Nodens(Chain::Short)),
    ("nodens-k8s", Kind::Nodens(Chain::Cluster)),
    ("coredns", Kind::CoreDns(Chain::Short)),
    ("coredns-k8s", Kind::CoreDns(Chain::Cluster)),
    ("coredns-multisocket", Kind::CoreDns(Chain::Multisocket)),
    ("unbound", Kind::Unbound),
    ("dnsdist", Kind::Dnsdist),
    ("kresd", Kind::Kresd),
    ("recursor", Kind::Recursor),
    ("bind", Kind::Bind),
    ("knot", Kind::Knot),
    ("nsd", Kind::Nsd),
    ("pdns", Kind::Pdns),
];

/// Where Nodens and CoreDNS are, if they are not at their usual places.
pub(super) struct Programs<'a> {
    pub(super) nodens: Option<&'a Path>,
    pub(super) coredns: Option<&'a Path>,
}

/// A name, and why it cannot be measured.
pub(super) type Missing = (String, String);

/// The names of all servers.
pub(super) fn names() -> Vec<String> {
    ALL.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Looks for the wanted servers.
pub(super) fn find(
    wanted: &[String],
    programs: &Programs<'_>,
) -> Result<(Vec<Peer>, Vec<Missing>)> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for wanted in wanted {
        let Some((name, kind)) = ALL.iter().find(|(name, _)| name == wanted) else {
            bail!("unknown server `{wanted}`, expected one of {}", names().join(", "));
        };
        match kind.program(programs).filter(|program| program.is_file()) {
            Some(program) => {
                // Servers run in a directory of their own.
                let program = std::path::absolute(program)?;
                let version = kind.version(&program);
                found.push(Peer { name, version, program, kind: *kind });
            }
            None => missing.push((wanted.clone(), format!("get it with `{}`", kind.remedy()))),
        }
    }
    Ok((found, missing))
}

/// Where `cargo xtask peers coredns` keeps what it built.
fn kept_coredns() -> Option<PathBuf> {
    let cache = std::env::var_os("NODENS_PEERS_CACHE").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(".cache/peers"));
    Some(cache.join("bin/coredns")).filter(|program| program.is_file())
}

impl Kind {
    fn program(self, programs: &Programs<'_>) -> Option<PathBuf> {
        let this = || std::env::current_exe().ok();
        match self {
            Self::Echo | Self::EchoLong => this(),
            Self::Nodens(_) => {
                programs.nodens.map(Path::to_owned).or(this().map(|it| it.with_file_name("nodens")))
            }
            Self::CoreDns(_) => programs
                .coredns
                .map(Path::to_owned)
                .or_else(kept_coredns)
                .or_else(|| in_path("coredns")),
            Self::Unbound => in_path("unbound"),
            Self::Dnsdist => in_path("dnsdist"),
            Self::Kresd => in_path("kresd"),
            Self::Recursor => in_path("pdns_recursor"),
            Self::Bind => in_path("named"),
            Self::Knot => in_path("knotd"),
            Self::Nsd => in_path("nsd"),
            Self::Pdns => in_path("pdns_server"),
        }
    }

    /// How to get it.
    fn remedy(self) -> &'static str {
        match self {
            Self::Echo | Self::EchoLong | Self::Nodens(_) => {
                "cargo build --release -p nodens -p nodens-lab"
            }
            Self::CoreDns(_) => "cargo xtask peers coredns",
            Self::Unbound => "cargo xtask peers unbound",
            Self::Dnsdist => "cargo xtask peers dnsdist",
            Self::Kresd => "cargo xtask peers knot-resolver",
            Self::Recursor => "cargo xtask peers pdns-recursor",
            Self::Bind => "cargo xtask peers bind9",
            Self::Knot => "cargo xtask peers knot",
            Self::Nsd => "cargo xtask peers nsd",
            Self::Pdns => "cargo xtask peers pdns-server pdns-backend-bind",
        }
    }

    /// The first line in which a program says its version.
    fn version(self, program: &Path) -> String {
        let argument = match self {
            Self::Echo | Self::EchoLong => return env!("CARGO_PKG_VERSION").to_owned(),
            Self::Nodens(_) | Self::CoreDns(_) => "-version",
            Self::Unbound | Self::Bind | Self::Kresd => "-V",
            Self::Dnsdist | Self::Recursor | Self::Knot | Self::Pdns => "--version",
            Self::Nsd => "-v",
        };
        let Ok(output) = Command::new(program).arg(argument).output() else {
            return "unknown".to_owned();
        };
        let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        let text = String::from_utf8_lossy(&said);
        let line = text.lines().find(|line| line.bytes().any(|octet| octet.is_ascii_digit()));
        // Some put a time stamp before what they say.
        line.map_or("unknown", |line| line.rsplit(" PowerDNS ").next().unwrap_or(line))
            .trim()
            .to_owned()
    }
}

impl Peer {
    /// Whether it answers from its own data alone, or not from data at all.
    pub(super) fn asks_nobody(&self) -> bool {
        matches!(self.kind, Kind::Echo | Kind::EchoLong | Kind::Knot | Kind::Nsd | Kind::Pdns)
    }

    /// Whether it has to know how long the responses of Nodens are.
    pub(super) fn wants_lengths(&self) -> bool {
        self.kind == Kind::EchoLong
    }

    /// Whether it serves this transport.
    fn speaks(&self, transport: Transport) -> bool {
        match self.kind {
            Kind::Echo | Kind::Nodens(Chain::Short) | Kind::CoreDns(Chain::Short) => true,
            Kind::Unbound | Kind::Dnsdist | Kind::Kresd => {
                !matches!(transport, Transport::Doq | Transport::Doh3)
            }
            _ => false,
        }
    }

    /// Whether it is set up with a zone.
    fn serves_zones(&self) -> bool {
        let is_authority = matches!(self.kind, Kind::Bind | Kind::Knot | Kind::Nsd | Kind::Pdns);
        let short = [Kind::Nodens(Chain::Short), Kind::CoreDns(Chain::Short)];
        let is_echo = matches!(self.kind, Kind::Echo | Kind::EchoLong);
        is_authority || is_echo || short.contains(&self.kind)
    }

    /// Whether it can be set up this way.
    pub(super) fn fits(&self, arrangement: Arrangement) -> bool {
        let corefile = matches!(self.kind, Kind::Nodens(_) | Kind::CoreDns(_));
        let knows_names = corefile || matches!(self.kind, Kind::Unbound | Kind::Dnsdist);
        match arrangement {
            // Several sockets make no difference to one CPU.
            _ if self.kind == Kind::CoreDns(Chain::Multisocket) => {
                arrangement == Arrangement::TwoCpus
            }
            Arrangement::LargeZone | Arrangement::RootZone | Arrangement::SignedZone => {
                self.serves_zones()
            }
            _ if matches!(self.kind, Kind::Pdns | Kind::EchoLong) => false,
            Arrangement::OneCpu
            | Arrangement::TwoCpus
            | Arrangement::SameCpu
            | Arrangement::Held => true,
            Arrangement::Internal => knows_names || self.kind == Kind::Kresd,
            Arrangement::Uncached => knows_names,
            Arrangement::Memory => !self.asks_nobody(),
            Arrangement::Busy => corefile,
            // Others cannot, or not in this version.
            Arrangement::ForwardDot => knows_names || self.kind == Kind::Kresd,
            Arrangement::ForwardDoh => corefile || self.kind == Kind::Dnsdist,
            Arrangement::ForwardDoq => corefile,
            Arrangement::Dot | Arrangement::Doh | Arrangement::Doq | Arrangement::Doh3 => {
                arrangement.encrypted().is_some_and(|transport| self.speaks(transport))
            }
            Arrangement::Kubernetes | Arrangement::UncachedKubernetes => {
                matches!(self.kind, Kind::Nodens(Chain::Cluster) | Kind::CoreDns(Chain::Cluster))
            }
        }
    }

    /// Whether a cell says anything about it.
    pub(super) fn measures(&self, cell: Cell) -> bool {
        match cell {
            Cell::Misses => !self.asks_nobody(),
            _ => true,
        }
    }

    /// The command that serves in the foreground until it is killed. Files go to the setup's folder.
    pub(super) fn command(&self, setup: &Setup) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.current_dir(&setup.folder);
        let write = |name: &str, text: &str| {
            let path = setup.folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))
                .map(|()| path)
        };
        match self.kind {
            Kind::Echo => echo(&mut command, setup),
            Kind::EchoLong => {
                echo(&mut command, setup);
                let octets = setup.zone.as_ref().map_or(0, |zone| zone.octets);
                command.args(["--octets", &octets.to_string()]);
            }
            Kind::Nodens(chain) | Kind::CoreDns(chain) => {
                let file = write("Corefile", &configs::corefile(setup, chain))?;
                let port = setup.address.port().to_string();
                command.arg("-conf").arg(file).args(["-dns.port", &port]);
                command.env("GOMAXPROCS", setup.threads.to_string());
            }
            Kind::Unbound => {
                command.arg("-d").arg("-c").arg(write("unbound.conf", &configs::unbound(setup))?);
            }
            Kind::Dnsdist => {
                command.args(["--supervised", "--disable-syslog", "-C"]);
                command.arg(write("dnsdist.conf", &configs::dnsdist(setup))?);
            }
            Kind::Kresd => {
                command.arg("-n").arg("-c").arg(write("kresd.conf", &configs::kresd(setup))?);
                // `-f 1` is deprecated, more than one process is not.
                if setup.threads > 1 {
                    command.args(["-f", &setup.threads.to_string()]);
                }
                command.arg(&setup.folder);
            }
            Kind::Recursor => {
                write("recursor.conf", &configs::recursor(setup))?;
                command.arg(format!("--config-dir={}", setup.folder.display()));
            }
            Kind::Bind => {
                command.arg("-f").args(["-n", &setup.threads.to_string()]);
                command.arg("-c").arg(write("named.conf", &configs::bind(setup))?);
            }
            Kind::Knot => {
                if setup.zone.is_none() {
                    write("example.zone", &configs::zone())?;
                }
                command.arg("-c").arg(write("knot.conf", &configs::knot(setup))?);
            }
            Kind::Nsd => {
                if setup.zone.is_none() {
                    write("example.zone", &configs::zone())?;
                }
                command.arg("-d").arg("-c").arg(write("nsd.conf", &configs::nsd(setup))?);
            }
            Kind::Pdns => {
                let (settings, zones) = configs::pdns(setup);
                write("pdns.conf", &settings)?;
                write("zones.conf", &zones)?;
                know_signatures(setup)?;
                command.arg(format!("--config-dir={}", setup.folder.display()));
            }
        }
        Ok(command)
    }
}

fn echo(command: &mut Command, setup: &Setup) {
    command.arg("echo");
    let mut modes = "udp,tcp".to_owned();
    if let Some(own) = &setup.encrypted {
        modes = format!("{modes},{}", own.transport);
        command.arg("--tls-cert").arg(&own.certificate).arg("--tls-key").arg(&own.key);
        command.args(["--tls-listen", &own.address.to_string()]);
    }
    command.args(["--mode", &modes, "--listen", &setup.address.to_string()]);
    command.args(["--threads", &setup.threads.to_string()]);
}

/// Tells PowerDNS whether its zone is signed: it keeps that in a database beside the file.
fn know_signatures(setup: &Setup) -> Result<()> {
    let config = format!("--config-dir={}", setup.folder.display());
    let run = |arguments: &[&str]| {
        let output = Command::new("pdnsutil").arg(&config).args(arguments).output();
        let output = output.context("cannot run pdnsutil")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("pdnsutil {} failed: {}", arguments.join(" "), said.trim());
        }
        Ok(())
    };
    run(&["create-bind-db", &setup.folder.join("signed.db").to_string_lossy()])?;
    match setup.zone.as_ref().filter(|zone| zone.signed) {
        Some(zone) => run(&["set-presigned", zone.origin]),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_program_is_found_from_anywhere_and_a_missing_one_named() {
        let wanted = ["nodens".to_owned(), "coredns".to_owned()];
        let programs = Programs {
            nodens: Some(Path::new("Cargo.toml")),
            coredns: Some(Path::new("not/here")),
        };
        let (found, missing) = find(&wanted, &programs).unwrap();
        assert!(found[0].program.is_absolute() && found.len() == 1);
        assert_eq!(missing[0].0, "coredns");
        assert!(find(&["bogus".to_owned()], &programs).is_err());
    }
}
