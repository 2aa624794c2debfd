//! `nodens-e2e node-api`: what the node role learns from a real API server.
//!
//! Central servers (CoreDNS) stand behind the Service `kube-dns-upstream`, whose address no server answers at: there is no
//! kube-proxy. So every answer came from endpoints that the API server reported, with the rights that
//! [deploy/node](../../deploy/node) gives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as Arguments;
use kube::Client;
use nodens_wire::{Rcode, Type};
use serde_json::json;

use crate::api::{self, Change, Key, Kind};
use crate::control_plane::node_role::{change_endpoints, dns_service, variables};
use crate::control_plane::{ControlPlane, Credential, Options, Store, reader_rules};
use crate::measure::probe::Probe;
use crate::official::LOCAL_DNS;
use crate::process::Process;
use crate::sandbox::{Sandbox, call};
use crate::server::{Endpoint, Program, Server};
use crate::sim::ask;

const SERVICE: &str = "kube-dns-upstream";
/// Of the central servers' token, in seconds.
const DAY: i64 = 86_400;
const CENTRALS: u8 = 3;
/// The node's metrics and readiness.
const METRICS: u16 = 9353;
/// How long anything may take on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an endpoint that was removed may still be asked, and a new name may take: far below any time that things are
/// cached for, and far above what either takes.
const AT_ONCE: Duration = Duration::from_secs(4);
/// How long an endpoint that was left is watched.
const QUIET: Duration = Duration::from_secs(2);
/// Queries that are counted.
const QUESTIONS: u64 = 300;
/// Services that are made while their names are asked for.
const NEW: usize = 5;

