//! What the generator says about itself, and the baseline.

use crate::percentiles::{self, Curve};
use crate::plot::{Key, folded};
use crate::run::Run;
use crate::table::{Head, Table, facts};
use crate::text;
use lab_result::{ResultFile, Thread};
use maud::{Markup, html};

/// Nanoseconds after its time when a query counts as late; the generator judges itself by it.
const LATE: u64 = 1_000_000;

/// The health of the generator in `run`.
pub(crate) fn health(run: &Run<'_>) -> Markup {
    let result = run.result;
    let curves =
        [Curve { histogram: &result.lateness, key: Key::line("late", "sent after it was due") }];
    html! {
        (facts(&numbers(result)))
        (percentiles::plot(
            &format!("lateness{}", run.at),
            &format!("How late queries were sent, {}", run.label),
            &curves,
            180.0,
        ))
        @if !result.threads.is_empty() { (threads(run.at, &result.threads).render()) }
        @if let Some(step) = fidelity(result) { (folded(&step, "Planned and sent queries where they differ most")) }
    }
}

fn numbers(result: &ResultFile) -> Vec<(&'static str, String)> {
    let counts = &result.counts;
    let late = result.lateness.count_above(LATE);
    let at = |part| text::quantile(result.lateness.quantile(part));
    let dropped: u64 = result.threads.iter().map(|thread| thread.dropped).sum();
    let blocked: u64 = result.threads.iter().map(|thread| thread.blocked).sum();
    let host = &result.provenance.host;
    let part = |part: Option<f64>| part.map(text::percent).unwrap_or_default();
    vec![
        ("lateness", format!("p50 {}, p99 {}, at most {}", at(0.5), at(0.99), at(1.0))),
        ("more than 1 ms late", text::share(late, result.lateness.recorded())),
        ("answers dropped by the generator", text::count(dropped)),
        ("times the kernel had no room", text::count(blocked)),
        ("queries without a free ID", text::count(counts.skipped.saturating_sub(counts.overdue))),
        ("queries not sent by the end", text::count(counts.overdue)),
        ("queries that could not be sent", text::count(counts.send_errors)),
        ("all CPUs of the machine busy", part(host.busy)),
        ("CPU taken by the hypervisor", part(host.steal)),
    ]
}

fn threads(at: usize, threads: &[Thread]) -> Table {
    let head = [
        "thread",
        "CPU used",
        "waited for a CPU",
        "idle by",
        "answers dropped",
        "kernel had no room",
    ];
    let mut table = Table::new(format!("threads{at}"), head.map(Head::plain).into());
    for (number, thread) in threads.iter().enumerate() {
        table.rows.push(vec![
            number.to_string(),
            text::share(thread.cpu_ns, thread.wall_ns),
            text::share(thread.waited_ns, thread.wall_ns),
            if thread.spun { "spinning" } else { "sleeping" }.to_owned(),
            text::count(thread.dropped),
            text::count(thread.blocked),
        ]);
    }
    table
}

/// The steps in which sent and planned queries differ most; nothing if none does.
fn fidelity(result: &ResultFile) -> Option<Table> {
    const SHOWN: usize = 10;
    let off = |[planned, sent]: &[u64; 2]| planned.abs_diff(*sent);
    let mut steps: Vec<_> =
        result.rate.steps.iter().enumerate().filter(|(_, step)| off(step) > 0).collect();
    steps.sort_by_key(|(at, step)| (std::cmp::Reverse(off(step)), *at));
    let head = ["from", "planned", "sent", "difference"];
    let mut table = Table::new("fidelity", head.map(Head::plain).into());
    for (at, step) in steps.into_iter().take(SHOWN) {
        let [planned, sent] = *step;
        let seconds = at as f64 * result.rate.step_ns as f64 / 1e9;
        table.rows.push(vec![
            format!("{seconds:.1} s"),
            text::count(planned),
            text::count(sent),
            format!("{:+}", i128::from(sent) - i128::from(planned)),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}
