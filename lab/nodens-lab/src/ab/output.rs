//! What a comparison says: to people, in Markdown, and to CI.

mod junit;
mod words;

pub(crate) use junit::junit;
pub(crate) use words::sentence;

use crate::term::{self, Style, Table};
use lab_result::comparison::{Block, ComparisonFile, ComparisonPlan, Cost, Omitted, Verdict};
use lab_stats::{bootstrap, paired};
use std::fmt::Write as _;
use words::{bound, estimate, interval, load_name, p_of, size, value, verdict};

/// Exit codes with `--ci`.
pub(crate) const NO_WORSE: u8 = 0;
pub(crate) const WORSE: u8 = 1;
pub(crate) const INCONCLUSIVE: u8 = 2;

/// Everything, for a terminal.
pub(crate) fn text(file: &ComparisonFile) -> String {
    let mut text = String::new();
    let party = |party: &lab_result::comparison::Party| {
        let version = party.version.as_ref().map_or(String::new(), |text| format!("  {text}"));
        format!("{}  {}{version}", term::paint(Style::Bold, &party.name), party.server)
    };
    line(&mut text, &party(&file.a));
    line(&mut text, &party(&file.b));
    line(&mut text, &table(file).framed());
    for cost in &file.costs {
        line(&mut text, &cost_line(file, cost));
    }
    let reasons = omitted(&file.omitted);
    let notes = file.notes.iter().chain(&reasons);
    notes.for_each(|note| line(&mut text, &format!("  {note}")));
    for why in &file.invalid_because {
        line(&mut text, &term::paint(Style::Bad, &format!("INVALID: {why}")));
    }
    line(&mut text, &sentence(file));
    text.trim_end().to_owned()
}

fn line(text: &mut String, what: &str) {
    // Writing to a string does not fail.
    _ = writeln!(text, "{what}");
}

fn table(file: &ComparisonFile) -> Table {
    let level = format!("{:.3} % interval", (1.0 - file.plan.alpha) * 100.0).replace(".000", "");
    let [a, b] = if file.plan.duet { ["A beside B", "B beside A"] } else { ["A", "B"] };
    let header = ["queries", "load", "metric", a, b, "B − A", &level, "p", "verdict", "finds"];
    let mut table = Table::new(&header);
    for finding in &file.findings {
        let style = match finding.verdict {
            Verdict::Faster => Style::Good,
            Verdict::Slower => Style::Bad,
            Verdict::Equivalent => Style::Accent,
            Verdict::Inconclusive => Style::Dim,
        };
        let primary = if finding.primary { " ◀" } else { "" };
        table.styled(
            style,
            vec![
                finding.cell.set.clone(),
                load_name(finding),
                finding.cell.metric.clone(),
                bound([finding.a_is_bound, finding.a_at_most], value(finding, finding.a)),
                bound([finding.b_is_bound, finding.b_at_most], value(finding, finding.b)),
                estimate(finding),
                interval(finding),
                term::probability(finding.p_adjusted),
                format!("{}{primary}", verdict(finding)),
                finding.detectable.map_or("n/a".to_owned(), |part| size(finding, part)),
            ],
        );
    }
    table
}

fn cost_line(file: &ComparisonFile, cost: &Cost) -> String {
    let party = if cost.side == "a" { &file.a } else { &file.b };
    let range = |ends: Option<[f64; 2]>, of: fn(f64) -> String| {
        ends.map_or(String::new(), |[low, high]| format!(" ({} to {})", of(low), of(high)))
    };
    let milli = |nanos: f64| format!("{:.1}m", nanos / 1e6);
    let micros = |nanos: f64| {
        if nanos < 0.0 { format!("-{}", term::nanos(-nanos)) } else { term::nanos(nanos) }
    };
    let mut text = format!(
        "  CPU of {}, {}: {}{} + {}{} × rate",
        party.name,
        cost.set,
        milli(cost.idle),
        range(cost.idle_interval, milli),
        micros(cost.per_answer),
        range(cost.per_answer_interval, micros),
    );
    let mib = |octets: f64| format!("{:+.2} MiB", octets / f64::from(1 << 20));
    let grows = cost.memory_growth_interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
    if let Some(growth) = cost.memory_growth.filter(|_| grows) {
        let interval = range(cost.memory_growth_interval, mib);
        _ = write!(text, "; memory {}{interval} per million answers", mib(growth));
    }
    text
}

