use super::*;
use crate::data::Edit;
use nodens_wire::{Name, Type};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn zone() -> Name {
    name("example.org.")
}

fn soa(serial: u32) -> Soa {
    Soa::with(zone().view(), 5, (&zone(), &zone()), [serial, 7200, 1800, 86_400, 5])
}

fn host(number: u32) -> Record {
    let owner = name(&format!("host-{number}.example.org."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 5, rdata: number.to_be_bytes().to_vec() }
}

fn data(serial: u32, hosts: u32) -> Data {
    let mut edit = Edit::new(zone().view(), Class::IN);
    edit.add(soa(serial).record().into()).unwrap();
    (0..hosts).for_each(|number| _ = edit.add((&host(number)).into()).unwrap());
    edit.finish().unwrap()
}

/// The host with the number of the old serial goes, another comes.
fn step(from: u32) -> Step {
    let packed = |number| {
        let mut packed = Packed::default();
        packed.push((&host(number)).into());
        packed
    };
    Step {
        from: soa(from),
        to: soa(from + 1),
        removed: packed(from),
        added: packed(1_000_000 + from),
    }
}

/// A version with these hosts, and steps that follow; and how long it is after each.
fn image(hosts: u32, steps: u32) -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut writer) = (Vec::new(), Writer::default());
    let write = |octets: &[u8]| {
        out.extend_from_slice(octets);
        Ok::<(), ()>(())
    };
    writer.version(&data(0, hosts), write).unwrap();
    let mut lengths = vec![out.len()];
    for from in 0..steps {
        writer = Writer::after(writer.check());
        out.extend(writer.step(&step(from)));
        lengths.push(out.len());
    }
    (out, lengths)
}

#[test]
fn what_is_written_is_read() {
    for (hosts, steps) in [(3, 2), (20_000, 3)] {
        let (octets, lengths) = image(hosts, steps);
        let image = Image::read(zone(), &octets).unwrap();
        assert_eq!(image.data.soa().serial().0, steps);
        assert_eq!(image.data.records(), u64::from(hosts) + 1);
        assert!(image.data.rrset(host(1_000_000).owner.view(), Type::A).is_some());
        assert!(image.data.rrset(host(0).owner.view(), Type::A).is_none());
        assert!(
            image.steps.iter().map(|step| &**step).eq(&(0..steps).map(step).collect::<Vec<_>>())
        );
        assert_eq!((image.version_len, image.len), (lengths[0], octets.len()));
        assert_eq!(Written::of(zone().view(), &octets), Ok(image.written()));
    }
}

#[test]
fn an_image_that_is_cut_is_an_earlier_version_at_every_octet() {
    let (octets, lengths) = image(3, 3);
    for cut in 0..octets.len() {
        let read = Image::read(zone(), &octets[..cut]);
        match lengths.iter().rposition(|len| *len <= cut) {
            None => assert!(read.is_err(), "{cut}"),
            Some(steps) => {
                let image = read.unwrap();
                assert_eq!(image.data.soa().serial().0 as usize, steps, "{cut}");
                assert_eq!(image.len, lengths[steps]);
                // And goes on from there.
                let mut again = octets[..image.len].to_vec();
                again.extend(Writer::after(image.check).step(&step(steps as u32)));
                let image = Image::read(zone(), &again).unwrap();
                assert_eq!(image.data.soa().serial().0 as usize, steps + 1);
            }
        }
    }
}

#[test]
fn what_was_written_since_is_read_alone() {
    let (octets, lengths) = image(3, 3);
    for from in 0..=3 {
        let before = Image::read(zone(), &octets[..lengths[from]]).unwrap();
        let known = before.written();
        for cut in lengths[from]..=octets.len() {
            let rest = &octets[lengths[from]..cut];
            let image = Image::read_behind(before.data.clone(), known, rest).unwrap();
            let expected = Image::read(zone(), &octets[..cut]).unwrap();
            assert_eq!(image.written(), expected.written(), "{from} {cut}");
            assert_eq!(image.steps, expected.steps[from..]);
        }
    }
    // Steps of another place lead nowhere.
    let before = Image::read(zone(), &octets[..lengths[0]]).unwrap();
    let image = Image::read_behind(before.data.clone(), before.written(), &octets[lengths[1]..]);
    assert_eq!(image.unwrap().written(), before.written());
}

