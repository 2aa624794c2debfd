//! A report as one HTML page that needs nothing else: styles and script are in it, and the script
//! only fetches the same page again.

mod chart;

use crate::report::{Client, Leak, LeakKind, Moment, Name, Report, Source};
use crate::text::{duration, kind_text, milliseconds, percent, rate, times, why};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Rows of each table.
const ROWS: usize = 12;

/// What a browser may do with the page (`Content-Security-Policy`): show it, and run the one script
/// that is ours. Names in it come from anybody; they are escaped, and this is the second lock.
pub fn policy() -> String {
    let script = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// The page.
pub fn render(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "DNS of " (report.host) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (head(report))
                main {
                    (figures(report))
                    (leaks(report))
                    div.columns {
                        section { h2 { "Top clients" } (clients(&report.clients)) }
                        section { h2 { "For what" } (names(&report.names)) }
                        section { h2 { "Longest waited for" } (slow(&report.slow)) }
                        section {
                            h2 { "How long upstreams take" } (chart::latency(&report.latency))
                            h2 { "Answers" } (chart::rcodes(&report.rcodes))
                        }
                    }
                }
                footer {
                    "Rates are per second, over the last ten seconds or so. At high rates answers \
                     from the cache are sampled. The same as JSON: "
                    a href="/debug/dns.json" { "/debug/dns.json" }
                    "; in a terminal: " code { "nodens top" } "."
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn head(report: &Report) -> Markup {
    html! {
        header {
            h1 { "DNS of " b { (report.host) } }
            p { span.live id="live" { "live" } " · counting for " (duration(report.counted_s)) }
        }
    }
}

/// The four figures with their last two minutes.
fn figures(report: &Report) -> Markup {
    let figure = |title: &str, class: &str, of: fn(&Moment) -> f64, aside: String| {
        let history: Vec<f64> = report.history.iter().map(of).collect();
        html! {
            div class=(format!("figure {class}")) {
                h3 { (title) }
                p.value { (rate(of(&report.now))) small { "/s" } }
                p.aside { (aside) }
                (chart::spark(&history))
            }
        }
    };
    let now = &report.now;
    let share = |part: f64| format!("{} of all", percent(part, now.questions));
    html! {
        section.figures {
            (figure("Questions", "questions", |m| m.questions, "from all clients".to_owned()))
            (figure("To upstreams", "upstream", |m| m.upstream, share(now.upstream)))
            (figure("NXDOMAIN", "denied", |m| m.denied, share(now.denied)))
            (figure("Failures", "failed", |m| m.failed, share(now.failed)))
        }
    }
}

fn leaks(report: &Report) -> Markup {
    let most = report.leaks.first().map_or(1.0, |leak| leak.cost);
    let wasted: f64 = report.leaks.iter().map(|leak| leak.rate).sum();
    html! {
        section.leaks {
            h2 { "Wasted queries"
                @if !report.leaks.is_empty() {
                    small { (rate(wasted)) " QPS, most costly first" }
                }
            }
            @if report.leaks.is_empty() {
                p.empty { "None: every name that clients query exists." }
            }
            ol {
                @for leak in report.leaks.iter().take(ROWS) { (card(leak, most)) }
            }
            @if report.leaks.len() > ROWS {
                p.more { "and " (report.leaks.len() - ROWS) " smaller ones" }
            }
            @if !report.stopped.is_empty() {
                h2 { "Stopped" small { "answered here by a template of the Corefile" } }
                ul.stopped {
                    @for leak in &report.stopped {
                        li { code { (leak.name) } " " (rate(leak.rate)) "/s" (sources(leak)) }
                    }
                }
            }
        }
    }
}

fn card(leak: &Leak, most: f64) -> Markup {
    let width = (100.0 * leak.cost / most.max(1e-9)).clamp(1.0, 100.0);
    html! {
        li class=(kind_class(leak.kind)) {
            div.bar style=(format!("width:{width:.1}%")) {}
            div.what {
                p.name { code { (leak.name) } span.kind { (kind_text(leak.kind)) } }
                p.why { (why(leak)) }
                p.who { (sources(leak)) }
                @if !leak.command.is_empty() {
                    p.stop { span { "Stop it:" } code.command { (leak.command) } }
                }
            }
            dl.numbers {
                div { dt { "wasted" } dd { (rate(leak.rate)) small { "/s" } } }
                div { dt { "to upstreams" } dd { (rate(leak.upstream)) small { "/s" } } }
                div.times { dt { "per lookup" } dd { "×" (times(leak.amplification)) } }
            }
        }
    }
}

/// Who asks, in a line.
fn sources(leak: &Leak) -> Markup {
    let shown = leak.sources.len();
    html! {
        @for (index, source) in leak.sources.iter().enumerate() {
            @if index > 0 { ", " }
            (whose(source))
        }
        @if leak.source_count > shown { " and " (leak.source_count - shown) " more" }
    }
}

fn whose(source: &Source) -> Markup {
    let address = source.address.to_string();
    html! {
        @match &source.place {
            Some(place) => span.pod title=(address) {
                @if !place.namespace.is_empty() { span.namespace { (place.namespace) "/" } }
                (place.pod)
            },
            None => span.pod { (address) },
        }
    }
}

fn clients(clients: &[Client]) -> Markup {
    let most = clients.first().map_or(1.0, |client| client.source.rate);
    let row = |client: &Client| {
        html! {
            tr {
                td.name { (share(client.source.rate, most)) (whose(&client.source)) }
                td { (rate(client.source.rate)) }
                td { (rate(client.upstream)) }
                td { (percent(client.denied, client.source.rate)) }
            }
        }
    };
    table(&["client", "/s", "upstream", "NXDOMAIN"], clients.iter().take(ROWS).map(row))
}

fn names(names: &[Name]) -> Markup {
    let most = names.first().map_or(1.0, |name| name.rate);
    let row = |name: &Name| {
        html! {
            tr {
                td.name { (share(name.rate, most)) (name.name) }
                td { (rate(name.rate)) }
                td { (rate(name.upstream)) }
                td { (percent(name.denied, name.rate)) }
            }
        }
    };
    table(&["name", "/s", "upstream", "NXDOMAIN"], names.iter().take(ROWS).map(row))
}

fn slow(names: &[Name]) -> Markup {
    let wait = |name: &Name| name.wait_ms * name.upstream;
    let most = names.first().map_or(1.0, wait);
    let row = |name: &Name| {
        html! {
            tr {
                td.name { (share(wait(name), most)) (name.name) }
                td { (rate(name.upstream)) }
                td { (milliseconds(name.wait_ms)) }
                td { (milliseconds(name.wait_max_ms)) }
            }
        }
    };
    table(&["name", "waits/s", "mean", "longest"], names.iter().take(ROWS).map(row))
}

fn table(head: &[&str], rows: impl Iterator<Item = Markup>) -> Markup {
    let rows: Vec<_> = rows.collect();
    html! {
        @if rows.is_empty() {
            p.empty { "Nothing yet." }
        } @else {
            table {
                thead { tr { @for title in head { th { (title) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

fn share(part: f64, most: f64) -> Markup {
    let width = (100.0 * part / most.max(1e-9)).clamp(0.0, 100.0);
    html! { span.share style=(format!("width:{width:.1}%")) {} }
}

fn kind_class(kind: LeakKind) -> &'static str {
    match kind {
        LeakKind::Name => "is-name",
        LeakKind::Search => "is-search",
        LeakKind::Storm => "is-storm",
        LeakKind::Failure => "is-failure",
    }
}
