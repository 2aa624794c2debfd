//! The process that stays behind: it waits for the end of the run, however that comes, and puts back what
//! the run has left changed.

use super::args::Args;
use super::restored::{self, PAUSE, put_back};
use crate::term;
use anyhow::{Context, Result, bail};
use lab_swap::{Claim, Cluster, Workload};
use std::cell::RefCell;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What it writes once it has reached the cluster. Anything else that it writes says why it has not.
const READY: &str = "+";
/// How long it may take to reach the cluster: longer than a connection and a response together.
const READY_MAX: Duration = Duration::from_secs(60);

/// How long it tries while the API server cannot be reached.
pub(super) const TRY_MAX: Duration = Duration::from_secs(30 * 60);

/// The guard of this process.
pub(super) struct Guard {
    child: RefCell<Child>,
    /// Its end of the pipe closes when this process ends, in whatever way.
    alive: Option<ChildStdin>,
}

impl Guard {
    /// Starts it, before anything is changed, and waits until it has reached the cluster.
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
        Self::spawn(&mut command, READY_MAX).context("cannot start the process that restores")
    }

    fn spawn(command: &mut Command, patience: Duration) -> Result<Self> {
        // Ctrl-C, and what ends a whole group of processes, is for the run, not for what cleans up after it.
        let command = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let alive = child.stdin.take();
        let said = said(&mut child, patience);
        if said.as_deref().is_ok_and(|said| said == READY) {
            return Ok(Self { child: RefCell::new(child), alive });
        }
        // Nothing is changed yet, so it has nothing to restore. An error means that it has already ended.
        _ = child.kill();
        let status = child.wait()?;
        match said?.trim_end() {
            "" => bail!("it has ended ({status})"),
            why => bail!("{why}"),
        }
    }

    /// Fails if it has ended: nothing would restore after a SIGKILL.
    pub(super) fn check(&self) -> Result<()> {
        match self.child.borrow_mut().try_wait()? {
            Some(status) => bail!("the process that restores has ended ({status})"),
            None => Ok(()),
        }
    }

    /// Lets it end, and waits for that: it puts back first what is left. Its status says whether it could.
    pub(super) fn end(mut self) -> Result<ExitStatus> {
        drop(self.alive.take());
        self.child.get_mut().wait().context("cannot wait for the process that restores")
    }
}

/// What a guard says first: [`READY`], or all of why it is not.
fn said(child: &mut Child, patience: Duration) -> Result<String> {
    let mut output = child.stdout.take().context("it has no standard output")?;
    let (tell, hear) = mpsc::channel();
    // The thread ends with the pipe, at the latest when the guard is killed.
    std::thread::spawn(move || {
        let mut said = vec![0; READY.len()];
        let read = output.read_exact(&mut said).and_then(|()| match said == READY.as_bytes() {
            true => Ok(0),
            false => output.read_to_end(&mut said),
        });
        // A guard that has ended without a word is told by its status; a run that has given up needs no word.
        _ = tell.send(read.map_or(String::new(), |_| String::from_utf8_lossy(&said).into_owned()));
    });
    hear.recv_timeout(patience)
        .with_context(|| format!("it has not reached the cluster within {patience:?}"))
}

/// What the guard does.
pub(super) fn run(args: &Args, run: &str) -> Result<ExitCode> {
    let workload = args.workload.as_ref().context("no workload")?;
    // A terminal that is closed ends the run, and not this.
    let ignored = std::sync::Arc::default();
    for signal in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(&ignored))?;
    }
    let cluster = match reached(args, workload) {
        Ok(cluster) => cluster,
        Err(error) => {
            // The run that waits for it tells the error.
            term::all(&crate::told(&error))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    term::all(READY)?;
    let mut nothing = Vec::new();
    // Nothing is ever written: it ends when the other side does.
    _ = std::io::stdin().read_to_end(&mut nothing);
    let until = Instant::now() + TRY_MAX;
    loop {
        let error = match Claim::find(&cluster, workload) {
            Ok(Some(claim)) if claim.record.run == run => {
                match put_back(&cluster, &claim, Duration::ZERO) {
                    Ok(all) => {
                        let left = restored::told(&all).join("; ");
                        term::note(&format!("the run was killed: restored {workload}: {left}"));
                        return Ok(ExitCode::SUCCESS);
                    }
                    Err(error) => error,
                }
            }
            Ok(_) => return Ok(ExitCode::SUCCESS),
            Err(error) => error,
        };
        if Instant::now() > until {
            return Err(error).context("restoring failed: run nodens-lab swap --restore");
        }
        std::thread::sleep(PAUSE);
    }
}

/// The cluster, once it has answered whether there is a Lease: what the guard will need is there. A kubeconfig
/// that can be read only once, such as a pipe, was read by the run already.
fn reached(args: &Args, workload: &Workload) -> Result<Cluster> {
    let cluster = Cluster::find(args.kubeconfig.as_deref(), args.context.as_deref())
        .context("it reads the kubeconfig again")?;
    Claim::find(&cluster, workload)?;
    Ok(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(script: &str, patience: Duration) -> Result<Guard> {
        Guard::spawn(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    fn a_guard_that_does_not_reach_the_cluster_is_an_error() {
        let long = Duration::from_secs(20);
        let error = |script, patience| format!("{:#}", spawn(script, patience).err().unwrap());
        assert_eq!(error("echo 'no cluster: 1'; exit 1", long), "no cluster: 1");
        assert_eq!(error("exit 3", long), "it has ended (exit status: 3)");
        let begin = Instant::now();
        let late = error("exec sleep 600", Duration::from_millis(50));
        assert!(late.contains("not reached the cluster within 50ms"), "{late}");
        assert!(begin.elapsed() < long, "it was waited for");
    }

    #[test]
    fn a_guard_that_ends_is_noticed() {
        let begin = Instant::now();
        let guard = spawn("printf +; exec cat", Duration::from_secs(20)).unwrap();
        guard.check().unwrap();
        assert!(guard.end().unwrap().success());
        let guard = spawn("printf +; exit 5", Duration::from_secs(20)).unwrap();
        while guard.check().is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        let error = guard.check().unwrap_err().to_string();
        assert!(error.contains("has ended (exit status: 5)"), "{error}");
    }
}
