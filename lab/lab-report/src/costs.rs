//! What an answer costs two servers: CPU by rate, and memory.

use crate::plot::{Key, Plot, folded};
use crate::scale::Linear;
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table};
use crate::text;
use lab_result::comparison::{ComparisonFile, Cost};
use maud::{Markup, html};

/// Height of the plot.
const HEIGHT: f64 = 220.0;

/// CPU by rate.
pub(crate) fn costs(file: &ComparisonFile, at: usize) -> Markup {
    let head = [
        "server",
        "queries",
        "CPU per answer",
        "interval",
        "idle CPU",
        "interval",
        "memory per million answers",
    ];
    let mut table = Table::new(format!("costs{at}"), head.map(Head::plain).into());
    let range = |interval: Option<[f64; 2]>, text: fn(f64) -> String| {
        interval.map_or(String::new(), |[low, high]| format!("{} – {}", text(low), text(high)))
    };
    let signed = |nanos: f64| {
        if nanos < 0.0 { format!("−{}", text::nanos(-nanos)) } else { text::nanos(nanos) }
    };
    for cost in &file.costs {
        table.rows.push(vec![
            party(file, cost),
            cost.set.clone(),
            signed(cost.per_answer),
            range(cost.per_answer_interval, signed),
            format!("{} per second", signed(cost.idle)),
            range(cost.idle_interval, signed),
            cost.memory_growth.map_or(String::new(), |octets| {
                let sign = if octets < 0.0 { "−" } else { "" };
                format!("{sign}{}", text::octets(octets.abs() as u64))
            }),
        ]);
    }
    html! { (lines(file, at)) (table.render()) }
}

fn party(file: &ComparisonFile, cost: &Cost) -> String {
    if cost.side == "a" { file.a.name.clone() } else { file.b.name.clone() }
}

/// Points and fitted lines of CPU against rate.
fn lines(file: &ComparisonFile, at: usize) -> Markup {
    let points = || file.costs.iter().flat_map(|cost| &cost.points);
    let most = |of: fn(&[f64; 2]) -> f64| {
        points().map(of).filter(|value| value.is_finite()).fold(0.0, f64::max)
    };
    let (x, y) = (Linear::up_to(most(|p| p[0])), Linear::up_to(most(|p| p[1]) / 1e7));
    let place = |rate: f64, cpu: f64| (x.at(rate) * WIDTH, (1.0 - y.at(cpu / 1e7)) * HEIGHT);
    let (mut drawing, mut keys) = (Drawing::default(), Vec::new());
    for (number, cost) in file.costs.iter().enumerate() {
        let class = format!("s{}", number % crate::COLOURS);
        let (mut dots, mut line) = (Path::default(), Path::default());
        for [rate, cpu] in &cost.points {
            let (x, y) = place(*rate, *cpu);
            dots.dot(x, y);
        }
        let last = cost.points.iter().map(|point| point[0]).fold(0.0, f64::max);
        line.lines([place(0.0, cost.idle), place(last, cost.idle + cost.per_answer * last)]);
        drawing.path_of("line", &class, &line);
        drawing.path_of("dot small", &class, &dots);
        keys.push(Key::line(class, format!("{}, {}", party(file, cost), cost.set)));
    }
    if points().next().is_none() {
        return html! {};
    }
    let mut table = Table::new(
        format!("points{at}"),
        ["server and queries", "answers per second", "CPU"].map(Head::plain).into(),
    );
    for cost in &file.costs {
        for [rate, cpu] in &cost.points {
            let name = format!("{}, {}", party(file, cost), cost.set);
            table.rows.push(vec![name, text::rate(*rate), text::percent(cpu / 1e9)]);
        }
    }
    let plot = Plot {
        height: HEIGHT,
        name: "CPU by rate, with the fitted lines".to_owned(),
        x_name: "answers per second".to_owned(),
        y_name: "CPU, % of one core".to_owned(),
        x: x.ticks(text::rate),
        y: y.ticks(|value| format!("{} %", text::trimmed(value, 2))),
        keys,
        drawing,
        readout: None,
    };
    html! { (plot.render()) (folded(&table, "The points in numbers")) }
}
