//! `nodens-lab demo`: the same queries of a node's pods, first to the cluster's DNS directly and
//! then through a Nodens cache on the node.

mod judged;
mod leaks;
mod page;
mod record;
mod setting;

use crate::authority::{Asked, Authority, Data};
use crate::child::{Scratch, Server, free_address};
use crate::term::{self, Live, Style, Table};
use anyhow::{Context, Result, bail};
use judged::Judged;
use lab_load::cluster::{self, Cluster, Mix};
use lab_load::{Config, Outcome};
use lab_result::collect::Collector;
use lab_result::{Provenance, ServerCost};
use nodens_wire::Name;
use setting::Setting;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the cluster's DNS takes to answer, with the network to it.
const UPSTREAM_DELAY: std::ops::Range<Duration> =
    Duration::from_micros(300)..Duration::from_micros(2_000);
/// The part of the measured time that goes to the comparison without a cache.
const BEFORE_PART: f64 = 0.4;
/// The quantiles of latency that are compared.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Arguments of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server: takes `-conf FILE -dns.port PORT`, as Nodens and CoreDNS do.
    #[arg(long, value_name = "PROGRAM")]
    nodens: Option<PathBuf>,
    /// How long with the cache, as 10s; the comparison before takes less than half of that.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "10s", value_parser = lab_units::whole_seconds)]
    seconds: f64,
    /// QPS [default: as many of 4,000 as this machine sends on time].
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = lab_units::rate)]
    rate: Option<f64>,
    /// Pods on the node.
    #[arg(short, long, default_value_t = 48)]
    pods: usize,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the results and the page.
    #[arg(short, long, value_name = "FOLDER", default_value = "nodens-lab-demo")]
    out: PathBuf,
    /// Write the queries with the cache as a capture (dnstap) that `replay` sends again; a new file.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// One measured phase.
struct Phase {
    config: Config,
    outcome: Outcome,
    /// Queries that the cluster's DNS was asked meanwhile.
    upstream: u64,
}

impl Phase {
    fn upstream_rate(&self) -> f64 {
        self.upstream as f64 / self.outcome.active.as_secs_f64().max(1e-9)
    }

    fn sent_rate(&self) -> f64 {
        let sent = self.outcome.tally.counts.sent as f64;
        sent / self.outcome.active.as_secs_f64().max(1e-9)
    }

    /// The part of the queries that did not reach the cluster's DNS.
    fn saved(&self) -> f64 {
        let sent = (self.outcome.tally.counts.sent as f64).max(1.0);
        (1.0 - self.upstream as f64 / sent).max(0.0)
    }
}

/// Both phases at one rate, and what the cache took.
struct Take {
    before: Phase,
    after: Phase,
    mix: Mix,
    /// Which names reached the cluster's DNS in spite of the cache.
    asked: Asked,
    cpu: Duration,
    memory: Option<u64>,
    settings: [Provenance; 2],
}

/// What a take ended with.
enum Taken {
    Whole(Box<Take>),
    /// The machine was too busy: what to try next.
    Again(Setting),
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    setting::check(args)?;
    let program = program(args.nodens.as_deref())?;
    let record =
        args.record.as_deref().map(|path| crate::tap::created(path).map(|file| (path, file)));
    let record = record.transpose()?;
    let live = Live::new();
    let mut setting = Setting::first(args)?;
    let take = loop {
        match take(args, &program, stop, &live, setting)? {
            Taken::Whole(take) => break take,
            Taken::Again(next) => {
                live.clear();
                let rate = term::count(next.rate as u64);
                let text = "  The machine was too busy to send on time; trying again with at most";
                term::out(&term::paint(Style::Dim, &format!("{text} {rate} QPS.")));
                setting = next;
            }
        }
    };
    live.clear();
    let judged = Judged::of(&take.before, &take.after);
    show(&program, &take, &judged);
    let cost = ServerCost {
        source: "the cache’s threads (/proc/PID/task/*/schedstat)".to_owned(),
        cpu_ns: u64::try_from(take.cpu.as_nanos()).unwrap_or(u64::MAX),
        wall_ns: u64::try_from(take.after.outcome.elapsed.as_nanos()).unwrap_or(u64::MAX),
        memory_peak: take.memory,
        ..ServerCost::default()
    };
    if let Some((path, file)) = record {
        record::keep(path, file, &take)?;
    }
    let Take { before, after, settings: [of_before, of_after], .. } = *take;
    page::write(&args.out, args, [(&before, of_before), (&after, of_after)], cost)?;
    Ok(match (after.outcome.tally.counts.answered, judged) {
        (0, _) => ExitCode::FAILURE,
        (_, Judged::Invalid(_)) => ExitCode::from(crate::EXIT_INVALID),
        _ => ExitCode::SUCCESS,
    })
}

