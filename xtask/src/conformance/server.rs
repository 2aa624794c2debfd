//! A server under test: one process with one Corefile, ended when dropped.

use std::fs::File;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::adapt::Adapted;
use super::authority::loopback;
use super::transports::is_over_datagrams;

/// How long a server may take until it listens or exits. Generous, for a machine with other work.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Gives ports below the kernel's ephemeral range that nothing uses, each once.
///
/// Both servers set SO_REUSEPORT, so a port that is taken twice would not be noticed: a trial bind without that
/// option decides.
#[derive(Debug)]
pub(crate) struct PortPool {
    next: AtomicU16,
}

const FIRST_PORT: u16 = 12_000;
const LAST_PORT: u16 = 31_999;

impl PortPool {
    /// A pool that starts at a place of its own per process, so that runs side by side rarely try the same port.
    pub(crate) fn new() -> Self {
        let span = u32::from(LAST_PORT - FIRST_PORT);
        let offset = std::process::id().wrapping_mul(2_654_435_761) % span;
        let offset = u16::try_from(offset).unwrap_or(0);
        PortPool { next: AtomicU16::new(FIRST_PORT + offset) }
    }

    /// A free port.
    pub(crate) fn take(&self) -> u16 {
        let step = |port| Some(if port >= LAST_PORT { FIRST_PORT } else { port + 1 });
        loop {
            let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
            let port = taken.unwrap_or(FIRST_PORT);
            let any = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
            if TcpListener::bind(any).is_ok() && UdpSocket::bind(any).is_ok() {
                return port;
            }
        }
    }
}

/// What became of an attempt to start a server.
pub(crate) enum Started {
    Running(Server),
    /// It exited; what it wrote.
    Rejected(String),
}

/// A running server.
pub(crate) struct Server {
    process: Child,
    output: PathBuf,
    pub(crate) adapted: Adapted,
}

impl Server {
    /// Starts `program` with the adapted Corefile in `dir`, where its relative paths lead, and waits until it listens
    /// on every port or exits. `name` keeps the two servers' files in one folder apart.
    pub(crate) fn start(
        program: &Path,
        name: &str,
        dir: &Path,
        adapted: Adapted,
    ) -> Result<Started> {
        let corefile = format!("Corefile.{name}");
        std::fs::write(dir.join(&corefile), &adapted.text)?;
        let output = dir.join(format!("{name}.log"));
        let log = File::create(&output)?;
        let process = Command::new(program)
            .args(["-conf", &corefile, "-dns.port", &adapted.dns_port.to_string()])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Server { process, output, adapted };
        let deadline = Instant::now() + START_TIMEOUT;
        while !server.listens() {
            if server.process.try_wait()?.is_some() {
                return Ok(Started::Rejected(server.log()));
            }
            if Instant::now() > deadline {
                let log = server.log();
                anyhow::bail!("{} neither listened nor exited: {log}", program.display());
            }
            thread::sleep(Duration::from_millis(5));
        }
        // All ports take TCP connections; a UDP socket may be a moment behind.
        thread::sleep(Duration::from_millis(30));
        match server.process.try_wait()? {
            Some(_) => Ok(Started::Rejected(server.log())),
            None => Ok(Started::Running(server)),
        }
    }

    fn listens(&self) -> bool {
        let address = self.adapted.binds.first().copied().unwrap_or(loopback(1));
        self.adapted.listeners().all(|(scheme, port)| {
            if is_over_datagrams(scheme) {
                return has_datagram_socket(port);
            }
            let target = SocketAddr::new(address, port);
            TcpStream::connect_timeout(&target, Duration::from_millis(200)).is_ok()
        })
    }

    /// What it wrote to its standard output and error so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// False when the process has ended by itself.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

/// True when a socket of UDP is bound to the port. Trying to bind it would keep the server from doing so.
fn has_datagram_socket(port: u16) -> bool {
    let local = format!(":{port:04X} ");
    ["/proc/net/udp", "/proc/net/udp6"].iter().any(|table| {
        let sockets = std::fs::read_to_string(table).unwrap_or_default();
        sockets.lines().any(|line| line.get(..45).unwrap_or(line).contains(&local))
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either fails only when the process has ended, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
