//! Programs that a run starts and ends.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

/// How long a program may take to end after SIGTERM before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A running program; ended when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it writes goes to the end of the file `log`.
    pub(crate) fn start(name: &str, mut command: Command, log: PathBuf) -> Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| log.display().to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Process { name: name.to_owned(), child, log })
    }

    /// What it was started as.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its ID inside the sandbox.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// False when it has ended.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of what it wrote, for error messages.
    pub(crate) fn last_words(&self) -> String {
        let log = self.log();
        // Who waits for readiness asks often, and each time is a line.
        let lines: Vec<&str> =
            log.lines().filter(|line| !line.contains("Plugins not ready")).collect();
        let start = lines.len().saturating_sub(15);
        format!("last lines of {}:\n{}", self.name, lines[start..].join("\n"))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw).context("no process ID")?;
        rustix::process::kill_process(id, signal)
            .with_context(|| format!("cannot signal {}", self.name))
    }

    /// Asks it to end (SIGTERM), waits, and kills it when it does not.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        if !self.runs() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + END_TIMEOUT;
        while self.runs() {
            if Instant::now() > deadline {
                return self.kill();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait()?;
        Ok(())
    }

    /// Resident memory in octets: `VmRSS` of `/proc/PID/status`.
    pub(crate) fn resident(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either fails only when it has ended, as intended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
