//! A search for the highest rate that meets an objective: every probe, and where it ended.

use crate::plot::{Key, Plot, folded};
use crate::scale::Log;
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table, facts};
use crate::text;
use lab_result::search::{Probe, SearchFile};
use maud::{Markup, html};

const HEIGHT: f64 = 300.0;
/// What is said of a probe, with its class.
const SAID: [(&str, &str, &str); 3] = [
    ("met", "good", "met the objective"),
    ("missed", "bad", "missed it"),
    ("invalid", "none", "no measurement of the server"),
];

/// What was found.
pub(crate) fn verdict(file: &SearchFile) -> Markup {
    let limited = file.limited_by.as_deref();
    let class = if file.median.is_some() && limited == Some("server") { "valid" } else { "open" };
    html! {
        div.verdict.(class) {
            span.badge { @match file.median {
                Some(rate) => { (text::rate(rate)) "/s" }
                None => { "NOT FOUND" }
            } }
            div {
                p { "The highest rate at which " b { (file.server) } " meets " b { (file.objective) }
                    @if let Some((low, high)) = file.range {
                        ": from " (text::rate(low)) " to " (text::rate(high)) " in " (file.searches.len()) " searches."
                    } @else { ": no rate that was tried." }
                }
                @match limited {
                    Some("generator") => { p { "The generator was the limit and not the server: the server may do more." } }
                    Some("between") => { p { "The server missed it at a higher rate; the generator vouches for nothing between the two." } }
                    Some("ceiling") => { p { "The search was told to go no higher: the server may do more." } }
                    _ => {}
                }
                @if file.interrupted { p { "The search was interrupted; the numbers are of the finished searches." } }
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
        ("questions", file.workload.source.clone()),
        ("arrivals", file.arrivals.clone()),
        ("length of a probe", text::nanos(file.probe_ns as f64)),
        ("from", format!("{} a second", text::rate(file.floor))),
        ("to", format!("{} a second", text::rate(file.ceiling))),
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
    let mut ticks = x.ticks();
    for tick in ticks.iter_mut().filter(|tick| !tick.label.is_empty()) {
        tick.label = text::rate(x.value(tick.at));
    }
    let mut keys: Vec<Key> =
        SAID.iter().map(|(_, class, name)| Key::dot(format!("probe {class}"), *name)).collect();
    keys.push(Key::filled("margin", "what the searches found"));
    Plot {
        height: HEIGHT,
        name: "p99 of every probe by its rate".to_owned(),
        x_name: "questions a second".to_owned(),
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
    let head = ["search", "rate", "", "answered/s", "lost", "p50", "p99", "p99.9", "because"];
    let mut table = Table::new(format!("probes{at}"), head.map(Head::plain).into());
    for probe in &file.probes {
        let [p50, p99, p999] = probe.times().map(|(_, time)| text::quantile(time));
        table.rows.push(vec![
            probe.search.to_string(),
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
