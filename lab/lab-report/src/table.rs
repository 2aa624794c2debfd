//! Tables, which hold every number that a plot shows.

use crate::plot::Key;
use maud::{Markup, html};

/// The head of a column.
pub(crate) struct Head {
    /// The column's name.
    pub(crate) text: String,
    /// How its numbers are drawn in plots.
    pub(crate) key: Option<Key>,
}

impl Head {
    /// A column that no plot shows.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), key: None }
    }

    /// The column of what `key` stands for.
    pub(crate) fn of(key: &Key) -> Self {
        Self { text: key.text.clone(), key: Some(key.clone()) }
    }
}

/// A table; the first cell of a row is its heading.
pub(crate) struct Table {
    /// ID of the element.
    pub(crate) id: String,
    /// Heads.
    pub(crate) head: Vec<Head>,
    /// Rows.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(id: impl Into<String>, head: Vec<Head>) -> Self {
        Self { id: id.into(), head, rows: Vec::new() }
    }

    /// Adds a column with one cell for each row that is there; returns its number.
    pub(crate) fn column(&mut self, head: Head, cells: impl IntoIterator<Item = String>) -> usize {
        self.head.push(head);
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
        self.head.len() - 1
    }

    /// The table as HTML; a wide one can be moved sideways.
    pub(crate) fn render(&self) -> Markup {
        html! {
            div.scroll tabindex="0" role="group" aria-label="Table" {
                table id=(self.id) {
                    thead { tr { @for head in &self.head {
                        th scope="col" { @if let Some(key) = &head.key { (key.sign()) } (head.text) }
                    } } }
                    tbody { @for row in &self.rows { tr { @for (at, cell) in row.iter().enumerate() {
                        @if at == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                    } } } }
                }
            }
        }
    }
}

/// A list of names and what they are; pairs without a value are left out.
pub(crate) fn facts(pairs: &[(&str, String)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in pairs {
            @if !value.is_empty() { div { dt { (name) } dd { (value) } } }
        } }
    }
}
