//! Namespaces that take everything with them.
//!
//! The program starts itself again as the first process of a process, network and mount namespace of its own, with a
//! file system in memory over `/run`. When that process ends, for whatever reason, the kernel kills every process it
//! started and removes the network and the files. When the outer process is killed, the inner one is, too.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cgroup::{Groups, PREFIX};

/// Set for the inner process; its value is the name of the run.
pub(crate) const RUN: &str = "NODENS_E2E_RUN";

/// Where the file system in memory lies in the sandbox. It exists on every system and holds nothing that a run needs.
const SCRATCH: &str = "/run";

/// Addresses of the loopback interface besides its own: those that the control plane says are its.
pub(crate) const NODE_V4: &str = "10.99.0.1";
/// See [`NODE_V4`].
pub(crate) const NODE_V6: &str = "fd99::1";

/// The sandbox this process is in.
#[derive(Debug)]
pub(crate) struct Sandbox {
    name: String,
}

impl Sandbox {
    /// The sandbox, set up, if this process is the inner one.
    pub(crate) fn inside() -> Option<Result<Self>> {
        let name = std::env::var(RUN).ok()?;
        let sandbox = Sandbox { name };
        Some(sandbox.set_up().map(|()| sandbox))
    }

    /// The name of the run, different from that of any other run on this machine.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A folder with this name, made if it is not there; it vanishes with the sandbox.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = Path::new(SCRATCH).join("nodens-e2e").join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    fn set_up(&self) -> Result<()> {
        if std::process::id() != 1 {
            bail!("{RUN} is set, but this is not the first process of a namespace: unset it");
        }
        call("mount", &["-t", "tmpfs", "-o", "size=75%,mode=755", &self.name, SCRATCH])?;
        call("ip", &["link", "set", "lo", "up"])?;
        call("ip", &["address", "add", &format!("{NODE_V4}/32"), "dev", "lo"])?;
        call("ip", &["-6", "address", "add", &format!("{NODE_V6}/128"), "dev", "lo"])
    }
}

/// Runs a system tool to its end; what it wrote is in the error when it fails.
pub(crate) fn call(program: &str, arguments: &[&str]) -> Result<()> {
    let what = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run '{}'", what()))?;
    if !output.status.success() {
        bail!("{}: {}: {}", what(), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// What a run needs besides programs and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Namespaces, which any user can have.
    Namespaces,
    /// Control groups named after the run, too, which only root can make.
    Groups,
}

/// Starts this program again inside and waits for it; its exit code is ours.
pub(crate) fn supervise(needs: Needs) -> Result<ExitCode> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot handle signals")?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let name = format!("{PREFIX}{}", std::process::id());
    let groups = match needs {
        Needs::Namespaces => None,
        Needs::Groups => Some(Groups::make(&name).context("needs root")?),
    };
    // The inner process dies with unshare, and unshare with this process: whatever kills it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(RUN, name);
    let child =
        command.spawn().context("cannot start setpriv and unshare (Debian's util-linux)")?;
    let code = watch(child, &mut signals)?;
    if let Some(groups) = groups {
        groups.remove()?;
    }
    Ok(code)
}

/// Waits for the inner process, and ends it after a signal.
fn watch(mut child: Child, signals: &mut Signals) -> Result<ExitCode> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(code(status));
        }
        if let Some(signal) = signals.pending().next() {
            child.kill()?;
            child.wait()?;
            eprintln!("nodens-e2e: ended by signal {signal}");
            return Ok(ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
