//! `cargo xtask peers`: the programs that checks compare Nodens with or drive it by.
//!
//! A check that needs a peer calls [`coredns`] and fails when it cannot be had; nothing is skipped because a peer is
//! missing.

mod etcd;
mod golang;
mod kubernetes;
mod node_cache;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::repo;

/// The version of CoreDNS whose behaviour is the reference.
pub(crate) const COREDNS_VERSION: &str = "1.15.0";
/// The Go module that holds CoreDNS, its READMEs among it.
pub(crate) const COREDNS_MODULE: &str = "github.com/coredns/coredns";

/// Debian's package of Go.
const GO: &str = "golang-go";

/// The interpreter that Debian's Python packages are for; another one may come first in `PATH`.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// How to see that a Debian package is there, without asking a package manager.
enum Probe {
    Program(&'static str),
    File(&'static str),
    PythonModule(&'static str),
}

struct Package {
    name: &'static str,
    probe: Probe,
    /// `cargo test` needs it; others serve longer checks.
    for_tests: bool,
}

const fn tool(name: &'static str, program: &'static str) -> Package {
    Package { name, probe: Probe::Program(program), for_tests: true }
}

const fn peer(name: &'static str, program: &'static str) -> Package {
    Package { name, probe: Probe::Program(program), for_tests: false }
}

const PACKAGES: &[Package] = &[
    tool("dnsutils", "dig"),
    tool("knot-dnsutils", "kdig"),
    tool("gcc", "gcc"),
    tool("knot", "knotd"),
    tool("musl-tools", "musl-gcc"),
    tool(GO, "go"),
    tool("iproute2", "ip"),
    tool("procps", "kill"),
    tool("util-linux", "unshare"),
    tool("systemd", "systemd-analyze"),
    Package { name: "libc-ares-dev", probe: Probe::File("/usr/include/ares.h"), for_tests: true },
    Package { name: "python3-dnspython", probe: Probe::PythonModule("dns"), for_tests: true },
    Package { name: "python3-httpx", probe: Probe::PythonModule("httpx"), for_tests: true },
    Package { name: "python3-h2", probe: Probe::PythonModule("h2"), for_tests: true },
    Package {
        name: "python3-prometheus-client",
        probe: Probe::PythonModule("prometheus_client"),
        for_tests: true,
    },
    Package {
        name: "python3-protobuf",
        probe: Probe::PythonModule("google.protobuf"),
        for_tests: true,
    },
    tool("curl", "curl"),
    tool("openssl", "openssl"),
    tool("unbound", "unbound"),
    tool("dnsdist", "dnsdist"),
    tool("knot-resolver", "kresd"),
    tool("stubby", "stubby"),
    peer("pdns-recursor", "pdns_recursor"),
    tool("bind9", "named"),
    tool("bind9-utils", "dnssec-signzone"),
    tool("knot-dnssecutils", "kzonecheck"),
    tool("ldnsutils", "ldns-verify-zone"),
    peer("knot", "knotd"),
    tool("nsd", "nsd"),
    tool("pdns-server", "pdns_server"),
    Package {
        name: "pdns-backend-bind",
        probe: Probe::File("/var/lib/dpkg/info/pdns-backend-bind.list"),
        for_tests: true,
    },
    Package {
        name: "pdns-backend-sqlite3",
        probe: Probe::File("/var/lib/dpkg/info/pdns-backend-sqlite3.list"),
        for_tests: true,
    },
    tool("sqlite3", "sqlite3"),
    tool("dnsperf", "dnsperf"),
    peer("valgrind", "valgrind"),
    tool("nftables", "nft"),
    tool("iptables", "iptables-legacy"),
    peer("conntrack", "conntrack"),
    peer("etcd-server", "etcd"),
    peer("runc", "runc"),
    tool("default-jdk-headless", "javac"),
];

/// Makes the named peers available, with `--tests` those that `cargo test` needs, or all when none is named.
pub(crate) fn run(names: &[String]) -> Result<bool> {
    let groups = kubernetes::GROUPS.iter().map(|(name, _)| *name);
    let built: Vec<&str> = ["coredns", "etcd", "node-cache"]
        .into_iter()
        .chain(groups)
        .chain(golang::names())
        .collect();
    let known = |name: &str| {
        built.contains(&name) || name == "--tests" || PACKAGES.iter().any(|p| p.name == name)
    };
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = built.into_iter().chain(PACKAGES.iter().map(|p| p.name)).collect();
        bail!("unknown peer '{unknown}', expected one of: {}", all.join(" "));
    }
    let named = |name: &str| names.iter().any(|n| n == name);
    let mut complete = true;
    for name in built.into_iter().filter(|name| names.is_empty() || named(name)) {
        let path = match name {
            "coredns" => coredns(),
            "node-cache" => node_cache(),
            "etcd" => cache().and_then(|cache| etcd::build(&cache)),
            group if golang::names().any(|name| name == group) => {
                cache().and_then(|cache| golang::build(&cache, group))
            }
            group => cache().and_then(|cache| kubernetes::build(&cache, group)),
        };
        match path {
            Ok(path) => println!("{name}: {}", path.display()),
            Err(error) => {
                complete = false;
                println!("{name}: missing: {error:#}");
            }
        }
    }
    let wanted = |package: &&Package| {
        names.is_empty() || named(package.name) || (package.for_tests && named("--tests"))
    };
    let packages: Vec<&Package> = PACKAGES.iter().filter(wanted).collect();
    Ok(debian(&packages)? && complete)
}

/// The path of the CoreDNS binary of [`COREDNS_VERSION`], built with the Go toolchain when it is not there yet.
///
/// It is kept in the folder `bin` of the cache.
pub(crate) fn coredns() -> Result<PathBuf> {
    let bin = cache()?.join("bin");
    let path = bin.join("coredns");
    if is_wanted_coredns(&path) {
        return Ok(path);
    }
    let go = go()?;
    eprintln!("building CoreDNS {COREDNS_VERSION} (once, a few minutes) …");
    std::fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    repo::run(
        Command::new(go)
            .arg("install")
            .arg(format!("{COREDNS_MODULE}@v{COREDNS_VERSION}"))
            .env("GOBIN", &bin)
            .env("CGO_ENABLED", "0"),
    )?;
    if !is_wanted_coredns(&path) {
        bail!("{} does not report version {COREDNS_VERSION}", path.display());
    }
    Ok(path)
}

/// The folder of the Go module of [`COREDNS_VERSION`], fetched when it is not there yet.
pub(crate) fn coredns_source() -> Result<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Module {
        dir: PathBuf,
    }
    let module = format!("{COREDNS_MODULE}@v{COREDNS_VERSION}");
    let json = repo::output(Command::new(go()?).args(["mod", "download", "-json", &module]))?;
    let module: Module = serde_json::from_str(&json).context("go mod download -json")?;
    Ok(module.dir)
}

/// The path of node-cache, built when it is not there yet.
pub(crate) fn node_cache() -> Result<PathBuf> {
    node_cache::build(&cache()?)
}

/// Go, for what is built here. Debian's is installed first where there is none and that is possible: the packages that a
/// check wants come after what it builds, and may not be wanted at all.
fn go() -> Result<PathBuf> {
    found_or_installed(|| repo::find_program("go"), || apt_get_install(&[GO]))
}

fn found_or_installed(
    find: impl Fn() -> Option<PathBuf>,
    install: impl FnOnce() -> Result<()>,
) -> Result<PathBuf> {
    if let Some(go) = find() {
        return Ok(go);
    }
    let missing =
        || "needs Go to build it: no 'go' in PATH (https://go.dev/dl/ or Debian's golang-go)";
    install().with_context(missing)?;
    find().with_context(missing)
}

/// Where peers are kept that are built here: `$NODENS_PEERS_CACHE`, or `.cache/peers` in the repository.
fn cache() -> Result<PathBuf> {
    Ok(match std::env::var_os("NODENS_PEERS_CACHE") {
        Some(cache) => std::path::absolute(cache)?,
        None => repo::root().join(".cache/peers"),
    })
}

fn is_wanted_coredns(path: &Path) -> bool {
    repo::output(Command::new(path).arg("-version"))
        .is_ok_and(|text| text.lines().next() == Some(&format!("CoreDNS-{COREDNS_VERSION}")))
}

/// Installs what is missing when that is possible, and reports each package; false when one is still missing.
fn debian(packages: &[&Package]) -> Result<bool> {
    let missing: Vec<&str> =
        packages.iter().filter(|p| !present(&p.probe)).map(|p| p.name).collect();
    if !missing.is_empty()
        && let Err(error) = apt_get_install(&missing)
    {
        println!("cannot install {}: {error:#}", missing.join(" "));
    }
    let mut complete = true;
    for package in packages {
        if present(&package.probe) {
            println!("{}: present", package.name);
        } else {
            complete = false;
            println!("{}: missing: {}", package.name, describe(&package.probe));
        }
    }
    Ok(complete)
}

fn apt_get_install(names: &[&str]) -> Result<()> {
    let Some(apt_get) = repo::find_program("apt-get") else {
        bail!("no apt-get here; install them by hand");
    };
    if repo::output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!("not root; run: sudo apt-get install {}", names.join(" "));
    }
    // Several of these may run: `apt-get` itself gives up where another one is at work.
    std::fs::create_dir_all(cache()?)?;
    let lock = std::fs::File::create(cache()?.join("apt-get.lock"))?;
    lock.lock()?;
    let apt = |arguments: &[&str]| {
        repo::run(Command::new(&apt_get).args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(names);
    apt(&arguments)
}

fn present(probe: &Probe) -> bool {
    match probe {
        Probe::Program(name) => repo::find_program(name).is_some(),
        Probe::File(path) => Path::new(path).exists(),
        Probe::PythonModule(module) => {
            repo::output(Command::new(DEBIAN_PYTHON).arg("-c").arg(format!("import {module}")))
                .is_ok()
        }
    }
}

fn describe(probe: &Probe) -> String {
    match probe {
        Probe::Program(name) => format!("no program '{name}'"),
        Probe::File(path) => format!("no file {path}"),
        Probe::PythonModule(module) => format!("{DEBIAN_PYTHON} cannot import '{module}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn go_is_installed_before_the_first_that_is_built_with_it() {
        let there = Cell::new(false);
        let find = || there.get().then(|| PathBuf::from("go"));
        let error = found_or_installed(find, || bail!("no apt-get here")).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("needs Go") && text.ends_with("no apt-get here"), "{text}");
        let install = || {
            there.set(true);
            Ok(())
        };
        assert_eq!(found_or_installed(find, install).unwrap(), PathBuf::from("go"));
        let again = || bail!("it is there");
        assert_eq!(found_or_installed(find, again).unwrap(), PathBuf::from("go"));
    }
}