#[derive(Arguments)]
pub(crate) struct Args {
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: Store,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let plane =
        ControlPlane::start(sandbox, Options { store: args.store, ..Options::default() }).await?;
    let mut stage = Stage::set_up(&plane, sandbox).await?;
    let mut failed = false;
    let mut say = |name: &str, result: Result<String>| match result {
        Ok(text) => println!("pass  {name}: {text}"),
        Err(error) => {
            failed = true;
            println!("FAIL  {name}: {error:#}");
        }
    };
    say("spread", stage.spread().await);
    say("removed", stage.removed().await);
    say("added", stage.added().await);
    say("search", stage.search().await);
    say("new names", stage.new_names().await);
    if failed {
        println!("{}", stage.node.last_words());
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is tried, and on what.
struct Stage {
    client: Client,
    centrals: Vec<Server>,
    node: Process,
    probe: Probe,
    /// Names asked for so far.
    asked: u64,
}

impl Stage {
    async fn set_up(plane: &ControlPlane, sandbox: &Sandbox) -> Result<Self> {
        let client = plane.admin().await?;
        let reader = plane.account("reader", reader_rules()).await?;
        let kubeconfig =
            plane.kubeconfig("reader", &Credential::Token(plane.token(&reader, DAY)?))?;
        let mut centrals = Vec::new();
        for number in 0..CENTRALS {
            centrals.push(central(sandbox, number, &kubeconfig)?);
        }
        for server in &mut centrals {
            server.ready().await?;
        }
        let all: Vec<Ipv4Addr> = (0..CENTRALS).map(address).collect();
        api::apply(&client, dns_service(SERVICE, None, &all)).await?;
        plane.mount_node_role().await?;
        call("ip", &["address", "add", &format!("{LOCAL_DNS}/32"), "dev", "lo"])?;
        let mut node = start_node(sandbox)?;
        await_ready(&mut node).await?;
        let probe = Probe::new(SocketAddr::new(LOCAL_DNS.parse()?, 53)).await?;
        Ok(Stage { client, centrals, node, probe, asked: 0 })
    }

    /// Queries that reached a central server.
    fn count(&self, number: usize) -> Result<u64> {
        let server = self.centrals.get(number).context("no such server")?;
        let (_, text) = server.get(Endpoint::Metrics)?;
        let lines = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total{"));
        let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(numbers.sum::<f64>() as u64)
    }

    fn counts(&self) -> Result<Vec<u64>> {
        (0..self.centrals.len()).map(|number| self.count(number)).collect()
    }

    /// Asks for a name not queried before and that search paths do not lead to; it does not exist.
    async fn ask(&mut self) -> Result<()> {
        self.asked += 1;
        let name = format!("_p{}._tcp.kubernetes.default.svc.cluster.local.", self.asked);
        match self.probe.ask(&name, Type::SRV).await? {
            Some(answer) if answer.rcode == Rcode::NXDOMAIN => Ok(()),
            other => bail!("{name}: {}", other.map_or("no answer".to_owned(), |a| a.to_string())),
        }
    }

    /// All endpoints are asked.
    async fn spread(&mut self) -> Result<String> {
        let before = self.counts()?;
        for _ in 0..QUESTIONS {
            self.ask().await?;
        }
        let counts: Vec<_> =
            self.counts()?.iter().zip(before).map(|(now, was)| now - was).collect();
        let text = format!("{QUESTIONS} queries went to {counts:?}");
        ensure!(counts.iter().all(|count| *count >= QUESTIONS / 10), "{text}");
        Ok(text)
    }

    /// An endpoint that was removed is not asked, though it would answer; nothing is lost.
    async fn removed(&mut self) -> Result<String> {
        self.set_endpoints(&[0, 1]).await?;
        let begun = Instant::now();
        let (mut last, mut left) = (self.count(2)?, Duration::ZERO);
        let asked = self.asked;
        while begun.elapsed() < left + QUIET {
            for _ in 0..10 {
                self.ask().await?;
            }
            let now = self.count(2)?;
            if now > last {
                (last, left) = (now, begun.elapsed());
            }
            ensure!(left < AT_ONCE, "it still gets queries after {left:.1?}");
        }
        let asked = self.asked - asked;
        Ok(format!("left after {left:.0?}, {asked} queries, all answered"))
    }

    /// An endpoint that was added is asked.
    async fn added(&mut self) -> Result<String> {
        let before = self.count(2)?;
        self.set_endpoints(&[0, 1, 2]).await?;
        let begun = Instant::now();
        while self.count(2)? == before {
            for _ in 0..10 {
                self.ask().await?;
            }
            ensure!(begun.elapsed() < AT_ONCE, "it gets no queries after {:.1?}", begun.elapsed());
        }
        Ok(format!("gets queries after {:.0?}", begun.elapsed()))
    }

    /// What a search list makes of external names ends at the node.
    async fn search(&mut self) -> Result<String> {
        let names = |number: u64| format!("www{number}.example.com.default.svc.cluster.local.");
        // The central servers have to deny one themselves.
        self.probe
            .until((&names(0), Type::A), PATIENCE, |answer| answer.rcode == Rcode::NXDOMAIN)
            .await?;
        let before: u64 = self.counts()?.iter().sum();
        for number in 1..=QUESTIONS {
            let answer = self.probe.ask(&names(number), Type::A).await?.context("no answer")?;
            ensure!(answer.rcode == Rcode::NXDOMAIN, "{}: {answer}", names(number));
        }
        let passed = self.counts()?.iter().sum::<u64>() - before;
        let text =
            format!("of {QUESTIONS} names of a search list {passed} went to the central servers");
        ensure!(passed <= QUESTIONS / 50, "{text}");
        Ok(text)
    }

    /// A name that was denied a moment ago resolves as soon as its Service exists.
    async fn new_names(&mut self) -> Result<String> {
        let mut longest = Duration::ZERO;
        for number in 0..NEW {
            let service = format!("new-{number}");
            let name = format!("{service}.default.svc.cluster.local.");
            // As clients that wait for it do: the denial is in the cache, and in that of `search`.
            for _ in 0..5 {
                let answer = self.probe.ask(&name, Type::A).await?.context("no answer")?;
                ensure!(answer.rcode == Rcode::NXDOMAIN, "{name} before it exists: {answer}");
            }
            let key = Key::new(Kind::Service, "default", &service);
            let spec = json!({"spec": {"ports": [{"port": 80}]}});
            api::apply(&self.client, vec![Change::Create(key, spec)]).await?;
            let known = |answer: &crate::measure::probe::Answer| !answer.addresses.is_empty();
            let took = self.probe.until((&name, Type::A), AT_ONCE, known).await?;
            longest = longest.max(took);
        }
        Ok(format!("{NEW} resolved at most {longest:.0?} after the API server had them"))
    }

    async fn set_endpoints(&self, centrals: &[u8]) -> Result<()> {
        let addresses: Vec<Ipv4Addr> = centrals.iter().copied().map(address).collect();
        api::apply(&self.client, vec![change_endpoints(SERVICE, &addresses)]).await
    }
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 98, 0, 11 + number)
}

/// A central server at an address of its own.
fn central(sandbox: &Sandbox, number: u8, kubeconfig: &Path) -> Result<Server> {
    let address = address(number);
    call("ip", &["address", "add", &format!("{address}/32"), "dev", "lo"])?;
    let corefile = format!(
        "cluster.local:53 {{
    bind {address}
    errors
    ready 127.0.0.1:{{$READY}}
    prometheus 127.0.0.1:{{$METRICS}}
    kubernetes cluster.local {{
        kubeconfig {}
    }}
}}
",
        kubeconfig.display()
    );
    Server::start(sandbox, &Program::CoreDns, &format!("central-{number}"), &corefile, &[])
}

/// The node role beside another program that redirects the queries, as with Cilium.
fn start_node(sandbox: &Sandbox) -> Result<Process> {
    let Program::Nodens(program) = Program::nodens()? else { bail!("no Nodens") };
    let folder = sandbox.folder("node")?;
    let base = folder.join("Corefile.base");
    let template = format!(
        "cluster.local:53 {{
    errors
    cache 30
    bind {LOCAL_DNS}
    forward . __PILLAR__CLUSTER__DNS__ {{
        force_tcp
    }}
}}
"
    );
    std::fs::write(&base, template)?;
    let mut command = Command::new(program);
    command.args(["-localip", LOCAL_DNS, "-upstreamsvc", SERVICE]);
    command.args(["-setupinterface=false", "-setupiptables=false", "-skipteardown"]);
    command.args(["-metrics-listen-address", &format!("127.0.0.1:{METRICS}")]);
    command.arg("-conf").arg(folder.join("Corefile")).arg("-basecorefile").arg(base);
    command.envs(variables());
    // What the kubelet says of the Service: no server answers there.
    command.env("KUBE_DNS_UPSTREAM_SERVICE_HOST", "10.96.0.11");
    Process::start("node", command, folder.join("log"))
}

async fn await_ready(node: &mut Process) -> Result<()> {
    let begun = Instant::now();
    let address = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), METRICS);
    while ask::http(address, "/ready").is_err() {
        ensure!(node.runs(), "it ended: {}", node.last_words());
        ensure!(begun.elapsed() < PATIENCE, "it is not ready: {}", node.last_words());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
