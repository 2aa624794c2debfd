//! Rates, losses, RCODEs and connections of a run over time.

use crate::overtime::OverTime;
use crate::plot::{Key, Plot};
use crate::run::{CAUSES, Column};
use crate::scale::Linear;
use crate::svg::{Drawing, Path};
use crate::table::Head;
use crate::text;
use lab_result::Connections;
use maud::{Markup, html};
use std::collections::BTreeSet;

const HEIGHT: f64 = 200.0;
const LOW: f64 = 120.0;
/// RCODEs with a colour of their own.
const RCODES: [&str; 5] = ["NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR"];

/// The plots.
pub(crate) fn plots(over: &mut OverTime<'_>) -> Markup {
    html! {
        h3 { "Rates" }
        (rates(over))
        (losses(over))
        (rcodes(over))
        (connections(over))
    }
}

/// One number for each column.
struct Series<'a> {
    key: Key,
    values: Vec<f64>,
    /// The cell of the table; the plot shows the value as a rate.
    cell: Box<dyn Fn(&Column) -> String + 'a>,
}

impl<'a> Series<'a> {
    fn new(key: Key, over: &OverTime<'_>, of: impl Fn(&Column) -> u64 + 'a) -> Self {
        let columns = &over.run.columns;
        let values = columns.iter().map(|column| column.per_second(of(column))).collect();
        let cell = Box::new(move |column: &Column| text::count(of(column)));
        Self { key, values, cell }
    }

    fn is_zero(&self) -> bool {
        self.values.iter().all(|value| *value == 0.0)
    }
}

/// How series share an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Lines,
    Stacked,
}

fn draw(
    over: &mut OverTime<'_>,
    (name, y_name): (&str, &str),
    height: f64,
    series: Vec<Series<'_>>,
    shape: Shape,
) -> Markup {
    let count = over.run.columns.len();
    let value = |of: &Series<'_>, at: usize| of.values.get(at).copied().unwrap_or(0.0);
    let is_short = |at: usize| over.run.columns.get(at).is_some_and(Column::is_short);
    let top = |at: usize| match shape {
        _ if is_short(at) => 0.0,
        Shape::Lines => series.iter().map(|one| value(one, at)).fold(0.0, f64::max),
        Shape::Stacked => series.iter().map(|one| value(one, at)).sum(),
    };
    let axis = Linear::up_to((0..count).map(top).fold(0.0, f64::max) * 1.02);
    let y = |value: f64| (1.0 - axis.at(value)) * height;
    let mut drawing = Drawing::default();
    let mut below = vec![0.0; count];
    for one in &series {
        let mut path = Path::default();
        for (at, below) in below.iter_mut().enumerate() {
            if over.run.columns.get(at).is_some_and(Column::is_short) {
                continue;
            }
            let (left, width) = over.place(at);
            let here = value(one, at);
            match shape {
                Shape::Lines => {
                    let height = y(here);
                    if at == 0 {
                        path.move_to(left, height)
                    } else {
                        path.line_to(left, height)
                    };
                    path.line_to(left + width, height);
                }
                Shape::Stacked if here > 0.0 => {
                    let (from, to) = (y(*below), y(*below + here));
                    path.rect(left, to, width, from - to);
                    *below += here;
                }
                Shape::Stacked => {}
            }
        }
        let class = if shape == Shape::Lines { "line" } else { "fill" };
        drawing.path_of(class, &one.key.class, &path);
    }
    let keys: Vec<Key> = series.iter().map(|one| one.key.clone()).collect();
    let columns: Vec<usize> = series
        .iter()
        .map(|one| {
            let known = over.table.head.iter().position(|head| head.text == one.key.text);
            known.unwrap_or_else(|| over.column(Head::of(&one.key), &one.cell))
        })
        .collect();
    Plot {
        height,
        name: format!("{name}, {}", over.run.label),
        x_name: "seconds since the start".to_owned(),
        y_name: y_name.to_owned(),
        x: over.ticks(),
        y: axis.ticks(short),
        keys,
        drawing,
        readout: Some(over.readout(columns)),
    }
    .render()
}

