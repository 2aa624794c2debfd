use super::*;
use nodens_core::log::Record as LogRecord;
use nodens_wire::{Builder, Class, Flags, Name, Opcode, Rcode, Record, Section, Type};
use nodens_zone::data::Edit;
use nodens_zone::dynamic::Update;
use nodens_zone::image::Image;
use nodens_zone::update::{Permission, Policy};
use nodens_zone::{Soa, Zone};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use tempfile::TempDir;

const TIME: Duration = Duration::from_secs(20);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn host(number: u32) -> Record {
    let owner = name(&format!("host-{number}.example.org."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 5, rdata: number.to_be_bytes().to_vec() }
}

fn seed(path: Option<&Path>) -> Arc<DynamicZone> {
    let zone = name("example.org.");
    let soa = Soa::with(zone.view(), 5, (&zone, &zone), [1, 7200, 1800, 86400, 5]);
    let mut edit = Edit::new(zone.view(), Class::IN);
    edit.add(soa.record().into()).unwrap();
    let data = edit.finish().unwrap();
    Arc::new(DynamicZone::new(zone, path.map(Path::to_owned), data, &[]))
}

/// The zone as a start of the program finds it.
fn found(path: &Path) -> Arc<DynamicZone> {
    let octets = fs::read(path).unwrap();
    let image = Image::read(&name("example.org."), &octets).unwrap();
    let (zone, path) = (name("example.org."), Some(path.to_owned()));
    Arc::new(DynamicZone::new(zone, path, image.data, &image.steps))
}

struct Server {
    zone: Arc<DynamicZone>,
    updates: Option<Updates>,
    wakers: Arc<Vec<Waker>>,
    log: Receiver<LogRecord>,
}

fn start(zone: Arc<DynamicZone>) -> Server {
    let (sender, log) = sync_channel(100);
    let wakers = Arc::new(vec![Waker::new().unwrap()]);
    let updates =
        Updates::with_wakers(std::slice::from_ref(&zone), wakers.clone(), Sink::new(sender))
            .unwrap();
    Server { zone, updates: Some(updates), wakers, log }
}

impl Server {
    /// Adds a host, and gives what hears of the RCODE.
    fn push(&self, number: u32) -> Receiver<Rcode> {
        let mut message = Vec::new();
        let mut builder = Builder::new(&mut message, 7, Flags(0).with_opcode(Opcode::UPDATE));
        builder.question(name("example.org.").view(), Type::SOA, Class::IN);
        builder.push(Section::Authority, &host(number)).unwrap();
        let (sender, answer) = channel();
        let permissions = vec![Permission { key: name("key."), owner: None, types: None }];
        let (records_max, octets_max, update_records_max) = (1 << 20, 1 << 30, 10);
        let policy = Policy { permissions, records_max, octets_max, update_records_max };
        let update = Update {
            message,
            key: name("key."),
            policy: Arc::new(policy),
            reply: Box::new(move |rcode| sender.send(rcode).is_ok()),
            worker: 0,
        };
        self.zone.push(update).unwrap();
        answer
    }

    fn add(&self, number: u32) -> Rcode {
        self.push(number).recv_timeout(TIME).unwrap()
    }

    fn serial(&self) -> u32 {
        self.zone.soa().unwrap().serial().0
    }

    fn lines(&self) -> String {
        let line = |record| match record {
            LogRecord::Line { text, .. } => Some(text),
            _ => None,
        };
        self.log.try_iter().filter_map(line).collect::<Vec<_>>().join("\n")
    }
}

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    (folder, path)
}

#[test]
fn a_zone_without_a_database_is_updated_in_memory() {
    let server = start(seed(None));
    let answers: Vec<_> = (0..200).map(|number| server.push(number)).collect();
    for answer in answers {
        assert_eq!(answer.recv_timeout(TIME), Ok(Rcode::NOERROR));
    }
    assert_eq!(server.serial(), 201);
    // Nothing is to be done for those that come when it has ended.
    let Server { zone, updates, .. } = server;
    drop(updates);
    assert!(!zone.has_updates());
    let none = Updates::with_wakers(&[], Arc::default(), Sink::new(sync_channel(1).0)).unwrap();
    assert!(none.thread.is_none());
}

