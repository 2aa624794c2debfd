//! What an exchange says: to people, and to files.

use super::args::Args;
use crate::ab::output as tables;
use crate::export::Kept;
use crate::term::{self, Style, Table};
use anyhow::{Context, Result};
use lab_result::comparison::{self, Block, ComparisonFile, Swap, Usage};
use lab_stats::paired;
use std::path::Path;

/// Everything, for a terminal.
pub(super) fn text(file: &ComparisonFile) -> String {
    let mut text = String::new();
    if let Some(table) = file.swap.as_ref().and_then(|swap| usage(file, swap)) {
        text = format!("{}\n", table.framed());
    }
    text + &tables::text(file)
}

/// CPU, memory, throttling and restarts of both images at each load: medians of the rounds.
fn usage(file: &ComparisonFile, swap: &Swap) -> Option<Table> {
    let head = [
        "queries",
        "load",
        "image",
        "CPU",
        "throttled",
        "memory (anon)",
        "working set",
        "restarts",
    ];
    let mut table = Table::new(&head);
    let mut rows = 0;
    for load in &file.plan.loads {
        for (side, party) in [("a", &file.a), ("b", &file.b)] {
            let mine: Vec<&Usage> = swap
                .usage
                .iter()
                .filter(|one| one.phase == "comparison" && one.side == side)
                .filter(|one| one.set == load.set && one.load == load.name)
                .filter(|one| is_used(&file.blocks, one))
                .collect();
            let median = |of: fn(&Usage) -> Option<f64>| {
                paired::median(&mine.iter().filter_map(|one| of(one)).collect::<Vec<_>>())
            };
            let shown = |value: Option<f64>, text: fn(f64) -> String| {
                value.map_or("unknown".to_owned(), text)
            };
            let mib = |octets: f64| format!("{:.1} MiB", octets / f64::from(1 << 20));
            table.row(vec![
                load.set.clone(),
                load.name.clone(),
                party.name.clone(),
                shown(median(|one| one.millicores), |milli| format!("{milli:.1}m")),
                shown(median(|one| one.throttled_periods), term::percent),
                shown(median(|one| one.rss.map(|octets| octets as f64)), mib),
                shown(median(|one| one.working_set.map(|octets| octets as f64)), mib),
                mine.iter().map(|one| one.restarts).sum::<u64>().to_string(),
            ]);
            rows += mine.len();
        }
    }
    (rows > 0).then_some(table)
}

/// Whether the attempt is the one that counts.
fn is_used(blocks: &[Block], usage: &Usage) -> bool {
    blocks.iter().any(|block| {
        block.used
            && (&block.phase, block.pair, &block.side) == (&usage.phase, usage.pair, &usage.side)
            && (&block.set, &block.load, block.attempt) == (&usage.set, &usage.load, usage.attempt)
    })
}

/// Writes the files of the result and the page.
pub(super) fn write(args: &Args, folder: &Path, file: &ComparisonFile) -> Result<()> {
    let result = folder.join("result.json");
    comparison::write(&result, file)?;
    let mut report = tables::markdown(file);
    if let Some(table) = file.swap.as_ref().and_then(|swap| usage(file, swap)) {
        report += &format!("\n## Containers\n\n{}\n", table.markdown());
    }
    for (name, text) in [("report.md", report), ("junit.xml", tables::junit(file))] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let path = folder.join("report.md");
    let told = format!("table: {}  all blocks: {}", path.display(), result.display());
    term::out(&term::paint(Style::Dim, &told));
    if !args.no_html {
        let page = args.html.clone().unwrap_or_else(|| folder.join("result.html"));
        Kept::Comparison(file).write_page(&page, &result)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::output::tests::file;

    #[test]
    fn attempts_that_do_not_count_are_not_in_the_table() {
        let mut file = file(Vec::new());
        let mut usage = |attempt, used, millicores, restarts| {
            let first = file.blocks[0].clone();
            let block = Block { attempt, used, ..first };
            let usage = Usage {
                phase: block.phase.clone(),
                side: block.side.clone(),
                set: block.set.clone(),
                load: block.load.clone(),
                millicores: Some(millicores),
                attempt,
                restarts,
                ..Usage::default()
            };
            file.blocks.push(block);
            usage
        };
        let all = vec![usage(3, false, 900.0, 77), usage(4, true, 100.0, 0)];
        let swap = Swap { usage: all, ..Swap::default() };
        let text = super::usage(&file, &swap).unwrap().markdown();
        assert!(text.contains("100.0m"), "{text}");
        assert!(!text.contains("500.0m") && !text.contains("77"), "{text}");
    }
}