/// A label of an axis of rates.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", text::trimmed(value / 1e6, 2)),
        1e3.. => format!("{}k", text::trimmed(value / 1e3, 2)),
        _ => text::trimmed(value, 2),
    }
}

fn rates(over: &mut OverTime<'_>) -> Markup {
    let series = vec![
        Series::new(Key::line("offered", "due"), over, Column::offered),
        Series::new(Key::line("sent", "sent"), over, |column| column.sent),
        Series::new(Key::line("answered", "answered"), over, |column| column.answered),
    ];
    let unsent = over.run.columns.iter().any(|column| column.unsent > 0);
    let series = series.into_iter().filter(|one| unsent || one.key.text != "due").collect();
    draw(over, ("Queries and answers per second", "per second"), HEIGHT, series, Shape::Lines)
}

fn losses(over: &mut OverTime<'_>) -> Markup {
    let mut series: Vec<Series<'_>> = CAUSES
        .iter()
        .enumerate()
        .map(|(at, cause)| {
            let of = move |column: &Column| column.lost.get(at).copied().unwrap_or(0);
            Series::new(Key::filled(format!("cause{at}"), *cause), over, of)
        })
        .collect();
    series.push(Series::new(Key::filled("cause3", "never sent"), over, |column| column.unsent));
    series.push(Series::new(Key::filled("cause4", "cut short"), over, |column| column.interrupted));
    series.retain(|one| !one.is_zero());
    if series.is_empty() {
        return html! { p.none { "No query was lost in any second." } };
    }
    let name = ("Lost queries per second by cause", "lost per second");
    draw(over, name, LOW, series, Shape::Stacked)
}

fn rcodes(over: &mut OverTime<'_>) -> Markup {
    let names: BTreeSet<String> =
        over.run.columns.iter().flat_map(|column| column.rcodes.keys().cloned()).collect();
    let class = |name: &str| RCODES.iter().position(|known| *known == name).unwrap_or(RCODES.len());
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by_key(|name| class(name));
    let series: Vec<Series<'_>> = names
        .into_iter()
        .map(|name| {
            let key = Key::filled(format!("rcode{}", class(&name)), name.clone());
            let of = move |column: &Column| column.rcodes.get(&name).copied().unwrap_or(0);
            Series::new(key, over, of)
        })
        .collect();
    if series.is_empty() {
        return html! {};
    }
    draw(over, ("RCODEs of answers per second", "RCODEs per second"), LOW, series, Shape::Stacked)
}

fn connections(over: &mut OverTime<'_>) -> Markup {
    if over.run.columns.iter().all(|column| column.connections.is_none()) {
        return html! {};
    }
    let of = |get: fn(&Connections) -> u64| {
        move |column: &Column| column.connections.as_ref().map_or(0, get)
    };
    let mut series = vec![
        Series::new(Key::line("opened", "opened"), over, of(|c| c.opened)),
        Series::new(Key::line("resumed", "resumed"), over, of(|c| c.resumed)),
        Series::new(Key::line("failed", "failed to open"), over, of(|c| c.failed)),
    ];
    series.retain(|one| one.key.text == "opened" || !one.is_zero());
    let columns = &over.run.columns;
    let open = |column: &Column| column.connections.as_ref().map_or(0, |c| c.active);
    let active = Series {
        key: Key::line("active", "open at the end of the second"),
        values: columns.iter().map(|column| open(column) as f64).collect(),
        cell: Box::new(move |column| text::count(open(column))),
    };
    html! {
        h3 { "Connections" }
        (draw(over, ("Connections", "connections"), LOW, vec![active], Shape::Lines))
        (draw(over, ("New connections per second", "new per second"), LOW, series, Shape::Lines))
    }
}
