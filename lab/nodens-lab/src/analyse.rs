//! `nodens-lab analyse`: result files of load generators, read as they are.

mod files;
mod output;

use crate::term;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use lab_analyse::group::{By, groups};
use lab_analyse::read::{Format, Given};
use lab_analyse::{Settings, analyse};
use lab_result::Generator;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `analyse`.
#[derive(clap::Args)]
#[command(after_help = "\
Formats: dnsperf and resperf (what they print, and resperf -P), dnscalc, flamethrower -o, shotgun, perf-tests, \
dns-metrics, dnsperf-json, results of `load` and `ab`, `export -f csv` and hgrm, and tables of values \
separated by commas. Files are only read.")]
pub(crate) struct Args {
    /// Result files, and folders of them.
    #[arg(value_name = "FILE", required_unless_present = "group")]
    files: Vec<PathBuf>,
    /// A group: its name and its files and folders, as old=a.txt b.txt; once for each group.
    #[arg(long, value_name = "NAME=FILE", num_args = 1..)]
    group: Vec<String>,
    /// By what files without --group are grouped: folder, file, or a label of their trials, as max_qps
    /// [default: their label group, else folders if there are several, else files].
    #[arg(long, value_name = "WHAT")]
    by: Option<String>,
    /// Format of all files [default: by their content].
    #[arg(short, long)]
    format: Option<Format>,
    /// Queries that the generator kept in flight, where files do not say it.
    #[arg(long, value_name = "QUERIES")]
    window: Option<u32>,
    /// When it gave a query up, where files do not say it.
    #[arg(long, value_name = "TIME", value_parser = lab_units::seconds)]
    timeout: Option<u64>,
    /// Group that the others are compared with [default: each with each].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Metrics to look at [default: all].
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    metric: Vec<String>,
    /// Metric that decides: it is not corrected for the number of the others.
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// Difference of a metric that does not matter, as p99=5% (more than once for several).
    #[arg(long, value_name = "METRIC=PART")]
    margin: Vec<String>,
    /// Level of tests and intervals.
    #[arg(long, value_name = "PART", default_value = "0.05", value_parser = lab_units::part)]
    alpha: f64,
    /// What counts as one value [default: runs; parts only where no group has two runs].
    #[arg(long, value_enum)]
    unit: Option<UnitName>,
    /// Compare values of one block, or of one place in each group [default: where each group has each
    /// block once].
    #[arg(long, conflicts_with = "unpaired")]
    paired: bool,
    /// Never do.
    #[arg(long)]
    unpaired: bool,
    /// Count equal readings in a row once.
    #[arg(long)]
    once: bool,
    /// Seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print everything as JSON, as docs/analysis.schema.json describes it.
    #[arg(long)]
    json: bool,
    /// File to write the same to.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Page of pictures and tables to write.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Heading of the page.
    #[arg(long, requires = "html")]
    title: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnitName {
    /// A run of the generator.
    Run,
    /// A second, interval or reading of a run.
    Part,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let timeout_ns = args.timeout;
    let given = Given { format: args.format, window: args.window.map(f64::from), timeout_ns };
    let wanted = files::wanted(&args.files, &args.group)?;
    let written: Vec<&PathBuf> = args.out.iter().chain(&args.html).collect();
    if let Some(path) = written.iter().find(|path| wanted.iter().any(|(_, file)| file == **path)) {
        bail!("{} is one of the files that are read: name another one", path.display());
    }
    let mut read = Vec::new();
    for (group, path) in wanted {
        read.push((group, lab_analyse::read::read(&path, &given)?));
    }
    let groups = groups(&read, &by(args.by.as_deref()))?;
    let files: Vec<_> = read.into_iter().map(|(_, file)| file).collect();
    let generator = Generator {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let file = analyse(&files, &groups, &settings(args)?, generator)?;
    if let Some(path) = &args.out {
        lab_result::analysis::write(path, &file)?;
    }
    let text = if args.json { lab_result::analysis::to_json(&file) } else { output::text(&file) };
    term::all(&text).context("cannot write to standard output")?;
    if let Some(path) = &args.html {
        let document = lab_report::Document::Analysis(Box::new(file));
        let source = lab_report::Source { name: "analysis".to_owned(), document };
        lab_result::write_text(path, &lab_report::page(&[source], args.title.as_deref()))?;
        term::note(&format!("  {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn by(name: Option<&str>) -> By {
    match name {
        None => By::Found,
        Some("folder") => By::Folder,
        Some("file") => By::File,
        Some(label) => By::Label(label.to_owned()),
    }
}

fn settings(args: &Args) -> Result<Settings> {
    if args.alpha <= 0.0 || args.alpha >= 0.5 {
        bail!("--alpha {}: expected more than 0 and less than 0.5", args.alpha);
    }
    let mut margins = Vec::new();
    for text in &args.margin {
        let (metric, part) = text
            .split_once('=')
            .with_context(|| format!("--margin {text}: expected METRIC=PART, such as p99=5%"))?;
        let part = lab_units::part(part).with_context(|| format!("--margin {text}"))?;
        if part <= 0.0 {
            bail!("--margin {text}: expected more than 0");
        }
        margins.push((metric.to_owned(), part));
    }
    Ok(Settings {
        alpha: args.alpha,
        by_part: args.unit.map(|unit| unit == UnitName::Part),
        paired: (args.paired || args.unpaired).then_some(args.paired),
        once: args.once,
        baseline: args.baseline.clone(),
        primary: args.primary.clone(),
        metrics: args.metric.clone(),
        margins,
        seed: args.seed,
    })
}
