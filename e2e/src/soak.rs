//! `nodens-e2e soak`: names not queried before, for as many as an hour has, under the memory limit of the
//! chart of the node role.
//!
//! Half of the new names exist and half do not, so every cache is full all the time; a few hundred names are asked again
//! and again beside them. The upstream is another Nodens, over TCP, as the central servers are. The limit is a control
//! group's, so a server that goes beyond it is killed as it would be on a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args as Arguments;
use lab_histogram::{Histogram, Quantile};
use lab_load::Workload;
use nodens_wire::{Name, Type};

use crate::cgroup::MemoryGroup;
use crate::measure::echo::Echo;
use crate::measure::memory::Memory;
use crate::measure::steady::Steady;
use crate::measure::table::{Table, mebibytes, quantile};
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::server::{Program, Server};

/// The chart, for its limit.
const VALUES: &str = include_str!("../../deploy/charts/nodens-node/values.yaml");

/// The central servers: names below `cluster.local` do not exist, all others have an address.
const CENTRAL: &str = ".:{$PORT} {
    bind 127.0.0.1
    template IN ANY cluster.local {
        rcode NXDOMAIN
        authority \"cluster.local. 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 30\"
    }
    template IN A {
        answer \"{{ .Name }} 3600 IN A 192.0.2.1\"
    }
}
";

/// Names that are asked again and again.
const POPULAR: usize = 500;

/// Part of the time of each window in which the echo is measured instead.
const ECHO_SHARE: u32 = 10;

/// How much larger p99.9 of the last third may be than that of the first, beside the echo's.
const DRIFT: f64 = 1.5;

/// Of so many queries one may be lost: with other work beside, sockets overflow.
const LOST_ONE_IN: u64 = 1000;

#[derive(Arguments)]
pub(crate) struct Args {
    /// New names in all: an hour of a thousand a second.
    #[arg(long, default_value_t = 3_600_000)]
    names: u64,
    /// New names a second.
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// QPS for names that are asked again and again.
    #[arg(long, default_value_t = 2000.0)]
    popular: f64,
    /// Times at which memory and tails are looked at.
    #[arg(long, default_value_t = 12)]
    windows: u32,
    /// Threads of the server that answer, as on a node with so many CPUs [default: one per CPU].
    #[arg(long)]
    workers: Option<usize>,
    /// Lines of `cache` in the blocks but the cluster's, as the manifests have them.
    #[arg(long, default_value = "cache 30")]
    cache: String,
    /// The program that is Nodens [default: the one beside this program].
    #[arg(long)]
    program: Option<PathBuf>,
    /// The limit in MiB [default: the chart's].
    #[arg(long)]
    limit: Option<u64>,
}

/// What a window showed.
#[derive(Debug, Default)]
struct Window {
    new: Histogram,
    popular: Histogram,
    echo: Histogram,
    asked: u64,
    lost: u64,
    /// Octets of the group, and the resident part of the process.
    used: u64,
    resident: u64,
}

pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let limit = args.limit.map_or_else(limit_of_chart, |mebibytes| Ok(mebibytes << 20))?;
    let group = MemoryGroup::of_run(sandbox.name(), limit)?;
    let program =
        args.program.clone().map_or_else(Program::nodens, |path| Ok(Program::Nodens(path)))?;
    let mut central = Server::start(sandbox, &program, "central", CENTRAL, &[])?;
    central.ready().await?;
    let address = SocketAddr::from(([127, 0, 0, 1], 53));
    let mut node = start(args, sandbox, &program, (address, central.address()), &group)?;
    await_listening(&mut node, address).await?;
    let echo = Echo::start(&[])?;
    let each = args.names as f64 / args.rate / f64::from(args.windows);
    let each = Duration::from_secs_f64(each);
    println!(
        "{} new names at {} a second, {} QPS for {POPULAR} others; {} windows of {each:.0?}; limit {}",
        args.names,
        args.rate,
        args.popular,
        args.windows,
        mebibytes(limit)
    );
    let mut windows = Vec::new();
    for number in 0..args.windows {
        let mut window = load(args, address, each, number).await?;
        window.echo = measure(echo.address, args.popular, each / ECHO_SHARE, number).await?;
        window.used = group.used()?;
        ensure!(node.runs(), "the server ended: {}", node.last_words());
        window.resident = Memory::of(node.id())?.resident;
        eprintln!("window {number}: {} MiB", window.used >> 20);
        windows.push(window);
    }
    println!("\n{}", table(&windows));
    verdict(&windows, &group, limit)
}

fn limit_of_chart() -> Result<u64> {
    let limits = VALUES.split_once("limits:\n").context("no limits in the chart")?.1;
    let line = limits.lines().next().unwrap_or_default();
    let number = line.trim().strip_prefix("memory: ").and_then(|text| text.strip_suffix("Mi"));
    Ok(number.context("no limit on memory in the chart")?.parse::<u64>()? << 20)
}

/// Starts the server in the group, so that it knows the limit from the beginning.
fn start(
    args: &Args,
    sandbox: &Sandbox,
    program: &Program,
    (address, central): (SocketAddr, SocketAddr),
    group: &MemoryGroup,
) -> Result<Process> {
    let Program::Nodens(path) = program else { bail!("no Nodens") };
    let folder = sandbox.folder("servers/node")?;
    std::fs::write(folder.join("Corefile"), corefile(address, central, &args.cache))?;
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.processes());
    command.arg(path).args(["-conf", "Corefile"]).current_dir(&folder);
    if let Some(workers) = args.workers {
        command.args(["-workers", &workers.to_string()]);
    }
    Process::start("node", command, folder.join("log"))
}

