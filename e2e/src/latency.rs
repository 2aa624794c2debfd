//! `nodens-e2e latency`: from a Service's creation call returning to its name resolving.
//!
//! Both servers run on the same API server and see the same events. They are asked in turns: a few
//! names of one, then as many of the other, and so on, so that what drifts on the machine hits both.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as Arguments;
use kube::Client;
use lab_histogram::Histogram;
use nodens_wire::{Rcode, Type};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::control_plane::{ControlPlane, Credential, Options, reader_rules};
use crate::measure::bulk::Write;
use crate::measure::population::{self, Population};
use crate::measure::probe::{Answer, Probe};
use crate::measure::store::Store;
use crate::measure::table::{self, Table};
use crate::measure::{Which, start};
use crate::sandbox::Sandbox;

/// Goals of a name that exists from now on: median and 99th percentile.
const GOALS: [(f64, Duration); 2] =
    [(0.5, Duration::from_millis(20)), (0.99, Duration::from_millis(100))];
/// When a name that does not resolve is given up; more than the time that any cache may keep its
/// absence.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Seconds that the reader's token is valid.
const DAY: i64 = 86_400;
/// The namespace of the names.
const NAMESPACE: &str = "latency";

#[derive(Arguments)]
pub(crate) struct Args {
    /// Names in each turn of each server.
    #[arg(long, default_value_t = 50)]
    names: usize,
    /// Turns of each server.
    #[arg(long, default_value_t = 4)]
    turns: usize,
    /// Services that are there already.
    #[arg(long, default_value_t = 1_000)]
    services: usize,
    /// Servers to measure.
    #[arg(long, value_delimiter = ',', default_value = "nodens,coredns")]
    servers: Vec<Which>,
    /// Fail when Nodens misses the goals.
    #[arg(long)]
    check: bool,
}

/// What the names of a row have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Asked all the time, and NXDOMAIN until the service is there.
    AskedBefore,
    /// Asked for the first time when the call has returned.
    New,
    /// As [`Case::AskedBefore`], a headless service: from its EndpointSlice's creation.
    Headless,
}

/// Lines about the cache, cases, and what the row is called.
const ROWS: [(&str, Case, &str); 4] = [
    ("cache 30", Case::AskedBefore, "`cache 30`, queried all the time"),
    ("cache 30", Case::New, "`cache 30`, queried once it exists"),
    ("", Case::AskedBefore, "no cache, queried all the time"),
    ("", Case::Headless, "no cache, headless, queried all the time"),
];

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let plane = ControlPlane::start(sandbox, Options::default()).await?;
    let account = plane.account("reader", reader_rules()).await?;
    let token = plane.token(&account, DAY)?;
    let kubeconfig = plane.kubeconfig("reader", &Credential::Token(token))?;
    let client = plane.admin().await?;
    Store::fill(Population { services: args.services, endpoints: 5 }, &client).await?;
    let body = json!({"metadata": {"name": NAMESPACE}});
    Write::create("/api/v1/namespaces", body).send(&client).await?;

    let mut table = Table::new(&["", "server", "names", "p50", "p90", "p99", "max"]);
    let mut missed = Vec::new();
    for (row, (cache, case, title)) in ROWS.into_iter().enumerate() {
        let mut servers = Vec::new();
        for which in &args.servers {
            let name = format!("{}-{row}", which.name());
            let server = start(sandbox, *which, &name, (cache, &kubeconfig)).await?;
            servers.push((*which, server, Histogram::new()));
        }
        for turn in 0..args.turns {
            for (which, server, times) in &mut servers {
                let name = format!("{row}-{turn}-{}", which.name());
                let group = Group { client: &client, case, name };
                let measured = group.measure(server.address(), args.names).await;
                times.merge(&measured.with_context(|| server.process().last_words())?);
            }
        }
        for (which, _, times) in &servers {
            table.row(cells(title, which.name(), times));
            if *which == Which::Nodens {
                missed.extend(missed_goals(times).map(|text| format!("{title}: {text}")));
            }
        }
    }
    println!("\nFrom the creation call returning to the name resolving:\n\n{table}");
    for text in &missed {
        println!("Nodens misses a goal: {text}");
    }
    let failed = args.check && !missed.is_empty();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn cells(title: &str, server: &str, times: &Histogram) -> Vec<String> {
    let parts = [0.5, 0.9, 0.99, 1.0].map(|part| table::quantile(times.quantile(part)));
    let names = (times.recorded() + times.censored()).to_string();
    [title.to_owned(), server.to_owned(), names].into_iter().chain(parts).collect()
}

