//! `nodens-e2e all`: every check of this program, one after the other, each in a sandbox of its own.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args as Arguments;

/// What only needs a control plane, and no quiet machine.
const QUICK: &[&[&str]] = &[
    &["leftovers"],
    &["names"],
    &["clients", "--coredns"],
    &["faults"],
    &["node-sim", "--quick", "--only", "everything is killed"],
    &["node-sim", "--quick", "--only", "fault: "],
    &["node-api"],
    &["limits", "--quick"],
    // Lists in pages instead of streams.
    &["faults", "--store", "pages", "--only", "api-server,gone"],
];

/// What needs a real node, much memory, or a machine without other work.
const LONG: &[&[&str]] = &[
    &["charts"],
    &["latency", "--check"],
    &["scale", "--check"],
    &["node"],
    &["node", "--proxy-mode", "iptables", "--only", "manifest"],
    &["leftovers", "--nodes"],
    &["node-sim"],
    &["node-table"],
    &["node-role"],
    &["node-role", "--proxy", "iptables", "--only", IPTABLES],
    &["swap", "--length", "5s", "--only", "Indexed,DaemonSet"],
    &["soak"],
    &["limits"],
];

/// What can differ with what kube-proxy does.
const IPTABLES: &str = "manifest,rolling,killed,exit,late";

#[derive(Arguments)]
pub(crate) struct Args {
    /// Only checks whose command lines contain this.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    only: String,
    /// Leave out real nodes and goals that need a machine without other work.
    #[arg(long)]
    quick: bool,
    /// Further arguments of `scale`, as one text.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    scale: String,
}

/// Runs them; those after one that fails run too.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let long = if args.quick { &[] } else { LONG };
    let mut rows = Vec::new();
    for check in QUICK.iter().chain(long) {
        let name = check.join(" ");
        if !name.contains(&args.only) {
            continue;
        }
        println!("== {name}");
        let begun = Instant::now();
        // However this process ends, the check removes what it has created, and ends as well.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(&program).args(*check);
        if check[0] == "scale" {
            command.args(args.scale.split_whitespace());
        }
        let status = command.status().with_context(|| name.clone())?;
        rows.push((name, status.success(), begun.elapsed()));
    }
    println!();
    for (name, passed, elapsed) in &rows {
        println!("{name:<48}{:<8}{elapsed:>8.0?}", if *passed { "passed" } else { "failed" });
    }
    let failed = rows.iter().filter(|(_, passed, _)| !passed).count();
    println!("{} passed, {failed} failed", rows.len() - failed);
    ensure!(!rows.is_empty(), "no check is called {:?}", args.only);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
