//! The central servers, the one outside of the cluster, and what is tried in the node role.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use lab_load::cluster::Cluster;
use rustix::process::Signal;

use super::load::NEW;
use super::net::{self, NODE, OUTSIDE, OUTSIDE_ADDRESS, central, central_address};
use super::proxy::{CLUSTER_DNS, UPSTREAM};
use super::state;
use crate::control_plane::peers;
use crate::official::{self, LOCAL_DNS};
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::server::Program;

/// How long anything may take to begin to answer on a machine with other work.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What can be tried in the node role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Nodens,
    /// Kubernetes' own: the program `node-cache` in the peers' cache, or `--node-cache`.
    NodeCache,
    /// CoreDNS with addresses and rules as node-cache makes them, which nobody takes away when it dies.
    Coredns,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Nodens => "Nodens",
            Kind::NodeCache => "node-cache",
            Kind::Coredns => "CoreDNS",
        })
    }
}

/// The servers of the cluster behind the Service, and one outside.
#[derive(Debug)]
pub(super) struct Centrals {
    folder: PathBuf,
    program: PathBuf,
    /// By number; none where it is stopped.
    servers: Vec<Option<Process>>,
    outside: Process,
}

impl Centrals {
    /// Starts them and waits until they answer.
    pub(super) fn start(sandbox: &Sandbox, program: &Path, count: usize) -> Result<Self> {
        let folder = sandbox.folder("sim")?;
        std::fs::write(folder.join("cluster.zone"), zone("cluster.local."))?;
        std::fs::write(folder.join("outside.zone"), zone("."))?;
        let text = format!(
            ".:53 {{\n    bind {OUTSIDE_ADDRESS}\n    prometheus {OUTSIDE_ADDRESS}:9153\n    file {}\n}}\n",
            folder.join("outside.zone").display()
        );
        let outside = run(&folder, OUTSIDE, program, &text)?;
        let mut centrals = Centrals {
            folder,
            program: program.to_owned(),
            servers: (0..count).map(|_| None).collect(),
            outside,
        };
        (0..count).try_for_each(|number| centrals.start_one(number))?;
        Ok(centrals)
    }

    /// Starts the server `number` and waits until it answers.
    pub(super) fn start_one(&mut self, number: usize) -> Result<()> {
        let address = central_address(number);
        let text = format!(
            "cluster.local:53 {{\n    bind {address}\n    prometheus {address}:9153\n    \
             errors\n    file {}\n}}\n.:53 {{\n    bind {address}\n    prometheus {address}:9153\n    errors\n    \
             cache 30\n    forward . {OUTSIDE_ADDRESS}\n}}\n",
            self.folder.join("cluster.zone").display()
        );
        let process = run(&self.folder, &central(number), &self.program, &text)?;
        self.servers[number] = Some(process);
        let deadline = Instant::now() + START_TIMEOUT;
        while !net::inside(NODE, || Ok(super::ask::answers(address.into())))? {
            if Instant::now() > deadline {
                bail!("{} does not answer: {}", central(number), self.last_words());
            }
        }
        Ok(())
    }

    /// Ends the server `number` as a kubelet does, or kills it.
    pub(super) fn signal(&mut self, number: usize, signal: Signal) -> Result<()> {
        self.servers[number].as_ref().context("it does not run")?.signal(signal)
    }

    /// Waits for the end of the server `number`.
    pub(super) fn forget(&mut self, number: usize) {
        self.servers[number] = None;
    }

    /// Questions that reached the servers of the cluster since they began.
    pub(super) fn questions(&self) -> Result<u64> {
        let mut sum = 0;
        for (number, _) in self.servers.iter().enumerate().filter(|(_, server)| server.is_some()) {
            sum += questions(&central(number), central_address(number))?;
        }
        Ok(sum)
    }

    /// What they wrote last.
    pub(super) fn last_words(&self) -> String {
        let all = self.servers.iter().flatten().chain([&self.outside]);
        all.map(Process::last_words).collect::<Vec<_>>().join("\n")
    }
}

