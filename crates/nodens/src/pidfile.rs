//! `-pidfile`.

/// Writes the process ID into the file, and a line feed.
///
/// # Errors
///
/// The file, and why it cannot be written.
pub(crate) fn write(path: &str) -> Result<(), String> {
    std::fs::write(path, format!("{}\n", std::process::id()))
        .map_err(|error| format!("pidfile {path}: {error}"))
}

/// Removes the file, unless another process has written its own meanwhile.
pub(crate) fn remove(path: &str) {
    let pid = std::process::id().to_string();
    if std::fs::read_to_string(path).is_ok_and(|text| text.trim() == pid) {
        _ = std::fs::remove_file(path);
    }
}
