//! Two servers compared: the verdict, every finding with its interval, and what it rests on.

use crate::percentiles::{self, Curve};
use crate::plot::{Key, Places, Plot, Readout, folded, legend};
use crate::scale::{Linear, Tick};
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table, facts};
use crate::text;
use lab_histogram::Histogram;
use lab_result::comparison::{
    Block, Cell, ComparisonFile, ComparisonPlan, Finding, Shift, Verdict,
};
use maud::{Markup, html};

/// Units of height of an interval.
const ROW: f64 = 24.0;
/// Height of the plots.
const HEIGHT: f64 = 220.0;

/// The verdict and the findings of `file`, the `at`th comparison on its page.
pub(crate) fn verdict(file: &ComparisonFile) -> Markup {
    let of_capacity = primary(file).is_some_and(|finding| finding.more_is_better);
    let (class, word) = match file.verdict {
        Verdict::Faster if of_capacity && file.invalid_because.is_empty() => ("valid", "HIGHER"),
        Verdict::Slower if of_capacity && file.invalid_because.is_empty() => ("invalid", "LOWER"),
        _ if !file.invalid_because.is_empty() => ("invalid", "INVALID"),
        Verdict::Faster => ("valid", "FASTER"),
        Verdict::Slower => ("invalid", "SLOWER"),
        Verdict::Equivalent => ("valid", "EQUIVALENT"),
        Verdict::Inconclusive => ("open", "INCONCLUSIVE"),
    };
    html! {
        div.verdict.(class) {
            span.badge { (word) }
            div {
                p { (decided(file)) }
                @for why in &file.invalid_because { p { (why) } }
                @if file.interrupted { p { "The comparison was interrupted; the findings are of the pairs so far." } }
                @if !file.notes.is_empty() { ul.notes { @for note in &file.notes { li { (note) } } } }
            }
        }
    }
}

/// The finding that the plan says decides.
fn primary(file: &ComparisonFile) -> Option<&Finding> {
    file.findings.iter().find(|finding| finding.primary)
}

/// What decides in a sentence. If it could not be measured, no other finding takes its place.
fn decided(file: &ComparisonFile) -> Markup {
    if let Some(primary) = primary(file) {
        return said(file, primary);
    }
    let cell = &file.plan.primary;
    let why = file.omitted.iter().find(|omitted| omitted.cell == *cell);
    html! {
        b { (name(cell)) } ", " (cell.set) ", " (cell.load) ", decides and was not measured"
        @if let Some(omitted) = why { ": " (omitted.reason) } "."
    }
}

/// A finding in a sentence.
fn said(file: &ComparisonFile, finding: &Finding) -> Markup {
    let what = match finding.verdict {
        Verdict::Faster | Verdict::Slower => direction(finding),
        Verdict::Equivalent => "the same within the margin",
        Verdict::Inconclusive => "not shown to differ nor to be the same",
    };
    html! {
        b { (name(&finding.cell)) } " of " b { (file.b.name) } " beside " b { (file.a.name) } ": " (what) ", "
        b { (estimate(finding)) } " " (interval(finding)) " in " (text::of(finding.pairs, "pair")) " of blocks."
        @if let Some(needed) = finding.pairs_needed { " About " (text::of(needed, "pair")) " would probably decide." }
    }
}

/// Where B's value is beside A's, of a finding that shows a difference.
fn direction(finding: &Finding) -> &'static str {
    let is_more = (finding.verdict == Verdict::Faster) == finding.more_is_better;
    if is_more { "more" } else { "less" }
}

fn name(cell: &Cell) -> String {
    match cell.metric.as_str() {
        "cpu" => "CPU per answer".to_owned(),
        other => other.to_owned(),
    }
}

/// A difference as text: a part of A, or B − A of parts of all queries.
fn change(finding: &Finding, value: f64) -> String {
    let unit = if finding.scale == "ratio" { "%" } else { "points" };
    let percent = value * 100.0;
    let digits = if percent.abs() < 1.0 { 2 } else { 1 };
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{:.digits$} {unit}", percent.abs())
}

/// The estimated difference, as far as it is known: a value among lost queries is only a bound.
fn estimate(finding: &Finding) -> String {
    finding.shift().sign(&change(finding, finding.estimate))
}

