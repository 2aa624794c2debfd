//! The process that stays behind: it waits for the end of the run, however that comes, and puts back what
//! the run has left changed.

use super::args::Args;
use super::restored::{self, put_back};
use anyhow::{Context, Result};
use lab_swap::{Claim, Cluster, Workload};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long it tries while the API server cannot be reached.
const TRY_MAX: Duration = Duration::from_secs(30 * 60);
/// How long it waits between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// The guard of this process.
pub(super) struct Guard {
    child: Child,
    /// Its end of the pipe closes when this process ends, in whatever way.
    alive: Option<ChildStdin>,
}

impl Guard {
    /// Starts it, before anything is changed.
    pub(super) fn start(args: &Args, workload: &Workload, run: &str) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["swap", &workload.to_string(), "--guard", run]);
        if let Some(path) = &args.kubeconfig {
            command.arg("--kubeconfig").arg(path);
        }
        if let Some(context) = &args.context {
            command.args(["--context", context]);
        }
        // Ctrl-C, and what ends a whole group of processes, is for the run, not for what cleans up after it.
        let command = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().context("cannot start the process that restores")?;
        let alive = child.stdin.take();
        Ok(Self { child, alive })
    }

    /// Ends it when everything has been put back.
    pub(super) fn end(mut self) -> Result<()> {
        drop(self.alive.take());
        self.child.wait().context("cannot wait for the process that restores")?;
        Ok(())
    }
}

/// What the guard does.
pub(super) fn run(args: &Args, run: &str) -> Result<ExitCode> {
    let workload = args.workload.as_ref().context("no workload")?;
    // A terminal that is closed ends the run, and not this.
    let ignored = std::sync::Arc::default();
    for signal in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(&ignored))?;
    }
    let cluster = Cluster::find(args.kubeconfig.as_deref(), args.context.as_deref())?;
    let mut nothing = Vec::new();
    // Nothing is ever written: it ends when the other side does.
    _ = std::io::stdin().read_to_end(&mut nothing);
    let until = Instant::now() + TRY_MAX;
    loop {
        let error = match Claim::find(&cluster, workload) {
            Ok(Some(claim)) if claim.record.run == run => match put_back(&cluster, &claim) {
                Ok(all) => {
                    let left = restored::told(&all).join("; ");
                    crate::term::note(&format!("the run was killed: restored {workload}: {left}"));
                    return Ok(ExitCode::SUCCESS);
                }
                Err(error) => error,
            },
            Ok(_) => return Ok(ExitCode::SUCCESS),
            Err(error) => error,
        };
        if Instant::now() > until {
            return Err(error).context("restoring failed: run nodens-lab swap --restore");
        }
        std::thread::sleep(PAUSE);
    }
}
