//! `sign DBFILE [ZONES…] { key file KEY…; key directory DIR; directory DIR; nsec3 }`.

use super::SPEC;
use crate::config::BlockBuilder;
use crate::log::Level;
use crate::zone_keys;
use crate::zone_signer::ZoneSigner;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Position};
use nodens_zone::dnssec::Denial;
use std::path::PathBuf;
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
            "key" => sources.push(zone_keys::source(line)?),
            "directory" => {
                let [token] = line.expect_args()?;
                folder = block.path(&token.text);
            }
            "nsec3" => denial = zone_keys::nsec3(line)?,
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    for origin in zones.names() {
        let origin = origin.to_folded();
        let keys = zone_keys::keys(&sources, &origin, block)?;
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
