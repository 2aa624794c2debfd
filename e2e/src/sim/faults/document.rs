//! The table of `docs/node.md` that says what happens when: scenarios take the lines that they wait for from it.

use anyhow::{Context, Result, ensure};

const DOCUMENT: &str = include_str!("../../../../docs/node.md");
const SECTION: &str = "\n## What happens when\n";

/// A row of the table.
#[derive(Debug)]
struct Row {
    /// What is written in code in the column of what an operator sees.
    seen: Vec<&'static str>,
    /// Scenarios and tests that show it.
    shown_by: Vec<&'static str>,
}

fn rows() -> Result<Vec<Row>> {
    let (_, section) = DOCUMENT.split_once(SECTION).context("no section of what happens when")?;
    let lines = section.lines().skip_while(|line| !line.starts_with("| ")).skip(2);
    let rows = lines.take_while(|line| line.starts_with("| "));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let [_, _, seen, shown_by] = cells[..] else {
            return Err(anyhow::anyhow!("not four cells: {line}"));
        };
        Ok(Row { seen: code(seen), shown_by: code(shown_by) })
    })
    .collect()
}

/// What stands between backticks.
fn code(cell: &'static str) -> Vec<&'static str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The lines of the log that the row of this scenario names; what has no spaces is no line but the name of an alert.
pub(super) fn lines_of(scenario: &str) -> Result<Vec<&'static str>> {
    let rows = rows()?;
    let row = rows.iter().find(|row| row.shown_by.contains(&scenario));
    let row = row.with_context(|| format!("docs/node.md has no row for '{scenario}'"))?;
    let lines: Vec<_> = row.seen.iter().copied().filter(|text| text.contains(' ')).collect();
    ensure!(!lines.is_empty(), "docs/node.md does not say how '{scenario}' is seen");
    Ok(lines)
}

/// Whether a line of the log contains `form`, in which `…` stands for anything.
pub(super) fn is_like(line: &str, form: &str) -> bool {
    let mut rest = Some(line);
    for part in form.split('…') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::sim::SCENARIOS;

    /// The text of all sources of a folder, and of those below it.
    fn sources(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => sources(&path, text),
                Some(extension) if extension == "rs" => *text += &fs::read_to_string(path).unwrap(),
                _ => {}
            }
        }
    }

    #[test]
    fn every_row_is_shown_by_a_scenario_or_a_test_that_exists() {
        let rows = rows().unwrap();
        assert!(rows.len() > 12, "{} rows", rows.len());
        let mut text = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut text);
        for row in &rows {
            assert!(!row.shown_by.is_empty(), "{row:?}");
            for name in &row.shown_by {
                // In a file of tests, or in a module of them.
                let is_test = ["", "    "].iter().any(|indent| {
                    text.contains(&format!("{indent}#[test]\n{indent}fn {name}() {{\n"))
                });
                let is_scenario = SCENARIOS.iter().any(|(scenario, _)| scenario == name);
                assert!(is_test || is_scenario, "neither a scenario nor a test: {name}");
            }
        }
    }

    #[test]
    fn every_fault_has_its_row() {
        let rows = rows().unwrap();
        for (name, _) in SCENARIOS.iter().filter(|(name, _)| name.starts_with("fault: ")) {
            let count = rows.iter().filter(|row| row.shown_by.contains(name)).count();
            assert_eq!(count, 1, "rows of '{name}'");
        }
    }

    #[test]
    fn a_form_stands_for_lines() {
        let form = "listen … bind: in use: … has it";
        assert!(is_like(
            "[ERROR] listen udp 1.2.3.4:53: bind: in use: x (process 1) has it; more",
            form
        ));
        assert!(!is_like("listen udp: bind: in use: x", form));
        assert!(is_like("a line", "line") && is_like("a line", "…") && !is_like("a line", "b"));
    }
}
