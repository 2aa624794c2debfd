//! `nodens-lab echo`: answers every query with itself, as late and as wrongly as configured.

mod transports;

use crate::term::{self, Style};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use lab_echo::arrivals::Spacing;
use lab_echo::inject::{Freeze, Injection, Key, Rcodes};
use lab_echo::udp::{self, DATAGRAM_LEN_MAX, Report};
use lab_echo::{Latency, Truth};
use lab_histogram::Histogram;
use nodens_wire::Rcode;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between looks at whether to end.
const LOOK: Duration = Duration::from_millis(20);
/// Arrival times that each thread keeps: more than a minute at 100,000 a second.
const ARRIVALS_MAX: usize = 16 << 20;
/// The percentiles that are reported.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Arguments of `echo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on.
    #[arg(short, long, default_value = "127.0.0.1:5300", value_parser = crate::server::listen)]
    listen: SocketAddr,
    /// Threads for each transport, each with a socket of its own on the same port.
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    transports: transports::TransportArgs,
    /// End after this time (such as 30s); default: with Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = lab_units::nanos)]
    duration: Option<u64>,
    /// Delay answers, as in 200us, exp:1ms, lognormal:1ms:0.5, uniform:1ms-2ms, or a mixture:
    /// 99%:200us,1%:50ms.
    #[arg(long, value_name = "MIXTURE")]
    latency: Option<Latency>,
    /// Do not answer this part of the queries, as in 0.1%.
    #[arg(long, value_name = "PART", default_value = "0", value_parser = lab_units::part)]
    loss: f64,
    /// Answer this part of the queries twice.
    #[arg(long, value_name = "PART", default_value = "0", value_parser = lab_units::part)]
    duplicate: f64,
    /// Set the TC bit in this part of the answers.
    #[arg(long, value_name = "PART", default_value = "0", value_parser = lab_units::part)]
    truncate: f64,
    /// Answer with these RCODEs, as in 1%:SERVFAIL,2%:NXDOMAIN.
    #[arg(long, value_name = "PARTS")]
    rcode: Option<Rcodes>,
    /// Do nothing for some time, counted from the first query: at=5s,for=1s[,every=10s].
    #[arg(long, value_name = "WHEN")]
    freeze: Vec<Freeze>,
    /// Use this much CPU time more for each query over UDP.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = lab_units::nanos)]
    work: u64,
    /// Serve one query after the other, each for this time, as a server with one thread: 100us is a
    /// limit of 10,000 a second. It uses no CPU time.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = lab_units::nanos)]
    service_time: u64,
    /// Make each answer over UDP so many octets long, at most 1232, with a record of type NULL behind the query: the limit for
    /// servers whose responses are that long.
    #[arg(long, value_name = "OCTETS", default_value_t = 0, value_parser = octets)]
    octets: usize,
    /// Seed of the injected faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the fate of a query follows from: how many came before it on its thread, or its ID
    /// and octets (then the same message has the same fate each time).
    #[arg(long, value_enum, default_value = "arrival")]
    fate: FateBy,
    /// Report at the end how evenly the queries arrived over UDP, by the kernel's clock.
    #[arg(long)]
    arrivals: bool,
    /// Write the arrival times to this file, in nanoseconds since the first, one per line.
    #[arg(long, value_name = "FILE")]
    arrivals_file: Option<PathBuf>,
    /// Write the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FateBy {
    Arrival,
    Message,
}

impl Args {
    fn injection(&self) -> Injection {
        Injection {
            latency: self.latency.clone(),
            loss: self.loss,
            duplicate: self.duplicate,
            truncate: self.truncate,
            rcodes: self.rcode.clone().unwrap_or_default(),
            freezes: self.freeze.clone(),
            work: Duration::from_nanos(self.work),
            service: Duration::from_nanos(self.service_time),
            seed: self.seed,
            key: match self.fate {
                FateBy::Arrival => Key::Arrival,
                FateBy::Message => Key::Message,
            },
        }
    }
}

fn octets(text: &str) -> Result<usize, String> {
    let octets = text.parse().ok().filter(|octets| *octets <= DATAGRAM_LEN_MAX);
    octets.ok_or_else(|| format!("expected at most {DATAGRAM_LEN_MAX} octets"))
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    args.transports.check(&[
        ("--work", args.work > 0),
        ("--octets", args.octets > 0),
        ("--arrivals", args.arrivals),
        ("--arrivals-file", args.arrivals_file.is_some()),
    ])?;
    let keep = args.arrivals || args.arrivals_file.is_some();
    let threads = args.threads.max(1);
    let arrivals_kept = if keep { ARRIVALS_MAX } else { 0 };
    let (injection, octets) = (args.injection(), args.octets);
    let plain = injection.is_plain();
    let options = udp::Options { injection, threads, arrivals_kept, octets };
    let echoes = args.transports.start(args.listen, &options)?;
    let end = args
        .duration
        .map_or("end with Ctrl-C".to_owned(), |nanos| format!("for {}", term::nanos(nanos as f64)));
    // With JSON on standard output, what a reader needs to know goes elsewhere.
    let say: fn(&str) = if args.json { term::note } else { term::out };
    say(&format!("echo on {} with {threads} threads, {end}", echoes.addresses()));
    echoes.hints().for_each(|hint| say(&hint));
    let begin = Instant::now();
    let over = || {
        let past =
            args.duration.is_some_and(|nanos| begin.elapsed() >= Duration::from_nanos(nanos));
        past || stop.load(Ordering::Relaxed) || echoes.have_failed()
    };
    while !over() {
        std::thread::sleep(LOOK);
    }
    let report = echoes.stop().context("the echo ended early")?;
    if let Some(path) = &args.arrivals_file {
        std::fs::write(path, arrivals_text(&report.arrivals))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !report.truth.adds_up() {
        bail!("internal error: the counts of the echo do not add up: {:?}", report.truth);
    }
    let spacing = Spacing::of(&report.arrivals);
    if args.json {
        term::out(&serde_json::to_string_pretty(&json(args, &report, spacing.as_ref()))?);
    } else {
        print(&report.truth, spacing.as_ref(), plain);
    }
    Ok(ExitCode::SUCCESS)
}

fn arrivals_text(arrivals: &[u64]) -> String {
    let first = arrivals.first().copied().unwrap_or(0);
    let mut text = String::with_capacity(arrivals.len() * 12);
    for arrival in arrivals {
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}", arrival - first);
    }
    text
}

