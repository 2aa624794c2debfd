//! The page as a whole.

use crate::headline::{self, headline};
use crate::percentiles::{self, Curve};
use crate::plot::{Key, plain};
use crate::run::{self, Range, Run};
use crate::scenario;
use crate::{
    Document, Source, analysis, bench, compare, connect, costs, groups, health, overtime,
    provenance, search, swap, text, tuning,
};
use lab_result::ResultFile;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");

/// The page about `sources`, under `title` or a heading of its own.
pub fn page(sources: &[Source], title: Option<&str>) -> String {
    let loads: Vec<(String, &ResultFile)> = sources
        .iter()
        .filter_map(|source| match &source.document {
            Document::Load(result) => Some((source.name.clone(), result.as_ref())),
            _ => None,
        })
        .collect();
    let labels = run::labels(&loads);
    let runs: Vec<Run<'_>> = loads
        .iter()
        .zip(labels)
        .enumerate()
        .map(|(at, ((_, result), label))| Run::new(result, label, at, loads.len()))
        .collect();
    let title = title.map_or_else(|| heading(sources, &runs), str::to_owned);
    let mut all = of_comparisons(sources);
    all.extend(of_searches(sources));
    all.extend(of_analyses(sources));
    all.extend(of_tunings(sources));
    all.extend(of_benches(sources));
    all.extend(of_scenarios(sources));
    all.extend(of_runs(&runs));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title))
            body {
                header {
                    div { p.product { "nodens-lab" } h1 { (title) } (subtitle(&runs)) }
                    button #theme type="button" hidden { "Theme" }
                }
                main {
                    (verdicts(sources))
                    (headline(&runs))
                    nav aria-label="Sections" {
                        @for section in &all { a href={ "#" (section.id) } { (section.title) } }
                    }
                    @for section in &all { (section.render()) }
                }
                footer { p {
                    "Made by nodens-lab from the result files alone. Times are from when a query was due "
                    "(response) or sent (on the wire); lost queries rank as slower than every answer."
                } }
                div #tip role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// A part of the page with a heading.
struct Section {
    id: String,
    title: String,
    lead: Markup,
    content: Markup,
}

impl Section {
    fn new(id: impl Into<String>, title: impl Into<String>, content: Markup) -> Self {
        Self { id: id.into(), title: title.into(), lead: html! {}, content }
    }

    fn with_lead(self, lead: Markup) -> Self {
        Self { lead, ..self }
    }

    fn render(&self) -> Markup {
        html! {
            section id=(self.id) {
                h2 { (self.title) }
                @if !self.lead.0.is_empty() { p.lead { (self.lead) } }
                (self.content)
            }
        }
    }
}

fn verdicts(sources: &[Source]) -> Markup {
    html! {
        div.verdicts { @for source in sources {
            @match &source.document {
                Document::Comparison(file) => { (compare::verdict(file)) }
                Document::Search(file) => { (search::verdict(file)) }
                Document::Analysis(file) => { (analysis::verdict(file)) }
                Document::Tuning(file) => { (tuning::verdict(file)) }
                Document::Load(_) | Document::Bench(_) | Document::Scenario(_) => {}
            }
        } }
    }
}

fn of_comparisons(sources: &[Source]) -> Vec<Section> {
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let Document::Comparison(file) = &source.document else { continue };
        let who = format!("{} beside {}", file.b.name, file.a.name);
        let lead = plain(
            "Of every metric less is better. The interval holds the true difference in 95 of 100 such \
             comparisons if the level is 0.05; a metric is equivalent if its interval lies within the margin.",
        );
        all.push(
            Section::new(format!("compare{at}"), who, compare::findings(file, at)).with_lead(lead),
        );
        let both = compare::distributions(file, at);
        if !both.0.is_empty() {
            let lead = plain("All blocks of a side together: a picture, not the test.");
            all.push(
                Section::new(format!("both{at}"), "Both servers’ latency", both).with_lead(lead),
            );
        }
        if let Some(exchanged) = &file.swap {
            let title = "The exchange in the cluster";
            let content = swap::exchange(file, exchanged, at);
            all.push(Section::new(format!("swap{at}"), title, content));
        }
        if !file.costs.is_empty() {
            all.push(Section::new(format!("cost{at}"), "CPU and memory", costs::costs(file, at)));
        }
        all.push(Section::new(format!("plan{at}"), "Plan of the comparison", compare::plan(file)));
    }
    all
}