/// Why metrics are not in the table, each reason once.
fn omitted(all: &[Omitted]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for Omitted { cell, reason } in all {
        let name = format!("{} at {} ({})", cell.metric, cell.load, cell.set);
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let text = |(reason, names): (&str, Vec<String>)| {
        format!("not compared: {}: {reason}", names.join(", "))
    };
    reasons.into_iter().map(text).collect()
}

/// The whole comparison in Markdown: seed tables as people paste them, with intervals.
pub(crate) fn markdown(file: &ComparisonFile) -> String {
    let mut text = format!("# {} compared with {}\n\n", file.b.name, file.a.name);
    let (a, b) = (&file.a, &file.b);
    for (side, party) in [("A", a), ("B", b)] {
        let version = party.version.as_deref().unwrap_or("unknown");
        line(
            &mut text,
            &format!("* **{side}**: {}: `{}`, version: {version}", party.name, party.server),
        );
    }
    let plan = &file.plan;
    line(&mut text, &format!("* **Method:** {}", method(plan)));
    line(&mut text, &format!("* **Plan:** `{}`", file.plan_hash));
    line(&mut text, &format!("\n**{}**\n", sentence(file)));
    for why in &file.invalid_because {
        line(&mut text, &format!("**INVALID:** {why}\n"));
    }
    if let Some(table) = cpu_table(file) {
        line(&mut text, &format!("## CPU\n\n{table}\n"));
    }
    line(&mut text, &format!("## All metrics\n\n{}\n", table(file).markdown()));
    line(&mut text, explained(plan));
    for cost in &file.costs {
        line(
            &mut text,
            &format!(
                "*{}",
                cost_line(file, cost).trim_start_matches(' ').replace("CPU of", " CPU of")
            ),
        );
    }
    for note in file.notes.iter().chain(&omitted(&file.omitted)) {
        line(&mut text, &format!("* {note}"));
    }
    text
}

/// What the columns mean.
fn explained(plan: &ComparisonPlan) -> &'static str {
    if plan.sequential {
        return "`p` and the interval hold at every number of pairs (bets on signs); for all but the primary \
                metric (◀) `p` is adjusted by Holm's method.\n";
    }
    "`finds`: the smallest difference that this many pairs find, by the noise of A with itself.\n\
     `p`: of the exact sign-flip test; for all but the primary metric (◀) adjusted by Holm's method.\n"
}

fn method(plan: &ComparisonPlan) -> String {
    let most = if plan.sequential { "read after each of at most " } else { "" };
    let order = if plan.duet { "side by side" } else { "in random order" };
    let blocks = match &plan.capacity {
        Some(of) => format!(
            "searches for the highest rate that meets {}, each of at most {} of {},",
            of.objective,
            term::of(of.probes, "probe"),
            term::nanos(of.probe_ns as f64)
        ),
        None => format!("blocks of {} s", plan.block_ns as f64 / 1e9),
    };
    let [pairs, noise] = [plan.pairs, plan.noise_pairs].map(|pairs| term::of(pairs, "pair"));
    format!("{most}{pairs} of {blocks} {order}, {noise} of A with itself before")
}

/// Average CPU of each side at each load, in thousandths of a CPU, idle included: the table that
/// people write by hand, and how sure it is.
fn cpu_table(file: &ComparisonFile) -> Option<String> {
    // In use the two servers do not run beside each other.
    if file.plan.duet {
        return None;
    }
    let header = ["Version", "Workload", "Average CPU (mCores)", "95 % interval", "Delta"];
    let mut table = Table::new(&header);
    let mut rows = 0;
    for load in &file.plan.loads {
        let workload = format!("{} @ {:.0} QPS ({})", load.set, load.rate, load.name);
        let of = |side: &str| {
            let mine = |block: &&Block| {
                block.used
                    && block.phase == "comparison"
                    && block.side == side
                    && block.set == load.set
                    && block.load == load.name
            };
            let blocks = file.blocks.iter().filter(mine);
            let cores =
                blocks.filter_map(|b| Some(b.cpu_ns? as f64 * 1e3 / b.elapsed_ns.max(1) as f64));
            cores.collect::<Vec<f64>>()
        };
        let (a, b) = (of("a"), of("b"));
        let Some((before, after)) = paired::hodges_lehmann(&a).zip(paired::hodges_lehmann(&b))
        else {
            continue;
        };
        let parts: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b / a - 1.0).collect();
        let delta = paired::hodges_lehmann(&parts).map_or(String::new(), |part| {
            let spread = around(&parts, |v| format!("{:+.1} %", v * 100.0));
            format!("{:+.1}m ({:+.1} %; {spread})", after - before, part * 100.0)
        });
        let milli = |value: f64| format!("{value:.1}m");
        table.row(vec![
            file.a.name.clone(),
            workload.clone(),
            milli(before),
            around(&a, milli),
            "-".to_owned(),
        ]);
        table.row(vec![file.b.name.clone(), workload, milli(after), around(&b, milli), delta]);
        rows += 1;
    }
    (rows > 0).then(|| table.markdown().replace('−', "-"))
}

/// The 95 % interval of the centre of `values`.
fn around(values: &[f64], shown: impl Fn(f64) -> String) -> String {
    let interval = if values.len() < 10 {
        paired::inverted(values, 0.05)
    } else {
        bootstrap::bca(values, 0.05, 10_000, 1)
    };
    interval.map_or("too few pairs".to_owned(), |interval| {
        format!("{} to {}", shown(interval.low), shown(interval.high))
    })
}

/// The exit code for CI: a metric that is surely worse, else the primary one that is surely no
/// worse, else nothing is known.
pub(crate) fn ci_code(file: &ComparisonFile) -> u8 {
    if file.interrupted || !file.invalid_because.is_empty() {
        INCONCLUSIVE
    } else if file.findings.iter().any(|finding| finding.verdict == Verdict::Slower) {
        WORSE
    } else if file.no_worse || file.verdict == Verdict::Faster {
        NO_WORSE
    } else {
        INCONCLUSIVE
    }
}

#[cfg(test)]
pub(crate) mod tests;
