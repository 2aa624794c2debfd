//! Five numbers of each second, as boxes: of response times, and of how late queries of a recording left.

use crate::overtime::OverTime;
use crate::plot::{Key, Latencies};
use crate::run::{Column, Range};
use crate::svg::{Drawing, Path};
use crate::table::Head;
use crate::text;
use lab_histogram::Histogram;
use maud::{Markup, html};

/// The part of a column's width that its box takes.
const BOX: f64 = 0.64;
/// Height of the plot of lateness.
const LOW: f64 = 180.0;
/// The five numbers of a box.
const FIVE: [(&str, f64); 5] =
    [("fastest", 0.0), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("slowest", 1.0)];

/// Which times of a column.
type Of = fn(&Column) -> &Histogram;

/// Columns of the table with the five numbers of each row.
pub(crate) fn columns(over: &mut OverTime<'_>, prefix: &str, of: Of) -> Vec<usize> {
    let add = |(name, part): &(&str, f64)| {
        let head = Head::plain(format!("{prefix}{name}"));
        over.column(head, |column| text::quantile(of(column).quantile(*part)))
    };
    FIVE.iter().map(add).collect()
}

/// Response times.
pub(crate) fn of_responses(over: &OverTime<'_>, axis: &Latencies, columns: Vec<usize>) -> Markup {
    let (drawing, keys) = draw(over, axis, |column| &column.response);
    let mut plot = over.plot("Five numbers of each second", keys, axis, drawing);
    plot.readout = Some(over.readout(columns));
    plot.render()
}

/// How long after their recorded times queries left.
pub(crate) fn of_lateness(over: &mut OverTime<'_>) -> Markup {
    let columns = columns(over, "late by, ", |column| &column.lateness);
    let range = Range::of(over.run.columns.iter().map(|column| &column.lateness));
    let axis = Latencies::new(range, LOW);
    let (drawing, keys) = draw(over, &axis, |column| &column.lateness);
    let mut plot = over.plot("Lateness of the queries of each second", keys, &axis, drawing);
    plot.height = LOW;
    plot.y_name = "sent later than recorded by".to_owned();
    plot.readout = Some(over.readout(columns));
    html! {
        p.notes {
            "Each query has a recorded time, at which it was due. The boxes are what this generator added to it, by "
            "its own clock: "
            code { "nodens-lab replay --fidelity" }
            " measures the same at a receiver."
        }
        (plot.render())
    }
}

fn draw(over: &OverTime<'_>, axis: &Latencies, of: Of) -> (Drawing, Vec<Key>) {
    let mut drawing = Drawing::default();
    axis.draw_band(&mut drawing);
    let (mut whiskers, mut ends) = (Path::default(), Path::default());
    let (mut boxes, mut medians) = (Path::default(), Path::default());
    for (at, column) in over.run.columns.iter().enumerate() {
        let (left, width) = over.place(at);
        let middle = left + width / 2.0;
        let y = FIVE.map(|(_, part)| axis.y_of(of(column).quantile(part)));
        let [Some(min), Some(low), Some(median), Some(high), Some(max)] = y else { continue };
        whiskers.upright(middle, min, low).upright(middle, high, max);
        if of(column).censored() > 0 {
            ends.dot(middle, max);
        }
        let (inset, width) = (left + width * (1.0 - BOX) / 2.0, width * BOX);
        boxes.rect(inset, high, width, low - high);
        medians.across(inset, median, inset + width);
    }
    drawing.path("whisker", &whiskers);
    drawing.path("box", &boxes);
    drawing.path("median", &medians);
    drawing.path("dot lost-end", &ends);
    let mut keys = vec![
        Key::line("whisker", "fastest to slowest"),
        Key::filled("box", "middle half"),
        Key::line("median", "median"),
    ];
    if !ends.is_empty() {
        keys.push(Key::dot("lost-end", "some were lost"));
    }
    (drawing, keys)
}
