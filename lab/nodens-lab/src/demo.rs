//! `nodens-lab demo`: the same questions of a node's pods, first to the cluster's DNS directly and
//! then through a Nodens cache on the node.

mod page;

use crate::authority::{Asked, Authority, Data};
use crate::child::{Scratch, Server, free_address};
use crate::term::{self, Live, Style, Table};
use anyhow::{Context, Result, bail};
use lab_load::cluster::{self, Cluster, Looked, Mix};
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace};
use lab_result::ServerCost;
use lab_result::collect::Collector;
use nodens_wire::Name;
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
/// Nanoseconds after its time when a question counts as late here.
const LATE: u64 = 1_000_000;
/// How many names that exist nowhere are shown.
const LEAKS_SHOWN: usize = 3;

/// Arguments of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server: takes `-conf FILE -dns.port PORT`, as Nodens and CoreDNS do.
    #[arg(long, value_name = "PROGRAM")]
    nodens: Option<PathBuf>,
    /// Seconds with the cache; the comparison before takes less than half of that.
    #[arg(short = 'l', long, default_value_t = 10.0)]
    seconds: f64,
    /// Questions a second.
    #[arg(short = 'Q', long, default_value_t = 4_000.0)]
    rate: f64,
    /// Pods on the node.
    #[arg(short, long, default_value_t = 48)]
    pods: usize,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the results and the page.
    #[arg(short, long, value_name = "FOLDER", default_value = "nodens-lab-demo")]
    out: PathBuf,
}

/// One measured phase.
struct Phase {
    config: Config,
    outcome: Outcome,
    /// Questions that the cluster's DNS was asked meanwhile.
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

    /// The part of the questions that did not reach the cluster's DNS.
    fn saved(&self) -> f64 {
        let sent = (self.outcome.tally.counts.sent as f64).max(1.0);
        (1.0 - self.upstream as f64 / sent).max(0.0)
    }
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if args.rate.is_nan() || args.rate < 100.0 || args.seconds.is_nan() || args.seconds < 1.0 {
        bail!("expected a rate of at least 100 and at least 1 second");
    }
    let program = program(args.nodens.as_deref())?;
    let scratch = Scratch::new()?;
    let upstream = Authority::start(Data::Cluster(Cluster::default()), UPSTREAM_DELAY, &[])?;
    let address = free_address()?;
    let corefile = scratch.write("Corefile", &corefile(address, upstream.address)?)?;
    let mut command = Command::new(&program);
    command.arg("-conf").arg(&corefile).args(["-dns.port", &address.port().to_string()]);
    let log = scratch.path().join("log");
    let mut server = Server::start("the cache", &mut command, &[], &log)?;
    server.await_answer(address, &Name::parse("time.os.example")?, stop)?;

