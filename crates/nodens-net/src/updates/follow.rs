//! Databases that another process still writes: what it has confirmed is served here meanwhile, as queries may come
//! before it has let go of them. Nothing is written.

use super::reading::READING;
use super::store::{Disk, refused, stamp};
use crate::limits::DATABASE_TURN;
use nodens_zone::Serial;
use nodens_zone::data::Data;
use nodens_zone::dynamic::{DynamicZone, KnownFile};
use nodens_zone::image::{Image, Written};
use nodens_zone::update::{Next, size};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// What a file was found to have.
struct Found {
    written: Written,
    /// Its version, if that is later than the one that is served.
    image: Option<Image>,
    /// Whether it may be another file than before.
    is_other: bool,
}

/// Serves what the database of `zone` has, if that is later than what is served. Costs little where the file has not
/// changed since the last look.
///
/// # Errors
/// What the system says, or why the file cannot be used; it is looked at again when it has changed.
pub(super) fn follow(zone: &DynamicZone, disk: &dyn Disk) -> io::Result<()> {
    let Some(path) = zone.database() else { return Ok(()) };
    let before = zone.file().known();
    if before.is_some_and(|before| fs::metadata(path).is_ok_and(|now| before.stamp == stamp(&now)))
    {
        return Ok(());
    }
    let mut file = File::open(path)?;
    // What is written while it is read makes another state of it, which is looked at next time.
    let stamp = stamp(&file.metadata()?);
    zone.file().set_known(Some(KnownFile { stamp, written: None }));
    let Some((served, _)) = zone.data() else { return Ok(()) };
    let is_same = |before: &KnownFile| {
        (before.stamp.device, before.stamp.inode) == (stamp.device, stamp.inode)
    };
    let known = before.filter(is_same).and_then(|before| before.written);
    let known = known.filter(|known| known.serial == served.soa().serial());
    let own = zone.file().served();
    let known = known.filter(|known| own.is_none_or(|own| own == *known));
    let found = match known.map(|known| read_behind(&mut file, &served, known)).transpose()? {
        Some(Some(found)) => found,
        _ => read(&mut file, zone, &served)?,
    };
    let Found { written, image, is_other } = found;
    // Where it is not later, it may be that of a process that did not know of this one: see `Store::take_up`.
    let is_served = image.is_some() || own.is_none() && written.serial == served.soa().serial();
    if let Some(image) = image {
        // It may be there for the next start only once it is on the disk.
        disk.sync_file(&file)?;
        if is_other {
            disk.sync_folder(&File::open(path.parent().unwrap_or(Path::new(".")))?)?;
        }
        let size = size(&image.data);
        zone.replace(Next { data: image.data, size }, &image.steps);
        zone.shown().announce();
    }
    if is_served {
        zone.file().set_served(Some(written));
    }
    zone.file().set_known(Some(KnownFile { stamp, written: Some(written) }));
    Ok(())
}

/// What was written behind a version that is served; nothing if that is no whole step.
fn read_behind(file: &mut File, served: &Data, known: Written) -> io::Result<Option<Found>> {
    let mut octets = Vec::new();
    file.seek(SeekFrom::Start(known.len))?;
    file.read_to_end(&mut octets)?;
    let image = Image::read_behind(served.clone(), known, &octets).map_err(refused)?;
    let written = image.written();
    let found = Found { written, image: Some(image), is_other: false };
    Ok((written.len > known.len).then_some(found))
}

fn read(file: &mut File, zone: &DynamicZone, served: &Data) -> io::Result<Found> {
    let _turn = READING.turn(DATABASE_TURN);
    let mut octets = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut octets)?;
    let written = Written::of(zone.origin().view(), &octets).map_err(refused)?;
    let is_later = |serial: Serial| serial > served.soa().serial();
    let image = is_later(written.serial)
        .then(|| Image::read_like(zone.origin(), &octets, Some(served)))
        .transpose()
        .map_err(refused)?;
    let written = image.as_ref().map_or(written, Image::written);
    Ok(Found { written, image, is_other: true })
}