fn print(truth: &Truth, spacing: Option<&Spacing>, plain: bool) {
    let answered: u64 = truth.rcodes.iter().sum();
    let counts = [
        ("dropped on purpose", truth.lost),
        ("answered twice", truth.duplicated),
        ("answered with TC", truth.truncated),
        ("delayed by a freeze", truth.frozen),
        ("not accepted by the kernel", truth.unsent),
        ("dropped, too many were waiting", truth.overflowed),
        ("still delayed at the end", truth.unfinished),
        ("no queries", truth.ignored),
    ];
    let mut parts = vec![format!("{} queries answered", term::count(answered))];
    let shown = counts.iter().filter(|(_, count)| *count > 0);
    parts.extend(shown.map(|(what, count)| format!("{what} {}", term::count(*count))));
    let rcodes = truth.rcodes.iter().zip(0..).filter(|(count, code)| **count > 0 && *code > 0);
    parts.extend(rcodes.map(|(count, code)| format!("{} {}", Rcode(code), term::count(*count))));
    term::out(&parts.join("  "));
    if !plain {
        let mut header = vec!["delay"];
        header.extend(PERCENTILES.iter().map(|(name, _)| *name));
        header.extend(["mean", "max"]);
        let mut table = term::Table::new(&header);
        for (what, histogram) in [("as drawn", &truth.chosen), ("measured", &truth.held)] {
            let mut row = vec![what.to_owned()];
            row.extend(PERCENTILES.iter().map(|(_, p)| term::quantile(histogram.quantile(*p))));
            row.push(histogram.mean().map_or("n/a".into(), term::nanos));
            row.push(term::quantile(histogram.quantile(1.0)));
            table.row(row);
        }
        term::out(&table.framed());
    }
    if let Some(spacing) = spacing {
        term::out(&term::paint(Style::Bold, &arrivals_line(spacing)));
    }
}

fn arrivals_line(spacing: &Spacing) -> String {
    let off = |part| term::quantile(spacing.deviation.quantile(part));
    format!(
        "arrivals: {:.1}/s, gaps {} ± {} (CV {:.3}, lag-1 {:+.3}), off the mean gap p50 {} p99 {} \
         p99.9 {}, {} to {} in 10 ms",
        spacing.rate,
        term::nanos(spacing.mean),
        term::nanos(spacing.cv * spacing.mean),
        spacing.cv,
        spacing.lag1,
        off(0.5),
        off(0.99),
        off(0.999),
        spacing.window.0,
        spacing.window.1
    )
}

/// Everything that was injected, with all times in nanoseconds.
fn json(args: &Args, report: &Report, spacing: Option<&Spacing>) -> Value {
    let truth = &report.truth;
    let rcodes = truth.rcodes.iter().zip(0..).filter(|(count, _)| **count > 0);
    let rcodes: Value =
        rcodes.map(|(count, code)| (Rcode(code).to_string(), json!(count))).collect();
    let mut value = json!({
        "seed": args.seed,
        "latency": args.latency.as_ref().map(Latency::to_string),
        "questions": truth.questions, "ignored": truth.ignored, "lost": truth.lost,
        "duplicated": truth.duplicated, "truncated": truth.truncated, "frozen": truth.frozen,
        "sent": truth.sent, "unsent": truth.unsent, "overflowed": truth.overflowed,
        "unfinished": truth.unfinished, "rcodes": rcodes,
        "chosen": histogram(&truth.chosen), "held": histogram(&truth.held),
    });
    if let Some(spacing) = spacing {
        value["arrivals"] = json!({
            "rate": spacing.rate, "mean_gap": spacing.mean, "cv": spacing.cv, "lag1": spacing.lag1,
            "least_in_10ms": spacing.window.0, "most_in_10ms": spacing.window.1,
            "gap": histogram(&spacing.gaps), "deviation": histogram(&spacing.deviation),
        });
    }
    value
}

fn histogram(histogram: &Histogram) -> Value {
    let mut value = json!({
        "recorded": histogram.recorded(), "min": histogram.min(), "mean": histogram.mean(),
        "max": histogram.max(),
    });
    for (name, part) in PERCENTILES {
        value[name] = json!(histogram.quantile(part).nanos());
    }
    value["buckets"] = histogram.buckets().map(|(low, high, n)| json!([low, high, n])).collect();
    value
}
