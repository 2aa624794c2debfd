//! The report of a benchmark: for the terminal, in Markdown, in JSON.

use super::peers::{Missing, Peer};
use super::sample::Sample;
use super::tables::{self, QUANTILES, Section};
use super::{Bench, UPSTREAM_BUSY};
use crate::term::{self, Style};
use anyhow::{Context, Result};
use serde_json::json;

/// The part of the answers that may miss the cache where hits are measured.
const MISSES: f64 = 0.01;

pub(super) fn write(
    bench: &Bench<'_>,
    peers: &[Peer],
    missing: &[Missing],
    samples: &[Sample],
) -> Result<()> {
    let sections = tables::all(bench, peers, samples);
    let (about, warnings) = (about(bench, (peers, missing), samples), warnings(samples));
    for Section { title, table, .. } in &sections {
        term::out(&format!("\n{}\n{}", term::paint(Style::Bold, title), table.framed()));
    }
    for line in summary_of_warnings(samples) {
        term::out(&term::paint(Style::Bad, &line));
    }
    let tables =
        sections.iter().map(|it| format!("## {}\n\n{}\n\n", it.title, it.table.markdown()));
    let markdown = format!(
        "# Nodens beside other servers\n\n{}\n\n{}{}\n",
        about.join("\n"),
        tables.collect::<String>(),
        warnings.iter().map(|warning| format!("- {warning}\n")).collect::<String>(),
    );
    let json = json!({
        "kind": "bench",
        "schema": 1,
        "about": about,
        "missing": missing,
        "samples": samples.iter().map(sample_json).collect::<Vec<_>>(),
    });
    save(bench, &[("bench.md", markdown), ("bench.json", serde_json::to_string_pretty(&json)?)])
}

fn save(bench: &Bench<'_>, files: &[(&str, String)]) -> Result<()> {
    let folder = &bench.args.out;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        term::out(&format!("  written: {}", path.display()));
    }
    let source = lab_report::read(&folder.join("bench.json"))?;
    crate::report::write(&folder.join("bench.html"), &[source], None)?;
    Ok(())
}

/// What a reader needs to judge the numbers.
fn about(
    bench: &Bench<'_>,
    (peers, missing): (&[Peer], &[Missing]),
    samples: &[Sample],
) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cpus = &bench.cpus;
    let shared = if bench.shares() { " (too few CPUs: load and upstream share)" } else { "" };
    let load_average = read("/proc/loadavg");
    let load_average: Vec<_> = load_average.split(' ').take(3).collect();
    let tried: usize = samples.iter().map(|sample| sample.tries - 1).sum();
    let mut lines = vec![
        format!(
            "- {} repeats of {} s each, interleaved; medians, ± half the range; ratios are medians of those of each repeat; seed {}",
            bench.args.repeats, bench.args.seconds, bench.args.seed
        ),
        format!(
            "- CPUs: server {:?}, upstream {:?}, load {:?}{shared}",
            cpus.subject, cpus.helper, cpus.load
        ),
        format!(
            "- {}, Linux {}",
            model.trim_start_matches([' ', '\t', ':']),
            read("/proc/sys/kernel/osrelease").trim()
        ),
        format!("- load average {} (1, 5, 15 minutes)", load_average.join(" ")),
        format!("- measurements repeated because they were disturbed: {tried}"),
        "- echo is `nodens-lab echo`: the cost of receiving and sending alone".to_owned(),
        "- echo-long is the same with answers as long as those of nodens are on average".to_owned(),
        "- -k8s: errors, health, ready, prometheus, cache, forward, loop, reload, loadbalance"
            .to_owned(),
        "- knot and nsd answer from a zone and not from a cache".to_owned(),
    ];
    lines.extend(peers.iter().map(|peer| format!("- {}: {}", peer.name, peer.version)));
    lines.extend(missing.iter().map(|(name, why)| format!("- {name} is missing: {why}")));
    lines
}

/// The warnings in a few lines; each of them is in the files.
fn summary_of_warnings(samples: &[Sample]) -> Vec<String> {
    let all = samples.len();
    let count = |is: fn(&Sample) -> bool| samples.iter().filter(|sample| is(sample)).count();
    let lines = [
        (
            count(Sample::is_spoilt),
            "other processes used the server's CPU: compare CPU per query, and the ratios with * that \
             come from it. For rates and latencies, repeat on a quiet machine.",
        ),
        (
            count(|sample| sample.upstream_busy() > UPSTREAM_BUSY),
            "the embedded upstream was the limit and not the server: compare CPU per query.",
        ),
        (count(has_misses), "not all queries were hits, although only hits were expected."),
        (
            count(|sample| sample.stolen().is_some()),
            "the hypervisor took CPU time: compare CPU per query, or repeat on a quiet machine.",
        ),
        (
            count(|sample| !sample.load.invalid.is_empty()),
            "the load generator itself was disturbed.",
        ),
    ];
    let lines = lines.iter().filter(|(count, _)| *count > 0);
    lines.map(|(count, what)| format!("In {count} of {all} measurements {what}")).collect()
}

fn has_misses(sample: &Sample) -> bool {
    sample.cell.wants_hits() && sample.miss_rate() > MISSES
}

/// What spoils a number: the measurement is INVALID, or others used the server's CPU.
fn warnings(samples: &[Sample]) -> Vec<String> {
    let mut warnings = Vec::new();
    for sample in samples {
        let place =
            format!("{}, {}, repeat {}", sample.server, sample.cell.name(), sample.repeat + 1);
        for why in &sample.load.invalid {
            warnings.push(format!("{place}: {why}"));
        }
        warnings.extend(sample.stolen().map(|fault| format!("{place}: {fault}")));
        if has_misses(sample) {
            let part = term::percent(sample.miss_rate());
            warnings.push(format!("{place}: {part} of the answers needed a query to the upstream"));
        }
        if sample.upstream_busy() > UPSTREAM_BUSY {
            let percent = sample.upstream_busy() * 100.0;
            warnings.push(format!("{place}: the upstream was busy {percent:.0} % of the time"));
        }
        if sample.is_spoilt() {
            let percent = sample.robbed() * 100.0;
            warnings
                .push(format!("{place}: other processes took {percent:.0} % of the server's CPU"));
        }
    }
    warnings
}

fn sample_json(sample: &Sample) -> serde_json::Value {
    let load = &sample.load;
    let quantiles = |of: &lab_histogram::Histogram| {
        let values =
            QUANTILES.map(|(name, part)| (name.to_owned(), json!(of.quantile(part).nanos())));
        serde_json::Map::from_iter(values)
    };
    json!({
        "server": sample.server,
        "repeat": sample.repeat,
        "tries": sample.tries,
        "cell": sample.cell.name(),
        "answers_per_second": sample.rate(),
        "cpu_us_per_answer": sample.cost(),
        "millicores": sample.millicores(),
        "sent": load.sent,
        "answered": load.answered,
        "lost": load.lost,
        "server_ran_ns": sample.account.ran.as_nanos() as u64,
        "upstream_questions": sample.asked,
        "upstream_busy": sample.upstream_busy(),
        "server_waited_ns": sample.account.waited.as_nanos() as u64,
        "resident_before": sample.resident.0,
        "resident": sample.resident.1,
        "response_ns": quantiles(&load.response),
        "service_ns": quantiles(&load.service),
        "octets_per_connection": load.octets_each,
        "plan": load.plan,
        "invalid_because": load.invalid,
    })
}
