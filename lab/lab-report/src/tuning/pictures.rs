//! Effects with their intervals, and the half-normal plot.

use super::{change, class, interval, metric, probability, ranked};
use crate::plot::{Key, Places, Plot, Readout, folded, legend};
use crate::scale::Linear;
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table};
use crate::text;
use lab_result::tuning::{KnobPlan, KnobResult, MetricInfo, TuningFile};
use maud::{Markup, html};

/// Units of height of an interval.
const ROW: f64 = 24.0;
/// Height of the half-normal plot.
const HEIGHT: f64 = 300.0;
/// Columns behind the setting: what decides comes first, so that a narrow window shows it.
const COLUMNS: [&str; 5] = ["verdict", "effect", "interval", "p", "fresh data"];

/// Every effect with its interval, what matters most first.
pub(super) fn effects(file: &TuningFile, at: usize) -> Markup {
    let keys = [
        Key::line("interval", "interval, for all settings together"),
        Key::dot("estimate", "estimate of the screening"),
        Key::ring("fresh", "on fresh data"),
    ];
    let primary = metric(file, &file.plan.primary);
    let reach = reach(file, primary);
    html! {
        (legend(&keys))
        div.scroll tabindex="0" role="group" aria-label="Effects" {
            table.findings id={ "effects" (at) } {
                thead { tr {
                    th scope="col" { "setting" }
                    @for head in COLUMNS { th scope="col" { (head) } }
                    th.drawn scope="col" { span { "less" } span { "0" } span { "more" } }
                } }
                tbody { @for (plan, knob) in ranked(file) { (row(primary, plan, knob, reach)) } }
            }
        }
    }
}

fn row(primary: Option<&MetricInfo>, plan: &KnobPlan, knob: &KnobResult, reach: f64) -> Markup {
    let effect = knob.effect.as_ref();
    let fresh = knob.confirmation.as_ref().and_then(|fresh| fresh.changes.first());
    let [of_verdict, of_effect, of_interval, of_p, of_fresh] = COLUMNS;
    let is_named = effect.is_some_and(|effect| effect.named.is_some());
    html! {
        tr.primary[is_named] {
            th scope="row" { (knob.knob) small { (plan.low) " → " (plan.high) } }
            td.(class(knob.verdict)) data-of=(of_verdict) { (knob.verdict.words()) }
            td data-of=(of_effect) { @if let Some(effect) = effect { (change(primary, effect.estimate)) } }
            td data-of=(of_interval) { @if let Some(effect) = effect { (interval(primary, effect.interval)) } }
            td data-of=(of_p) { (probability(effect.map(|effect| effect.p))) }
            td data-of=(of_fresh) {
                @match fresh {
                    Some(fresh) => { (change(primary, fresh.estimate)) }
                    None => { "–" }
                }
            }
            td.drawn { (drawn(primary, knob, reach)) }
        }
    }
}

/// A change on an axis on which ratios and their inverses are equally far from 0.
fn place(primary: Option<&MetricInfo>, value: f64) -> f64 {
    let is_ratio = primary.is_some_and(|metric| metric.scale == "ratio");
    if is_ratio { (1.0 + value).max(1e-3).ln() } else { value }
}

/// How far the drawing has to reach to both sides.
fn reach(file: &TuningFile, primary: Option<&MetricInfo>) -> f64 {
    let effects = file.knobs.iter().filter_map(|knob| knob.effect.as_ref());
    let ends = effects.flat_map(|effect| effect.interval.unwrap_or([effect.estimate; 2]));
    let far = ends.map(|end| place(primary, end).abs()).filter(|end| end.is_finite());
    far.fold(1e-6, f64::max) * 1.05
}

fn drawn(primary: Option<&MetricInfo>, knob: &KnobResult, reach: f64) -> Markup {
    let x = |value: f64| ((place(primary, value) / reach).clamp(-1.0, 1.0) + 1.0) / 2.0 * WIDTH;
    let (mut zero, mut line, mut dot, mut fresh) = Default::default();
    Path::upright(&mut zero, WIDTH / 2.0, 0.0, ROW);
    if let Some(effect) = &knob.effect {
        if let Some([low, high]) = effect.interval {
            Path::across(&mut line, x(low), ROW / 2.0, x(high));
        }
        Path::dot(&mut dot, x(effect.estimate), ROW / 2.0);
    }
    if let Some(change) = knob.confirmation.as_ref().and_then(|fresh| fresh.changes.first()) {
        Path::dot(&mut fresh, x(change.estimate), ROW / 2.0);
    }
    let mut drawing = Drawing::default();
    drawing.path("grid", &zero);
    drawing.path("line interval", &line);
    drawing.path("dot estimate", &dot);
    drawing.path("dot fresh", &fresh);
    drawing.path("dot hole", &fresh);
    drawing.finish(ROW)
}

/// Sizes of effects against those that chance alone would have.
pub(super) fn half_normal(file: &TuningFile, at: usize) -> Markup {
    let head = ["setting", "by chance", "effect"];
    let mut table = Table::new(format!("half-normal{at}"), head.map(Head::plain).into());
    let mut points: Vec<(f64, f64, bool)> = Vec::new();
    for (_, knob) in ranked(file).into_iter().rev() {
        let Some(effect) = &knob.effect else { continue };
        let size = effect.statistic.abs();
        points.push((effect.expected, size, effect.named.is_some()));
        table.rows.push(vec![
            knob.knob.clone(),
            text::trimmed(effect.expected, 2),
            format!("{} standard deviations", text::trimmed(size, 2)),
        ]);
    }
    let most = |of: fn(&(f64, f64, bool)) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let (x, y) = (Linear::up_to(most(|point| point.0)), Linear::up_to(most(|point| point.1)));
    let place = |across: f64, up: f64| (x.at(across) * WIDTH, (1.0 - y.at(up)) * HEIGHT);
    let (mut line, mut named, mut others) = Default::default();
    let end = most(|point| point.0).min(most(|point| point.1));
    Path::lines(&mut line, [place(0.0, 0.0), place(end, end)]);
    for (across, up, is_named) in &points {
        let (across, up) = place(*across, *up);
        Path::dot(if *is_named { &mut named } else { &mut others }, across, up);
    }
    let mut drawing = Drawing::default();
    drawing.path("line estimate-line", &line);
    drawing.path("dot s0", &others);
    drawing.path("dot s1", &named);
    let plot = Plot {
        height: HEIGHT,
        name: "Sizes of effects against those that chance alone would have".to_owned(),
        x_name: "size that its rank has by chance, in standard deviations".to_owned(),
        y_name: "size of the effect, in standard deviations".to_owned(),
        x: x.ticks(|value| text::trimmed(value, 1)),
        y: y.ticks(|value| text::trimmed(value, 1)),
        keys: vec![
            Key::dot("s1", "named by the screening"),
            Key::dot("s0", "not named"),
            Key::line("estimate-line", "no setting matters"),
        ],
        drawing,
        readout: Some(Readout {
            table: table.id.clone(),
            columns: vec![1, 2],
            places: Places::At(points.iter().map(|point| x.at(point.0)).collect()),
            heat: None,
        }),
    };
    html! { (plot.render()) (folded(&table, "Every effect in numbers")) }
}