fn interval(finding: &Finding) -> String {
    finding.interval.map_or("(no interval)".to_owned(), |ends| {
        let ends = ends.map(|end| change(finding, end));
        finding.shift().interval(ends, |low, high| format!("[{low}, {high}]"))
    })
}

fn value(finding: &Finding, value: f64) -> String {
    match finding.unit.as_str() {
        "ns" => text::nanos(value),
        "part" => text::percent(value),
        "octets" => text::octets(value.max(0.0) as u64),
        "qps" => format!("{}/s", text::rate(value)),
        _ => text::trimmed(value, 3),
    }
}

/// The findings, their pairs, the distributions and the cost.
pub(crate) fn findings(file: &ComparisonFile, at: usize) -> Markup {
    let keys = [
        Key::line("interval", "interval"),
        Key::dot("estimate", "estimate"),
        Key::filled("margin", "margin: differences that do not matter"),
    ];
    html! {
        (legend(&keys))
        (intervals(&file.findings, &format!("findings{at}"), [&file.a.name, &file.b.name]))
        @if !file.omitted.is_empty() {
            details { summary { "Planned but not shown: " (file.omitted.len()) }
                ul { @for omitted in &file.omitted {
                    li { (omitted.cell.set) ", " (omitted.cell.load) ", " (name(&omitted.cell)) ": " (omitted.reason) }
                } }
            }
        }
        @if let Some(primary) = primary(file) {
            h3 { "Every pair: " (name(&primary.cell)) ", " (primary.cell.set) ", " (primary.cell.load) }
            (pairs(primary, &format!("pairs{at}")))
        }
        @if !file.noise.is_empty() {
            h3 { (file.a.name) " compared with itself" }
            p.lead { "The result of the same test when there is no difference." }
            (intervals(&file.noise, &format!("noise{at}"), ["once", "again"]))
        }
    }
}

/// Columns behind the metric: what decides comes first, so that a narrow window shows it.
const DECIDES: [&str; 4] = ["verdict", "difference", "interval", "p"];

/// A table of findings, in which a narrow window sets the cells of a row below each other.
fn intervals(findings: &[Finding], id: &str, [a, b]: [&str; 2]) -> Markup {
    let (ratios, others): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.scale == "ratio");
    html! {
        @for (part, findings) in [("", ratios), ("-parts", others)] {
            @if !findings.is_empty() {
                @let reach = reach(&findings);
                div.scroll tabindex="0" role="group" aria-label="Findings" {
                    table.findings id={ (id) (part) } {
                        thead { tr {
                            th scope="col" { "metric" }
                            @for head in DECIDES { th scope="col" { (head) } }
                            th.drawn scope="col" { span { "less" } span { "0" } span { "more" } }
                            @for name in [a, b] { th.name scope="col" { (name) } }
                        } }
                        tbody { @for finding in &findings { (row(finding, reach, [a, b])) } }
                    }
                }
            }
        }
    }
}

fn row(finding: &Finding, reach: f64, [a, b]: [&str; 2]) -> Markup {
    let (class, verdict) = match finding.verdict {
        Verdict::Faster => ("good", direction(finding)),
        Verdict::Slower => ("bad", direction(finding)),
        Verdict::Equivalent => ("same", "equivalent"),
        Verdict::Inconclusive => ("open", "inconclusive"),
    };
    html! {
        tr.primary[finding.primary] {
            th scope="row" { (name(&finding.cell)) small { (finding.cell.set) ", " (finding.cell.load) } }
            @let [of_verdict, of_change, of_interval, of_p] = DECIDES;
            td.(class) data-of=(of_verdict) { (verdict) }
            td data-of=(of_change) { (estimate(finding)) }
            td data-of=(of_interval) { (interval(finding)) }
            td data-of=(of_p) { (p_value(finding.p_adjusted)) }
            td.drawn { (drawn(finding, reach)) }
            td data-of=(a) { (sign([finding.a_is_bound, finding.a_at_most])) (value(finding, finding.a)) }
            td data-of=(b) { (sign([finding.b_is_bound, finding.b_at_most])) (value(finding, finding.b)) }
        }
    }
}

/// The sign of a value that is only a bound: at least, at most.
fn sign(bounds: [bool; 2]) -> &'static str {
    match bounds {
        [false, false] => "",
        [true, false] => "≥ ",
        [false, true] => "≤ ",
        [true, true] => "≷ ",
    }
}

fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// How far the drawing has to reach to both sides: to the farthest interval, but not beyond what
/// would hide the margins.
fn reach(findings: &[&Finding]) -> f64 {
    let ends = |finding: &&Finding| {
        let ends = finding.interval.unwrap_or([finding.estimate; 2]);
        let far = ends.into_iter().map(|end| place(finding, end).abs()).fold(0.0, f64::max);
        far.max(place(finding, finding.margin).abs() * 1.5)
    };
    findings.iter().map(ends).filter(|end| end.is_finite()).fold(1e-6, f64::max) * 1.05
}

/// A difference on an axis on which ratios and their inverses are equally far from 0.
fn place(finding: &Finding, value: f64) -> f64 {
    if finding.scale == "ratio" { (1.0 + value).max(1e-3).ln() } else { value }
}

fn drawn(finding: &Finding, reach: f64) -> Markup {
    let x = |value: f64| ((place(finding, value) / reach).clamp(-1.0, 1.0) + 1.0) / 2.0 * WIDTH;
    let (mut margin, mut zero, mut line, mut dot) = Default::default();
    let (from, to) = (x(-finding.margin), x(finding.margin));
    Path::rect(&mut margin, from, 2.0, to - from, ROW - 4.0);
    Path::upright(&mut zero, WIDTH / 2.0, 0.0, ROW);
    if finding.shift() != Shift::Unknown {
        if let Some([low, high]) = finding.interval {
            Path::across(&mut line, x(low), ROW / 2.0, x(high));
        }
        Path::dot(&mut dot, x(finding.estimate), ROW / 2.0);
    }
    let mut drawing = Drawing::default();
    drawing.path("fill margin", &margin);
    drawing.path("grid", &zero);
    drawing.path("line interval", &line);
    drawing.path("dot estimate", &dot);
    drawing.finish(ROW)
}

/// The differences of a finding in the order of time.
fn pairs(finding: &Finding, id: &str) -> Markup {
    let percent = |difference: f64| {
        if finding.scale == "ratio" { difference.exp_m1() } else { difference }
    };
    let values: Vec<f64> = finding.differences.iter().copied().map(percent).collect();
    if values.is_empty() {
        return html! {};
    }
    let far = values.iter().map(|value| value.abs()).fold(finding.margin * 1.5, f64::max);
    let scale = Linear::up_to(if far.is_finite() { far * 100.0 } else { 1.0 });
    let at = |value: f64| 0.5 + value.signum() * scale.at(value.abs() * 100.0) / 2.0;
    let y = |value: f64| (1.0 - at(value)) * HEIGHT;
    let (mut margin, mut dots, mut zero, mut estimate) = Default::default();
    Path::rect(&mut margin, 0.0, y(finding.margin), WIDTH, y(-finding.margin) - y(finding.margin));
    Path::across(&mut zero, 0.0, HEIGHT / 2.0, WIDTH);
    Path::across(&mut estimate, 0.0, y(finding.estimate), WIDTH);
    let width = WIDTH / values.len() as f64;
    for (n, value) in values.iter().enumerate() {
        Path::dot(&mut dots, (n as f64 + 0.5) * width, y(*value));
    }
    let mut drawing = Drawing::default();
    drawing.path("fill margin", &margin);
    drawing.path("grid strong", &zero);
    drawing.path("line estimate-line", &estimate);
    drawing.path("dot s0", &dots);
    let mut table = Table::new(id, vec![Head::plain("pair"), Head::plain("B − A")]);
    table.rows = values
        .iter()
        .enumerate()
        .map(|(n, value)| vec![(n + 1).to_string(), change(finding, *value)])
        .collect();
    let ticks = scale.ticks(|value| text::trimmed(value, 3));
    let mirrored = |sign: f64| {
        ticks.iter().map(move |tick| {
            let word = if sign < 0.0 { "−" } else { "+" };
            let label =
                if tick.at == 0.0 { "0".to_owned() } else { format!("{word}{} %", tick.label) };
            Tick { at: 0.5 + sign * tick.at / 2.0, label, ..tick.clone() }
        })
    };
    let plot = Plot {
        height: HEIGHT,
        name: "Difference of every pair, in the order of time".to_owned(),
        x_name: "pairs of blocks, in the order of time".to_owned(),
        y_name: "B − A".to_owned(),
        x: Vec::new(),
        y: mirrored(1.0).chain(mirrored(-1.0).skip(1)).collect(),
        keys: vec![
            Key::dot("s0", "a pair"),
            Key::line("estimate-line", "estimate"),
            Key::filled("margin", "margin"),
        ],
        drawing,
        readout: Some(Readout {
            table: table.id.clone(),
            columns: vec![1],
            places: Places::Even(values.len()),
            heat: None,
        }),
    };
    html! { (plot.render()) (folded(&table, "Every pair in numbers")) }
}