/// The Corefile of the node role, with a literal upstream.
fn corefile(address: SocketAddr, central: SocketAddr, cache: &str) -> String {
    let block = |zone: &str, cache: &str| {
        format!(
            "{zone}:{} {{
    errors
    {cache}
    reload
    loop
    bind {}
    forward . {central} {{
        force_tcp
    }}
    prometheus 127.0.0.1:9253
}}
",
            address.port(),
            address.ip()
        )
    };
    let cluster = "cache {\n        success 9984 30\n        denial 9984 5\n    }";
    let others = ["in-addr.arpa", "ip6.arpa", "."].map(|zone| block(zone, cache));
    block("cluster.local", cluster) + &others.concat()
}

async fn await_listening(node: &mut Process, address: SocketAddr) -> Result<()> {
    for _ in 0..600 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        ensure!(node.runs(), "it ended: {}", node.last_words());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("it does not listen: {}", node.last_words())
}

/// New names of both kinds and popular ones, side by side.
async fn load(args: &Args, server: SocketAddr, duration: Duration, number: u32) -> Result<Window> {
    let seed = 1000 + u64::from(number) * 3;
    let unique = |suffix: &str, seed| -> Result<Workload> {
        Ok(Workload::unique(seed, Name::parse(suffix)?.view(), Type::A)?)
    };
    let steady = |rate, seed| Steady { server, rate, duration, cpus: Vec::new(), seed };
    let running = [
        steady(args.rate / 2.0, seed).start(&unique("soak.example.", seed)?),
        steady(args.rate / 2.0, seed + 1).start(&unique("ns.svc.cluster.local.", seed + 1)?),
        steady(args.popular, seed + 2).start(&popular()?),
    ];
    let mut window = Window::default();
    for (kind, running) in running.into_iter().enumerate() {
        let outcome = running.outcome().await?;
        let into = if kind < 2 { &mut window.new } else { &mut window.popular };
        into.merge(&outcome.tally.response);
        window.asked += outcome.tally.counts.sent;
        window.lost += outcome.tally.counts.lost();
    }
    Ok(window)
}

fn popular() -> Result<Workload> {
    let mut workload = Workload::new(7);
    for n in 0..POPULAR {
        workload.push(Name::parse(&format!("p{n}.popular.example."))?.view(), Type::A, None);
    }
    workload.shuffle(1 << 16);
    Ok(workload)
}

async fn measure(
    server: SocketAddr,
    rate: f64,
    duration: Duration,
    number: u32,
) -> Result<Histogram> {
    let seed = 77 + u64::from(number);
    let steady = Steady { server, rate, duration, cpus: Vec::new(), seed };
    Ok(steady.start(&popular()?).outcome().await?.tally.response)
}

fn table(windows: &[Window]) -> Table {
    let head = [
        "window",
        "asked",
        "lost",
        "group",
        "resident",
        "new p50",
        "new p99",
        "new p99.9",
        "popular p50",
        "popular p99",
        "popular p99.9",
        "echo p99.9",
    ];
    let mut table = Table::new(&head);
    for (number, window) in windows.iter().enumerate() {
        let mut row = vec![(number + 1).to_string(), window.asked.to_string()];
        row.push(window.lost.to_string());
        row.extend([window.used, window.resident].map(mebibytes));
        for histogram in [&window.new, &window.popular] {
            row.extend([0.5, 0.99, 0.999].map(|part| quantile(histogram.quantile(part))));
        }
        row.push(quantile(window.echo.quantile(0.999)));
        table.row(row);
    }
    table
}

/// p99.9 of the last third divided by that of the first.
fn drift(windows: &[Window], which: impl Fn(&Window) -> &Histogram) -> f64 {
    let third = (windows.len() / 3).max(1);
    let tail = |windows: &[Window]| {
        let mut all = Histogram::default();
        windows.iter().for_each(|window| all.merge(which(window)));
        match all.quantile(0.999) {
            Quantile::Value(nanos) | Quantile::AtLeast(nanos) => nanos as f64,
            Quantile::Empty => f64::NAN,
        }
    };
    let last = windows.get(windows.len().saturating_sub(third)..).unwrap_or(windows);
    tail(last) / tail(windows.get(..third).unwrap_or(windows))
}

fn verdict(windows: &[Window], group: &MemoryGroup, limit: u64) -> Result<ExitCode> {
    let peak = group.peak()?;
    let kills = group.kills()?;
    let echo = drift(windows, |window| &window.echo);
    let [new, popular] =
        [drift(windows, |window| &window.new), drift(windows, |window| &window.popular)];
    println!("peak of the group {} of {}, {kills} kills", mebibytes(peak), mebibytes(limit));
    println!("p99.9, last third to first: new {new:.2}, popular {popular:.2}, echo {echo:.2}");
    let mut missed = Vec::new();
    if kills > 0 || peak >= limit {
        missed.push("the limit on memory was met".to_owned());
    }
    let (asked, lost) = windows
        .iter()
        .fold((0, 0), |(asked, lost), window| (asked + window.asked, lost + window.lost));
    if lost > asked / LOST_ONE_IN {
        missed.push(format!("{lost} of {asked} queries were lost"));
    }
    for (name, drift) in [("new", new), ("popular", popular)] {
        if drift.is_nan() || drift > DRIFT * echo.max(1.0) {
            missed.push(format!("p99.9 of {name} names drifts: {drift:.2}"));
        }
    }
    missed.iter().for_each(|what| println!("MISSED: {what}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
