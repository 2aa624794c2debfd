//! What a run shows: a table by directive, unexplained differences at length, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::json;

use super::run::{CaseReport, Unexplained};
use nodens_judge::differences::Differences;

#[derive(Default)]
struct Row {
    corefiles: usize,
    questions: usize,
    equal: usize,
    explained: usize,
    unexplained: usize,
}

/// The table: a line per directive and their sum.
pub(crate) fn table(reports: &[CaseReport]) -> String {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for report in reports {
        for name in [report.directive.as_str(), "~"] {
            let row = rows.entry(name).or_default();
            row.corefiles += 1;
            row.questions += report.questions();
            row.equal += report.equal;
            row.explained += report.explained_questions;
            row.unexplained += report.unexplained.len();
        }
    }
    let mut text = format!(
        "{:<14}{:>10}{:>11}{:>9}{:>11}{:>13}\n",
        "directive", "Corefiles", "questions", "equal", "explained", "unexplained"
    );
    for (name, row) in rows {
        let name = if name == "~" { "all" } else { name };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name:<14}{:>10}{:>11}{:>9}{:>11}{:>13}",
            row.corefiles, row.questions, row.equal, row.explained, row.unexplained
        );
    }
    text
}

/// How many questions and bad messages went to both over each transport.
pub(crate) fn transports(reports: &[CaseReport]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for (name, count) in reports.iter().flat_map(|report| &report.transports) {
        *counts.entry(*name).or_default() += count;
    }
    counts
}

/// How often each listed difference was seen, a line each.
pub(crate) fn explained(reports: &[CaseReport]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, count) in reports.iter().flat_map(|report| &report.explained) {
        *counts.entry(id).or_default() += count;
    }
    counts.iter().map(|(id, count)| format!("explained by {id}: {count}\n")).collect()
}

/// What differed in one run and in no repetition.
pub(crate) fn once(reports: &[CaseReport]) -> String {
    let mut text = String::new();
    for report in reports {
        for one in &report.once {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\ndiffered once, and not alone:");
            let fields: Vec<&str> = one.differences.iter().map(|d| d.field).collect();
            show(&mut text, report, &fields, &[one]);
        }
    }
    text
}

/// The unexplained comparisons, the first `limit` if there is one. Those of one case that differ in the same fields
/// are shown once.
pub(crate) fn unexplained(reports: &[CaseReport], limit: Option<usize>) -> String {
    let mut text = String::new();
    let mut shown = 0;
    for report in reports {
        let mut kinds: BTreeMap<Vec<&str>, Vec<&Unexplained>> = BTreeMap::new();
        for one in &report.unexplained {
            let fields = one.differences.iter().map(|difference| difference.field).collect();
            kinds.entry(fields).or_default().push(one);
        }
        for (fields, all) in kinds {
            if limit == Some(shown) {
                let _ = writeln!(text, "… and more; see the JSON report or --show N");
                return text;
            }
            shown += 1;
            show(&mut text, report, &fields, &all);
        }
    }
    text
}

fn show(text: &mut String, report: &CaseReport, fields: &[&str], all: &[&Unexplained]) {
    let Some(first) = all.first() else { return };
    let _ = writeln!(text, "\n{}: {} ({} alike)", report.case, fields.join(", "), all.len());
    let _ = writeln!(text, "  {}", first.question);
    for difference in &first.differences {
        let _ = writeln!(text, "  {} coredns: {}", difference.field, difference.coredns);
        let _ = writeln!(text, "  {} nodens:  {}", difference.field, difference.nodens);
    }
    for (name, answer) in [("coredns", &first.coredns), ("nodens", &first.nodens)] {
        for line in answer.lines().take(25) {
            let _ = writeln!(text, "    {name} | {line}");
        }
    }
}

/// Listed differences that did not occur.
pub(crate) fn stale<'a>(reports: &[CaseReport], known: &'a Differences) -> Vec<&'a str> {
    let seen = |id: &str| reports.iter().any(|report| report.explained.contains_key(id));
    known.expected().into_iter().filter(|id| !seen(id)).collect()
}

/// The whole run for programs.
pub(crate) fn json(reports: &[CaseReport], known: &Differences) -> serde_json::Value {
    json!({
        "transports": transports(reports),
        "questions": reports.iter().map(CaseReport::questions).sum::<usize>(),
        "unexplained": reports.iter().map(|report| report.unexplained.len()).sum::<usize>(),
        "stale_differences": stale(reports, known),
        "cases": reports,
    })
}