/// Starts both servers and measures without and with the cache.
fn take(
    args: &Args,
    program: &Path,
    stop: &AtomicBool,
    live: &Live,
    setting: Setting,
) -> Result<Taken> {
    let scratch = Scratch::new()?;
    let data = Data::Cluster(Cluster::default());
    let upstream = Authority::start(data, UPSTREAM_DELAY, &setting.servers)?;
    let setting = setting.calibrate(args, stop, live, &upstream)?;
    live.clear();
    let address = free_address()?;
    let corefile = scratch.write("Corefile", &corefile(address, upstream.address)?)?;
    let mut command = Command::new(program);
    command.arg("-conf").arg(&corefile).args(["-dns.port", &address.port().to_string()]);
    let log = scratch.path().join("log");
    let mut server = Server::start("the cache", &mut command, &setting.servers, &log)?;
    server.await_answer(address, &Name::parse("time.os.example")?, stop)?;

    term::out(&picture(args, setting.rate));
    let settings = [upstream.address, address].map(|to| Collector::start(to, false, None));
    let before_seconds = (args.seconds * BEFORE_PART).max(1.0);
    let measure =
        |to, seconds, what| phase(args, &setting, stop, live, &upstream, (to, seconds), what);
    let before = measure(upstream.address, before_seconds, "without")?.0;
    if let Some(next) = setting.after(args, &[&before]) {
        return over(stop).map(|()| Taken::Again(next));
    }
    upstream.take_asked();
    let before_account = server.account()?;
    let (after, mix) = measure(address, args.seconds, "with Nodens")?;
    let cpu = server.account()?.since(before_account).ran;
    over(stop)?;
    if let Some(next) = setting.after(args, &[&before, &after]) {
        return Ok(Taken::Again(next));
    }
    let (asked, memory) = (upstream.take_asked(), server.resident());
    let settings = settings.map(Collector::finish);
    Ok(Taken::Whole(Box::new(Take { before, after, mix, asked, cpu, memory, settings })))
}

/// An error if the user has had enough.
fn over(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { bail!("interrupted") } else { Ok(()) }
}

fn show(program: &Path, take: &Take, judged: &Judged) {
    let Take { before, after, .. } = take;
    term::out(&comparison(before, after, judged).framed());
    let per_question =
        take.cpu.as_nanos() as f64 / (after.outcome.tally.counts.answered as f64).max(1.0);
    let memory = take
        .memory
        .map_or("n/a".to_owned(), |octets| format!("{:.1} MiB", octets as f64 / (1 << 20) as f64));
    term::out(&format!(
        "  The cache used {} of CPU per query and holds {memory} of memory.",
        term::nanos(per_question)
    ));
    leaks::show(&take.mix, &take.asked);
    let left_out = QUANTILES.iter().filter(|(_, part)| !judged.takes(*part)).map(|(name, _)| *name);
    if let Some(line) = judged.line(&left_out.collect::<Vec<_>>()) {
        term::out(&term::paint(Style::Dim, &format!("\n  {line}")));
    }
    next_steps(program);
}

/// The given program, or `nodens` beside this one.
fn program(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("nodens"),
    };
    if !path.is_file() {
        bail!(
            "{} is missing; build it with `cargo build --release -p nodens` or name one with \
             --nodens",
            path.display()
        );
    }
    Ok(path)
}

/// NodeLocal DNSCache's Corefile with loopback addresses: cluster names and everything else go to
/// the same upstream here.
fn corefile(address: SocketAddr, upstream: SocketAddr) -> Result<String> {
    let (port, ip) = (address.port(), address.ip());
    let (health, metrics) = (free_address()?, free_address()?);
    Ok(format!(
        "cluster.local:{port} {{
    errors
    cache {{
        success 9984 30
        denial 9984 5
    }}
    bind {ip}
    forward . {upstream} {{
        force_tcp
    }}
    prometheus {metrics}
    health {health}
}}
.:{port} {{
    errors
    cache 30
    bind {ip}
    forward . {upstream} {{
        force_tcp
    }}
    prometheus {metrics}
}}
"
    ))
}