fn missed_goals(times: &Histogram) -> impl Iterator<Item = String> + '_ {
    GOALS.into_iter().filter_map(|(part, goal)| {
        let found = times.quantile(part);
        let nanos = found.nanos().unwrap_or(u64::MAX);
        (Duration::from_nanos(nanos) >= goal)
            .then(|| format!("p{} {}, wanted below {goal:?}", part * 100.0, table::quantile(found)))
    })
}

/// Names of one turn.
struct Group<'a> {
    client: &'a Client,
    case: Case,
    name: String,
}

impl Group<'_> {
    /// Creates one service after the other while its name is asked for.
    async fn measure(&self, server: std::net::SocketAddr, names: usize) -> Result<Histogram> {
        let mut waiting = JoinSet::new();
        for n in 0..names {
            let service = format!("new-{}-{n}", self.name);
            let (created, when) = oneshot::channel();
            let (asked, absent) = oneshot::channel();
            let name = format!("{service}.{NAMESPACE}.svc.cluster.local.");
            let asks_before = self.case != Case::New;
            waiting.spawn(watch(server, name, asks_before.then_some(asked), when));
            if asks_before && absent.await.is_err() {
                // One that waits has failed and says why.
                while let Some(time) = waiting.join_next().await {
                    time??;
                }
                bail!("{service}: no query was sent for it");
            }
            let addresses = self.create(&service).await?;
            let received = created.send((Instant::now(), addresses));
            received.ok().context("no measurement waits for the name any more")?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut times = Histogram::new();
        while let Some(time) = waiting.join_next().await {
            match time?? {
                Some(time) => times.record(time.as_nanos() as u64),
                None => times.record_censored(GIVE_UP.as_nanos() as u64),
            }
        }
        Ok(times)
    }

    /// Creates a service, and what its name needs to resolve; the addresses it is to have.
    async fn create(&self, service: &str) -> Result<Vec<IpAddr>> {
        if self.case != Case::Headless {
            return Ok(vec![population::create_service(self.client, NAMESPACE, service).await?]);
        }
        let address = "10.1.2.3";
        let body = json!({
            "metadata": {"name": service},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services");
        Write::create(path, body).send(self.client).await?;
        let body = json!({
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        });
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
        Write::create(path, body).send(self.client).await?;
        Ok(vec![address.parse()?])
    }
}

/// Asks for a name until it resolves; how long after its creation that was, if it ever did.
///
/// With `asked` it is queried before it exists, and `asked` is notified of that answer.
async fn watch(
    server: std::net::SocketAddr,
    name: String,
    asked: Option<oneshot::Sender<()>>,
    mut created: oneshot::Receiver<(Instant, Vec<IpAddr>)>,
) -> Result<Option<Duration>> {
    let mut probe = Probe::new(server).await?;
    let mut resolved: Option<(Instant, Answer)> = None;
    if let Some(asked) = asked {
        match probe.ask(&name, Type::A).await? {
            Some(answer) if answer.rcode == Rcode::NXDOMAIN => _ = asked.send(()),
            other => bail!("{name}: expected NXDOMAIN before it exists, got {other:?}"),
        }
        // Also while the call is under way.
        while created.is_empty() && resolved.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let answer = probe.ask(&name, Type::A).await?;
            resolved = answer.filter(has_addresses).map(|answer| (Instant::now(), answer));
        }
    }
    let (start, addresses) = (&mut created).await.context("the service was not created")?;
    while resolved.is_none() && start.elapsed() < GIVE_UP {
        let answer = probe.ask(&name, Type::A).await?;
        resolved = answer.filter(has_addresses).map(|answer| (Instant::now(), answer));
        // Looking every millisecond at first, then to 1 %.
        let pause = (start.elapsed() / 100).max(Duration::from_millis(1));
        tokio::time::sleep(if resolved.is_some() { Duration::ZERO } else { pause }).await;
    }
    let Some((at, answer)) = resolved else { return Ok(None) };
    if !answer.is(&addresses) {
        bail!("{name}: expected {addresses:?}, got {answer}");
    }
    Ok(Some(at.saturating_duration_since(start)))
}

fn has_addresses(answer: &Answer) -> bool {
    !answer.addresses.is_empty()
}
