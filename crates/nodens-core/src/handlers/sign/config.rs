//! `sign DBFILE [ZONES…] { key file KEY…; key directory DIR; directory DIR }`.

use super::SPEC;
use crate::config::BlockBuilder;
use crate::log::Level;
use crate::zone_keys;
use crate::zone_signer::ZoneSigner;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use nodens_zone::dnssec::SigningKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROPERTIES: [&str; 2] = ["key", "directory"];

/// Where signed files go if nothing is said, as in CoreDNS.
const FOLDER_DEFAULT: &str = "/var/lib/coredns";

/// A signer as it was made for another address of the same block.
struct Known {
    /// The block.
    source: usize,
    file: PathBuf,
    origin: Name,
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
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "key" => sources.push(source(line)?),
            "directory" => {
                let [token] = line.expect_args()?;
                folder = block.path(&token.text);
            }
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    for origin in zones.names() {
        let origin = origin.to_folded();
        let keys = keys(&sources, &origin, block)?;
        let is_known = |known: &Known| {
            known.source == block.source && known.file == path && known.origin == origin
        };
        if block.services.kept.all::<Known>().any(is_known) {
            continue;
        }
        if keys.is_empty() {
            let text = format!(
                "{}: zone \"{origin}\" is not signed, as there is no key",
                directive.name.position
            );
            block.shared.sink.line(Level::Warning, SPEC.name, text);
            continue;
        }
        block.services.kept.add(Known {
            source: block.source,
            file: path.clone(),
            origin: origin.clone(),
        });
        let signer = ZoneSigner::new(origin, path.clone(), folder.clone(), keys);
        block.services.signers.push(Arc::new(signer));
    }
    Ok(())
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