#[test]
fn no_more_differences_are_kept_than_a_journal_has() {
    const MORE: usize = crate::limits::JOURNAL_STEPS_MAX + 5;
    let (octets, lengths) = image(MORE as u32, MORE as u32);
    let image = Image::read(zone(), &octets).unwrap();
    assert_eq!((image.len, image.data.soa().serial().0), (lengths[MORE], MORE as u32));
    assert_eq!(image.steps.len(), crate::limits::JOURNAL_STEPS_MAX);
    assert_eq!(image.steps.first().map(|step| step.from.serial().0), Some(5));
}

#[test]
fn damage_is_found_wherever_it_is() {
    let (octets, lengths) = image(3, 2);
    for at in 0..octets.len() {
        let mut octets = octets.clone();
        octets[at] ^= 0x10;
        let read = Image::read(zone(), &octets);
        let written = read.as_ref().map(Image::written).map_err(|error| *error);
        assert_eq!(Written::of(zone().view(), &octets), written);
        match read {
            Ok(image) => {
                let good = lengths.iter().rposition(|len| *len <= at).unwrap();
                assert_eq!(image.data.soa().serial().0 as usize, good, "{at}");
            }
            Err(_) => assert!(at < lengths[0], "{at}"),
        }
    }
    assert_eq!(Image::read(name("example.net."), &octets).unwrap_err(), ImageError::OtherZone);
    assert_eq!(Written::of(name("example.net.").view(), &octets), Err(ImageError::OtherZone));
}

#[test]
fn a_frame_of_another_place_is_not_taken() {
    let (octets, lengths) = image(3, 2);
    let mut swapped = octets[..lengths[0]].to_vec();
    swapped.extend_from_slice(&octets[lengths[1]..]);
    assert_eq!(Image::read(zone(), &swapped).unwrap().len, lengths[0]);
}

#[test]
fn names_of_files_are_those_of_zones_where_they_can_be() {
    assert_eq!(file_name(name("Example.org.").view()), "example.org.zone");
    for odd in [".", "a\\/b.org.", "\\.\\..", "\\000.org."] {
        let name = file_name(name(odd).view());
        assert!(name.len() == 69 && !name.contains('/'), "{name}");
    }
    let long = format!("{0}.{0}.{0}.", "a".repeat(63));
    assert_ne!(file_name(name(&long).view()), "");
    let longest = format!("{0}.{0}.{0}.{1}.", "a".repeat(63), "b".repeat(61));
    assert_eq!(file_name(name(&longest).view()).len(), 69);
}

#[test]
fn a_last_frame_that_is_cut_is_told_from_damage() {
    let (whole, lengths) = image(4, 4);
    let rest = |octets: &[u8]| Image::read(zone(), octets).unwrap().rest(octets);
    for len in lengths[0]..=whole.len() {
        let is_whole = lengths.contains(&len);
        let expected = if is_whole { Rest::Nothing } else { Rest::Cut };
        assert_eq!(rest(&whole[..len]), expected, "{len}");
    }
    for at in lengths[1]..lengths[2] {
        for bit in [0x01, 0x10, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= bit;
            assert_eq!(rest(&damaged), Rest::Damaged, "{at} {bit}");
        }
    }
    // Nor is the last frame cut whose head alone is damaged.
    for at in lengths[3]..lengths[3] + HEAD_LEN {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        assert_eq!(rest(&damaged), Rest::Damaged, "{at}");
    }
    // A frame that is good, but leads nowhere.
    let image = Image::read(zone(), &whole).unwrap();
    let astray = [&whole[..], &Writer::after(image.check).step(&step(77))].concat();
    assert_eq!(Image::read(zone(), &astray).unwrap().len, whole.len());
    assert_eq!(rest(&astray), Rest::Damaged);
    // A file may be longer than what was written to it.
    let padded = [&whole[..], &[0; 100]].concat();
    assert_eq!(rest(&padded), Rest::Cut);
}

#[test]
fn the_search_for_a_frame_behind_damage_ends() {
    let (mut octets, lengths) = image(1, 1);
    octets.truncate(lengths[0]);
    let image = Image::read(zone(), &octets).unwrap();
    // A frame that is cut, and has the beginnings of as many others as fit into it.
    let count: u32 = 1 << 17;
    octets.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 3]);
    for left in (0..count).rev() {
        let len = left * 21;
        octets.extend_from_slice(&len.to_be_bytes());
        octets.extend_from_slice(&[3]);
        octets.extend_from_slice(&[0; 16]);
    }
    octets.extend_from_slice(&[0; CHECK_LEN]);
    assert_eq!(image.rest(&octets), Rest::Damaged);
}
