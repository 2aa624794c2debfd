//! The slowest percent of all queries against their response time, both logarithmic: the plot that
//! shows an outlier in a million as well as the median.

use crate::plot::{Key, Latencies, Places, Plot, Readout, folded};
use crate::run::Range;
use crate::scale::Slowest;
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table};
use crate::text;
use lab_histogram::{Histogram, Quantile};
use maud::{Markup, html};

/// Points per decade of a curve.
const FINE: u32 = 60;

/// A curve.
pub(crate) struct Curve<'h> {
    /// The values.
    pub(crate) histogram: &'h Histogram,
    /// Sign and name.
    pub(crate) key: Key,
}

/// The plot of `curves` with its table; nothing if all are empty.
pub(crate) fn plot(id: &str, name: &str, curves: &[Curve<'_>], height: f64) -> Markup {
    let curves: Vec<_> = curves.iter().filter(|curve| total(curve.histogram) > 0).collect();
    let most = curves.iter().map(|curve| total(curve.histogram)).max();
    let Some(most) = most else { return html! {} };
    let slowest = Slowest::of(most);
    let range = Range::of(curves.iter().map(|curve| curve.histogram));
    let axis = Latencies::new(range, height);
    let mut drawing = Drawing::default();
    axis.draw_band(&mut drawing);
    for curve in curves.iter().rev() {
        draw(&mut drawing, curve, &slowest, &axis);
    }
    let table = table(format!("{id}-table"), &curves, &slowest);
    let places = slowest.readings().into_iter().map(|percent| slowest.at(percent)).collect();
    let plot = Plot {
        height,
        name: name.to_owned(),
        x_name: "the slowest part of all queries, and the percentile where it begins".to_owned(),
        y_name: "time".to_owned(),
        x: slowest.ticks(),
        y: axis.ticks(),
        keys: curves.iter().map(|curve| curve.key.clone()).collect(),
        drawing,
        readout: Some(Readout {
            table: table.id.clone(),
            columns: (1..=curves.len()).collect(),
            places: Places::At(places),
            heat: None,
        }),
    };
    html! { (plot.render()) (folded(&table, "The curves in numbers")) }
}

fn total(histogram: &Histogram) -> u64 {
    histogram.recorded() + histogram.censored()
}

/// The time that this percentage of the values reach or exceed.
fn slower_than(histogram: &Histogram, percent: f64) -> Quantile {
    histogram.quantile(1.0 - percent / 100.0)
}

fn draw(drawing: &mut Drawing, curve: &Curve<'_>, slowest: &Slowest, axis: &Latencies) {
    let total = total(curve.histogram) as f64;
    let (mut known, mut censored) = (Vec::new(), Vec::new());
    // A curve ends at its single slowest value; there is nothing beyond it.
    for percent in slowest.steps(FINE).into_iter().filter(|percent| percent * total >= 99.9) {
        let quantile = slower_than(curve.histogram, percent);
        let Some(y) = axis.y_of(quantile) else { continue };
        let point = (slowest.at(percent) * WIDTH, y);
        match quantile {
            Quantile::AtLeast(_) => censored.push(point),
            _ => known.push(point),
        }
    }
    let (mut line, mut lost, mut end) = (Path::default(), Path::default(), Path::default());
    if let (Some((x, _)), Some(&(_, y))) = (known.last().copied(), censored.first()) {
        // Up to the band where the first lost query has its rank.
        censored.insert(0, (x, y));
        known.push((x, y));
    }
    match (censored.last(), known.last()) {
        (Some((x, y)), _) | (None, Some((x, y))) => _ = end.dot(*x, *y),
        (None, None) => {}
    }
    line.lines(known);
    lost.lines(censored);
    drawing.path_of("line curve", &curve.key.class, &line);
    drawing.path_of("line lost", &curve.key.class, &lost);
    drawing.path_of("dot", &curve.key.class, &end);
}

fn table(id: String, curves: &[&Curve<'_>], slowest: &Slowest) -> Table {
    let mut head = vec![Head::plain("slowest")];
    head.extend(curves.iter().map(|curve| Head::of(&curve.key)));
    let mut table = Table::new(id, head);
    for percent in slowest.readings() {
        let name =
            format!("{} % (p{})", text::trimmed(percent, 6), text::trimmed(100.0 - percent, 6));
        let mut row = vec![name];
        row.extend(curves.iter().map(|curve| {
            let alone = percent * (total(curve.histogram) as f64) < 99.9;
            if alone {
                String::new()
            } else {
                text::quantile(slower_than(curve.histogram, percent))
            }
        }));
        table.rows.push(row);
    }
    table
}
