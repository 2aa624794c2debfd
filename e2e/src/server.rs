//! Nodens or CoreDNS with a Corefile, on the control plane of the sandbox.
//!
//! Ports and paths reach a Corefile as environment variables, so that both servers get the same text: `{$PORT}` for
//! queries, `{$READY}`, `{$HEALTH}` and `{$METRICS}` for the HTTP endpoints, and what the caller adds.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::control_plane::peers;
use crate::process::Process;
use crate::sandbox::Sandbox;

/// How long a server may take until it is ready, on a machine with other work.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long an HTTP endpoint may take to answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// The first port given to a server; the sandbox has its own network, so all are free.
const FIRST_PORT: u16 = 10_053;

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// CoreDNS of the peers' cache.
    CoreDns,
    /// Nodens at this path.
    Nodens(PathBuf),
}

impl Program {
    /// Nodens beside this program, where cargo puts both.
    pub(crate) fn nodens() -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let path = own.with_file_name("nodens");
        if !path.is_file() {
            bail!("no {}: build it with the same profile as this program", path.display());
        }
        Ok(Program::Nodens(path))
    }

    fn path(&self) -> Result<PathBuf> {
        let path = match self {
            Program::CoreDns => peers().join("bin/coredns"),
            Program::Nodens(path) => path.clone(),
        };
        if !path.is_file() {
            bail!("no {}: run 'cargo xtask peers coredns'", path.display());
        }
        Ok(path)
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    corefile: PathBuf,
    port: u16,
    waits_for_ready: bool,
}

impl Server {
    /// Starts it without waiting; `name` is that of its files, and different for each server of a run.
    pub(crate) fn start(
        sandbox: &Sandbox,
        program: &Program,
        name: &str,
        corefile: &str,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
        let port = NEXT.fetch_add(4, Ordering::Relaxed);
        let folder = sandbox.folder(&format!("servers/{name}"))?;
        let path = folder.join("Corefile");
        std::fs::write(&path, corefile).with_context(|| path.display().to_string())?;
        let mut command = Command::new(program.path()?);
        command.args(["-conf", "Corefile"]).current_dir(&folder);
        for (offset, variable) in (0..).zip(["PORT", "READY", "HEALTH", "METRICS"]) {
            command.env(variable, (port + offset).to_string());
        }
        command.envs(variables.iter().map(|(key, value)| (key, value)));
        let process = Process::start(name, command, folder.join("log"))?;
        let waits_for_ready = corefile.contains("{$READY}");
        Ok(Server { process, corefile: path, port, waits_for_ready })
    }

    /// Waits until `/ready` reports it, or until it listens when its Corefile has no `ready` at `{$READY}`.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            if !self.process.runs() {
                bail!("it ended: {}", self.process.last_words());
            }
            let ready = if self.waits_for_ready {
                self.get(Endpoint::Ready).is_ok_and(|(status, _)| status == 200)
            } else {
                TcpStream::connect(self.address()).is_ok()
            };
            if ready {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("it is not ready: {}", self.process.last_words());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Where it takes queries, on UDP and TCP.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Status and body of an HTTP endpoint.
    pub(crate) fn get(&self, endpoint: Endpoint) -> Result<(u16, String)> {
        let (offset, path) = match endpoint {
            Endpoint::Ready => (1, "/ready"),
            Endpoint::Health => (2, "/health"),
            Endpoint::Metrics => (3, "/metrics"),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port + offset));
        let mut stream = TcpStream::connect_timeout(&address, HTTP_TIMEOUT)?;
        stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split(' ').nth(1).context("no HTTP status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// Its process: memory, log, signals.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its Corefile, which a test may change.
    pub(crate) fn corefile(&self) -> &std::path::Path {
        &self.corefile
    }
}

/// An HTTP endpoint of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Endpoint {
    /// `ready {$READY}`: `/ready`.
    Ready,
    /// `health {$HEALTH}`: `/health`.
    Health,
    /// `prometheus {$METRICS}`: `/metrics`.
    Metrics,
}
