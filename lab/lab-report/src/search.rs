//! A search for the highest rate that meets an objective: every probe, and where it ended.

use crate::plot::{Key, Plot, folded};
use crate::scale::Log;
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table, facts};
use crate::text;
use lab_histogram::Quantile;
use lab_result::search::{Probe, SearchFile};
use maud::{Markup, html};

const HEIGHT: f64 = 300.0;
/// What is said of a probe, with its class.
const SAID: [(&str, &str, &str); 3] = [
    ("met", "good", "met the objective"),
    ("missed", "bad", "missed it"),
    ("invalid", "none", "no measurement of the server"),
];

/// What was found: the class of the verdict, its badge, and a sentence.
fn found(file: &SearchFile) -> (&'static str, String, String) {
    let (server, objective, floor) = (&file.server, &file.objective, text::rate(file.floor));
    let limited = file.limited_by.as_deref();
    let (Some(median), Some((low, high))) = (file.median, file.range) else {
        let sentence = format!(
            "No search for the highest rate at which {server} meets {objective} was finished."
        );
        return ("open", "NOT FOUND".to_owned(), sentence);
    };
    if median == 0.0 && limited == Some("generator") {
        let sentence = format!(
            "Whether {server} meets {objective} at {floor}/s is not known: the generator itself could not keep that schedule."
        );
        return ("invalid", "INVALID".to_owned(), sentence);
    }
    if median == 0.0 && limited == Some("probes") {
        let sentence = format!(
            "Whether {server} meets {objective} at {floor}/s is not known: all {} probes were taken before.",
            file.probes.len()
        );
        return ("invalid", "INVALID".to_owned(), sentence);
    }
    if median == 0.0 {
        let sentence = format!(
            "{server} does not meet {objective} at {floor}/s, the lowest rate that was tried."
        );
        return ("open", "NOT MET".to_owned(), sentence);
    }
    let class = if limited == Some("server") { "valid" } else { "open" };
    let badge = format!("{}/s", text::rate(median));
    if let Some(part) = file.confidence {
        let sentence = format!(
            "The highest rate at which {server} meets {objective}: from {} to {} with {} probability, by {} probes.",
            text::rate(low),
            text::rate(high),
            text::percent(part),
            file.probes.len()
        );
        return (class, badge, sentence);
    }
    if file.settled.is_some() {
        return (class, badge, format!("The highest rate at which {server} met {objective}."));
    }
    let all = file.searches.len();
    let searches = match file.counted.unwrap_or(all) {
        counted if counted < all => {
            format!("{counted} of {all} searches; the generator stopped the others")
        }
        _ => format!("{all} searches"),
    };
    let sentence = format!(
        "The highest rate at which {server} meets {objective}: from {} to {} in {searches}.",
        text::rate(low),
        text::rate(high)
    );
    (class, badge, sentence)
}

/// What was found.
pub(crate) fn verdict(file: &SearchFile) -> Markup {
    let (class, badge, sentence) = found(file);
    let limited = file.limited_by.as_deref().filter(|_| file.median.is_some_and(|rate| rate > 0.0));
    html! {
        div.verdict.(class) {
            span.badge { (badge) }
            div {
                p { (sentence) }
                @match limited {
                    Some("generator") => { p { "The generator was the limit and not the server: the server may reach more." } }
                    Some("between") => { p { "The server missed it at a higher rate; no probe between the two was valid." } }
                    Some("probes") => { p { "All probes were taken before the limit was enclosed: the server may reach more." } }
                    Some("ceiling") => { p { "The search was limited to this rate: the server may reach more." } }
                    _ => {}
                }
                @if file.interrupted { p { "The search was interrupted." } }
            }
        }
    }
}

