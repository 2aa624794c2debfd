//! The two servers: as they were given, and as they run.

use super::Args;
use super::kube::{Pod, Selector};
use crate::child::{Scratch, Server, family, free_address};
use crate::counters::{Counters, Endpoint, Reading};
use crate::server::Server as Named;
use anyhow::{Context, Result, bail};
use lab_load::Workload;
use lab_result::comparison::Party;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The port of a server that was given without one.
const PORT: u16 = 53;
/// How long a server that is not started here may take to answer once.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// A server as it was given.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Name in tables.
    pub(crate) name: String,
    target: Target,
    counters: Counters,
    /// The process, if it runs already and belongs to the lab, which may move it to other CPUs.
    own: Option<u32>,
}

#[derive(Clone, Debug)]
enum Target {
    /// Started here, with `{port}` in place of its port.
    Command(String),
    Address(SocketAddr),
    Pods {
        selector: Selector,
        found: Vec<Pod>,
    },
}

/// One of the two servers' options.
pub(crate) struct Given<'a> {
    pub(crate) side: &'static str,
    pub(crate) command: Option<&'a str>,
    pub(crate) address: Option<&'a Named>,
    pub(crate) pods: Option<&'a str>,
    pub(crate) context: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) pid: Option<u32>,
    pub(crate) cgroup: Option<&'a PathBuf>,
    pub(crate) prometheus: Option<&'a str>,
}

impl Spec {
    pub(crate) fn read(given: &Given<'_>, kubectl: &str) -> Result<Self> {
        let side = given.side;
        let target = match (given.command, given.address, given.pods) {
            (Some(command), None, None) => {
                if !command.contains("{port}") {
                    bail!("--{side}-cmd has no {{port}} for the port that the server is to use");
                }
                Target::Command(command.to_owned())
            }
            (None, Some(server), None) => {
                let address = server.find_and_tell(PORT).with_context(|| format!("--{side}"))?;
                Target::Address(address)
            }
            (None, None, Some(pods)) => {
                let selector = Selector::parse(pods, given.context, kubectl)
                    .with_context(|| format!("--{side}-k8s"))?;
                let found = selector.pods().with_context(|| format!("--{side}-k8s"))?;
                Target::Pods { selector, found }
            }
            (None, None, None) => {
                bail!("expected a server: one of --{side}, --{side}-cmd and --{side}-k8s")
            }
            _ => bail!("expected only one of --{side}, --{side}-cmd and --{side}-k8s"),
        };
        let counters = match (given.pid, given.cgroup, given.prometheus) {
            (None, None, None) => Counters::Nowhere,
            (Some(pid), None, None) => Counters::Process(pid),
            (None, Some(path), None) => Counters::Cgroup(path.clone()),
            (None, None, Some(url)) => Counters::Prometheus(
                url.parse::<Endpoint>().with_context(|| format!("--{side}-prometheus"))?,
            ),
            _ => bail!("expected only one of --{side}-pid, --{side}-cgroup, --{side}-prometheus"),
        };
        counters.refuse_own().with_context(|| format!("--{side}"))?;
        let name = given.name.map_or_else(|| name_of(side, &target), str::to_owned);
        Ok(Self { name, target, counters, own: None })
    }

    /// A server of the lab at `address` that is process `pid`.
    pub(crate) fn process(name: &str, address: SocketAddr, pid: u32) -> Self {
        let (name, counters) = (name.to_owned(), Counters::Process(pid));
        Self { name, target: Target::Address(address), counters, own: Some(pid) }
    }

    pub(crate) fn is_command(&self) -> bool {
        matches!(self.target, Target::Command(_))
    }

    /// Whether a new start is another process or pod.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.target, Target::Address(_))
    }

    /// What a reader must know of counters that leave something out.
    pub(crate) fn note(&self) -> Option<String> {
        let Counters::Process(pid) = self.counters else { return None };
        let children = family(pid).len() - 1;
        (children > 0).then(|| {
            let name = &self.name;
            format!(
                "{name}: CPU and memory are those of process {pid} alone, not of its child processes ({children}): \
                 a control group has all"
            )
        })
    }

    /// What a reader must know to find the same server again.
    pub(crate) fn described(&self) -> String {
        match &self.target {
            Target::Command(command) => command.clone(),
            Target::Address(address) => address.to_string(),
            Target::Pods { selector, found } => {
                let pods: Vec<_> = found
                    .iter()
                    .map(|pod| {
                        format!("{} at {} ({})", pod.name, pod.address, pod.images.join(", "))
                    })
                    .collect();
                format!("{}/{}: {}", selector.namespace, selector.labels, pods.join("; "))
            }
        }
    }

    pub(crate) fn party(&self, version: Option<String>) -> Party {
        let counters = match (&self.target, &self.counters) {
            (Target::Command(_), Counters::Nowhere) => {
                Some("all of its processes: CPU clock, PSS".to_owned())
            }
            (Target::Pods { found, .. }, Counters::Nowhere) => {
                let first = found.iter().find_map(|pod| pod.metrics.clone());
                first.map(|_| "metrics of each pod".to_owned())
            }
            (_, Counters::Nowhere) => None,
            (_, counters) => Some(counters.to_string()),
        };
        Party { name: self.name.clone(), server: self.described(), version, counters }
    }
}

