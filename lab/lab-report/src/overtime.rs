//! One run over time: the heat map, five numbers, and lines; all with one table.

use crate::plot::{Key, Latencies, Places, Plot, Readout, folded};
use crate::run::{CAUSES, Column, Range, Run};
use crate::scale::{Linear, Tick};
use crate::svg::{Drawing, Path, WIDTH};
use crate::table::{Head, Table};
use crate::{boxes, heat};
use crate::{rates, text};
use lab_histogram::Quantile;
use maud::{Markup, html};

/// Height of the plots of latency.
pub(crate) const HEIGHT: f64 = 280.0;
/// The lines over time.
pub(crate) const LINES: [(&str, &str, f64); 3] =
    [("q50", "p50", 0.5), ("q99", "p99", 0.99), ("q999", "p99.9", 0.999)];

/// A run over time with the table that all its plots read from.
pub(crate) struct OverTime<'r> {
    /// The run.
    pub(crate) run: &'r Run<'r>,
    /// The axis of time.
    pub(crate) time: Linear,
    /// The table.
    pub(crate) table: Table,
}

impl<'r> OverTime<'r> {
    /// An empty table for `run`, a row for each column.
    pub(crate) fn new(run: &'r Run<'r>) -> Self {
        let head = if run.step == 1 { "second" } else { "seconds" };
        let mut table = Table::new(format!("time{}", run.at), vec![Head::plain(head)]);
        table.rows = run.columns.iter().map(|column| vec![name_of(column)]).collect();
        Self { run, time: Linear::exactly(run.seconds() as f64), table }
    }

    /// Adds a column to the table.
    pub(crate) fn column(&mut self, head: Head, cell: impl Fn(&Column) -> String) -> usize {
        self.table.column(head, self.run.columns.iter().map(cell))
    }

    /// What is read from `columns` of the table in a plot over time.
    pub(crate) fn readout(&self, columns: Vec<usize>) -> Readout {
        Readout {
            table: self.table.id.clone(),
            columns,
            places: Places::Even(self.run.columns.len()),
            heat: None,
        }
    }

    /// Marks of the axis of time.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        self.time.ticks(|second| text::trimmed(second, 0))
    }

    /// Left edge and width of a column in units of the drawing.
    pub(crate) fn place(&self, at: usize) -> (f64, f64) {
        let width = WIDTH / self.run.columns.len().max(1) as f64;
        (at as f64 * width, width)
    }

    /// A plot of latencies.
    pub(crate) fn plot(
        &self,
        what: &str,
        keys: Vec<Key>,
        axis: &Latencies,
        drawing: Drawing,
    ) -> Plot {
        Plot {
            height: HEIGHT,
            name: format!("{what}, {}", self.run.label),
            x_name: "seconds since the start, by the time at which a query was due".to_owned(),
            y_name: "response time".to_owned(),
            x: self.ticks(),
            y: axis.ticks(),
            keys,
            drawing,
            readout: None,
        }
    }
}

fn name_of(column: &Column) -> String {
    let whole = column.length + 0.01 >= column.seconds as f64;
    let partial = match column.is_partial {
        true => " (cut short)".to_owned(),
        false if !whole => format!(" ({} s of it)", text::trimmed(column.length, 2)),
        false => String::new(),
    };
    match column.seconds {
        0 | 1 => format!("{} s{partial}", column.first),
        _ => format!("{}–{} s{partial}", column.first, column.first + column.seconds - 1),
    }
}

/// Everything of `run` over time; `range` is what the axes of all runs on the page have to hold.
pub(crate) fn plots(run: &Run<'_>, range: Range) -> Markup {
    if run.columns.is_empty() {
        return html! { p.none { "This run has no seconds." } };
    }
    let mut over = OverTime::new(run);
    let axis = Latencies::new(range, HEIGHT);
    let lines = quantile_columns(&mut over);
    let five = boxes::columns(&mut over, "", |column| &column.response);
    let lost: Vec<usize> = lost_columns(&mut over);
    let mut of_heat = lines.clone();
    of_heat.extend(&lost);
    let mut of_boxes = five;
    of_boxes.extend(&lost);
    let heat = heat::plot(&over, &axis, of_heat, HEIGHT);
    let boxes = boxes::of_responses(&over, &axis, of_boxes);
    let followed = run.is_recorded().then(|| boxes::of_lateness(&mut over));
    let lines = line_plot(&over, &axis, lines);
    let rates = rates::plots(&mut over);
    html! {
        h3 { "Where the answers lay" }
        (heat)
        h3 { "Fastest, quartiles and slowest of each " (if run.step == 1 { "second" } else { "step" }) }
        (boxes)
        @if let Some(followed) = followed {
            h3 { "How the recording was followed" }
            (followed)
        }
        h3 { "Percentiles" }
        (lines)
        (rates)
        (folded(&over.table, &format!("All of this in numbers: {} rows", over.table.rows.len())))
    }
}

