//! The file as text, on the disk and back.

use super::{ComparisonFile, KIND, SCHEMA};
use crate::store::write_whole;
use crate::{ReadError, WriteError};
use std::fs;
use std::path::Path;

/// Whether the text of a file says that it is a comparison.
pub fn is_comparison(octets: &[u8]) -> bool {
    crate::store::kind(octets).as_deref() == Some(KIND)
}

/// The JSON schema of the file.
pub fn json_schema() -> String {
    crate::store::schema_text(&schemars::schema_for!(ComparisonFile))
}

/// The file's text.
pub fn to_json(comparison: &ComparisonFile) -> String {
    let mut text = serde_json::to_string(comparison).unwrap_or_default();
    text.push('\n');
    text
}

/// Writes the file whole or not at all.
pub fn write(path: &Path, comparison: &ComparisonFile) -> Result<(), WriteError> {
    write_whole(path, to_json(comparison).as_bytes())
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<ComparisonFile, ReadError> {
    let octets =
        fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    from_json(path, &octets)
}

/// Reads the text of a file; `path` is for messages only.
pub fn from_json(path: &Path, octets: &[u8]) -> Result<ComparisonFile, ReadError> {
    crate::store::read_versioned(path, octets, SCHEMA..=SCHEMA)
}
