//! `nodens-e2e`: Nodens and CoreDNS on a real Kubernetes control plane, compared and measured.
//!
//! One folder or file per subcommand; what they share: [`sandbox`] (namespaces that take everything with them),
//! [`process`] (programs that are started and ended), [`control_plane`] (etcd, API server and controllers),
//! [`server`] (Nodens or CoreDNS with a Corefile), [`measure`] (loads, very many writes, tables).
//!
//! Every subcommand runs inside a sandbox, so whatever ends it, nothing stays behind.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command-line tool reports on stdout")]

mod api;
mod ask;
mod clients;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod control_plane;
mod latency;
mod leftovers;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod measure;
mod names;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod process;
mod sandbox;
#[allow(dead_code, reason = "subcommands to come use the rest")]
mod server;
mod up;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::sandbox::Sandbox;

/// Runs Nodens and CoreDNS on a real Kubernetes control plane.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a control plane, say how to reach it, and keep it until Ctrl-C.
    Up(up::Args),
    /// Measure how long a new Service's name takes to resolve.
    Latency(latency::Args),
    /// Ask Nodens and CoreDNS the same while a cluster's worth of objects changes.
    Names(names::Args),
    /// Look names up from pods with every kind of search list, with and without autopath.
    Clients(clients::Args),
    /// End runs in several ways and see that nothing of them stays.
    Leftovers,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match Sandbox::inside() {
        Some(sandbox) => sandbox.and_then(|sandbox| run(&cli.command, &sandbox)),
        None if matches!(cli.command, Command::Leftovers) => leftovers::run(),
        None => sandbox::supervise(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("nodens-e2e: {error:#}");
        ExitCode::from(2)
    })
}

/// Runs a subcommand; its exit code says whether what it checks is so.
fn run(command: &Command, sandbox: &Sandbox) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Up(args) => up::run(args, sandbox).await,
            Command::Latency(args) => latency::run(args, sandbox).await,
            Command::Names(args) => names::run(args, sandbox).await,
            Command::Clients(args) => clients::run(args, sandbox).await,
            Command::Leftovers => anyhow::bail!("leftovers runs outside of a sandbox"),
        }
    })
}
