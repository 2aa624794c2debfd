//! Runs that are there more than once: each of their values would count as a repetition, and no test would know.

use crate::analyse::AnalyseError;
use crate::read::ReadFile;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Pairs of files that are named.
const NAMED_MAX: usize = 3;

/// Refuses files with the same content.
pub(crate) fn refuse_copies(files: &[ReadFile]) -> Result<(), AnalyseError> {
    let mut known: HashMap<&str, &ReadFile> = HashMap::new();
    for file in files {
        if let Some(first) = known.insert(&file.sha256, file) {
            let (first, second) = (first.path.clone(), file.path.clone());
            return Err(AnalyseError::Twice { first, second });
        }
    }
    Ok(())
}

/// Files of different formats that look like one run: with one name but for its end, or begun in the same second.
pub(crate) fn formats(files: &[ReadFile]) -> Vec<String> {
    let mut by_name: HashMap<PathBuf, &ReadFile> = HashMap::new();
    let mut by_second: HashMap<u64, &ReadFile> = HashMap::new();
    let mut alike: Vec<[&str; 2]> = Vec::new();
    for file in files {
        let [trial] = &*file.trials else { continue };
        let name = by_name.insert(Path::new(&file.path).with_extension(""), file);
        let second = trial.started_unix_ns.map(|nanos| nanos / 1_000_000_000);
        let begun = second.and_then(|second| by_second.insert(second, file));
        let mut others = name.into_iter().chain(begun);
        if let Some(other) = others.find(|other| other.format != file.format) {
            alike.push([&other.path, &file.path]);
        }
    }
    if alike.is_empty() {
        return Vec::new();
    }
    let more = alike.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> =
        alike.iter().take(NAMED_MAX).map(|[one, other]| format!("{one} and {other}")).collect();
    let more = if more > 0 { format!(", and {more} more pairs") } else { String::new() };
    vec![format!(
        "{}{more}: by name or start these may be one run in two formats, which then counts twice: p-values would be \
         too small",
        named.join(", ")
    )]
}