fn of_searches(sources: &[Source]) -> Vec<Section> {
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        if let Document::Search(file) = &source.document {
            let title = "The highest rate that meets the objective";
            all.push(Section::new(format!("search{at}"), title, search::probes(file, at)));
        }
    }
    all
}

fn of_analyses(sources: &[Source]) -> Vec<Section> {
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let Document::Analysis(file) = &source.document else { continue };
        let mut add = |id: &str, title: &str, lead: Markup, content: Markup| {
            if !content.0.is_empty() {
                all.push(Section::new(format!("{id}{at}"), title, content).with_lead(lead));
            }
        };
        let lead = plain(
            "The interval holds the true difference in 95 of 100 such analyses if the level is 0.05 and the \
             values are independent. Each verdict is corrected for the number of all of them.",
        );
        add("findings", "Groups compared", lead, analysis::findings(file, at));
        let lead = plain(
            "A box holds the middle half of a group’s values, its line is the median, and each dot is a value. \
             The axis does not begin at zero.",
        );
        add("values", "Every value", lead, analysis::values(file, at));
        add("latency", "Latency", percentile_lead(), analysis::curves(file, at));
        let lead = plain(
            "With a fixed number of queries in flight, latency is that number divided by the rate, less what \
             lost queries took of it. Where this is all, the two columns are one number.",
        );
        add("loops", "Closed loops", lead, analysis::loops(file, at));
        add("papers", "As papers test it", analysis::families_lead(), analysis::families(file, at));
        add("sources", "Files and what was taken for true", html! {}, analysis::sources(file, at));
    }
    all
}

fn of_tunings(sources: &[Source]) -> Vec<Section> {
    let lead = "From a setting's first level to its second one, other settings being equal. A setting is named if \
                hardly any order of the runs within their blocks would show as much of any setting.";
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let Document::Tuning(file) = &source.document else { continue };
        let title = format!("Effects on {}", file.plan.primary);
        let section = Section::new(format!("tuning{at}"), title, tuning::findings(file, at));
        all.push(section.with_lead(plain(lead)));
        let plan = tuning::plan(file, at);
        all.push(Section::new(format!("tuned{at}"), "Plan of the trial", plan));
    }
    all
}

fn of_benches(sources: &[Source]) -> Vec<Section> {
    let lead = "A bar is the median of the repeats; the line over it reaches from the lowest to the highest.";
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let Document::Bench(file) = &source.document else { continue };
        let section =
            Section::new(format!("bench{at}"), "Servers side by side", bench::bench(file, at));
        all.push(section.with_lead(plain(lead)));
    }
    all
}

fn of_scenarios(sources: &[Source]) -> Vec<Section> {
    let mut all = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let Document::Scenario(file) = &source.document else { continue };
        let content = scenario::scenario(file, at);
        all.push(Section::new(format!("scenario{at}"), file.title.clone(), content));
    }
    all
}

