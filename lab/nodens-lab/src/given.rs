//! Queries that the command line gives as a file or as a suffix of names.

use crate::term;
use anyhow::{Context, Result, bail};
use lab_workload::names::LineError;
use nodens_wire::Name;

/// Names made for a suffix.
pub(crate) const NAMES: usize = 1_000;
/// Faulty lines that are named.
const FAULTS_SHOWN: usize = 10;
/// What files of queries end with, and names do not.
const ENDINGS: [&str; 10] =
    ["txt", "csv", "tsv", "lst", "dat", "conf", "cfg", "json", "gz", "dnsperf"];

/// The names below what is no file. A mistyped file name must not become names that do not exist.
pub(crate) fn below(given: &str) -> Result<impl Iterator<Item = Result<Name>>> {
    let suffix = Name::parse(given)
        .ok()
        .filter(|_| !given.contains('/'))
        .with_context(|| format!("`{given}` is neither a file nor a suffix of names"))?;
    let ending = given.rsplit_once('.').map_or("", |(_, ending)| ending);
    if ENDINGS.contains(&&*ending.to_ascii_lowercase()) {
        bail!(
            "there is no file `{given}`: expected one that is there, or a suffix of names, as `{given}.`"
        );
    }
    Ok((0..NAMES).map(move |n| Ok(Name::parse(&format!("name{n}"))?.join(suffix.view())?)))
}

/// What people read of a suffix.
pub(crate) fn told_suffix(given: &str) -> String {
    format!("names below {given}")
}

/// Names the lines of a file that are no queries.
pub(crate) fn tell_faults(given: &str, errors: &[LineError]) {
    for error in errors.iter().take(FAULTS_SHOWN) {
        term::note(&format!("{given}: {error}, skipped"));
    }
    if errors.len() > FAULTS_SHOWN {
        let more = term::of(errors.len() - FAULTS_SHOWN, "more line");
        term::note(&format!("{given}: {more} skipped"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_no_suffix() {
        let names = |given: &str| below(given).map(|names| names.count());
        assert_eq!(names("svc.cluster.local").unwrap(), NAMES);
        assert_eq!(names("example.").unwrap(), NAMES);
        assert_eq!(names("external.txt.").unwrap(), NAMES);
        let error = |given: &str| names(given).unwrap_err().to_string();
        assert!(error("external.txt").contains("there is no file `external.txt`"));
        assert!(error("Names.CSV").contains("there is no file"));
        assert!(error("/tmp/x").contains("neither a file nor a suffix"));
    }
}
