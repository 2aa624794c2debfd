//! The servers that are compared: where they are, how they are started, and with what settings.
//!
//! All of them get one thread, a cache for a million entries, no log of questions, and the embedded
//! upstream. CoreDNS and Nodens get the chain of a Kubernetes Corefile and the same file.

use crate::child::{Scratch, in_path};
use anyhow::{Result, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where one started server listens and asks.
pub(super) struct Setup {
    pub(super) address: SocketAddr,
    pub(super) metrics: SocketAddr,
    pub(super) upstream: SocketAddr,
}

/// A server that is here.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Whether it has a cache that can be missed.
    pub(super) caches: bool,
    pub(super) version: String,
    program: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Echo,
    Corefile,
    Unbound,
    Dnsdist,
}

/// A name, and why it cannot be measured.
pub(super) type Missing = (String, String);

/// Looks for the wanted servers.
pub(super) fn find(
    wanted: &[String],
    nodens: Option<&Path>,
    coredns: Option<&Path>,
) -> Result<(Vec<Peer>, Vec<Missing>)> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in wanted {
        let (name, kind, program, remedy) = match name.as_str() {
            "echo" => ("echo", Kind::Echo, std::env::current_exe().ok(), ""),
            "nodens" => {
                let beside = std::env::current_exe()?.with_file_name("nodens");
                let program = Some(nodens.map_or(beside, Path::to_owned));
                ("nodens", Kind::Corefile, program, "cargo build --release -p nodens")
            }
            "coredns" => {
                let program = coredns
                    .map(Path::to_owned)
                    .or_else(kept_coredns)
                    .or_else(|| in_path("coredns"));
                ("coredns", Kind::Corefile, program, "cargo xtask peers coredns")
            }
            "unbound" => {
                ("unbound", Kind::Unbound, in_path("unbound"), "cargo xtask peers unbound")
            }
            "dnsdist" => {
                ("dnsdist", Kind::Dnsdist, in_path("dnsdist"), "cargo xtask peers dnsdist")
            }
            _ => {
                bail!("unknown server `{name}`, expected echo, nodens, coredns, unbound or dnsdist")
            }
        };
        match program.filter(|program| program.is_file()) {
            Some(program) => {
                // Servers run in a directory of their own.
                let program = std::path::absolute(program)?;
                let version = version(kind, &program);
                let caches = !matches!(kind, Kind::Echo);
                found.push(Peer { name, caches, version, program, kind });
            }
            None => missing.push((name.to_owned(), format!("get it with `{remedy}`"))),
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

/// The first line in which a program says its version.
fn version(kind: Kind, program: &Path) -> String {
    let argument = match kind {
        Kind::Echo => return env!("CARGO_PKG_VERSION").to_owned(),
        Kind::Corefile => "-version",
        Kind::Unbound => "-V",
        Kind::Dnsdist => "--version",
    };
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or("unknown").trim().to_owned()
}

impl Peer {
    /// The command that serves in the foreground until it is killed.
    pub(super) fn command(&self, setup: &Setup, scratch: &Scratch) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.current_dir(scratch.path());
        match self.kind {
            Kind::Echo => {
                command.args(["echo", "--listen", &setup.address.to_string()]);
            }
            Kind::Corefile => {
                let file = scratch.write("Corefile", &corefile(setup))?;
                let port = setup.address.port().to_string();
                command.arg("-conf").arg(file).args(["-dns.port", &port]).env("GOMAXPROCS", "1");
            }
            Kind::Unbound => {
                let file = scratch.write("unbound.conf", &unbound(setup))?;
                command.arg("-d").arg("-c").arg(file);
            }
            Kind::Dnsdist => {
                let file = scratch.write("dnsdist.conf", &dnsdist(setup))?;
                command.args(["--supervised", "--disable-syslog", "-C"]).arg(file);
            }
        }
        Ok(command)
    }
}

/// The chain of a cluster's Corefile without `kubernetes`.
fn corefile(setup: &Setup) -> String {
    let Setup { address, metrics, upstream } = setup;
    let (ip, port) = (address.ip(), address.port());
    format!(
        ".:{port} {{
    bind {ip}
    errors
    prometheus {metrics}
    forward . {upstream}
    cache 3600 {{
        success 1000000
        denial 1000000
    }}
    loadbalance
}}
"
    )
}

fn unbound(setup: &Setup) -> String {
    let Setup { address, upstream, .. } = setup;
    let (ip, port, to, to_port) = (address.ip(), address.port(), upstream.ip(), upstream.port());
    format!(
        "server:
    interface: {ip}@{port}
    port: {port}
    num-threads: 1
    do-daemonize: no
    chroot: \"\"
    username: \"\"
    pidfile: \"\"
    use-syslog: no
    verbosity: 0
    module-config: \"iterator\"
    do-not-query-localhost: no
    access-control: 127.0.0.0/8 allow
    msg-cache-size: 512m
    rrset-cache-size: 1g
    outgoing-range: 4096
    num-queries-per-thread: 2048
    minimal-responses: yes
remote-control:
    control-enable: no
forward-zone:
    name: \".\"
    forward-addr: {to}@{to_port}
"
    )
}

fn dnsdist(setup: &Setup) -> String {
    let Setup { address, upstream, .. } = setup;
    format!(
        "setLocal(\"{address}\")
setSecurityPollSuffix(\"\")
newServer({{address=\"{upstream}\", sockets=1}}):setUp()
getPool(\"\"):setCache(newPacketCache(1000000))
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_program_is_found_from_anywhere_and_a_missing_one_named() {
        let wanted = ["nodens".to_owned(), "coredns".to_owned()];
        let (here, not_here) = (Path::new("Cargo.toml"), Path::new("not/here"));
        let (found, missing) = find(&wanted, Some(here), Some(not_here)).unwrap();
        assert!(found[0].program.is_absolute() && found.len() == 1);
        assert_eq!(missing[0].0, "coredns");
        assert!(find(&["bogus".to_owned()], None, None).is_err());
    }
}
