//! How connections were set up and how they ended.

use crate::headline;
use crate::percentiles::{self, Curve};
use crate::plot::{Key, plain};
use crate::run::Run;
use crate::table::facts;
use crate::text;
use lab_histogram::Histogram;
use lab_result::ConnectionFates;
use maud::{Markup, html};

/// Whether `run` had connections.
pub(crate) fn has_any(run: &Run<'_>) -> bool {
    run.result.connect.recorded() + run.result.connect.censored() > 0
}

/// The times of all runs and the fates of their connections.
pub(crate) fn connections(runs: &[Run<'_>]) -> Markup {
    let name = "Time to set up connections";
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for run in runs {
        let whole = if runs.len() == 1 { Key::line("s0", "whole") } else { headline::key(run) };
        curves.push(Curve { histogram: &run.result.connect, key: whole });
    }
    if let ([_], Some(fates)) = (runs, runs.first().and_then(|run| fates(run))) {
        let parts = [("s2", "TCP", &fates.tcp), ("s3", "TLS or QUIC", &fates.tls)];
        let of = |(class, name, histogram)| Curve { histogram, key: Key::line(class, name) };
        curves.extend(parts.into_iter().filter(|(_, _, all)| has_values(all)).map(of));
    }
    html! {
        (percentiles::plot("connecting", name, &curves, 240.0))
        @for run in runs {
            @if let Some(fates) = fates(run) {
                @if runs.len() > 1 { h3.who { (headline::key(run).sign()) (run.label) } }
                (facts(&numbers(run, fates)))
                @if !fates.failures.is_empty() {
                    details { summary { "Reasons of failures" }
                        ul { @for (text, times) in &fates.failures { li { (text) ": " (text::count(*times)) } } }
                    }
                }
            }
        }
    }
}

/// What the section is about.
pub(crate) fn lead() -> Markup {
    plain(
        "A query that waits for its connection is late by that wait: it is part of its response time.",
    )
}

fn fates<'r>(run: &Run<'r>) -> Option<&'r ConnectionFates> {
    run.result.connection_fates.as_ref()
}

fn has_values(histogram: &Histogram) -> bool {
    histogram.recorded() + histogram.censored() > 0
}

fn numbers(run: &Run<'_>, fates: &ConnectionFates) -> Vec<(&'static str, String)> {
    let all = run.result.connections.unwrap_or_default();
    let some = |number: u64| if number > 0 { text::count(number) } else { String::new() };
    let waited = |part| text::quantile(fates.waited.quantile(part));
    let mut facts = vec![
        ("life", fates.life.clone()),
        ("attempted", text::count(all.attempted)),
        ("opened", text::count(all.opened)),
        ("failed to open", text::count(all.failed)),
        ("refused", some(fates.refused)),
        ("reset during the handshake", some(fates.reset)),
        ("TLS failed", some(fates.handshake_failed)),
        ("handshake timed out", some(fates.timed_out)),
        ("not opened by this machine", some(fates.not_tried)),
        ("unfinished at the end", some(fates.unfinished)),
        ("resumed sessions", some(all.resumed)),
        ("queries sent as early data", some(all.early_data_sent)),
        ("closed by the server", text::count(fates.closed_by_server)),
        ("closed by the client", text::count(fates.closed_by_client)),
        ("broken", some(fates.broken)),
        ("open at the end", some(fates.left_open)),
        ("queries sent again on another connection", some(fates.asked_again)),
        ("queries cut by the end of a connection", some(fates.half_written)),
        ("streams without an answer", some(fates.rejected)),
        ("waits for a free stream", some(fates.stream_waits)),
    ];
    if has_values(&fates.waited) {
        let text = format!("p50 {}, p99 {}, at most {}", waited(0.5), waited(0.99), waited(1.0));
        facts.push(("queries that waited for a connection", text));
    }
    let http: Vec<String> =
        fates.http.iter().map(|(status, n)| format!("{status}: {}", text::count(*n))).collect();
    facts.push(("HTTP status", http.join(", ")));
    facts
}
