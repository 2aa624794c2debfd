//! `nodens-lab merge`: the results of workers that shared a load, as one result.

use crate::load::{self, summary};
use crate::term;
use anyhow::{Context, Result, bail};
use lab_analyse::limits::FILE_LEN_MAX;
use lab_result::ResultFile;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `merge`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Results of workers: a file each, or several in one file, a line each, as `kubectl logs` gives them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the sum goes; without it nothing is written.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the sum to standard output, and no summary.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(out) = &args.out {
        if args.files.contains(out) {
            bail!("the sum would overwrite {}: name another file with --out", out.display());
        }
        load::check_place(out)?;
    }
    let mut parts = Vec::new();
    for path in &args.files {
        parts.extend(read(path, FILE_LEN_MAX)?);
    }
    let result = lab_result::merge(parts, &[])?;
    if args.json {
        term::out(lab_result::to_json(&result).trim_end());
    } else {
        term::out(&summary::text(&result, term::width()));
    }
    if let Some(out) = &args.out {
        lab_result::write(out, &result)?;
    }
    Ok(load::workers::exit(&result))
}

/// The results in a file: a whole one, or one on each line that begins as one. Other lines are what
/// workers said besides.
fn read(path: &Path, most: u64) -> Result<Vec<ResultFile>> {
    let cannot = || format!("cannot read {}", path.display());
    let mut octets = Vec::new();
    let file = std::fs::File::open(path).with_context(cannot)?;
    file.take(most + 1).read_to_end(&mut octets).with_context(cannot)?;
    if octets.len() as u64 > most {
        bail!("{} has more than {most} octets: these are no results", path.display());
    }
    if let Ok(result) = lab_result::from_json(path, &octets) {
        return Ok(vec![result]);
    }
    let lines = octets.split(|octet| *octet == b'\n').zip(1..);
    let lines: Vec<_> = lines.filter(|(line, _)| line.starts_with(b"{\"schema\"")).collect();
    if lines.is_empty() {
        // Why it is none is said by the reader of one.
        lab_result::from_json(path, &octets)?;
    }
    let results = lines.into_iter().map(|(line, number)| {
        let place = PathBuf::from(format!("{}, result in line {number}", path.display()));
        Ok(lab_result::from_json(&place, line)?)
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
        lab_result::to_json_line(&lab_result::read(Path::new(path)).unwrap())
    }

    #[test]
    fn results_are_read_from_logs_with_other_lines_between_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let results = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path, 1 << 20)
        };
        let one = example();
        assert_eq!(results(&format!("{one}\n")).unwrap().len(), 1);
        let log = format!("note of a worker\n{one}\n{{}}\n{one}\n");
        assert_eq!(results(&log).unwrap().len(), 2);
        let cut = one.get(..one.len() / 2).unwrap();
        let error = format!("{:#}", results(&format!("{one}\n{cut}\n")).unwrap_err());
        assert!(error.contains("result in line 2"), "{error}");
        assert!(results("nothing\n").is_err());
        let long = one.len() as u64 - 1;
        std::fs::write(&path, &one).unwrap();
        assert_eq!(read(&path, long + 1).unwrap().len(), 1);
        let error = format!("{:#}", read(&path, long).unwrap_err());
        assert!(error.contains("octets: these are no results"), "{error}");
    }
}