/// The program of a command, the port of an address, the selector of pods.
fn name_of(side: &str, target: &Target) -> String {
    let side = side.to_uppercase();
    match target {
        Target::Command(command) => {
            let words = || command.split_ascii_whitespace();
            // Leaves out `env` and what it sets.
            let program = words().find(|word| *word != "env" && !word.contains('='));
            let file = program.unwrap_or(command).rsplit('/').next().unwrap_or_default();
            format!("{side} ({file})")
        }
        Target::Address(address) => format!("{side} ({address})"),
        Target::Pods { selector, .. } => format!("{side} ({})", selector.namespace),
    }
}

/// A server that can be asked.
pub(crate) struct Instance {
    pub(crate) address: SocketAddr,
    counters: Counters,
    /// The process, if it was started here; it ends with the value.
    server: Option<Server>,
    /// A process of the lab that was started before.
    own: Option<u32>,
    /// Which start this is.
    pub(crate) incarnation: usize,
    /// Answers it has given so far.
    pub(crate) answers: u64,
}

impl Instance {
    pub(crate) fn read(&self) -> Result<Reading> {
        match (&self.server, &self.counters) {
            (Some(server), Counters::Nowhere) => Counters::of_server(server),
            (_, counters) => counters.read(),
        }
    }

    /// Moves the process to `cpus`; false if it is not one of the lab's.
    pub(crate) fn move_to(&self, cpus: &[usize]) -> Result<bool> {
        let Some(pid) = self.server.as_ref().map(Server::pid).or(self.own) else {
            return Ok(false);
        };
        lab_sys::cpu::move_process(pid, cpus).context("cannot move a server to other CPUs")?;
        Ok(true)
    }
}

/// Starts servers, or finds them.
pub(crate) struct Starter<'a> {
    pub(crate) stop: &'a AtomicBool,
    pub(crate) scratch: Scratch,
    /// CPUs of servers that are started here; anywhere if empty.
    pub(crate) cpus: Vec<usize>,
    /// Whose first query must be answered before a server counts as started.
    pub(crate) probe: Workload,
    pub(crate) started: usize,
}

impl Starter<'_> {
    /// The server of `spec`: for commands a new process on a fresh port, for pods the next one.
    pub(crate) fn start(&mut self, spec: &Spec) -> Result<Instance> {
        self.started += 1;
        let incarnation = self.started;
        let mut probe = Vec::new();
        self.probe.append(0, 0x4e6f, &mut probe);
        let (address, counters, server) = match &spec.target {
            Target::Command(command) => {
                let address = free_address()?;
                let server = self.run(&spec.name, command, address, &probe)?;
                (address, spec.counters.clone(), Some(server))
            }
            Target::Address(address) => (*address, spec.counters.clone(), None),
            Target::Pods { found, .. } => {
                // The two sides start in turn, so every second start is this side's.
                let pod = found.get(incarnation / 2 % found.len().max(1)).context("no pod")?;
                let counters = match (&spec.counters, &pod.metrics) {
                    (Counters::Nowhere, Some(metrics)) => Counters::Prometheus(metrics.clone()),
                    (given, _) => given.clone(),
                };
                (pod.address, counters, None)
            }
        };
        if server.is_none() {
            ask_once(address, &probe).map_err(|error| unanswered(error, (&spec.name, address)))?;
        }
        let own = spec.own;
        let instance = Instance { address, counters, server, own, incarnation, answers: 0 };
        instance.read().with_context(|| format!("the counters of {}", spec.name))?;
        Ok(instance)
    }

    /// `exec` makes the process of the shell that of the server.
    fn run(&self, name: &str, line: &str, address: SocketAddr, probe: &[u8]) -> Result<Server> {
        let line = line.replace("{port}", &address.port().to_string());
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("exec {line}"));
        let log = self.scratch.path().join(format!("server-{}.log", self.started));
        let mut server = Server::start(name, &mut command, &self.cpus, &log)?;
        server.await_response(address, probe, |_| true, self.stop)?;
        Ok(server)
    }
}

