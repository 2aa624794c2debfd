use super::*;
use nodens_wire::{Class, Name, Record, Type};
use nodens_zone::Serial;
use nodens_zone::data::Edit;
use nodens_zone::journal::Packed;
use nodens_zone::{Soa, Zone};

thread_local! {
    /// How often the disk was waited for.
    pub(super) static SYNCS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn soa(serial: u32) -> Soa {
    let zone = name("example.org.");
    Soa::with(zone.view(), 5, (&zone, &zone), [serial, 7200, 1800, 86_400, 5])
}

fn host(number: u32) -> Record {
    let owner = name(&format!("host-{number}.example.org."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 5, rdata: number.to_be_bytes().to_vec() }
}

fn data(serial: u32, hosts: u32) -> Data {
    let mut edit = Edit::new(name("example.org.").view(), Class::IN);
    edit.add(soa(serial).record().into()).unwrap();
    (0..hosts).for_each(|number| _ = edit.add((&host(number)).into()).unwrap());
    edit.finish().unwrap()
}

/// A host comes.
fn step(from: u32, hosts: u32) -> Arc<Step> {
    let mut added = Packed::default();
    added.push((&host(hosts)).into());
    let (from, to) = (soa(from), soa(from + 1));
    Arc::new(Step { from, to, removed: Packed::default(), added })
}

fn zone() -> SecondaryZone {
    SecondaryZone::new(name("example.org."), Vec::new())
}

fn loaded(folder: &Path) -> Option<(u32, u64, usize)> {
    let zone = zone();
    let found = Store::new(folder, &zone).load(&zone).unwrap()?;
    assert!(found.age < Duration::from_secs(60));
    found.serve(&zone);
    let steps = (0..100).filter(|serial| zone.since(Serial(*serial)).is_some()).count();
    Some((zone.soa()?.serial().0, zone.data()?.records(), steps))
}

#[test]
fn versions_are_kept_and_differences_appended_until_they_are_as_long_as_the_zone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("deep");
    let mut store = Store::new(folder.as_path(), &zone());
    assert_eq!(loaded(&folder), None);
    store.save(&data(0, 50), &[]).unwrap();
    assert_eq!(loaded(&folder), Some((0, 51, 0)));
    let (mut longest, mut appended) = (0, 0);
    for serial in 1..80 {
        let before = fs::metadata(store.path()).unwrap().len();
        let hosts = 50 + serial;
        store.save(&data(serial, hosts), &[step(serial - 1, hosts - 1)]).unwrap();
        let len = fs::metadata(store.path()).unwrap().len();
        appended += u32::from(len > before && len < before + 300);
        longest = longest.max(len / before.max(1));
        assert_eq!(
            loaded(&folder).map(|(serial, records, _)| (serial, records)),
            Some((serial, u64::from(hosts) + 1))
        );
    }
    assert!(appended > 60, "{appended}");
    // Differences are handed on after a restart.
    assert!(loaded(&folder).unwrap().2 > 0);
    // A step that does not follow makes a whole version.
    store.save(&data(90, 3), &[step(89, 2)]).unwrap();
    assert_eq!(loaded(&folder), Some((90, 4, 0)));
    store.remove();
    assert_eq!(loaded(&folder), None);
}

#[test]
fn the_disk_is_waited_for_only_where_an_earlier_version_could_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::new(folder.path().join("new"), &zone());
    let syncs = || SYNCS.with(std::cell::Cell::get);
    store.save(&data(0, 1), &[]).unwrap();
    assert_eq!(syncs(), 0);
    // A zone of a few records is not written anew for each that comes.
    for serial in 1..10 {
        store.save(&data(serial, 1 + serial), &[step(serial - 1, serial)]).unwrap();
    }
    assert_eq!(syncs(), 0);
    assert_eq!(loaded(&folder.path().join("new")).map(|(serial, ..)| serial), Some(9));
    store.save(&data(20, 1), &[]).unwrap();
    assert_eq!(syncs(), 2);
}

#[test]
fn what_was_written_in_part_is_cut_off_before_more_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::new(folder.path(), &zone());
    store.save(&data(0, 50), &[]).unwrap();
    let append = |octets: &[u8]| {
        let mut file = OpenOptions::new().append(true).open(store.path()).unwrap();
        file.write_all(octets).unwrap();
    };
    append(&[1, 2, 3]);
    let (zone, mut again) = (zone(), Store::new(folder.path(), &zone()));
    let len = fs::metadata(store.path()).unwrap().len();
    assert_eq!(again.load(&zone).unwrap().map(|found| found.damaged_at), Some(Some(len - 3)));
    again.save(&data(1, 51), &[step(0, 50)]).unwrap();
    assert_eq!(loaded(folder.path()).map(|(serial, ..)| serial), Some(1));
    let found = Store::new(folder.path(), &zone).load(&zone).unwrap();
    assert_eq!(found.map(|found| found.damaged_at), Some(None));
}

#[test]
fn a_file_that_lost_its_end_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::new(folder.path(), &zone());
    store.save(&data(0, 50), &[]).unwrap();
    store.save(&data(1, 51), &[step(0, 50)]).unwrap();
    let file = OpenOptions::new().write(true).open(store.path()).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    store.save(&data(2, 52), &[step(1, 51)]).unwrap();
    assert_eq!(loaded(folder.path()), Some((2, 53, 0)));
}

#[test]
fn damage_and_a_folder_that_is_none_are_said_and_put_right_by_the_next_version() {
    let folder = tempfile::tempdir().unwrap();
    let zone = zone();
    let mut store = Store::new(folder.path(), &zone);
    fs::write(store.path(), b"nodens\x00\x01 and nothing more").unwrap();
    let error = store.load(&zone).err().unwrap();
    assert!(error.to_string().contains("damaged at octet 8"), "{error}");
    store.save(&data(3, 1), &[step(2, 0)]).unwrap();
    assert_eq!(loaded(folder.path()), Some((3, 2, 0)));
    let mut nowhere = Store::new(store.path(), &zone);
    assert!(nowhere.save(&data(3, 1), &[]).is_err());
}

#[test]
fn a_version_is_good_until_it_expires() {
    let data = data(1, 1);
    assert!(is_fresh(&data, Duration::from_secs(86_399)));
    assert!(!is_fresh(&data, Duration::from_secs(86_400)));
}
