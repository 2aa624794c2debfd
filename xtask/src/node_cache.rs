//! `cargo xtask node-cache`: node-cache and Nodens are given the same template and ConfigMap, each in a network
//! namespace of its own, and have to write the same Corefile, octet for octet.
//!
//! The cases are folders of `crates/nodens-node/tests/node-cache`, whose `Corefile` is what node-cache wrote.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{peers, repo};

const CASES: &str = "crates/nodens-node/tests/node-cache";
const USAGE: &str = "usage: cargo xtask node-cache [--nodens PATH] [--write]";
/// How long a program may take to write its Corefile.
const PATIENCE: Duration = Duration::from_secs(20);
/// A Corefile that has not changed for so long is the last one: both read the ConfigMap at their start.
const SETTLED: Duration = Duration::from_secs(1);
/// node-cache wants a link of the kind `dummy`, which not every kernel has, unless there is one of that name.
const SCRIPT: &str = "ip link set lo up && ip link add nodelocaldns type bridge && exec \"$@\"";

/// Ends the process with the value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs every case; false if a Corefile differs. With `--write`, the cases get what node-cache wrote.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let mut nodens = None;
    let mut write = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--nodens" => nodens = Some(PathBuf::from(arguments.next().context(USAGE)?)),
            "--write" => write = true,
            _ => bail!(USAGE),
        }
    }
    let node_cache = peers::node_cache()?;
    let nodens = nodens.map_or_else(repo::built_nodens, Ok)?;
    let mut cases: Vec<PathBuf> = std::fs::read_dir(repo::root().join(CASES))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    cases.sort();
    let mut same = true;
    for case in &cases {
        let name = case.file_name().unwrap_or_default().to_string_lossy();
        let theirs = corefile(&node_cache, case).with_context(|| format!("{name}: node-cache"))?;
        if write {
            std::fs::write(case.join("Corefile"), &theirs)?;
        }
        let ours = corefile(&nodens, case).with_context(|| format!("{name}: nodens"))?;
        let kept = std::fs::read(case.join("Corefile")).unwrap_or_default();
        let verdict = match (ours == theirs, kept == theirs) {
            (true, true) => "the same",
            (true, false) => "not what the case's Corefile holds (--write)",
            (false, _) => "DIFFERENT",
        };
        println!("{name}: {verdict}");
        same &= ours == theirs && kept == theirs;
    }
    println!("{} cases", cases.len());
    Ok(same)
}

/// What `program` writes to its Corefile when it is given what `case` holds.
fn corefile(program: &Path, case: &Path) -> Result<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("nodens-node-cache-{}", std::process::id()));
    let at = |name: &str| folder.join(name);
    // Left over from a run that was ended; gone is as good.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(at("base"))?;
    std::fs::create_dir_all(at("kube-dns"))?;
    std::fs::copy(case.join("Corefile.base"), at("base/Corefile.base"))?;
    for name in ["stubDomains", "upstreamNameservers"] {
        if case.join(name).exists() {
            std::fs::copy(case.join(name), at("kube-dns").join(name))?;
        }
    }
    let log = File::create(at("log"))?;
    let text = |name| std::fs::read_to_string(case.join(name));
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SCRIPT, "sh"]).arg(program);
    command.args(["-localip", text("localip")?.trim(), "-upstreamsvc", "kube-dns-upstream"]);
    command.args(["-setupiptables=false", "-metrics-listen-address", "127.0.0.1:9353"]);
    command.arg("-conf").arg(at("Corefile")).arg("-basecorefile").arg(at("base/Corefile.base"));
    command.arg("-kubednscm").arg(at("kube-dns"));
    command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", text("upstream")?.trim());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let _running = Ended(command.spawn().context("unshare (Debian's util-linux)")?);
    let written = settled(&at("Corefile")).with_context(|| {
        format!("it said: {}", std::fs::read_to_string(at("log")).unwrap_or_default())
    });
    let _ = std::fs::remove_dir_all(&folder);
    written
}

/// The content of a file as soon as it rests.
fn settled(file: &Path) -> Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut last = (Vec::new(), Instant::now());
    while Instant::now() < until {
        let now = std::fs::read(file).unwrap_or_default();
        if now != last.0 {
            last = (now, Instant::now());
        } else if !last.0.is_empty() && last.1.elapsed() >= SETTLED {
            return Ok(last.0);
        }
        sleep(Duration::from_millis(20));
    }
    bail!("no Corefile within {PATIENCE:?}")
}
