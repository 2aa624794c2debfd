//! What a scenario found: a table for the terminal, in Markdown, and a file for `nodens-lab report`.

use crate::term::{self, Style, Table};
use anyhow::{Context, Result};
pub(super) use lab_report::Unit;
use lab_report::{Row, ScenarioFile};
use lab_result::ResultFile;
use std::path::Path;

/// One table: a row for each server, in the order of the measurements.
pub(super) struct Sheet {
    file: ScenarioFile,
    /// What a reader needs to judge the numbers.
    pub(super) notes: Vec<String>,
}

/// What was found of one server.
#[derive(Default)]
pub(super) struct Part {
    /// Its row, in the order of the columns; what is missing at the end was not measured.
    pub(super) values: Vec<Option<f64>>,
    pub(super) notes: Vec<String>,
    /// Why the work of what measures it is INVALID.
    pub(super) invalid: Vec<String>,
    /// Loads that have a file of their own, by the end of its name.
    pub(super) results: Vec<(&'static str, ResultFile)>,
}

impl Sheet {
    /// The columns have a name for programs, one for people, and a unit.
    pub(super) fn new(scenario: &str, title: String, columns: &[(&str, &str, Unit)]) -> Self {
        Self { file: ScenarioFile::new(scenario, title, columns), notes: Vec::new() }
    }

    pub(super) fn scenario(&self) -> &str {
        &self.file.scenario
    }

    /// Adds what was found of a server.
    pub(super) fn take(&mut self, server: &str, part: Part) {
        self.notes.extend(part.notes);
        self.row(server, part.values);
    }

    fn row(&mut self, server: &str, mut values: Vec<Option<f64>>) {
        values.resize(self.file.columns.len(), None);
        self.file.rows.push(Row { server: server.to_owned(), values });
    }

    /// Whether anything was measured.
    pub(super) fn has_values(&self) -> bool {
        self.file.rows.iter().flat_map(|row| &row.values).any(Option::is_some)
    }

    /// The values of a column, in the order of the rows.
    #[cfg(test)]
    pub(super) fn column(&self, at: usize) -> Vec<Option<f64>> {
        self.file.rows.iter().map(|row| row.values.get(at).copied().flatten()).collect()
    }

    fn table(&self) -> Table {
        let mut head = vec!["server"];
        head.extend(self.file.columns.iter().map(|column| column.name.as_str()));
        let mut table = Table::new(&head);
        for row in &self.file.rows {
            table.row([row.server.clone()].into_iter().chain(self.file.cells(row)).collect());
        }
        table
    }

    fn notes(&self) -> String {
        self.notes.iter().map(|note| format!("- {note}\n")).collect()
    }

    /// Prints the table.
    pub(super) fn print(&self) {
        let title = term::paint(Style::Bold, &self.file.title);
        term::out(&format!("\n{title}\n{}\n{}", self.table().framed(), self.notes()));
    }

    fn markdown(&self) -> String {
        format!("### {}\n\n{}\n\n{}", self.file.title, self.table().markdown(), self.notes())
    }

    /// Writes it as Markdown and JSON beside each other, and as a page.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let file = ScenarioFile { about: self.notes.clone(), ..self.file.clone() };
        let json = serde_json::to_string_pretty(&file)?;
        let place = folder.join(&self.file.scenario);
        for (extension, text) in [("md", self.markdown()), ("json", json)] {
            let path = place.with_extension(extension);
            lab_result::write_text(&path, &text)?;
            term::out(&format!("  written: {}", path.display()));
        }
        let source = lab_report::read(&place.with_extension("json"))?;
        crate::report::write(&place.with_extension("html"), &[source], None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_says_what_is_missing_and_its_file_is_read_again() {
        let columns =
            [("network", "from network", Unit::Seconds), ("memory", "memory", Unit::Octets)];
        let mut sheet = Sheet::new("catalog-start", "Start".to_owned(), &columns);
        sheet.take("failed", Part::default());
        assert!(!sheet.has_values());
        sheet.row("nodens", vec![Some(3.25), Some(26_214_400.0)]);
        sheet.row("nsd", vec![Some(12.0)]);
        sheet.notes.push("a machine".to_owned());
        assert!(sheet.has_values());
        let markdown = sheet.markdown();
        assert!(markdown.contains("| nodens | 3.25 s | 25.0 MiB |"), "{markdown}");
        assert!(markdown.contains("| nsd | 12.0 s | – |"), "{markdown}");
        let folder = tempfile::tempdir().unwrap();
        sheet.write(folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("catalog-start.html")).unwrap();
        assert!(page.contains("from network") && page.contains("12.0 s"));
        assert!(page.contains("a machine"));
    }
}
