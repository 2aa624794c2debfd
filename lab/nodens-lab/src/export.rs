//! `nodens-lab export`: a result file in the formats of other tools.

use crate::term;
use anyhow::{Context, Result};
use lab_result::export::{Format, Options, export};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `export`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Result file of `nodens-lab load`.
    file: PathBuf,
    /// dnsperf, shotgun, dns-metrics, csv, json or hgrm (HdrHistogram's table of percentiles).
    #[arg(short, long)]
    format: Format,
    /// File to write instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: OptionArgs,
}

/// What can be chosen of the formats.
#[derive(clap::Args)]
pub(crate) struct OptionArgs {
    /// Step of Shotgun's latency array. Its tools take any for a millisecond, so with 10us their axis
    /// reads in hundredths; with 1ms they cannot show answers faster than that.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = unit)]
    shotgun_unit: u64,
    /// Print the latency buckets in dnsperf's text.
    #[arg(long)]
    latency_histogram: bool,
}

/// Finer steps make arrays of millions of elements a second.
const UNIT_MIN: u64 = 1_000;

fn unit(text: &str) -> Result<u64> {
    let nanos = lab_units::nanos(text)?;
    anyhow::ensure!(nanos >= UNIT_MIN, "`{text}` is too fine, expected at least 1us");
    Ok(nanos)
}

impl OptionArgs {
    pub(crate) fn options(&self) -> Options {
        let Self { shotgun_unit, latency_histogram } = *self;
        Options { shotgun_unit, latency_histogram }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let result = lab_result::read(&args.file)?;
    let text = export(&result, args.format, args.options.options());
    match &args.out {
        Some(path) => lab_result::write_text(path, &text)?,
        None => term::all(&text).context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}