    term::out(&picture(args));
    let live = Live::new();
    let settings = [upstream.address, address].map(|to| Collector::start(to, false, None));
    let before_seconds = (args.seconds * BEFORE_PART).max(1.0);
    let before =
        phase(args, stop, &live, &upstream, (upstream.address, before_seconds), "without")?.0;
    upstream.take_asked();
    let before_account = server.account()?;
    let (after, mix) = phase(args, stop, &live, &upstream, (address, args.seconds), "with Nodens")?;
    let cpu = server.account()?.since(before_account).ran;
    live.clear();
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    term::out(&comparison(&before, &after).framed());
    let per_question =
        cpu.as_nanos() as f64 / (after.outcome.tally.counts.answered as f64).max(1.0);
    let memory = server
        .resident()
        .map_or("n/a".to_owned(), |octets| format!("{:.1} MiB", octets as f64 / (1 << 20) as f64));
    term::out(&format!(
        "  The cache used {} of CPU per question and holds {memory} of memory.",
        term::nanos(per_question)
    ));
    leaks(&mix, &upstream.take_asked());
    verdict(&before, &after);
    next_steps(&program);
    let cost = ServerCost {
        source: "the cache’s threads (/proc/PID/task/*/schedstat)".to_owned(),
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        wall_ns: u64::try_from(after.outcome.elapsed.as_nanos()).unwrap_or(u64::MAX),
        memory_peak: server.resident(),
    };
    let [of_before, of_after] = settings.map(Collector::finish);
    page::write(&args.out, args, [(&before, of_before), (&after, of_after)], cost)?;
    let lost = after.outcome.tally.counts.answered == 0;
    Ok(if lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The given program, or `nodens` beside this one.
fn program(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("nodens"),
    };
    if !path.is_file() {
        bail!(
            "no program at {}; build it with `cargo build --release -p nodens` or name one with \
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
    stop: &AtomicBool,
    live: &Live,
    upstream: &Authority,
    (to, seconds): (SocketAddr, f64),
    what: &str,
) -> Result<(Phase, Mix)> {
    let mix =
        cluster::mix(&Cluster::default(), args.pods, (args.rate * seconds) as usize, args.seed);
    let config = Config {
        pace: Pace::Open { rate: args.rate, arrivals: Arrivals::Poisson },
        // The plan is sent exactly once: the number of questions ends it and not the time.
        duration: Duration::from_secs_f64(seconds * 2.0),
        queries: mix.workload.period(),
        clients: args.pods,
        seed: args.seed,
        ..Config::new(to, args.rate)
    };
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

fn picture(args: &Args) -> String {
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
            "{} questions/s with search lists (ndots:5); an embedded cluster DNS that takes 0.3 to 2 ms",
            term::count(args.rate as u64)
        )),
    )
}

fn comparison(before: &Phase, after: &Phase) -> Table {
    let mut table = Table::new(&["", "without", "with Nodens", "change"]);
    for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let of = |phase: &Phase| phase.outcome.tally.response.quantile(part);
        let (old, new) = (of(before), of(after));
        let change = match (old.nanos(), new.nanos()) {
            (Some(old), Some(new)) if old > 0 => change(new as f64 / old as f64),
            _ => String::new(),
        };
        let name = format!("latency at the pods, {name}");
        table.row(vec![name, term::quantile(old), term::quantile(new), change]);
    }
    let lost = |phase: &Phase| term::count(phase.outcome.tally.counts.lost());
    table.row(vec!["questions lost".into(), lost(before), lost(after), String::new()]);
    let sent = |phase: &Phase| term::count(phase.sent_rate() as u64);
    table.row(vec!["questions/s from pods".into(), sent(before), sent(after), String::new()]);
    let saved = |phase: &Phase| term::percent(phase.saved());
    table.row(vec!["answered on the node".into(), saved(before), saved(after), String::new()]);
    let (old, new) = (before.upstream_rate(), after.upstream_rate());
    table.styled(
        Style::Good,
        vec![
            "questions/s reaching cluster DNS".into(),
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

/// Which names cost questions and exist nowhere, and how many of those went further than the node.
fn leaks(mix: &Mix, asked: &Asked) {
    let per_lookup = mix.questions() as f64 / (mix.lookups() as f64).max(1.0);
    term::out(&format!(
        "\n  {} lookups by applications became {} questions: {per_lookup:.1} each.",
        term::count(mix.lookups()),
        term::count(mix.questions()),
    ));
    let leaks: Vec<&Looked> = mix.looked.iter().filter(|looked| !looked.exists).collect();
    let Some(worst) = leaks.first().copied() else { return };
    let header =
        ["names that exist nowhere", "lookups", "questions", "per lookup", "reached cluster DNS"];
    let mut table = Table::new(&header);
    for (at, leak) in leaks.into_iter().take(LEAKS_SHOWN).enumerate() {
        let prefix = format!("{}.", leak.text);
        let reached = asked.iter().filter(|((name, _), _)| name.to_string().starts_with(&prefix));
        let cells = vec![
            leak.text.clone(),
            term::count(leak.lookups),
            term::count(leak.questions),
            format!("×{:.0}", leak.questions as f64 / leak.lookups.max(1) as f64),
            term::count(reached.map(|(_, count)| count).sum()),
        ];
        if at == 0 { table.styled(Style::Bad, cells) } else { table.row(cells) }
    }
    term::out(&table.framed());
    remedy(worst);
}

/// Says so if the machine was too busy for exact latencies.
fn verdict(before: &Phase, after: &Phase) {
    if before.outcome.verdict.is_valid() && after.outcome.verdict.is_valid() {
        return;
    }
    let late = |phase: &Phase| {
        let lateness = &phase.outcome.tally.lateness;
        term::percent(lateness.count_above(LATE) as f64 / (lateness.recorded() as f64).max(1.0))
    };
    let text = format!(
        "\n  This machine was busy: {} and {} of the questions left more than 1 ms late,\n  and so \
         the slowest answers are slower than the servers made them.",
        late(before),
        late(after)
    );
    term::out(&term::paint(Style::Dim, &text));
}

/// How an operator stops a leak on the node.
fn remedy(leak: &Looked) {
    let pattern = leak.text.replace('.', "\\.");
    term::out(&format!(
        "  {}\n{}",
        "To answer the first of them at once, before it is fixed where it comes from:",
        term::paint(
            Style::Accent,
            &format!(
                "    template IN ANY {{\n        match \"^{pattern}\\.\"\n        rcode NXDOMAIN\n        fallthrough\n    }}"
            )
        ),
    ));
}

fn next_steps(program: &Path) {
    let program = program.display();
    let lab = std::env::args().next().unwrap_or_else(|| "nodens-lab".to_owned());
    let dim = |text: &str| term::paint(Style::Dim, text);
    term::out(&format!("\n  {}", term::paint(Style::Bold, "Next, with the Corefile you have:")));
    let steps = [
        (format!("{program} -check -conf Corefile"), "is it accepted?"),
        (format!("{program} -conf Corefile -dns.port 1053"), "serve it"),
        (format!("{lab} load -p 1053 -d names.txt -Q 2000"), "measure it"),
    ];
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, why) in steps {
        term::out(&format!("    {command:width$}  {}", dim(&format!("# {why}"))));
    }
}