/// Every probe as a picture and in numbers, and the plan.
pub(crate) fn probes(file: &SearchFile, at: usize) -> Markup {
    let provenance = &file.provenance;
    let plan = [
        ("objective", file.objective.clone()),
        ("server", format!("{} {}", file.server, file.transport)),
        ("queries", file.workload.source.clone()),
        ("arrivals", file.arrivals.clone()),
        ("length of a probe", text::nanos(file.probe_ns as f64)),
        ("from", format!("{} QPS", text::rate(file.floor))),
        ("to", format!("{} QPS", text::rate(file.ceiling))),
        ("precision", text::percent(file.precision)),
        ("seed", file.seed.to_string()),
        ("kernel", provenance.host.kernel.clone()),
        ("measured by", format!("{} {}", file.generator.name, file.generator.version)),
    ];
    html! {
        (picture(file))
        (folded(&table(file, at), "Every probe in numbers"))
        h3 { "Plan" }
        (facts(&plan))
    }
}

fn picture(file: &SearchFile) -> Markup {
    let times = |probe: &Probe| probe.p99;
    let all = || file.probes.iter().filter_map(times);
    let rates = || file.probes.iter().map(|probe| probe.rate).filter(|rate| *rate > 0.0);
    let (Some(low), Some(high)) = (all().min(), all().max()) else { return html! {} };
    let least = rates().fold(f64::INFINITY, f64::min);
    let (x, y) =
        (Log::around(least, rates().fold(1.0, f64::max)), Log::around(low as f64, high as f64));
    let mut drawing = Drawing::default();
    if let Some((low, high)) = file.range {
        let mut found = Path::default();
        let (from, to) = (x.at(low) * WIDTH, x.at(high) * WIDTH);
        found.rect(from - 1.0, 0.0, (to - from).max(0.0) + 2.0, HEIGHT);
        drawing.path("fill margin", &found);
    }
    for (said, class, _) in SAID {
        let mut dots = Path::default();
        for probe in file.probes.iter().filter(|probe| probe.said == said) {
            let Some(nanos) = times(probe) else { continue };
            dots.dot(x.at(probe.rate) * WIDTH, (1.0 - y.at(nanos as f64)) * HEIGHT);
        }
        drawing.path_of("dot probe", class, &dots);
    }
    // What lies among lost queries is at least that, and its dot is hollow.
    let is_bound = |probe: &Probe| matches!(probe.times(), [_, (_, Quantile::AtLeast(_)), _]);
    let mut holes = Path::default();
    for probe in file.probes.iter().filter(|probe| is_bound(probe)) {
        let Some(nanos) = times(probe) else { continue };
        holes.dot(x.at(probe.rate) * WIDTH, (1.0 - y.at(nanos as f64)) * HEIGHT);
    }
    drawing.path("dot hole", &holes);
    let mut ticks = x.ticks();
    for tick in ticks.iter_mut().filter(|tick| !tick.label.is_empty()) {
        tick.label = text::rate(x.value(tick.at));
    }
    let mut keys: Vec<Key> =
        SAID.iter().map(|(_, class, name)| Key::dot(format!("probe {class}"), *name)).collect();
    if file.probes.iter().any(is_bound) {
        keys.push(Key::ring("probe", "hollow: at least this, the p99 lies among lost queries"));
    }
    keys.push(Key::filled("margin", "what was found"));
    Plot {
        height: HEIGHT,
        name: "p99 of every probe by its rate".to_owned(),
        x_name: "QPS".to_owned(),
        y_name: "p99".to_owned(),
        x: ticks,
        y: y.ticks(),
        keys,
        drawing,
        readout: None,
    }
    .render()
}

fn table(file: &SearchFile, at: usize) -> Table {
    let head = ["probe", "rate", "", "answered/s", "lost", "p50", "p99", "p99.9", "because"];
    let mut table = Table::new(format!("probes{at}"), head.map(Head::plain).into());
    for (number, probe) in file.probes.iter().enumerate() {
        let [p50, p99, p999] = probe.times().map(|(_, time)| text::quantile(time));
        table.rows.push(vec![
            (number + 1).to_string(),
            text::rate(probe.rate),
            probe.said.clone(),
            text::rate(probe.answered_per_second),
            text::percent(probe.loss),
            p50,
            p99,
            p999,
            probe.because.join("; "),
        ]);
    }
    table
}
