//! Catalogs, and zones that are kept as octets.

use nodens_wire::{Class, Name, Type};
use nodens_zone::Advance;
use nodens_zone::catalog::Catalog;
use nodens_zone::data::{Data, Edit};
use nodens_zone::image::{Image, Writer};
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// Octets are an image or refused; what they become is written, and what was written becomes the same. The first octet
/// says whether they are taken as they are. Otherwise they are frames without checks, which are put in: kind, the length
/// in two octets, what it has.
pub fn image(data: &[u8]) {
    let Some((kind, octets)) = data.split_first() else { return };
    let octets = if kind & 1 == 0 { sealed(octets) } else { octets.to_vec() };
    let zone = Name::parse("a.").expect("a name");
    let Ok(image) = Image::read(&zone, &octets) else { return };
    assert!(image.version_len <= image.len && image.len <= octets.len());
    let good = octets.get(..image.len).expect("as long as that");
    let cut = Image::read(&zone, good).expect("what is good is an image");
    assert_eq!((facts(&cut), cut.len, cut.check), (facts(&image), image.len, image.check));
    let (mut writer, mut written) = (Writer::default(), Vec::new());
    let write = writer.version(&image.data, |part| {
        written.extend_from_slice(part);
        Ok::<(), ()>(())
    });
    write.expect("memory");
    let again = Image::read(&zone, &written).expect("what was written");
    assert_eq!((records(&again.data), again.len), (records(&image.data), written.len()));
    assert_eq!(again.check, writer.check());
}

/// An image of frames: `kind`, length, payload.
fn sealed(mut frames: &[u8]) -> Vec<u8> {
    let (mut image, mut check) = (b"nodens\x00\x01".to_vec(), [0; 8]);
    while let Some(([kind, high, low], rest)) = frames.split_first_chunk::<3>() {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (payload, rest) = rest.split_at(len);
        let mut frame = (len as u32).to_be_bytes().to_vec();
        frame.push(*kind);
        frame.extend_from_slice(payload);
        let digest = Sha256::new().chain_update(check).chain_update(&frame).finalize();
        check.copy_from_slice(&digest[..8]);
        image.extend_from_slice(&frame);
        image.extend_from_slice(&check);
        frames = rest;
    }
    image
}

fn facts(image: &Image) -> (Vec<String>, usize) {
    (records(&image.data), image.steps.len())
}

fn records(data: &Data) -> Vec<String> {
    let mut all = vec![format!("{:?}", data.soa())];
    each(data, |record| all.push(format!("{record:?}")));
    all
}

fn each(data: &Data, mut take: impl FnMut(nodens_zone::RecordRef<'_>)) {
    let mut cursor = data.cursor();
    loop {
        match cursor.advance() {
            Advance::Nothing => {}
            Advance::End => return,
            Advance::Record => take(cursor.record().expect("a record")),
        }
    }
}

/// The records of a master file are a catalog or refused; each of its members is there once, under a label of its own that
/// a PTR record of the zone has.
pub fn catalog(data: &[u8]) {
    let origin = Name::parse("a.").expect("a name");
    let text = Box::new(std::io::Cursor::new(data.to_vec()));
    let none = Box::new(nodens_zone::master::NoIncludes);
    let mut master = nodens_zone::Master::new(text, "zone", origin.view(), none);
    let mut edit = Edit::new(origin.view(), Class::IN);
    for _ in 0..crate::GENERATED_MAX {
        match master.next_record() {
            Ok(Some(record)) => _ = edit.add(record),
            Ok(None) => break,
            Err(_) => return,
        }
    }
    let Ok(zone) = edit.finish() else { return };
    let Ok(catalog) = Catalog::read(&zone) else { return };
    let (mut labels, mut zones) = (HashSet::new(), HashSet::new());
    for member in catalog.members() {
        assert!(labels.insert(&member.id) && zones.insert(&member.zone), "{member:?}");
        assert_eq!(catalog.member(&member.zone), Some(member));
        let mut owner = vec![member.id.len() as u8];
        owner.extend_from_slice(&member.id);
        owner.extend_from_slice(b"\x05zones\x01a\x00");
        let owner = Name::from_wire(&owner).expect("the owner of a record");
        assert!(zone.rrset(owner.view(), Type::PTR).is_some(), "{owner}");
    }
    let mut pointers = 0;
    each(&zone, |record| pointers += usize::from(record.rtype == Type::PTR));
    assert!(catalog.members().count() <= pointers);
}
