//! Queries from files, and the errors in those.

use super::Questions;
use crate::term;
use anyhow::{Context, Result, bail};
use lab_load::Workload;
use lab_workload::{Style, binary, names, update};
use std::fmt::Display;
use std::io::Read;
use std::path::Path;

/// Faults of a file that are shown one by one.
const FAULTS_SHOWN: usize = 10;

impl Questions {
    /// The queries in a file of any format but captures.
    pub(super) fn of_file(&self, path: &Path, style: &Style, seed: u64) -> Result<Workload> {
        let octets = octets(path)?;
        let mut workload = Workload::new(seed);
        if self.updates {
            let faults = update::read(&octets, style, &mut workload);
            self.faults(path, &faults)?;
        } else if self.binary {
            let fault = binary::read(&octets, &mut workload).err();
            self.faults(path, fault.as_slice())?;
        } else {
            let faults = names::read(&octets, style, &self.qtype(), seed, &mut workload);
            self.faults(path, &faults)?;
        }
        if workload.is_empty() {
            bail!("{} has no query", path.display());
        }
        Ok(workload)
    }

    /// Prints the errors of a file, and stops with `--strict`.
    pub(super) fn faults(&self, path: &Path, faults: &[impl Display]) -> Result<()> {
        let path = path.display();
        // A line and column stand right behind the file, as in messages of compilers.
        let place = |fault: &dyn Display| {
            let text = fault.to_string();
            let space =
                if text.starts_with(|first: char| first.is_ascii_digit()) { "" } else { " " };
            format!("{path}:{space}{text}")
        };
        if let Some(fault) = faults.first().filter(|_| self.strict) {
            bail!("{}", place(fault));
        }
        for fault in faults.iter().take(FAULTS_SHOWN) {
            eprintln!("{}, skipped", place(fault));
        }
        if faults.len() > FAULTS_SHOWN {
            eprintln!("{path}: {} more skipped", term::count((faults.len() - FAULTS_SHOWN) as u64));
        }
        Ok(())
    }
}

/// Everything in a file, or on standard input if it is called `-`.
pub(super) fn octets(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut octets = Vec::new();
        std::io::stdin().lock().read_to_end(&mut octets).context("cannot read standard input")?;
        return Ok(octets);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