/// Asks until any answer comes; the first datagrams may be lost.
/// No server is at an address that was given, as its host says.
#[derive(Debug)]
pub(crate) struct NothingListens {
    name: String,
    address: SocketAddr,
}

impl std::fmt::Display for NothingListens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, address } = self;
        write!(f, "nothing listens at {address} ({name}): every query was refused (ICMP)")
    }
}

impl std::error::Error for NothingListens {}

/// Why a server that others started cannot be measured.
fn unanswered(error: io::Error, (name, address): (&str, SocketAddr)) -> anyhow::Error {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return NothingListens { name: name.to_owned(), address }.into();
    }
    anyhow::Error::new(error).context(format!("{name} at {address} does not answer"))
}

fn ask_once(address: SocketAddr, query: &[u8]) -> io::Result<()> {
    let any = if address.is_ipv6() {
        SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0))
    } else {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let begin = Instant::now();
    loop {
        let mut response = [0; 4_096];
        match socket.send(query).and_then(|_| socket.recv(&mut response)) {
            Ok(_) => return Ok(()),
            Err(error) if begin.elapsed() > ANSWER_MAX => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Both servers of a command line.
pub(crate) fn both(args: &Args) -> Result<[Spec; 2]> {
    let a = Given {
        side: "a",
        command: args.a_cmd.as_deref(),
        address: args.a.as_ref(),
        pods: args.a_k8s.as_deref(),
        context: args.a_context.as_deref(),
        name: args.a_name.as_deref(),
        pid: args.a_pid,
        cgroup: args.a_cgroup.as_ref(),
        prometheus: args.a_prometheus.as_deref(),
    };
    let b = Given {
        side: "b",
        command: args.b_cmd.as_deref(),
        address: args.b.as_ref(),
        pods: args.b_k8s.as_deref(),
        context: args.b_context.as_deref(),
        name: args.b_name.as_deref(),
        pid: args.b_pid,
        cgroup: args.b_cgroup.as_ref(),
        prometheus: args.b_prometheus.as_deref(),
    };
    Ok([Spec::read(&a, &args.kubectl)?, Spec::read(&b, &args.kubectl)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Given<'static> {
        Given {
            side: "a",
            command: None,
            address: None,
            pods: None,
            context: None,
            name: None,
            pid: None,
            cgroup: None,
            prometheus: None,
        }
    }

    #[test]
    fn a_side_is_exactly_one_server_with_at_most_one_account() {
        let error = |given: &Given<'_>| Spec::read(given, "kubectl").unwrap_err().to_string();
        assert!(error(&given()).contains("--a, --a-cmd and --a-k8s"));
        let server = "127.0.0.1:53".parse().unwrap();
        let address = Some(&server);
        let two = Given { address, command: Some("x {port}"), ..given() };
        assert!(error(&two).contains("only one"));
        let no_port = Given { command: Some("nodens -conf x"), ..given() };
        assert!(error(&no_port).contains("{port}"));
        let accounts = Given { address, pid: Some(1), prometheus: Some("http://x/"), ..given() };
        assert!(error(&accounts).contains("--a-pid"));
        assert!(Spec::read(&Given { address, pid: Some(1), ..given() }, "kubectl").is_ok());
        for pid in [0, std::process::id()] {
            let own = Given { address, pid: Some(pid), ..given() };
            assert!(error(&own).contains("--a"), "process {pid}");
        }
    }

    #[test]
    fn children_that_are_not_counted_are_told() {
        let scratch = Scratch::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600"]);
        let log = scratch.path().join("log");
        let server = Server::start("sh", &mut command, &[], &log).unwrap();
        let spec = |pid| Spec::process("A", "127.0.0.1:53".parse().unwrap(), pid);
        let begin = Instant::now();
        while family(server.pid()).len() < 3 {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        let note = spec(server.pid()).note().unwrap();
        assert!(note.contains("child processes (2)"), "{note}");
        let child = family(server.pid())[1];
        assert_eq!(spec(child).note(), None);
    }

    #[test]
    fn sides_get_names_that_tell_them_apart() {
        let name = |command: &'static str| {
            let given = Given { command: Some(command), ..given() };
            Spec::read(&given, "kubectl").unwrap().name
        };
        assert_eq!(name("/opt/coredns -dns.port {port}"), "A (coredns)");
        assert_eq!(name("env GOMAXPROCS=1 coredns -dns.port {port}"), "A (coredns)");
    }
}
