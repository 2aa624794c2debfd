//! The heat map: seconds across, response times upright, and how many queries lie where.

use crate::overtime::OverTime;
use crate::plot::{Key, Latencies, Plot};
use crate::svg::{Drawing, Path, WIDTH};
use crate::text;
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Rows of cells over the whole axis.
const ROWS: usize = 70;
/// Classes of cells, `h1` to `h10`: each stands for twice to four times the part of the one before.
const LEVELS: i32 = 10;
/// Classes of the band of lost queries, `l1` to `l5`.
const LOST_LEVELS: i32 = 5;

/// The plot; `columns` of the table are read beside the cell.
pub(crate) fn plot(
    over: &OverTime<'_>,
    axis: &Latencies,
    columns: Vec<usize>,
    height: f64,
) -> Markup {
    let cells: Vec<BTreeMap<usize, u64>> = over.run.columns.iter().map(|c| rows(c, axis)).collect();
    let mut drawing = Drawing::default();
    axis.draw_band(&mut drawing);
    let size = (over.run.columns.len(), ROWS);
    let area = (0.0, axis.top(), WIDTH, height - axis.top());
    drawing.stretched(area, size, &draw(&cells, over));
    if let Some((top, height)) = axis.band() {
        let size = (over.run.columns.len(), 1);
        drawing.stretched((0.0, top, WIDTH, height), size, &lost(over));
    }
    let mut readout = over.readout(columns);
    readout.heat = Some(encode(&cells, axis, height));
    let plot = Plot {
        height,
        name: format!("Heat map of response times over time, {}", over.run.label),
        x_name: "seconds since the start, by the time at which a query was due".to_owned(),
        y_name: "response time".to_owned(),
        x: over.ticks(),
        y: axis.ticks(),
        keys: Vec::new(),
        drawing,
        readout: Some(readout),
    };
    html! { (ramp(axis)) (plot.render()) }
}

/// The legend.
fn ramp(axis: &Latencies) -> Markup {
    html! {
        p.ramp {
            "part of the second’s queries in a cell: " span { "0.003 %" }
            @for level in 1..=LEVELS { (Key::filled(format!("h{level}"), "").sign()) }
            span { "all" }
            @if axis.band().is_some() {
                span.gap {}
                "lost: " span { "under 0.01 %" }
                @for level in 1..=LOST_LEVELS { (Key::filled(format!("l{level}"), "").sign()) }
                span { "over 10 %" }
            }
        }
    }
}

/// The queries of a column by row, counted from the bottom.
fn rows(column: &crate::run::Column, axis: &Latencies) -> BTreeMap<usize, u64> {
    let mut rows = BTreeMap::new();
    for (low, high, count) in column.response.buckets() {
        let middle = low + (high - low) / 2;
        let row = (axis.scale().at(middle as f64) * ROWS as f64) as usize;
        *rows.entry(row.min(ROWS - 1)).or_default() += count;
    }
    rows
}

/// The class of a cell with this part of a second's queries.
fn level(part: f64) -> i32 {
    (LEVELS + (2.0 * part.log10()).round() as i32).clamp(1, LEVELS)
}

/// The class of a second that lost this part of its queries.
fn lost_level(part: f64) -> i32 {
    (LOST_LEVELS + 1 + part.log10().floor() as i32).clamp(1, LOST_LEVELS)
}

fn draw(cells: &[BTreeMap<usize, u64>], over: &OverTime<'_>) -> Drawing {
    let mut classes: BTreeMap<i32, Path> = BTreeMap::new();
    let totals: Vec<f64> = over
        .run
        .columns
        .iter()
        .map(|column| (column.response.recorded() + column.response.censored()) as f64)
        .collect();
    for row in 0..ROWS {
        let at = |column: usize| {
            let count = cells.get(column).and_then(|rows| rows.get(&row))?;
            Some(level(*count as f64 / totals.get(column)?))
        };
        runs(cells.len(), at, |level, first, len| {
            let y = (ROWS - 1 - row) as f64;
            classes.entry(level).or_default().rect(first as f64, y, len as f64, 1.0);
        });
    }
    let mut drawing = Drawing::default();
    for (level, path) in &classes {
        drawing.path_of("cell", &format!("h{level}"), path);
    }
    drawing
}

fn lost(over: &OverTime<'_>) -> Drawing {
    let mut classes: BTreeMap<i32, Path> = BTreeMap::new();
    let at = |column: usize| {
        let column = over.run.columns.get(column)?;
        let lost = column.lost();
        (lost > 0).then(|| lost_level(lost as f64 / column.sent.max(lost) as f64))
    };
    runs(over.run.columns.len(), at, |level, first, len| {
        classes.entry(level).or_default().rect(first as f64, 0.0, len as f64, 1.0);
    });
    let mut drawing = Drawing::default();
    for (level, path) in &classes {
        drawing.path_of("cell", &format!("l{level}"), path);
    }
    drawing
}

/// Neighbours of one level, from left to right.
fn runs(len: usize, level: impl Fn(usize) -> Option<i32>, mut draw: impl FnMut(i32, usize, usize)) {
    let mut first = 0;
    while first < len {
        let here = level(first);
        let mut end = first + 1;
        while end < len && level(end) == here {
            end += 1;
        }
        if let Some(here) = here {
            draw(here, first, end - first);
        }
        first = end;
    }
}

/// The counts for the script. First the upper bound of each row and the part of the height that lies
/// over the rows; then for each column the runs of rows as `first count count …`.
fn encode(cells: &[BTreeMap<usize, u64>], axis: &Latencies, height: f64) -> String {
    let bounds: Vec<String> =
        (0..=ROWS).map(|row| text::nanos(axis.scale().value(row as f64 / ROWS as f64))).collect();
    let mut coded = format!("{:.4}|{}|", axis.top() / height, bounds.join(","));
    for (at, rows) in cells.iter().enumerate() {
        if at > 0 {
            coded.push(';');
        }
        let mut last = None;
        for (row, count) in rows {
            if last.is_none_or(|last| last + 1 != *row) {
                let comma = if last.is_some() { "," } else { "" };
                _ = write!(coded, "{comma}{row}");
            }
            _ = write!(coded, " {count}");
            last = Some(*row);
        }
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_tell_parts_apart_by_half_a_decade() {
        assert_eq!(level(1.0), 10);
        assert_eq!(level(0.1), 8);
        assert_eq!(level(1e-9), 1);
        assert_eq!([1.0, 0.1, 0.02, 1e-7].map(lost_level), [5, 5, 4, 1]);
    }

    #[test]
    fn neighbours_of_one_level_are_one_run() {
        let levels = [None, Some(1), Some(1), Some(2), None, Some(2)];
        let mut found = Vec::new();
        runs(levels.len(), |at| levels[at], |level, first, len| found.push((level, first, len)));
        assert_eq!(found, [(1, 1, 2), (2, 3, 1), (2, 5, 1)]);
    }
}