#[test]
fn what_was_confirmed_is_in_the_database_and_so_is_what_changed() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    for number in 0..20 {
        assert_eq!(server.add(number), Rcode::NOERROR);
        let on_disk = found(&path);
        assert_eq!(on_disk.soa().unwrap().serial().0, number + 2);
        assert!(on_disk.since(nodens_zone::Serial(number + 1)).is_some() || number < 3);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(server);
    // The next one goes on.
    let server = start(found(&path));
    assert_eq!((server.serial(), server.add(100)), (21, Rcode::NOERROR));
    assert_eq!((server.serial(), server.lines()), (22, String::new()));
}

#[test]
fn a_database_that_was_cut_anywhere_goes_on_with_what_is_whole() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    let mut lengths = Vec::new();
    for number in 0..4 {
        assert_eq!(server.add(number), Rcode::NOERROR);
        lengths.push(fs::metadata(&path).unwrap().len() as usize);
    }
    drop(server);
    let whole = fs::read(&path).unwrap();
    for len in (lengths[0]..=whole.len()).step_by(3) {
        fs::write(&path, &whole[..len]).unwrap();
        let server = start(found(&path));
        let kept = lengths.iter().filter(|end| **end <= len).count() as u32;
        assert_eq!((server.serial(), server.add(50)), (kept + 1, Rcode::NOERROR), "{len}");
        assert_eq!(found(&path).soa().unwrap().serial().0, kept + 2);
    }
}

#[test]
fn damage_is_found_and_what_is_served_stays() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    (0..4).for_each(|number| assert_eq!(server.add(number), Rcode::NOERROR));
    let zone = server.zone.clone();
    drop(server);
    let mut octets = fs::read(&path).unwrap();
    let middle = octets.len() / 2;
    octets[middle] ^= 1;
    fs::write(&path, &octets).unwrap();
    let server = start(zone);
    assert_eq!((server.add(9), server.serial()), (Rcode::SERVFAIL, 5));
    let lines = server.lines();
    assert!(
        lines.contains(
            "database of zone example.org. cannot be used, updates fail: damaged at octet"
        ),
        "{lines}"
    );
    assert_eq!(fs::read(&path).unwrap(), octets);
}

#[test]
fn a_database_that_is_removed_or_grows_is_written_anew() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    assert_eq!(server.add(0), Rcode::NOERROR);
    fs::remove_file(&path).unwrap();
    assert_eq!(server.add(1), Rcode::NOERROR);
    assert_eq!(found(&path).soa().unwrap().serial().0, 3);
    let (mut number, mut before) = (2, 0);
    loop {
        assert_eq!(server.add(number), Rcode::NOERROR);
        let len = fs::metadata(&path).unwrap().len();
        if len < before {
            break;
        }
        (before, number) = (len, number + 1);
        assert!(number < 10_000);
    }
    assert!(before > crate::limits::DATABASE_LEN_MIN);
    assert_eq!(found(&path).soa().unwrap().serial().0, server.serial());
    assert!(!path.with_extension("new").exists());
}

#[test]
fn updates_fail_while_the_disk_does_not_take_them() {
    let (folder, path) = folder();
    let server = start(seed(Some(&path)));
    assert_eq!(server.add(0), Rcode::NOERROR);
    // Nothing can be written to a folder, nor can one take its place.
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir_all(path.join("full")).unwrap();
    assert_eq!((server.add(1), server.serial()), (Rcode::SERVFAIL, 2));
    let lines = server.lines();
    assert!(lines.contains("UPDATE for example.org. failed: committing zone:"), "{lines}");
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert_eq!((server.add(1), server.serial()), (Rcode::NOERROR, 3));
    assert_eq!(found(&path).soa().unwrap().serial().0, 3);
}

#[test]
fn a_successor_goes_on_with_what_its_predecessor_has_done() {
    let (_folder, path) = folder();
    let first = start(seed(Some(&path)));
    assert_eq!(first.add(0), Rcode::NOERROR);
    // It has read the database, and waits for it to be free.
    let second = start(found(&path));
    let waits = second.push(100);
    assert_eq!(first.add(1), Rcode::NOERROR);
    assert!(waits.recv_timeout(Duration::from_millis(100)).is_err());
    drop(first);
    assert_eq!(waits.recv_timeout(TIME), Ok(Rcode::NOERROR));
    assert_eq!((second.serial(), second.lines()), (4, String::new()));
    assert_eq!(found(&path).soa().unwrap().serial().0, 4);
    // One that waits in vain says so.
    let third = start(found(&path));
    assert_eq!(third.add(7), Rcode::SERVFAIL);
    assert!(third.lines().contains("is in use by another process: updates fail"));
    assert_eq!(second.wakers.len(), 1);
}
