//! `nodens-e2e up`: a control plane to try things with.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args as Arguments;

use crate::control_plane::{ControlPlane, Credential, Options, Store, reader_rules};
use crate::sandbox::Sandbox;

/// Seconds that the token of the reader is valid.
const DAY: i64 = 86_400;

#[derive(Arguments)]
pub(crate) struct Args {
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: Store,
    /// Run this command in the sandbox once the control plane is ready, and end with it.
    #[arg(trailing_var_arg = true)]
    command: Vec<std::ffi::OsString>,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let plane =
        ControlPlane::start(sandbox, Options { store: args.store, ..Options::default() }).await?;
    let account = plane.account("reader", reader_rules()).await?;
    let token = plane.token(&account, DAY)?;
    let reader = plane.kubeconfig("reader", &Credential::Token(token))?;
    let admin = plane.folder().join("admin.kubeconfig");
    println!("run {}", sandbox.name());
    println!("KUBECONFIG={} (everything) or {} (reads)", admin.display(), reader.display());
    if let Some((program, arguments)) = args.command.split_first() {
        let mut command = tokio::process::Command::new(program);
        let status = command.args(arguments).env("KUBECONFIG", admin).status().await?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    println!("enter with: nsenter --all --target $(pgrep --newest --full nodens-e2e.*up)");
    println!("end with Ctrl-C");
    std::future::pending().await
}
