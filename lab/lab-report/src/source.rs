//! Files that a page can be made of.

use crate::bench::BenchFile;
use crate::scenario::ScenarioFile;
use lab_result::analysis::{self, AnalysisFile};
use lab_result::comparison::{self, ComparisonFile};
use lab_result::search::{self, SearchFile};
use lab_result::tuning::{self, TuningFile};
use lab_result::{ReadError, ResultFile};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A file that was read.
pub struct Source {
    /// Its name, to tell it from the others.
    pub name: String,
    /// What is in it.
    pub document: Document,
}

/// What a page can be made of.
pub enum Document {
    /// A load on one server.
    Load(Box<ResultFile>),
    /// A comparison of two servers.
    Comparison(Box<ComparisonFile>),
    /// A search for the highest rate.
    Search(Box<SearchFile>),
    /// An analysis of results.
    Analysis(Box<AnalysisFile>),
    /// A trial of settings.
    Tuning(Box<TuningFile>),
    /// Several servers beside each other.
    Bench(BenchFile),
    /// A scenario of several servers.
    Scenario(ScenarioFile),
}

/// Why a file cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is no result or comparison, or a broken one.
    #[error(transparent)]
    Result(#[from] ReadError),
    /// It is a broken benchmark.
    #[error("{}: line {line}, column {column}: not a benchmark result of nodens-lab: {message}", path.display())]
    Bench {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

/// Reads a result, a comparison, a benchmark or a scenario.
pub fn read(path: &Path) -> Result<Source, SourceError> {
    let octets =
        std::fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    let document = match kind(&octets).as_deref() {
        Some(comparison::KIND) => {
            Document::Comparison(Box::new(comparison::from_json(path, &octets)?))
        }
        Some(search::KIND) => Document::Search(Box::new(search::from_json(path, &octets)?)),
        Some(analysis::KIND) => Document::Analysis(Box::new(analysis::from_json(path, &octets)?)),
        Some(tuning::KIND) => Document::Tuning(Box::new(tuning::from_json(path, &octets)?)),
        Some(crate::bench::KIND) => Document::Bench(bench(path, &octets)?),
        Some(crate::scenario::KIND) => Document::Scenario(bench(path, &octets)?),
        _ => Document::Load(Box::new(lab_result::from_json(path, &octets)?)),
    };
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Source { name, document })
}

/// What a file says that it is; results of loads say nothing.
fn kind(octets: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        kind: Option<String>,
    }
    serde_json::from_slice::<Head>(octets).ok()?.kind
}

fn bench<T: DeserializeOwned>(path: &Path, octets: &[u8]) -> Result<T, SourceError> {
    serde_json::from_slice(octets).map_err(|error| SourceError::Bench {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
    })
}