/// Sends the mix to `to` for some seconds and says what reached the upstream meanwhile.
fn phase(
    args: &Args,
    setting: &Setting,
    stop: &AtomicBool,
    live: &Live,
    upstream: &Authority,
    (to, seconds): (SocketAddr, f64),
    what: &str,
) -> Result<(Phase, Mix)> {
    let count = (setting.rate * seconds) as usize;
    let mix = cluster::mix(&Cluster::default(), args.pods, count, args.seed);
    let queries = mix.workload.period().unwrap_or(count as u64);
    let config = setting.config(args, to, seconds, queries);
    let (mut seen, first) = (upstream.questions(), upstream.questions());
    let outcome = lab_load::run(&config, &mix.workload, stop, |progress| {
        let asked = upstream.questions() - seen;
        seen += asked;
        let quantile = |part| term::quantile(progress.cohort.response.quantile(part));
        let line = format!(
            "{what} {:>2} s  p50 {}  p99 {}  upstream {} of {}/s",
            progress.second + 1,
            quantile(0.5),
            quantile(0.99),
            term::rate(asked as f64),
            term::rate(progress.counts.sent as f64),
        );
        live.show(progress.second as f64 + 1.0, seconds, &line);
    })
    .with_context(|| format!("the phase {what}"))?;
    let upstream = upstream.questions() - first;
    Ok((Phase { config, outcome, upstream }, mix))
}

fn picture(args: &Args, rate: f64) -> String {
    let pods = format!("{} pods", args.pods);
    let bold = |text: &str| term::paint(Style::Bold, text);
    let dim = |text: &str| term::paint(Style::Dim, text);
    let accent = |text: &str| term::paint(Style::Accent, text);
    format!(
        "\n  {} {} {} {} {}\n  {}\n",
        bold(&pods),
        dim("── UDP ──▶"),
        accent("Nodens on the node"),
        dim("── TCP ──▶"),
        bold("cluster DNS"),
        dim(&format!(
            "{} QPS with search lists (ndots:5); an embedded cluster DNS that takes 0.3 to 2 ms",
            term::count(rate as u64)
        )),
    )
}

fn comparison(before: &Phase, after: &Phase, judged: &Judged) -> Table {
    let mut table = Table::new(&["", "without", "with Nodens", "change"]);
    for (name, part) in QUANTILES {
        let of = |phase: &Phase| phase.outcome.tally.response.quantile(part);
        let (old, new) = (of(before), of(after));
        let change = match (old.nanos(), new.nanos()) {
            _ if !judged.takes(part) => "not judged".to_owned(),
            (Some(old), Some(new)) if old > 0 => change(new as f64 / old as f64),
            _ => String::new(),
        };
        let style = if judged.takes(part) { Style::Plain } else { Style::Dim };
        let name = format!("latency at the pods, {name}");
        table.styled(style, vec![name, term::quantile(old), term::quantile(new), change]);
    }
    let lost = |phase: &Phase| term::count(phase.outcome.tally.counts.lost());
    table.row(vec!["queries lost".into(), lost(before), lost(after), String::new()]);
    let sent = |phase: &Phase| term::count(phase.sent_rate() as u64);
    table.row(vec!["QPS from pods".into(), sent(before), sent(after), String::new()]);
    let saved = |phase: &Phase| term::percent(phase.saved());
    table.row(vec!["answered on the node".into(), saved(before), saved(after), String::new()]);
    let (old, new) = (before.upstream_rate(), after.upstream_rate());
    table.styled(
        Style::Good,
        vec![
            "QPS reaching cluster DNS".into(),
            term::count(old as u64),
            term::count(new as u64),
            change(new / old.max(1e-9)),
        ],
    );
    table
}

/// A ratio as a change in percent: 0.03 is −97 %.
fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent < 0.0 { format!("−{:.0} %", -percent) } else { format!("+{percent:.0} %") }
}

fn next_steps(program: &Path) {
    let program = program.display();
    let lab = std::env::args().next().unwrap_or_else(|| "nodens-lab".to_owned());
    let dim = |text: &str| term::paint(Style::Dim, text);
    term::out(&format!("\n  {}", term::paint(Style::Bold, "Next steps with your own Corefile:")));
    let steps = [
        (format!("{program} -check -conf Corefile"), "checks whether it is accepted"),
        (
            format!("{program} -conf Corefile -dns.port 1053"),
            "serve it; -dns.port is for blocks that name no port",
        ),
        (format!("{lab} load -p 1053 -d names.txt -Q 2000"), "measure it"),
    ];
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, why) in steps {
        term::out(&format!("    {command:width$}  {}", dim(&format!("# {why}"))));
    }
}
