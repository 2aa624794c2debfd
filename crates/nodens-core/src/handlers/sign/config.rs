//! `sign DBFILE [ZONES…] { key file KEY…; key directory DIR; directory DIR; nsec3 }`.

use super::SPEC;
use crate::config::BlockBuilder;
use crate::log::Level;
use crate::zone_keys;
use crate::zone_signer::ZoneSigner;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Position, Token};
use nodens_wire::Name;
use nodens_zone::dnssec::{Denial, SigningKey};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROPERTIES: [&str; 3] = ["key", "directory", "nsec3"];

/// Where signed files go if nothing is said, as in CoreDNS.
const FOLDER_DEFAULT: &str = "/var/lib/coredns";

/// A signer that was made before, such as for another address of the same block.
struct Known {
    at: Position,
    /// The file that it writes, as the system has it.
    path: PathBuf,
    signer: Arc<ZoneSigner>,
}

/// Where keys are.
enum Keys<'d> {
    /// One in each pair of files.
    Files(&'d [Token]),
    /// All of a zone, in a folder.
    Folder(&'d Token),
}

/// Reads the directive, which may be used more than once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let [file, zones @ ..] = directive.expect_args_from(1)? else {
        return Err(directive.invalid("expected the path of a file"));
    };
    if file.text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Error::invalid(file, "the path has invalid characters"));
    }
    let path = block.path(&file.text);
    let zones = Zones::of(zones, &block.zones)?;
    let (mut sources, mut folder) = (Vec::new(), PathBuf::from(FOLDER_DEFAULT));
    let mut denial = Denial::Nsec;
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "key" => sources.push(source(line)?),
            "directory" => {
                let [token] = line.expect_args()?;
                folder = block.path(&token.text);
            }
            "nsec3" => denial = nsec3(line)?,
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    for origin in zones.names() {
        let origin = origin.to_folded();
        let keys = keys(&sources, &origin, block)?;
        if keys.is_empty() {
            let text = format!(
                "{}: zone \"{origin}\" is not signed, as there is no key",
                directive.name.position
            );
            block.shared.sink.line(Level::Warning, SPEC.name, text);
            continue;
        }
        let paths = (path.clone(), folder.clone());
        add(ZoneSigner::new(origin, paths, (keys, denial)), directive, block)?;
    }
    Ok(())
}

/// Has a zone signed, unless the same is already done for another address. Two signers that differ would write
/// one file by turns.
fn add(
    signer: ZoneSigner,
    directive: &Directive,
    block: &mut BlockBuilder<'_>,
) -> Result<(), Error> {
    let path = signer.signed_file();
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let path =
        folder.zip(path.file_name()).map_or(path.clone(), |(folder, name)| folder.join(name));
    if signer.file().canonicalize().is_ok_and(|file| file == path) {
        let text = format!("\"{}\" is both read and written", path.display());
        return Err(directive.invalid(text));
    }
    let same = block.services.kept.all::<Known>().find(|known| known.path == path);
    if let Some(Known { at, signer: other, .. }) = same {
        if other.is_like(&signer) {
            return Ok(());
        }
        let text = format!(
            "\"{}\" is written by `sign` at {at}, too, from another file, with other keys or another way to deny",
            path.display()
        );
        return Err(directive.invalid(text));
    }
    let (at, signer) = (directive.name.position.clone(), Arc::new(signer));
    block.services.kept.add(Known { at, path, signer: signer.clone() });
    block.services.signers.push(signer);
    Ok(())
}

/// Iterations and salt can be written, but only as RFC 9276 section 3.1 wants them.
fn nsec3(line: &Directive) -> Result<Denial, Error> {
    match line.expect_args_within(0..=2)? {
        [iterations, ..] if iterations.text != "0" => {
            Err(Error::expected(iterations, "0 iterations (RFC 9276)"))
        }
        [_, salt] if salt.text != "-" => Err(Error::expected(salt, "`-`, no salt (RFC 9276)")),
        _ => Ok(Denial::Nsec3),
    }
}

fn source(line: &Directive) -> Result<Keys<'_>, Error> {
    match line.expect_args_from(2)? {
        [word, names @ ..] if word.text == "file" => Ok(Keys::Files(names)),
        [word, folder] if word.text == "directory" => Ok(Keys::Folder(folder)),
        [word, ..] if word.text == "directory" => Err(line.invalid("expected one directory")),
        [word, ..] => Err(Error::expected(word, "`file` or `directory`")),
        [] => Err(line.invalid("expected `key file KEY…` or `key directory DIR`")),
    }
}

fn keys(
    sources: &[Keys<'_>],
    origin: &Name,
    block: &BlockBuilder<'_>,
) -> Result<Vec<SigningKey>, Error> {
    let mut keys = Vec::new();
    for source in sources {
        match source {
            Keys::Files(names) => {
                for name in *names {
                    keys.push(key(name, &block.path(zone_keys::base(&name.text)))?);
                }
            }
            Keys::Folder(folder) => {
                let path = block.path(&folder.text);
                for base in in_folder(folder, &path, origin)? {
                    keys.push(key(folder, &base)?);
                }
            }
        }
    }
    Ok(keys)
}

/// A key that signs everything: one that the parent can refer to.
fn key(name: &Token, base: &Path) -> Result<SigningKey, Error> {
    let key = zone_keys::read(name, base)?;
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
    let begin = format!("k{origin}+");
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
        return Err(refuse(format!("expected keys of the zone, such as K{origin}+013+12345.key")));
    }
    found.sort();
    Ok(found)
}
