//! Reading and writing the file.

use crate::layout::Lines;
use crate::{ResultFile, SCHEMA, SCHEMA_OLDEST};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why a file is no result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It has no `schema`.
    #[error("{}: not a result of nodens-lab, expected a JSON object with a field `schema`", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It has another version.
    #[error(
        "{}: layout {found}, expected {expected}: use the nodens-lab that wrote it{}",
        path.display(), by(written_by.as_deref())
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The version that can be read.
        expected: u32,
        /// The program and version that wrote it, if it says so.
        written_by: Option<String>,
    },
    /// It ends early.
    #[error("{}: ends in line {line} in the middle of a result: it was truncated or not completely written", path.display())]
    Cut {
        /// The file.
        path: PathBuf,
        /// The last line, counted from 1.
        line: usize,
    },
    /// It is not JSON.
    #[error("{}: line {line}, column {column}: not JSON: {message}; expected a result file of nodens-lab", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// Its numbers contradict each other.
    #[error("{}: field `{field}` {message}: the file was changed since it was written", path.display())]
    Sum {
        /// The file.
        path: PathBuf,
        /// Path of the field, as `seconds[3].sent`.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// A field is missing or has a value that it cannot have.
    #[error("{}: line {line}, field `{field}`: {message}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Path of the field, as `seconds[3].response.buckets`.
        field: String,
        /// What is wrong.
        message: String,
    },
}

fn by(written_by: Option<&str>) -> String {
    written_by.map_or(String::new(), |who| format!(" ({who})"))
}

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// The file's text.
pub fn to_json(result: &ResultFile) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Lines::default());
    // Writing to memory does not fail, and the types have no map whose key is no string.
    _ = result.serialize(&mut serializer);
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

/// The file's text on one line.
pub fn to_json_line(result: &ResultFile) -> String {
    // As above, it cannot fail.
    serde_json::to_string(result).unwrap_or_default()
}

/// Writes the file whole or not at all: an old one of that name stays until the new one is complete.
pub fn write(path: &Path, result: &ResultFile) -> Result<(), WriteError> {
    write_text(path, &to_json(result))
}

/// Writes an export as [`write()`] does a result.
pub fn write_text(path: &Path, text: &str) -> Result<(), WriteError> {
    write_whole(path, text.as_bytes())
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

pub(crate) fn write_whole(path: &Path, octets: &[u8]) -> io::Result<()> {
    // A device or pipe, as /dev/stdout, has no place for a file beside it and nothing to keep.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(octets);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = fs::write(&part, octets).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        _ = fs::remove_file(&part);
    }
    written
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<ResultFile, ReadError> {
    let octets =
        fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    from_json(path, &octets)
}

/// Reads the text of a file; `path` is for messages only.
pub fn from_json(path: &Path, octets: &[u8]) -> Result<ResultFile, ReadError> {
    let result = read_versioned(path, octets, SCHEMA_OLDEST..=SCHEMA)?;
    crate::sound::check(&result).map_err(|fault| ReadError::Sum {
        path: path.to_owned(),
        field: fault.field,
        message: fault.message,
    })?;
    Ok(result)
}

/// What a file says it is: `search`, `comparison`; nothing for the result of a load.
pub(crate) fn kind(octets: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        kind: Option<String>,
    }
    serde_json::from_slice::<Head>(octets).ok().and_then(|head| head.kind)
}

/// A JSON schema as a text.
pub(crate) fn schema_text(schema: &schemars::Schema) -> String {
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads a file whose layout has one of these versions.
pub(crate) fn read_versioned<T: serde::de::DeserializeOwned>(
    path: &Path,
    octets: &[u8],
    versions: RangeInclusive<u32>,
) -> Result<T, ReadError> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<u64>,
        generator: Option<crate::Generator>,
    }
    let path = || path.to_owned();
    let head: Head = serde_json::from_slice(octets).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof if !octets.trim_ascii().is_empty() => {
            ReadError::Cut { path: path(), line: error.line() }
        }
        serde_json::error::Category::Syntax => ReadError::Syntax {
            path: path(),
            line: error.line(),
            column: error.column(),
            message: message(&error),
        },
        _ => ReadError::Foreign { path: path() },
    })?;
    match head.schema {
        Some(found) if u32::try_from(found).is_ok_and(|found| versions.contains(&found)) => {}
        Some(found) => {
            let expected = *versions.end();
            let written_by = head.generator.map(|by| format!("{} {}", by.name, by.version));
            return Err(ReadError::Version { path: path(), found, expected, written_by });
        }
        None => return Err(ReadError::Foreign { path: path() }),
    }
    let json = &mut serde_json::Deserializer::from_slice(octets);
    serde_path_to_error::deserialize(json).map_err(|error| ReadError::Field {
        path: path(),
        line: error.inner().line(),
        field: error.path().to_string(),
        message: message(error.inner()),
    })
}

/// The message without the position that serde_json puts behind it.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}
