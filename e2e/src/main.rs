//! `nodens-e2e`: Nodens and CoreDNS on a real Kubernetes control plane, compared and measured.
//!
//! One folder or file per subcommand; what they share: [`sandbox`] (namespaces that take everything with them),
//! [`process`] (programs that are started and ended), [`control_plane`] (etcd, API server and controllers),
//! [`server`] (Nodens or CoreDNS with a Corefile), [`measure`] (loads, very many writes, tables).
//!
//! Every subcommand runs inside a sandbox, so whatever ends it, nothing stays behind.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command-line tool reports on stdout")]

mod all;
mod api;
mod ask;
mod cgroup;
mod charts;
mod clients;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod control_plane;
mod faults;
mod latency;
mod leftovers;
mod limit;
mod limits;
mod measure;
mod names;
mod node;
mod node_api;
mod official;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod process;
mod sandbox;
mod scale;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod server;
#[allow(dead_code, reason = "scenarios to come use the rest")]
mod sim;
mod soak;
mod steady;
mod up;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::sandbox::{Needs, Sandbox};

/// Runs Nodens and CoreDNS on a real Kubernetes control plane.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check of this program, one after the other.
    All(all::Args),
    /// Start a control plane, say how to reach it, and keep it until Ctrl-C.
    Up(up::Args),
    /// Measure how long a new Service's name takes to resolve.
    Latency(latency::Args),
    /// Ask Nodens and CoreDNS the same while a cluster's worth of objects changes.
    Names(names::Args),
    /// Look names up from pods with every kind of search list, with and without autopath.
    Clients(clients::Args),
    /// Measure starts, memory and tails with very many services and endpoints.
    Scale(scale::Args),
    /// Break the control plane in several ways and see that names are answered.
    Faults(faults::Args),
    /// End runs in several ways and see that nothing of them stays.
    Leftovers(leftovers::Args),
    /// Hand the chart and the manifests of the node role to an API server.
    Charts(charts::Args),
    /// Ask for an hour's worth of new names under the memory limit of the node role.
    Soak(soak::Args),
    /// See that memory stays below its limit with any number of workers, whatever is asked.
    Limits(limits::Args),
    /// Try the manifest and the chart on a real node, and replace CoreDNS under load.
    Node(node::Args),
    /// Try the manifest of Kubernetes' node cache with the image of Nodens, on a real node.
    NodeRole(node::RoleArgs),
    /// Exchange versions on a real node with nodens-lab swap, and kill it at any moment.
    Swap(node::SwapArgs),
    /// Try the node role in network namespaces: kills, hand-overs and faults.
    NodeSim(sim::Args),
    /// Measure tail latency of pods and load of the central servers with the node role, beside CoreDNS.
    NodeTable(sim::table::Args),
    /// Let the node role learn of central servers and names from an API server.
    NodeApi(node_api::Args),
    /// Send queries without a pause and print the outcome: the clients of `node`, in a pod.
    Steady(steady::Args),
    /// Do nothing: what runs in the sandbox of a pod.
    Idle,
}

fn main() -> ExitCode {
    let result = match std::env::var(cgroup::SWEEP) {
        Ok(name) => cgroup::sweep(&name),
        Err(_) => start(&Cli::parse().command),
    };
    result.unwrap_or_else(|error| {
        eprintln!("nodens-e2e: {error:#}");
        ExitCode::from(2)
    })
}

fn start(command: &Command) -> Result<ExitCode> {
    match Sandbox::inside() {
        Some(sandbox) => sandbox.and_then(|sandbox| wait_for(run(command, &sandbox))),
        None => outside(command),
    }
}

/// Runs a subcommand that needs no sandbox, or starts this program again in one.
fn outside(command: &Command) -> Result<ExitCode> {
    match command {
        Command::All(args) => all::run(args),
        Command::Leftovers(args) => leftovers::run(args),
        Command::Steady(args) => wait_for(steady::run(args)),
        Command::Idle => loop {
            std::thread::park();
        },
        Command::Node(_)
        | Command::NodeRole(_)
        | Command::Swap(_)
        | Command::Soak(_)
        | Command::Limits(_) => sandbox::supervise(Needs::Groups),
        _ => sandbox::supervise(Needs::Namespaces),
    }
}

/// Runs a subcommand in the sandbox; its exit code says whether what it checks is so.
async fn run(command: &Command, sandbox: &Sandbox) -> Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(args, sandbox).await,
        Command::Latency(args) => latency::run(args, sandbox).await,
        Command::Names(args) => names::run(args, sandbox).await,
        Command::Clients(args) => clients::run(args, sandbox).await,
        Command::Scale(args) => scale::run(args, sandbox).await,
        Command::Faults(args) => faults::run(args, sandbox).await,
        Command::Soak(args) => soak::run(args, sandbox).await,
        Command::Limits(args) => limits::run(args, sandbox).await,
        Command::Charts(args) => charts::run(args, sandbox).await,
        Command::Node(args) => node::run(args, sandbox).await,
        Command::NodeRole(args) => node::run_role(args, sandbox).await,
        Command::Swap(args) => node::run_swap(args, sandbox).await,
        Command::NodeSim(args) => sim::run(args, sandbox),
        Command::NodeTable(args) => sim::table::run(args, sandbox).await,
        Command::NodeApi(args) => node_api::run(args, sandbox).await,
        Command::All(_) | Command::Leftovers(_) | Command::Steady(_) | Command::Idle => {
            anyhow::bail!("this runs outside of a sandbox")
        }
    }
}

fn wait_for(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(work)
}
