//! Keys that sign zones, from pairs of files, and lines of the Corefile that name them.

use crate::config::BlockBuilder;
use crate::limits::KEY_FILE_LEN_MAX;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use nodens_zone::dnssec::{Denial, SigningKey, in_file_name};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

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

/// Where keys are.
pub(crate) enum Keys<'d> {
    /// One in each pair of files.
    Files(&'d [Token]),
    /// All of a zone, in a folder.
    Folder(&'d Token),
}

/// Iterations and salt can be written, but only as RFC 9276 section 3.1 wants them.
pub(crate) fn nsec3(line: &Directive) -> Result<Denial, Error> {
    match line.expect_args_within(0..=2)? {
        [iterations, ..] if iterations.text != "0" => {
            Err(Error::expected(iterations, "0 iterations (RFC 9276)"))
        }
        [_, salt] if salt.text != "-" => Err(Error::expected(salt, "`-`, no salt (RFC 9276)")),
        _ => Ok(Denial::Nsec3),
    }
}

/// Where a line says that keys are.
pub(crate) fn source(line: &Directive) -> Result<Keys<'_>, Error> {
    match line.expect_args_from(2)? {
        [word, names @ ..] if word.text == "file" => Ok(Keys::Files(names)),
        [word, folder] if word.text == "directory" => Ok(Keys::Folder(folder)),
        [word, ..] if word.text == "directory" => Err(line.invalid("expected one directory")),
        [word, ..] => Err(Error::expected(word, "`file` or `directory`")),
        [] => Err(line.invalid("expected `key file KEY…` or `key directory DIR`")),
    }
}

/// The keys of a zone that are there.
pub(crate) fn keys(
    sources: &[Keys<'_>],
    origin: &Name,
    block: &BlockBuilder<'_>,
) -> Result<Vec<SigningKey>, Error> {
    let mut keys: Vec<SigningKey> = Vec::new();
    // One that is named twice signs once.
    let mut add = |key: SigningKey| {
        if keys.iter().all(|known| known.rdata() != key.rdata()) {
            keys.push(key);
        }
    };
    for source in sources {
        match source {
            Keys::Files(names) => {
                for name in *names {
                    add(key(name, &block.path(base(&name.text)))?);
                }
            }
            Keys::Folder(folder) => {
                let path = block.path(&folder.text);
                for base in in_folder(folder, &path, origin)? {
                    add(key(folder, &base)?);
                }
            }
        }
    }
    Ok(keys)
}

/// A key that signs everything: one that the parent can refer to.
fn key(name: &Token, base: &Path) -> Result<SigningKey, Error> {
    let key = read(name, base)?;
    if key.is_ksk() {
        return Ok(key);
    }
    let text = format!("DNSKEY in \"{}.key\" is not a CSK/KSK", base.display());
    Err(Error::invalid(name, text))
}

/// The keys of a zone in a folder, `KORIGIN+ALGORITHM+TAG`, without their endings.
fn in_folder(token: &Token, folder: &Path, origin: &Name) -> Result<Vec<PathBuf>, Error> {
    let refuse = |why: String| Error::invalid(token, format!("{}: {why}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
    let named = in_file_name(origin);
    let begin = format!("k{}+", named.to_ascii_lowercase());
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(base) = name.strip_suffix(".key")
            && base.to_ascii_lowercase().starts_with(&begin)
        {
            found.push(folder.join(base));
        }
    }
    if found.is_empty() {
        return Err(refuse(format!("expected keys of the zone, such as K{named}+013+12345.key")));
    }
    found.sort();
    Ok(found)
}
