//! What a reader wants to know first: can it be believed, how fast, how much was lost.

use crate::plot::Key;
use crate::run::{CAUSES, Run};
use crate::table::{Head, Table};
use crate::text;
use lab_histogram::Quantile;
use lab_result::{Pace, ResultFile};
use maud::{Markup, html};

/// The percentiles of the first lines.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Verdicts and key numbers of all runs.
pub(crate) fn headline(runs: &[Run<'_>]) -> Markup {
    html! {
        div.verdicts { @for run in runs { (verdict(run, runs.len() > 1)) } }
        @if let [run] = runs {
            p.sentence { (sentence(run.result)) }
            (tiles(run.result))
        } @else if !runs.is_empty() {
            (overview(runs).render())
        }
    }
}

fn verdict(run: &Run<'_>, named: bool) -> Markup {
    let verdict = &run.result.verdict;
    let (class, sign, word) =
        if verdict.valid { ("valid", "✓", "VALID") } else { ("invalid", "✕", "INVALID") };
    html! {
        div.verdict.(class) {
            span.badge { span aria-hidden="true" { (sign) " " } (word) }
            div {
                @if named { p.who { (key(run).sign()) (run.label) } }
                @if verdict.valid {
                    p { "The generator kept its schedule and lost nothing itself: the numbers are the server’s." }
                } @else {
                    p { "The generator disturbed this measurement:" }
                    ul { @for why in &verdict.invalid_because { li { (why) } } }
                }
                @if run.result.run.interrupted { p { "The run was interrupted; the numbers up to then are complete." } }
                @if !verdict.notes.is_empty() {
                    ul.notes { @for note in &verdict.notes { li { (note) } } }
                }
            }
        }
    }
}

/// The sign of a run on this page.
pub(crate) fn key(run: &Run<'_>) -> Key {
    Key::line(format!("s{}", run.at % crate::COLOURS), run.label.clone())
}

/// The result in a sentence.
fn sentence(result: &ResultFile) -> Markup {
    let counts = &result.counts;
    let at = |part| text::quantile(result.response.quantile(part));
    let half = match result.response.quantile(0.5) {
        Quantile::Empty => return html! { "No query was sent." },
        Quantile::Value(_) => {
            html! { "Half of " b { (text::count(counts.sent)) " queries" } " were answered within " b { (at(0.5)) } }
        }
        Quantile::AtLeast(_) => {
            html! { "Most of " b { (text::count(counts.sent)) " queries" } " got no answer" }
        }
    };
    let tail = match result.response.quantile(0.99) {
        Quantile::Value(_) => html! { ", 99 % within " b { (at(0.99)) } "." },
        _ => html! { ", and one in a hundred or more was lost." },
    };
    let lost = match counts.lost() {
        0 => html! { " None was lost." },
        1 => {
            html! { " " b { "One" } " was lost (" (text::share(1, counts.sent)) "): " (causes(result)) "." }
        }
        lost => {
            html! { " " b { (text::count(lost)) } " were lost (" (text::share(lost, counts.sent)) "): " (causes(result)) "." }
        }
    };
    html! { (half) (tail) (lost) }
}

/// Causes of loss with their numbers.
fn causes(result: &ResultFile) -> String {
    let counts = &result.counts;
    let numbers = [counts.timed_out, counts.refused, counts.connection_failed];
    let named = CAUSES.iter().zip(numbers).filter(|(_, number)| *number > 0);
    let parts: Vec<String> =
        named.map(|(cause, number)| format!("{} {cause}", text::count(number))).collect();
    parts.join(", ")
}

fn tiles(result: &ResultFile) -> Markup {
    let service = |part| format!("{} on the wire", text::quantile(result.service.quantile(part)));
    let counts = &result.counts;
    let offered = match &result.plan.pace {
        Pace::Open { rate, .. } => format!("{} per second were scheduled", text::asked_rate(*rate)),
        Pace::Closed { window_per_client } => {
            format!("{window_per_client} in flight for each of {} clients", result.plan.clients)
        }
    };
    let lost =
        if counts.lost() > 0 { causes(result) } else { "every query was answered".to_owned() };
    let mut tiles: Vec<(&str, String, String, bool)> = [0, 2, 3]
        .into_iter()
        .filter_map(|at| PERCENTILES.get(at))
        .map(|(name, part)| {
            let quantile = result.response.quantile(*part);
            let bad = matches!(quantile, Quantile::AtLeast(_));
            (*name, text::quantile(quantile), service(*part), bad)
        })
        .collect();
    let slowest = text::quantile(result.response.quantile(1.0));
    tiles.push(("slowest", slowest, "of all queries".to_owned(), counts.lost() > 0));
    tiles.push(("lost", text::share(counts.lost(), counts.sent), lost, counts.lost() > 0));
    tiles.push(("answers per second", text::rate(result.answer_rate()), offered, false));
    html! {
        div.tiles { @for (name, value, about, bad) in &tiles {
            div.tile.bad[*bad] { span.name { (name) } span.value { (value) } span.about { (about) } }
        } }
    }
}

/// Several results side by side.
fn overview(runs: &[Run<'_>]) -> Table {
    let mut head = vec![Head::plain("result"), Head::plain("verdict"), Head::plain("answers/s")];
    head.push(Head::plain("lost"));
    head.extend(PERCENTILES.iter().map(|(name, _)| Head::plain(*name)));
    head.push(Head::plain("slowest"));
    let mut table = Table::new("overview", head);
    for run in runs {
        let result = run.result;
        let verdict = if result.verdict.valid { "VALID" } else { "INVALID" };
        let mut row = vec![run.label.clone(), verdict.to_owned(), text::rate(result.answer_rate())];
        row.push(text::share(result.counts.lost(), result.counts.sent));
        let all = PERCENTILES.iter().map(|(_, part)| *part).chain([1.0]);
        row.extend(all.map(|part| text::quantile(result.response.quantile(part))));
        table.rows.push(row);
    }
    table
}