fn head(title: &str) -> Markup {
    // Only our own script runs: whatever text a file has, it is not this one.
    let script = base64(&Sha256::digest(SCRIPT));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; \
         base-uri 'none'; form-action 'none'"
    );
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn heading(sources: &[Source], runs: &[Run<'_>]) -> String {
    match (sources, runs) {
        ([], _) => "No results".to_owned(),
        ([_], [run]) => run::server(run.result),
        ([_, _], [first, second]) => format!("{} and {}", first.label, second.label),
        ([only], _) => match &only.document {
            Document::Comparison(file) => format!("{} beside {}", file.b.name, file.a.name),
            Document::Search(file) => file.server.clone(),
            Document::Analysis(file) => analysis::heading(file),
            Document::Tuning(file) => format!("Settings of {}", file.plan.server),
            _ => "Servers side by side".to_owned(),
        },
        _ => format!("{} results", sources.len()),
    }
}

fn subtitle(runs: &[Run<'_>]) -> Markup {
    let Some(first) = runs.first() else { return html! {} };
    let result = first.result;
    let pace = match &result.plan.pace {
        lab_result::Pace::Open { rate, arrivals, .. } => {
            format!("{} QPS, {arrivals}", text::asked_rate(*rate))
        }
        lab_result::Pace::Closed { .. } => "closed loop".to_owned(),
    };
    let started = text::utc(result.run.started_unix_ns / 1_000_000_000);
    let length = text::nanos(result.plan.duration_ns as f64);
    html! {
        p.subtitle {
            @if runs.len() == 1 { (pace) " · " (length) " · " }
            (started)
        }
    }
}

fn of_runs(runs: &[Run<'_>]) -> Vec<Section> {
    if runs.is_empty() {
        return Vec::new();
    }
    let many = runs.len() > 1;
    let range = runs.iter().map(Run::range).fold(Range::default(), Range::join);
    let who =
        |run: &Run<'_>| html! { @if many { h3.who { (headline::key(run).sign()) (run.label) } } };
    let time = html! {
        @if many { h3 { "All results together: p99 of each second" } (overtime::overlaid(runs, range)) }
        @for run in runs { (who(run)) (overtime::plots(run, range)) }
    };
    let mut all = vec![
        Section::new("percentiles", "Latency", curves(runs)).with_lead(percentile_lead()),
        Section::new("time", "Over time", time).with_lead(time_lead(runs)),
    ];
    if runs.iter().any(connect::has_any) {
        let section = Section::new("connect", "Connections", connect::connections(runs));
        all.push(section.with_lead(connect::lead()));
    }
    if runs.iter().any(groups::has_any) {
        let tables = html! { @for run in runs { (groups::tables(run, many)) } };
        all.push(Section::new("groups", "By kind", tables));
    }
    let each = |what: fn(&Run<'_>) -> Markup| html! { @for run in runs { (who(run)) (what(run)) } };
    let lead = plain(
        "A generator that is late, busy or drops answers measures itself. These numbers say whether it did.",
    );
    all.push(Section::new("health", "The generator itself", each(health::health)).with_lead(lead));
    all.push(Section::new("provenance", "Plan and provenance", each(provenance::provenance)));
    all
}

fn percentile_lead() -> Markup {
    plain(
        "Read it from the left: all queries, the slower half, the slowest tenth, down to the single \
         slowest one. Both axes are logarithmic. Lost queries are slower than anything measured and lie \
         in the band at the top.",
    )
}

fn time_lead(runs: &[Run<'_>]) -> Markup {
    let step = runs.iter().map(|run| run.step).max().unwrap_or(1);
    html! {
        "A query belongs to the second in which it was due, whenever its answer came or its loss was noticed."
        @if step > 1 { " Each column stands for " (step) " seconds." }
    }
}

fn curves(runs: &[Run<'_>]) -> Markup {
    let mut curves = Vec::new();
    for run in runs {
        let key = if runs.len() == 1 {
            Key::line("s0", "response, from when it was due")
        } else {
            headline::key(run)
        };
        curves.push(Curve { histogram: &run.result.response, key });
        if runs.len() == 1 {
            let key = Key::line("service", "on the wire, from when it was sent");
            curves.push(Curve { histogram: &run.result.service, key });
        }
        for baseline in run.result.baseline.iter().flat_map(|baseline| &baseline.runs) {
            let of = if runs.len() == 1 { String::new() } else { format!(" ({})", run.label) };
            let class = if baseline.when == "before" { "echo" } else { "echoafter" };
            let key = Key::line(class, format!("echo server {} the run{of}", baseline.when));
            curves.push(Curve { histogram: &baseline.response, key });
        }
    }
    percentiles::plot("curves", "Response time of the slowest part of all queries", &curves, 400.0)
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in octets.chunks(3) {
        let octet = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) as usize % DIGITS.len();
            let known = digit <= group.len();
            let digit = DIGITS.get(value).filter(|_| known).copied().unwrap_or(b'=');
            text.push(char::from(digit));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
