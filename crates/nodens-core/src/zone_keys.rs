//! Keys that sign zones, from pairs of files.

use crate::limits::KEY_FILE_LEN_MAX;
use nodens_corefile::{Error, Token};
use nodens_zone::dnssec::SigningKey;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The name of a key without the ending of either of its files.
pub(crate) fn base(name: &str) -> &str {
    let name = name.strip_suffix(".key").unwrap_or(name);
    name.strip_suffix(".private").unwrap_or(name)
}

/// Reads `BASE.key` and `BASE.private`.
///
/// # Errors
/// At the token that names them, with the file and what is wrong with it.
pub(crate) fn read(name: &Token, base: &Path) -> Result<SigningKey, Error> {
    let read = |ending: &str| {
        let mut path = base.as_os_str().to_owned();
        path.push(ending);
        let text = read_file(Path::new(&path));
        text.map_err(|error| Error::invalid(name, format!("{}: {error}", path.to_string_lossy())))
    };
    let (public, private) = (read(".key")?, read(".private")?);
    SigningKey::parse(&public, &private).map_err(|error| {
        let text = format!("key {}: {error}", base.display());
        Error::invalid(name, text)
    })
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let limit = KEY_FILE_LEN_MAX as u64;
    File::open(path)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}