fn quantile_columns(over: &mut OverTime<'_>) -> Vec<usize> {
    let add = |(class, name, part): (&'static str, &str, f64)| {
        let head = Head::of(&Key::line(class, name));
        over.column(head, |column| text::quantile(column.response.quantile(part)))
    };
    LINES.map(add).to_vec()
}

/// Columns for the causes of loss that there are.
fn lost_columns(over: &mut OverTime<'_>) -> Vec<usize> {
    let mut columns = Vec::new();
    for (at, cause) in CAUSES.iter().enumerate() {
        let of = |column: &Column| column.lost.get(at).copied().unwrap_or(0);
        if over.run.columns.iter().any(|column| of(column) > 0) {
            let head = Head::of(&Key::filled(format!("cause{at}"), *cause));
            columns.push(over.column(head, |column| text::count(of(column))));
        }
    }
    columns
}

fn line_plot(over: &OverTime<'_>, axis: &Latencies, columns: Vec<usize>) -> Markup {
    let mut drawing = Drawing::default();
    axis.draw_band(&mut drawing);
    for (class, _, part) in LINES {
        drawing.path_of("line", class, &line(over, axis, part));
    }
    let keys = LINES.map(|(class, name, _)| Key::line(class, name)).to_vec();
    let mut plot = over.plot("Percentiles of each second", keys, axis, drawing);
    plot.readout = Some(over.readout(columns));
    plot.render()
}

/// A quantile of each column; a column without values leaves a gap.
fn line(over: &OverTime<'_>, axis: &Latencies, part: f64) -> Path {
    let mut path = Path::default();
    let mut drawn = false;
    for (at, column) in over.run.columns.iter().enumerate() {
        let (left, width) = over.place(at);
        let Some(y) = axis.y_of(column.response.quantile(part)) else {
            drawn = false;
            continue;
        };
        let x = left + width / 2.0;
        if drawn {
            path.line_to(x, y)
        } else {
            path.dot(x, y)
        };
        drawn = true;
    }
    path
}

/// One quantile of several runs over time, on one axis.
pub(crate) fn overlaid(runs: &[Run<'_>], range: Range) -> Markup {
    let (_, name, part) = LINES[1];
    let axis = Latencies::new(range, HEIGHT);
    let Some(longest) = runs.iter().max_by_key(|run| run.columns.len()) else { return html! {} };
    let seconds = runs.iter().map(Run::seconds).max().unwrap_or(0);
    let (mut drawing, mut keys) = (Drawing::default(), Vec::new());
    axis.draw_band(&mut drawing);
    let mut over = OverTime::new(longest);
    over.table.id = "together".to_owned();
    for run in runs {
        let key = Key::line(format!("s{}", run.at % crate::COLOURS), run.label.clone());
        let mut path = Path::default();
        let mut x = 0.0;
        for (at, column) in run.columns.iter().enumerate() {
            let width = column.seconds as f64 / seconds.max(1) as f64 * WIDTH;
            if let Some(y) = axis.y_of(column.response.quantile(part)) {
                if at == 0 {
                    path.dot(x + width / 2.0, y)
                } else {
                    path.line_to(x + width / 2.0, y)
                };
            }
            x += width;
        }
        drawing.path_of("line", &key.class, &path);
        // Runs of one page have columns of one width, unless one is much longer than the others.
        let cell = |at: usize| {
            let column = run.columns.get(at).filter(|_| run.step == longest.step);
            let quantile = column.map_or(Quantile::Empty, |c| c.response.quantile(part));
            if quantile == Quantile::Empty { String::new() } else { text::quantile(quantile) }
        };
        let rows = longest.columns.len();
        over.table.column(Head::of(&key), (0..rows).map(cell).collect::<Vec<_>>());
        keys.push(key);
    }
    let mut plot = over.plot(&format!("{name} of each second"), keys, &axis, drawing);
    plot.name = format!("{name} of each second, all results");
    plot.readout = Some(over.readout((1..=runs.len()).collect()));
    html! { (plot.render()) (folded(&over.table, &format!("The {name} of each second in numbers"))) }
}
