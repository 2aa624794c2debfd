//! The exchange in a cluster that a comparison was measured by: what was changed, what containers used.

use crate::table::{Head, Table, facts};
use crate::text;
use lab_result::comparison::{ComparisonFile, Swap, Usage};
use maud::{Markup, html};

/// What was exchanged, and every load, the `at`th comparison on its page.
pub(crate) fn exchange(file: &ComparisonFile, swap: &Swap, at: usize) -> Markup {
    let [a, b] = &swap.images;
    let [digests_a, digests_b] = swap.digests.each_ref().map(|all| all.join(", "));
    html! {
        (facts(&[
            ("Cluster", swap.cluster.clone()),
            ("Workload", swap.workload.clone()),
            ("Container", swap.container.clone()),
            ("A", a.clone()),
            ("Digest of A", digests_a),
            ("B", b.clone()),
            ("Digest of B", digests_b),
            ("Asked", swap.server.clone()),
            ("Load from", swap.load_from.clone()),
            ("Rollouts", rollouts(swap)),
        ]))
        @if !swap.owners.is_empty() {
            h3 { "Who watches over the workload" }
            ul { @for owner in &swap.owners { li { (owner) } } }
        }
        h3 { "What became of each change" }
        ul { @for line in &swap.restored { li { (line) } } }
        h3 { "Every load" }
        (loads(file, swap, at).render())
    }
}

/// How many, and how long they took.
fn rollouts(swap: &Swap) -> String {
    let times = || swap.rollouts.iter().map(|rollout| rollout.elapsed_ns as f64);
    let Some(longest) = times().reduce(f64::max) else { return String::new() };
    let shortest = times().reduce(f64::min).unwrap_or(longest);
    let count = text::of(swap.rollouts.len(), "rollout");
    format!("{count}, {} to {}", text::nanos(shortest), text::nanos(longest))
}

fn loads(file: &ComparisonFile, swap: &Swap, at: usize) -> Table {
    let heads = [
        "Round",
        "Phase",
        "Image",
        "Queries",
        "Load",
        "CPU",
        "Throttled",
        "Throttled periods",
        "Anonymous memory",
        "Working set",
        "Restarts",
        "Readings",
    ];
    let mut table = Table::new(format!("usage{at}"), heads.map(Head::plain).into());
    for usage in &swap.usage {
        let name = match (&*usage.phase, &*usage.side) {
            ("noise", _) | (_, "a") => &file.a.name,
            _ => &file.b.name,
        };
        table.rows.push(row(usage, name));
    }
    table
}

fn row(usage: &Usage, name: &str) -> Vec<String> {
    let shown =
        |value: Option<f64>, text: fn(f64) -> String| value.map_or("unknown".to_owned(), text);
    let octets = |value: Option<u64>| value.map_or("unknown".to_owned(), text::octets);
    let again = if usage.attempt == 0 { "" } else { ", again" };
    vec![
        format!("{}{again}", usage.pair + 1),
        usage.phase.clone(),
        name.to_owned(),
        usage.set.clone(),
        usage.load.clone(),
        shown(usage.millicores, |milli| format!("{milli:.1}m")),
        shown(usage.throttled_ms, |milli| format!("{milli:.1} ms/s")),
        shown(usage.throttled_periods, text::percent),
        octets(usage.rss),
        octets(usage.working_set),
        usage.restarts.to_string(),
        format!("{} in {:.1} s", usage.readings, usage.seconds),
    ]
}
