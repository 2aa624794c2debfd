//! `-pidfile`.

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("pidfile {path}: {error}")]
pub(crate) struct PidfileError {
    path: String,
    error: std::io::Error,
}

/// Writes the process ID into the file, and a line feed.
pub(crate) fn write(path: &str) -> Result<(), PidfileError> {
    std::fs::write(path, format!("{}\n", std::process::id()))
        .map_err(|error| PidfileError { path: path.to_owned(), error })
}

/// Removes the file, unless another process has written its own meanwhile.
pub(crate) fn remove(path: &str) {
    let pid = std::process::id().to_string();
    if std::fs::read_to_string(path).is_ok_and(|text| text.trim() == pid) {
        _ = std::fs::remove_file(path);
    }
}
