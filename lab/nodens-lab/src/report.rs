//! `nodens-lab report`: result files as one page.

use crate::term;
use anyhow::{Result, bail};
use lab_report::Source;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Result files of load, ab, swap, tune, bench, authority or a search; several are laid over each other.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The page [default: the first file's name with .html].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Heading of the page [default: the servers].
    #[arg(long)]
    title: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let sources: Vec<Source> =
        args.files.iter().map(|path| lab_report::read(path)).collect::<Result<_, _>>()?;
    let Some(first) = args.files.first() else { bail!("expected a result file") };
    let out = args.out.clone().unwrap_or_else(|| first.with_extension("html"));
    if args.files.contains(&out) {
        bail!("the page would overwrite {}: name another file with --out", out.display());
    }
    write(&out, &sources, args.title.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page about `sources` and the line that opens it.
pub(crate) fn write(out: &Path, sources: &[Source], title: Option<&str>) -> Result<()> {
    lab_result::write_text(out, &lab_report::page(sources, title))?;
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    term::out(&format!("  {opener} {}", term::shell_word(&out.to_string_lossy())));
    Ok(())
}
