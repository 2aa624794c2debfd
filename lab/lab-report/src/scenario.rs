//! The file of a scenario of `nodens-lab authority`: a number for each server and column, and bars of them.

use crate::table::{Head, Table};
use crate::text;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

/// What `kind` says in such a file.
pub(crate) const KIND: &str = "authority";

/// What was found about several servers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScenarioFile {
    /// `authority`.
    pub kind: String,
    /// Version of the format, 1.
    pub schema: u32,
    /// Its name on the command line.
    pub scenario: String,
    /// What was measured.
    pub title: String,
    /// What a reader needs to judge the numbers, a line each.
    #[serde(default)]
    pub about: Vec<String>,
    /// What each number of a row is.
    pub columns: Vec<Column>,
    /// The servers, in the order of the measurements.
    pub rows: Vec<Row>,
}

/// What a number is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its name for programs.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
}

/// The numbers of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The server.
    pub server: String,
    /// A number for each column; `null` if it was not measured.
    pub values: Vec<Option<f64>>,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Octets.
    Octets,
    /// Nanoseconds.
    Nanos,
    /// Things.
    Count,
    /// How many times another number.
    Times,
}

impl Unit {
    /// A number with its unit, as people read it.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 10.0 => format!("{value:.2} s"),
            Self::Seconds => format!("{value:.1} s"),
            Self::Octets => text::octets(value.max(0.0).round() as u64),
            Self::Nanos => text::nanos(value),
            Self::Count => text::count(value.max(0.0).round() as u64),
            Self::Times => format!("{value:.2}"),
        }
    }
}

impl ScenarioFile {
    /// A file without rows.
    pub fn new(scenario: &str, title: String, columns: &[(&str, &str, Unit)]) -> Self {
        let column = |(id, name, unit): &(&str, &str, Unit)| Column {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            unit: *unit,
        };
        Self {
            kind: KIND.to_owned(),
            schema: 1,
            scenario: scenario.to_owned(),
            title,
            about: Vec::new(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// The cells of a row: `–` for what was not measured.
    pub fn cells<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = String> + 'a {
        self.columns.iter().enumerate().map(|(at, column)| {
            let value = row.values.get(at).copied().flatten();
            value.map_or_else(|| "–".to_owned(), |value| column.unit.text(value))
        })
    }
}

/// The numbers of a scenario as bars, and all of them in a table.
pub(crate) fn scenario(file: &ScenarioFile, at: usize) -> Markup {
    let mut head = vec![Head::plain("server")];
    head.extend(file.columns.iter().map(|column| Head::plain(column.name.clone())));
    let mut table = Table::new(format!("scenario{at}-all"), head);
    for row in &file.rows {
        table.rows.push([row.server.clone()].into_iter().chain(file.cells(row)).collect());
    }
    html! {
        div.bars-of { @for (number, column) in file.columns.iter().enumerate() {
            (bars(file, number, column))
        } }
        (table.render())
        ul.setting { @for line in &file.about { li { (line) } } }
    }
}

/// Bars of one number; nothing if no server has it, or all have none of it.
fn bars(file: &ScenarioFile, number: usize, column: &Column) -> Markup {
    let value = |row: &Row| row.values.get(number).copied().flatten().filter(|it| it.is_finite());
    let most = file.rows.iter().filter_map(value).fold(0.0, f64::max);
    if most <= 0.0 {
        return html! {};
    }
    html! {
        div.bars {
            p.bars-name { b { (column.name) } }
            @for (at, row) in file.rows.iter().enumerate() {
                @if let Some(value) = value(row) {
                    @let said = format!("{}: {}", row.server, column.unit.text(value));
                    @let part = format!("{:.2}%", (value / most * 100.0).clamp(0.0, 100.0));
                    div.bar tabindex="0" title=(said) role="img" aria-label=(said) {
                        span.of { (row.server) }
                        span.track {
                            span.body.{ "b" (at % crate::COLOURS) } style={ "width:" (part) } {}
                        }
                        span.much { (column.unit.text(value)) }
                    }
                }
            }
        }
    }
}