fn questions(namespace: &str, address: Ipv4Addr) -> Result<u64> {
    let text = net::inside(namespace, || super::ask::http((address, 9153).into(), "/metrics"))?;
    let lines = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total{"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(counts.sum::<f64>() as u64)
}

fn run(folder: &Path, namespace: &str, program: &Path, corefile: &str) -> Result<Process> {
    let path = folder.join(format!("{namespace}.Corefile"));
    std::fs::write(&path, corefile)?;
    let mut command = net::command(namespace, &program.display().to_string());
    command.arg("-conf").arg(path);
    Process::start(namespace, command, folder.join(format!("{namespace}.log")))
}

/// Every name of the model of a cluster below `zone`, with addresses of both families, as a zone file.
fn zone(zone: &str) -> String {
    let mut head =
        format!("{zone} 30 IN SOA ns.dns.test. hostmaster.dns.test. 1 7200 1800 86400 30\n");
    head += &format!("{zone} 30 IN NS ns.dns.test.\n");
    if zone != "." {
        head += &format!("*.{NEW}. 30 IN A 192.0.2.2\n");
    }
    let cluster = Cluster::default();
    let names = cluster.names().map(|name| name.to_string());
    let inside = names.filter(|name| name.ends_with("cluster.local.") == (zone != "."));
    let records =
        inside.map(|name| format!("{name} 30 IN A 192.0.2.1\n{name} 30 IN AAAA 2001:db8::1\n"));
    [head].into_iter().chain(records).collect()
}

/// A program in the node role.
#[derive(Debug)]
pub(super) struct Role {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    process: Option<Process>,
    started: usize,
    /// Octets of its log when it was started last.
    log_begins: usize,
}

impl Role {
    /// Prepares files and finds the program; `at` is where node-cache or another Nodens is.
    pub(super) fn new(sandbox: &Sandbox, kind: Kind, at: Option<&Path>) -> Result<Self> {
        let folder = sandbox.folder(&format!("role-{kind}"))?;
        let program = match (kind, at, Program::nodens()) {
            (_, Some(path), _) => path.to_owned(),
            (Kind::Nodens, None, Ok(Program::Nodens(path))) => path,
            (Kind::Nodens, None, other) => bail!("no Nodens: {other:?}"),
            (Kind::NodeCache, None, _) => peers().join("bin/node-cache"),
            (Kind::Coredns, None, _) => peers().join("bin/coredns"),
        };
        if !program.is_file() {
            bail!("no {}", program.display());
        }
        let role = Role { kind, program, folder, process: None, started: 0, log_begins: 0 };
        role.configure(&official::corefile(&official::manifest(&CLUSTER_DNS.to_string())?)?)?;
        Ok(role)
    }

    /// Puts this text where the ConfigMap's Corefile is mounted.
    pub(super) fn configure(&self, corefile: &str) -> Result<()> {
        let path = self.folder.join("Corefile.base");
        // The kubelet replaces files as a whole, too.
        let new = path.with_extension("new");
        std::fs::write(&new, corefile)?;
        std::fs::rename(&new, &path).with_context(|| path.display().to_string())
    }

    /// The text that is there now.
    pub(super) fn configuration(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("Corefile.base"))?)
    }

    /// Starts it, with the arguments of the official manifest and paths of its own.
    pub(super) fn start(&mut self) -> Result<()> {
        self.start_in(&[])
    }

    /// As [`Role::start`], by a command that becomes what it is given.
    pub(super) fn start_in(&mut self, wrapper: &[&str]) -> Result<()> {
        let command = self.command_in(wrapper)?;
        match self.kind {
            Kind::Nodens => {}
            // It makes a dummy link, which not every kernel has, and takes one that is there.
            Kind::NodeCache => state::add_link()?,
            Kind::Coredns => state::as_node_cache()?,
        }
        self.started += 1;
        let log = self.folder.join("log");
        self.log_begins = std::fs::read(&log).unwrap_or_default().len();
        self.process = Some(Process::start(&self.kind.to_string(), command, log)?);
        Ok(())
    }

    /// A command that starts one more of it.
    pub(super) fn command(&self) -> Result<Command> {
        self.command_in(&[])
    }

    fn command_in(&self, wrapper: &[&str]) -> Result<Command> {
        let program = self.program.display().to_string();
        let mut words = wrapper.iter().copied().chain([program.as_str()]);
        let mut command = net::command(NODE, words.next().unwrap_or_default());
        command.args(words);
        let file = |name: &str| self.folder.join(name);
        if self.kind == Kind::Coredns {
            let text = self
                .configuration()?
                .replace("__PILLAR__CLUSTER__DNS__", &UPSTREAM.to_string())
                .replace("__PILLAR__UPSTREAM__SERVERS__", &OUTSIDE_ADDRESS.to_string());
            std::fs::write(file("Corefile"), text)?;
            command.arg("-conf").arg(file("Corefile"));
            return Ok(command);
        }
        command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", UPSTREAM.to_string());
        command.args(["-localip", &format!("{LOCAL_DNS},{CLUSTER_DNS}")]);
        command.arg("-conf").arg(file("Corefile"));
        command.args(["-upstreamsvc", "kube-dns-upstream"]);
        command.arg("-pidfile").arg(file("pid")).arg("-basecorefile").arg(file("Corefile.base"));
        Ok(command)
    }

    /// Waits until the node answers for both addresses.
    pub(super) fn ready(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let local: IpAddr = LOCAL_DNS.parse()?;
        while !(state::attracts()? && net::inside(NODE, || Ok(super::ask::answers(local)))?) {
            let process = self.process.as_mut().context("it does not run")?;
            if !process.runs() {
                bail!("it ended: {}", process.last_words());
            }
            if begun.elapsed() > START_TIMEOUT {
                bail!("it attracts nothing: {}", process.last_words());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(begun.elapsed())
    }

    /// Starts one more and waits until it has taken over; how long that took.
    pub(super) fn succeed(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut successor = self.successor()?;
        while self.process()?.runs() {
            ensure!(successor.runs(), "it ended: {}", successor.last_words());
            ensure!(begun.elapsed() < START_TIMEOUT, "no hand-over: {}", successor.last_words());
            thread::sleep(Duration::from_millis(5));
        }
        self.process = Some(successor);
        ensure!(state::attracts()?, "after a hand-over it attracts nothing: {}", self.last_words());
        Ok(begun.elapsed())
    }

    /// Starts one more and kills it after a while; the one before has to go on.
    pub(super) fn crash_successor(&mut self, after: Duration) -> Result<Duration> {
        let mut successor = self.successor()?;
        thread::sleep(after);
        if !self.process()?.runs() {
            // It is the server by now, and its end would be that of everything.
            self.process = Some(successor);
            return Ok(after);
        }
        successor.kill()?;
        // Whatever it had begun shows by then.
        thread::sleep(Duration::from_millis(500));
        ensure!(self.process()?.runs(), "after {after:?} both are gone: {}", self.last_words());
        ensure!(state::attracts()?, "after {after:?} nothing attracts: {}", self.last_words());
        Ok(after)
    }

    fn successor(&self) -> Result<Process> {
        Process::start(&self.kind.to_string(), self.command()?, self.folder.join("log"))
    }

    /// Ends it as a kubelet does, and says how long that took.
    pub(super) fn stop(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let process = self.process()?;
        process.signal(Signal::TERM)?;
        while process.runs() {
            ensure!(begun.elapsed() < START_TIMEOUT, "it does not end: {}", process.last_words());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(begun.elapsed())
    }

    /// The lines that it has written since it was started.
    pub(super) fn lines(&self) -> Vec<String> {
        let log = self.process.as_ref().map(Process::log).unwrap_or_default();
        log.get(self.log_begins..).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// What it wrote last.
    pub(super) fn last_words(&self) -> String {
        self.process.as_ref().map(Process::last_words).unwrap_or_default()
    }

    /// Says at some later time what all that ran here wrote last.
    pub(super) fn log_tail(&self) -> impl FnOnce() -> String + Send + 'static + use<> {
        let log = self.folder.join("log");
        move || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        }
    }

    /// Its process.
    pub(super) fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("it does not run")
    }

    /// Forgets the process, which ends it if it still runs.
    pub(super) fn forget(&mut self) {
        self.process = None;
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Takes away by hand what it left behind.
    pub(super) fn clean(&mut self) {
        self.forget();
        state::clean();
    }
}
