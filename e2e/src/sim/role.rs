//! What is tried in the node role.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::process::Signal;

use super::net::{self, NODE, OUTSIDE_ADDRESS};
use super::proxy::{CLUSTER_DNS, UPSTREAM};
use super::servers::START_TIMEOUT;
use super::state;
use crate::control_plane::peers;
use crate::official::{self, LOCAL_DNS};
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::server::Program;

/// What a server says when nothing makes it serve again.
const HANDED_OVER: &str = "plugin/handover: the successor has taken over";

/// What can be tried in the node role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Nodens,
    /// Kubernetes' own: the program `node-cache` in the peers' cache, or `--node-cache`.
    NodeCache,
    /// CoreDNS with addresses and rules as node-cache makes them, which nothing removes when it dies.
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

/// A program in the node role.
#[derive(Debug)]
pub(super) struct Role {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    /// Of its environment, beside those that it always has.
    variables: Vec<(&'static str, String)>,
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
        let variables = Vec::new();
        let role =
            Role { kind, program, folder, variables, process: None, started: 0, log_begins: 0 };
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

    /// Gives it further variables of its environment from its next start on.
    pub(super) fn set_variables(&mut self, variables: impl Into<Vec<(&'static str, String)>>) {
        self.variables = variables.into();
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
        command.envs(self.variables.iter().map(|(key, value)| (key, value)));
        command.args(["-localip", &format!("{LOCAL_DNS},{CLUSTER_DNS}")]);
        command.arg("-conf").arg(file("Corefile"));
        command.args(["-upstreamsvc", "kube-dns-upstream"]);
        if self.kind == Kind::Nodens {
            command.arg("-handover-dir").arg(file("handover"));
        }
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
                bail!("it takes no queries: {}", process.last_words());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(begun.elapsed())
    }

    /// Starts one more and waits until it has taken over; how long that took.
    pub(super) fn succeed(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut successor = self.successor()?;
        self.wait_for_end(&mut successor)?;
        self.process = Some(successor);
        ensure!(state::attracts()?, "after a hand-over it takes no queries: {}", self.last_words());
        Ok(begun.elapsed())
    }

    /// Starts one more and kills it after a while; the one before has to continue.
    pub(super) fn crash_successor(&mut self, after: Duration) -> Result<Duration> {
        let before = self.hand_overs();
        let mut successor = self.successor()?;
        thread::sleep(after);
        // Stopped, it cannot become the server between the look at the log and its end.
        successor.signal(Signal::STOP)?;
        thread::sleep(Duration::from_millis(20));
        if self.hand_overs() > before {
            // It is the server by now, and its end would be that of everything.
            successor.signal(Signal::CONT)?;
            self.wait_for_end(&mut successor)?;
            self.process = Some(successor);
            return Ok(after);
        }
        successor.kill()?;
        // Whatever it had begun shows by then.
        thread::sleep(Duration::from_millis(500));
        ensure!(self.process()?.runs(), "after {after:?} both are gone: {}", self.last_words());
        ensure!(
            state::attracts()?,
            "after {after:?} no process takes queries: {}",
            self.last_words()
        );
        Ok(after)
    }

    /// Waits until the server has ended, which its successor has to outlive.
    fn wait_for_end(&mut self, successor: &mut Process) -> Result<()> {
        let begun = Instant::now();
        while self.process()?.runs() {
            ensure!(successor.runs(), "it ended: {}", successor.last_words());
            ensure!(begun.elapsed() < START_TIMEOUT, "no hand-over: {}", successor.last_words());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// How often a server has said that it is none any more; from then on it does not continue.
    fn hand_overs(&self) -> usize {
        self.lines().iter().filter(|line| line.ends_with(HANDED_OVER)).count()
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
