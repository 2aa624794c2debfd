//! The demonstration's results as files and as one page.

use super::{Args, Phase};
use anyhow::{Context, Result};
use lab_report::{Document, Source};
use lab_result::{About, Generator, Provenance, ResultFile, ServerCost, Workload};
use std::path::Path;

/// The files that the demonstration leaves.
const FILES: [&str; 3] = ["without.json", "with.json", "report.html"];

/// Makes the folder, and refuses one that takes no files before anything is measured.
pub(super) fn check(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("--out: cannot create {}", folder.display()))?;
    FILES.iter().try_for_each(|file| crate::load::check_place(&folder.join(file)))
}

/// Writes what was measured without and with the cache, and a page of both with the line that
/// opens it.
pub(super) fn write(
    folder: &Path,
    args: &Args,
    phases: [(&Phase, Provenance); 2],
    cost: ServerCost,
) -> Result<()> {
    let [without, with] = phases.map(|(phase, provenance)| result(args, phase, provenance));
    let with = ResultFile { server_cost: Some(cost), ..with };
    let mut sources = Vec::new();
    let [of_without, of_with, page] = FILES;
    for (name, file, result) in
        [("without a cache", of_without, without), ("with Nodens", of_with, with)]
    {
        lab_result::write(&folder.join(file), &result)?;
        sources.push(Source { name: name.to_owned(), document: Document::Load(Box::new(result)) });
    }
    let title = "A node’s queries without a cache and with Nodens";
    crate::report::write(&folder.join(page), &sources, Some(title))
}

fn result(args: &Args, phase: &Phase, provenance: Provenance) -> ResultFile {
    let about = About {
        generator: Generator {
            name: "nodens-lab".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        provenance,
        workload: Workload {
            source: format!("{} pods of a Kubernetes node with their search lists", args.pods),
            questions: None,
            period: phase.config.queries,
        },
    };
    lab_result::convert(&phase.config, &phase.outcome, about)
}
