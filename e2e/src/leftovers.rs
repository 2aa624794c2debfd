//! `nodens-e2e leftovers`: however a run ends, nothing of it stays.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as Arguments;
use rustix::process::{Pid, Signal};

use crate::cgroup::{self, SWEEP};
use crate::sandbox::RUN;

/// How long the kernel may take to end the processes of a run on a busy machine.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// A way for a run to end: its name, its command, and the signal that the outer process gets; without one it ends by
/// itself.
type Way = (&'static str, &'static [&'static str], Option<Signal>);

const WAYS: &[Way] = &[
    ("it has finished", &["up", "true"], None),
    ("Ctrl-C", &["up"], Some(Signal::INT)),
    ("SIGTERM", &["up"], Some(Signal::TERM)),
    ("SIGKILL", &["up"], Some(Signal::KILL)),
];

/// The same with pods, mounts and control groups.
const WAYS_OF_NODES: &[Way] = &[
    ("a node: failure", &["node", "--program", "/dev/null"], None),
    ("a node: Ctrl-C", &["node", "--keep"], Some(Signal::INT)),
    ("a node: SIGKILL", &["node", "--keep"], Some(Signal::KILL)),
];

/// Where a kubelet and the plug-ins of its network write.
const OF_KUBELET: &[&str] =
    &["/var/log/pods", "/var/log/containers", "/var/lib/cni/results", "/var/lib/kubelet/pki"];

#[derive(Arguments)]
pub(crate) struct Args {
    /// End nodes rather than control planes.
    #[arg(long)]
    nodes: bool,
}

/// Ends a run in each way and looks for what it left.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ways = if args.nodes { WAYS_OF_NODES } else { WAYS };
    let before = traces(cgroup::PREFIX)?;
    let mut failed = 0;
    for (way, command, signal) in ways {
        let left: Vec<String> = end(command, *signal, &before)?.into_iter().collect();
        if left.is_empty() {
            println!("{way}: nothing left");
        } else {
            failed += 1;
            println!("{way}: left behind: {}", left.join(", "));
        }
    }
    println!("{} passed, {failed} failed", ways.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts a run, ends it, and returns what is still there when the time is over.
fn end(
    arguments: &[&str],
    signal: Option<Signal>,
    before: &BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    // A check that ends early takes the run with it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start a run")?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let name = name(&mut output)?;
    let new = || -> Result<BTreeSet<String>> { Ok(&traces(&name)? - before) };
    if let Some(signal) = signal {
        if new()?.is_empty() {
            bail!("{name} runs but is not found: this check cannot find what is left behind");
        }
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no ID")?;
        rustix::process::kill_process(id, signal)?;
    }
    child.wait()?;
    let deadline = Instant::now() + END_TIMEOUT;
    loop {
        let left = new()?;
        if left.is_empty() || Instant::now() > deadline {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The name of a run, which it prints once its control plane is ready.
fn name(output: &mut impl BufRead) -> Result<String> {
    for line in output.lines() {
        if let Some(name) = line?.strip_prefix("run ") {
            return Ok(name.to_owned());
        }
    }
    bail!("the run ended before its control plane was ready")
}

/// Processes that belong to runs whose names begin so, mounts that do, and their files.
fn traces(name: &str) -> Result<BTreeSet<String>> {
    let mut traces = BTreeSet::new();
    let variable = format!("{RUN}={name}");
    let sweeper = format!("{SWEEP}={name}");
    traces.extend(cgroup::of_runs(name)?.iter().map(|group| group.display().to_string()));
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // What cannot be read has ended, or is another user's.
        let text = |file: &str| {
            let bytes = fs::read(path.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if text("environ").split('\0').any(|entry| entry.starts_with(&variable)) {
            traces.insert(format!("process {} {}", path.display(), text("comm").trim()));
        }
        if text("environ").split('\0').any(|entry| entry.starts_with(&sweeper)) {
            traces.insert(format!("sweeper {}", path.display()));
        }
        for mount in text("mountinfo").lines().filter(|line| line.contains(name)) {
            traces.insert(format!("mount of {}: {mount}", path.display()));
        }
    }
    for folder in OF_KUBELET {
        // Nothing is there on a machine where no kubelet has ever run.
        for entry in fs::read_dir(folder).into_iter().flatten() {
            traces.insert(entry?.path().display().to_string());
        }
    }
    for folder in ["/run", "/run/netns", "/tmp"] {
        let Ok(entries) = fs::read_dir(Path::new(folder)) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("nodens-e2e"))
            {
                traces.insert(path.display().to_string());
            }
        }
    }
    Ok(traces)
}
