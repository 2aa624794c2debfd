//! `nodens-lab export`: a result file in the formats of other tools.

use crate::term;
use anyhow::{Context, Result, bail};
use lab_report::{Document, Source};
use lab_result::comparison::{self, ComparisonFile};
use lab_result::export::{Format, Options, export};
use lab_result::search::{self, SearchFile};
use lab_result::tuning::{self, TuningFile};
use lab_result::{ResultFile, WriteError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `export`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Result file of `nodens-lab load`, `ab` or `tune`.
    file: PathBuf,
    /// dnsperf, shotgun, dns-metrics, csv, json or hgrm (HdrHistogram's table of percentiles); of a
    /// search or a comparison csv or json.
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
    anyhow::ensure!(nanos >= UNIT_MIN, "`{text}` is too short, expected at least 1us");
    Ok(nanos)
}

impl OptionArgs {
    pub(crate) fn options(&self) -> Options {
        let Self { shotgun_unit, latency_histogram } = *self;
        Options { shotgun_unit, latency_histogram }
    }
}

/// What a run leaves behind.
#[derive(Clone, Copy)]
pub(crate) enum Kept<'a> {
    Load(&'a ResultFile),
    Search(&'a SearchFile),
    Comparison(&'a ComparisonFile),
    Tuning(&'a TuningFile),
}

impl Kept<'_> {
    /// It as a text in `format`.
    pub(crate) fn export(self, format: Format, options: Options) -> Result<String> {
        Ok(match (self, format) {
            (Self::Load(result), _) => export(result, format, options),
            (Self::Search(file), Format::Json) => search::to_json(file),
            (Self::Search(file), Format::Csv) => search::csv(file),
            (Self::Comparison(file), Format::Json) => comparison::to_json(file),
            (Self::Comparison(file), Format::Csv) => comparison::csv(file),
            (Self::Tuning(file), Format::Json) => tuning::to_json(file),
            (Self::Tuning(file), Format::Csv) => tuning::csv(file),
            (Self::Tuning(_), _) => no_format("a trial of settings", format)?,
            (Self::Search(_), _) => no_format("a search", format)?,
            (Self::Comparison(_), _) => no_format("a comparison", format)?,
        })
    }

    /// Writes the file itself.
    pub(crate) fn write(self, path: &Path) -> Result<(), WriteError> {
        match self {
            Self::Load(result) => lab_result::write(path, result),
            Self::Search(file) => search::write(path, file),
            Self::Comparison(file) => comparison::write(path, file),
            Self::Tuning(file) => tuning::write(path, file),
        }
    }

    /// Writes the page of `file` and prints, as the last line, the command that opens it.
    pub(crate) fn write_page(self, path: &Path, file: &Path) -> Result<()> {
        let document = match self {
            Self::Load(result) => Document::Load(Box::new(result.clone())),
            Self::Search(file) => Document::Search(Box::new(file.clone())),
            Self::Comparison(file) => Document::Comparison(Box::new(file.clone())),
            Self::Tuning(file) => Document::Tuning(Box::new(file.clone())),
        };
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        crate::report::write(path, &[Source { name, document }], None)
    }
}

fn no_format(what: &str, format: Format) -> Result<String> {
    bail!("{what} cannot be written as {format}, only as csv or json")
}

/// Refuses formats that only the result of a load has.
pub(crate) fn only_tables(what: &str, formats: impl Iterator<Item = Format>) -> Result<()> {
    let mut other = formats.filter(|format| !matches!(format, Format::Csv | Format::Json));
    other.next().map_or(Ok(()), |format| no_format(what, format).map(|_| ()))
}

/// Reads `FORMAT=FILE`.
pub(crate) fn format_and_file(text: &str) -> Result<(Format, PathBuf)> {
    let Some((format, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
        bail!("`{text}` has no file, expected FORMAT=FILE, such as csv=seconds.csv");
    };
    Ok((format.parse()?, path.into()))
}

/// What to say beside a format that has no place for it: the result is INVALID.
fn unsaid(result: &ResultFile, format: Format) -> Option<String> {
    let says = matches!(format, Format::Json | Format::DnsMetrics);
    let why = result.verdict.invalid_because.join("; ");
    (!result.verdict.valid && !says).then(|| format!("INVALID, which {format} does not say: {why}"))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (format, options) = (args.format, args.options.options());
    let text = match lab_report::read(&args.file)?.document {
        Document::Load(result) => {
            let text = Kept::Load(&result).export(format, options)?;
            unsaid(&result, format).iter().for_each(|why| term::note(why));
            text
        }
        Document::Search(file) => Kept::Search(&file).export(format, options)?,
        Document::Comparison(file) => Kept::Comparison(&file).export(format, options)?,
        Document::Tuning(file) => Kept::Tuning(&file).export(format, options)?,
        Document::Bench(_) | Document::Scenario(_) => {
            bail!("{}: a benchmark cannot be exported", args.file.display())
        }
        Document::Analysis(_) => bail!("{}: an analysis cannot be exported", args.file.display()),
    };
    match &args.out {
        Some(path) => lab_result::write_text(path, &text)?,
        None => term::all(&text).context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_invalid_is_told_where_the_format_has_no_place_for_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
        let mut result = lab_result::read(Path::new(path)).unwrap();
        assert_eq!(unsaid(&result, Format::Csv), None);
        result.verdict.valid = false;
        result.verdict.invalid_because = vec!["too busy".to_owned()];
        for format in [Format::Csv, Format::Dnsperf, Format::Shotgun, Format::Hgrm] {
            let told = unsaid(&result, format).unwrap();
            assert!(told.contains("INVALID") && told.ends_with(": too busy"), "{told}");
        }
        for format in [Format::Json, Format::DnsMetrics] {
            assert_eq!(unsaid(&result, format), None);
            let text = Kept::Load(&result).export(format, Options::default()).unwrap();
            assert!(text.contains("too busy"), "{format}");
        }
    }
}