/// The response times of both sides, all blocks together, for each set and load.
pub(crate) fn distributions(file: &ComparisonFile, at: usize) -> Markup {
    let loads = &file.plan.loads;
    html! {
        @for (number, load) in loads.iter().enumerate() {
            @let of = |side: &str| {
                let blocks = file.blocks.iter().filter(|block| counts(block, side, &load.set, &load.name));
                let mut all = Histogram::new();
                blocks.for_each(|block| all.merge(&block.response));
                all
            };
            @let (a, b) = (of("a"), of("b"));
            @if a.recorded() + b.recorded() > 0 {
                h3 { (load.set) ", " (load.name) ": " (text::rate(load.rate)) " QPS" }
                (percentiles::plot(
                    &format!("both{at}-{number}"),
                    &format!("Response time of both servers, {}, {}", load.set, load.name),
                    &[
                        Curve { histogram: &a, key: Key::line("s0", file.a.name.clone()) },
                        Curve { histogram: &b, key: Key::line("s1", file.b.name.clone()) },
                    ],
                    260.0,
                ))
            }
        }
    }
}

fn counts(block: &Block, side: &str, set: &str, load: &str) -> bool {
    block.used
        && block.phase == "comparison"
        && block.side == side
        && block.set == set
        && block.load == load
}

/// What a block is.
fn block(plan: &ComparisonPlan) -> String {
    let Some(of) = &plan.capacity else { return text::nanos(plan.block_ns as f64) };
    let (probes, length) = (text::of(of.probes, "probe"), text::nanos(of.probe_ns as f64));
    format!(
        "a search for the highest rate that meets {}, at most {probes} of {length} from {} to {} QPS",
        of.objective,
        text::rate(of.floor),
        text::rate(of.ceiling)
    )
}

/// The plan of the comparison and who was compared.
pub(crate) fn plan(file: &ComparisonFile) -> Markup {
    let plan = &file.plan;
    let party = |party: &lab_result::comparison::Party| {
        let version = party.version.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
        format!("{}: {}{version}", party.name, party.server)
    };
    let primary = &plan.primary;
    let pairs = match (plan.sequential, file.decided_after) {
        (true, Some(pairs)) => format!("{}, read after each; decided after {pairs}", plan.pairs),
        (true, None) => format!("{}, read after each; not decided", plan.pairs),
        _ => plan.pairs.to_string(),
    };
    let list = vec![
        ("A", party(&file.a)),
        ("B", party(&file.b)),
        ("decided by", format!("{}, {}, {}", name(primary), primary.set, primary.load)),
        ("level", text::trimmed(plan.alpha, 4)),
        (if plan.sequential { "pairs at most" } else { "pairs" }, pairs),
        ("servers of a pair", if plan.duet { "at the same time" } else { "in turn" }.to_owned()),
        ("pairs of A with itself", plan.noise_pairs.to_string()),
        ("block", block(plan)),
        ("warm-up of each block", text::nanos(plan.warm_up_ns as f64)),
        ("timeout", text::nanos(plan.timeout_ns as f64)),
        ("clients", text::count(plan.clients as u64)),
        ("order, by coin", plan.order.concat()),
        ("seed", plan.seed.to_string()),
        ("plan", file.plan_hash.clone()),
        ("measured by", format!("{} {}", file.generator.name, file.generator.version)),
        ("started", text::utc(file.started_unix_ns / 1_000_000_000)),
    ];
    html! {
        (facts(&list))
        @if !plan.rules.is_empty() {
            details { summary { "When a pair is measured again" } ul { @for rule in &plan.rules { li { (rule) } } } }
        }
    }
}
