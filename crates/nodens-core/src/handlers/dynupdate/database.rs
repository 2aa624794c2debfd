//! The file that a zone is kept in, as a new configuration finds it.

use crate::log::{Level, Sink};
use nodens_wire::Name;
use nodens_zone::dynamic::{CUT_ENDING, DynamicZone, LOCK_ENDING, NEW_ENDING, beside};
use nodens_zone::image::{Image, ImageError, Rest};
use nodens_zone::update::Policy;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What bbolt, in which CoreDNS keeps its zones, writes at this place.
const BBOLT: (usize, [u8; 4]) = (16, 0xed0c_daed_u32.to_le_bytes());

/// The zone that is kept in `path`; nothing if there is no such file.
///
/// # Errors
/// Why it cannot be served: nothing takes the place of updates that were confirmed.
pub(super) fn read(
    path: &Path,
    origin: &Name,
    policy: &Policy,
    sink: &Sink,
) -> Result<Option<DynamicZone>, String> {
    let octets = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| error.to_string())?,
    };
    let image = Image::read(origin, &octets).map_err(|error| explain(error, &octets))?;
    match image.rest(&octets) {
        Rest::Nothing => {}
        Rest::Cut => {
            let (path, rest) = (path.display(), octets.len() - image.len);
            let text = format!(
                "the last {rest} octets of database \"{path}\" are no whole update, as after a stop while it was written: zone {origin} is served without them, and they are kept in \"{path}{CUT_ENDING}\""
            );
            sink.line(Level::Warning, super::SPEC.name, text);
        }
        Rest::Damaged => return Err(format!("damaged at octet {}", image.len)),
    }
    super::seed::check(&image.data, policy)?;
    let (origin, path) = (origin.clone(), Some(path.to_owned()));
    Ok(Some(DynamicZone::new(origin, path, image.data, &image.steps)))
}

fn explain(error: ImageError, octets: &[u8]) -> String {
    let (at, magic) = BBOLT;
    match error {
        ImageError::Magic if octets.get(at..).is_some_and(|rest| rest.starts_with(&magic)) => {
            "it is one of CoreDNS: transfer the zone from there into `file`, and give another path".to_owned()
        }
        error => error.to_string(),
    }
}

/// The one path of a file, by whatever names, folders and links it is reached; the file itself may have to be made.
pub(super) fn canonical(path: PathBuf) -> PathBuf {
    if let Ok(found) = fs::canonicalize(&path) {
        return found;
    }
    let path = std::path::absolute(&path).unwrap_or(path);
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    match folder.zip(path.file_name()) {
        Some((folder, name)) => folder.join(name),
        None => path,
    }
}

/// Whether one of two files is what another writes beside the other one.
pub(super) fn is_beside(one: &Path, other: &Path) -> bool {
    [LOCK_ENDING, NEW_ENDING, CUT_ENDING]
        .iter()
        .any(|ending| beside(one, ending) == other || beside(other, ending) == one)
}

/// Whether two paths lead to one file, which is there.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    file(one).is_some_and(|found| file(other) == Some(found))
}
