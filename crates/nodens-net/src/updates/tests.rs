use super::*;
use nodens_core::log::Record as LogRecord;
use nodens_wire::{Builder, Class, Flags, Name, Opcode, Rcode, Record, Section, Type};
use nodens_zone::data::Edit;
use nodens_zone::dnssec::{Denial, SigningKey};
use nodens_zone::dynamic::Update;
use nodens_zone::image::Image;
use nodens_zone::update::{Permission, Policy};
use nodens_zone::{Soa, Zone};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
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
    seed_of(1, path)
}

fn seed_of(serial: u32, path: Option<&Path>) -> Arc<DynamicZone> {
    let zone = name("example.org.");
    let soa = Soa::with(zone.view(), 5, (&zone, &zone), [serial, 7200, 1800, 86400, 5]);
    let mut edit = Edit::new(zone.view(), Class::IN);
    edit.add(soa.record().into()).unwrap();
    let data = edit.finish().unwrap();
    Arc::new(DynamicZone::new(zone, path.map(Path::to_owned), data, &[]))
}

/// The zone as a start of the program finds it.
fn found(path: &Path) -> Arc<DynamicZone> {
    let octets = fs::read(path).unwrap();
    let image = Image::read(name("example.org."), &octets).unwrap();
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
    start_on(zone, Arc::new(System))
}

fn start_on(zone: Arc<DynamicZone>, disk: Arc<dyn Disk>) -> Server {
    let (sender, log) = sync_channel(100);
    let wakers = Arc::new(vec![Waker::new().unwrap()]);
    let updates = Updates::with_disk(
        (std::slice::from_ref(&zone), &[]),
        wakers.clone(),
        Sink::new(sender),
        disk,
    )
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
            is_awaited: Box::new(|| true),
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

    /// Waits for a line, which may come after the response.
    fn wait_for_line(&self, wanted: &str) {
        let since = Instant::now();
        while !self.lines().contains(wanted) {
            assert!(since.elapsed() < TIME, "no line {wanted:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
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
    let sink = Sink::new(sync_channel(1).0);
    let none = Updates::with_disk((&[], &[]), Arc::default(), sink, Arc::new(System)).unwrap();
    assert!(none.threads.is_empty());
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
        // What was cut off is not gone.
        if !lengths.contains(&len) {
            let good = lengths.iter().rfind(|end| **end <= len).unwrap();
            assert_eq!(fs::read(path.with_extension("cut")).unwrap(), whole[*good..len], "{len}");
        }
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
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let damaged = |modified| {
        fs::write(&path, &octets).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    };
    // What this process left so is not read again: with many databases a reload would take long, and much memory.
    damaged(before);
    let server = start(zone.clone());
    assert_eq!((server.add(3), server.serial()), (Rcode::NOERROR, 5));
    drop(server);
    damaged(before + Duration::from_secs(1));
    let server = start(zone);
    assert_eq!((server.add(9), server.serial()), (Rcode::SERVFAIL, 5));
    server.wait_for_line(
        "database of zone example.org. cannot be used, updates fail: damaged at octet",
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
fn a_database_that_another_program_changes_is_written_anew() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    (0..8).for_each(|number| assert_eq!(server.add(number), Rcode::NOERROR));
    drop(server);
    let backup = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let server = start(seed(Some(&path)));
    assert_eq!(server.add(50), Rcode::NOERROR);
    // Somebody restores a backup, which is longer.
    fs::write(&path, &backup).unwrap();
    for number in 51..53 {
        assert_eq!(server.add(number), Rcode::NOERROR);
        let on_disk = found(&path);
        assert_eq!(on_disk.soa(), server.zone.soa());
        assert_eq!(on_disk.data().unwrap().0.records(), server.zone.data().unwrap().0.records());
    }
    server.wait_for_line("database of zone example.org. was changed or removed by another program");
    drop(server);
    let server = start(found(&path));
    assert_eq!((server.add(53), server.serial()), (Rcode::NOERROR, 5));
}

#[test]
fn a_database_whose_lock_was_removed_has_one_writer() {
    let (_folder, path) = folder();
    let first = start(seed(Some(&path)));
    assert_eq!(first.add(1), Rcode::NOERROR);
    // With a folder that is removed and made anew.
    let remove = || {
        fs::remove_file(&path).unwrap();
        fs::remove_file(path.with_extension("lock")).unwrap();
    };
    remove();
    let second = start(seed(Some(&path)));
    assert_eq!(second.add(100), Rcode::NOERROR);
    let on_disk = fs::read(&path).unwrap();
    assert_eq!(first.add(2), Rcode::SERVFAIL);
    first.wait_for_line("database of zone example.org. lost its lock, which was removed");
    assert!(fs::read(&path).unwrap() == on_disk);
    // What the other one has confirmed counts, although the serial number is the same.
    drop(second);
    let since = Instant::now();
    while first.add(3) != Rcode::NOERROR {
        assert!(since.elapsed() < TIME);
        thread::sleep(Duration::from_millis(10));
    }
    let data = found(&path).data().unwrap().0;
    let has = |number| data.rrset(host(number).owner.view(), Type::A).is_some();
    assert_eq!([1, 2, 3, 100].map(has), [false, false, true, true]);
    assert_eq!((first.serial(), data.soa().serial().0), (3, 3));
    // Where there is no other one, or one that is behind, what is served is kept.
    for number in 4..6 {
        remove();
        if number == 5 {
            fs::write(&path, &on_disk).unwrap();
        }
        while first.add(number) != Rcode::NOERROR {
            assert!(since.elapsed() < TIME);
        }
        assert_eq!(found(&path).soa().unwrap().serial().0, number);
    }
    assert!(path.with_extension("lock").exists());
}

#[test]
fn what_two_writers_confirmed_is_not_mixed_after_one_has_followed_the_other() {
    // The other one has the same serial number, or a lesser one.
    for own in [1, 3] {
        let (_folder, path) = folder();
        let first = start(seed(Some(&path)));
        (0..own).for_each(|number| assert_eq!(first.add(number), Rcode::NOERROR));
        fs::remove_file(&path).unwrap();
        fs::remove_file(path.with_extension("lock")).unwrap();
        let second = start(seed(Some(&path)));
        assert_eq!(second.add(100), Rcode::NOERROR);
        assert_eq!(first.add(50), Rcode::SERVFAIL);
        first.wait_for_line("lost its lock");
        let of_second = super::store::stamp(&fs::metadata(&path).unwrap());
        let since = Instant::now();
        while first.zone.file().known().map(|known| known.stamp) != Some(of_second) {
            assert!(since.elapsed() < TIME);
            thread::sleep(Duration::from_millis(1));
        }
        drop(second);
        while first.add(51) != Rcode::NOERROR {
            assert!(since.elapsed() < TIME);
            thread::sleep(Duration::from_millis(10));
        }
        let on_disk = found(&path).data().unwrap().0;
        let served = first.zone.data().unwrap().0;
        for data in [on_disk, served] {
            let has = |number| data.rrset(host(number).owner.view(), Type::A).is_some();
            let is_own = own > 1;
            assert_eq!([0, 51, 100].map(has), [is_own, true, !is_own], "{own}");
        }
        if own > 1 {
            first.wait_for_line("was changed or removed by another program");
        }
        drop(first);
        assert_eq!(start(found(&path)).add(52), Rcode::NOERROR);
    }
}

#[test]
fn what_was_confirmed_outlives_a_backup_that_is_restored_while_the_disk_is_full() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    assert_eq!(server.add(0), Rcode::NOERROR);
    let backup = fs::read(&path).unwrap();
    assert_eq!(server.add(1), Rcode::NOERROR);
    let zone = server.zone.clone();
    drop(server);
    fs::write(&path, &backup).unwrap();
    // It cannot be written anew.
    fs::create_dir(path.with_extension("new")).unwrap();
    let server = start(zone.clone());
    assert_eq!(server.add(2), Rcode::SERVFAIL);
    server.wait_for_line("database of zone example.org. cannot be used");
    drop(server);
    fs::remove_dir(path.with_extension("new")).unwrap();
    let server = start(zone);
    assert_eq!((server.add(3), server.serial()), (Rcode::NOERROR, 4));
    server.wait_for_line("was changed or removed by another program");
}

#[test]
fn a_database_that_is_there_later_than_the_server_counts() {
    let (_folder, path) = folder();
    let server = start(seed(Some(&path)));
    assert_eq!(server.add(1), Rcode::NOERROR);
    drop(server);
    // Its disk was not there when it was to be read, and the master file is later.
    let server = start(seed_of(9, Some(&path)));
    assert_eq!((server.add(2), server.serial()), (Rcode::NOERROR, 3));
    assert_eq!(found(&path).soa(), server.zone.soa());
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
    server.wait_for_line("UPDATE for example.org. failed: committing zone:");
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
    third.wait_for_line("is in use by another process, or still being written");
    assert_eq!(second.wakers.len(), 1);
}

#[test]
fn a_successor_serves_what_its_predecessor_confirms_while_that_one_has_the_database() {
    let (_folder, path) = folder();
    let first = start(seed(Some(&path)));
    (0..4).for_each(|number| assert_eq!(first.add(number), Rcode::NOERROR));
    let second = start(found(&path));
    let follows = || {
        second.updates.as_ref().unwrap().take_over();
        assert_eq!(second.serial(), first.serial());
    };
    for number in 4..8 {
        assert_eq!(first.add(number), Rcode::NOERROR);
        follows();
    }
    assert!(second.zone.since(nodens_zone::Serial(8)).is_some());
    // Another file has taken its place.
    fs::remove_file(&path).unwrap();
    assert_eq!(first.add(8), Rcode::NOERROR);
    follows();
    // What was written in part is not served, and stays where it is.
    let mut rest = File::options().append(true).open(&path).unwrap();
    rest.write_all(&[0, 0, 1, 0, 3, 7]).unwrap();
    let octets = fs::read(&path).unwrap();
    follows();
    assert_eq!(fs::read(&path).unwrap(), octets);
    assert_eq!(first.add(9), Rcode::NOERROR);
    follows();
    // Updates wait from then on, however long ago the process began.
    thread::sleep(DATABASE_WAIT);
    follows();
    let waits = second.push(10);
    assert!(waits.recv_timeout(Duration::from_millis(100)).is_err());
    drop(first);
    assert_eq!((waits.recv_timeout(TIME), second.serial()), (Ok(Rcode::NOERROR), 12));
    assert_eq!(found(&path).soa().unwrap().serial().0, 12);
}

/// A disk that has nothing of a file or folder with `part` in its path before it is let.
#[derive(Debug)]
struct Gate {
    part: &'static str,
    /// What waits: inode and length of a file, nothing of a folder.
    begun: Mutex<Sender<Option<(u64, u64)>>>,
    /// Whether it goes well.
    go: Mutex<Receiver<bool>>,
}

/// The other side of it.
struct Keys {
    begun: Receiver<Option<(u64, u64)>>,
    go: Sender<bool>,
}

fn gate(part: &'static str) -> (Arc<Gate>, Keys) {
    let ((begins, begun), (go, goes)) = (channel(), channel());
    let gate = Gate { part, begun: Mutex::new(begins), go: Mutex::new(goes) };
    (Arc::new(gate), Keys { begun, go })
}

impl Gate {
    fn wait(&self, file: &File) -> io::Result<()> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        if !path.to_str().unwrap().contains(self.part) {
            return Ok(());
        }
        let found = file.metadata()?;
        let is_file = found.is_file();
        // One whose keys are gone is broken.
        let begun = is_file.then(|| (found.ino(), found.len()));
        self.begun.lock().unwrap().send(begun).map_err(io::Error::other)?;
        let goes_well = self.go.lock().unwrap().recv().map_err(io::Error::other)?;
        goes_well.then_some(()).ok_or_else(|| io::Error::other("broken"))
    }
}

impl Disk for Gate {
    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.wait(file)
    }

    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        self.wait(folder)
    }
}

impl Keys {
    /// The file that waits, or the folder.
    fn begun(&self) -> Option<(u64, u64)> {
        self.begun.recv_timeout(TIME).unwrap()
    }

    /// The same, and it goes well.
    fn pass(&self) -> Option<(u64, u64)> {
        let begun = self.begun();
        self.go.send(true).unwrap();
        begun
    }
}

#[test]
fn nothing_is_confirmed_or_served_before_it_is_on_the_disk() {
    let ((_folder, path), (disk, keys)) = (folder(), gate(""));
    let server = start_on(seed(Some(&path)), disk);
    let at_path = || fs::metadata(&path).map(|found| (found.ino(), found.len())).unwrap();
    // The version that it begins with.
    let (version, folder) = (keys.pass(), keys.pass());
    assert_eq!((version, folder), (Some(at_path()), None));
    let is_open = |answer: &Receiver<Rcode>, serial: u32| {
        let none = answer.recv_timeout(Duration::from_millis(50)).is_err();
        none && server.serial() == serial
    };
    let answer = server.push(1);
    let begun = keys.begun();
    assert!(is_open(&answer, 1));
    keys.go.send(true).unwrap();
    assert_eq!(answer.recv_timeout(TIME), Ok(Rcode::NOERROR));
    // All of it was waited for.
    assert_eq!((begun, server.serial()), (Some(at_path()), 2));
    assert_eq!(found(&path).soa().unwrap().serial().0, 2);
    // A file that takes the place of another one has to be there by its name.
    fs::remove_file(&path).unwrap();
    let answer = server.push(2);
    let begun = keys.begun();
    assert!(!path.exists() && is_open(&answer, 2));
    keys.go.send(true).unwrap();
    assert_eq!(keys.begun(), None);
    assert!(is_open(&answer, 2));
    keys.go.send(true).unwrap();
    assert_eq!(answer.recv_timeout(TIME), Ok(Rcode::NOERROR));
    assert_eq!((begun, server.serial()), (Some(at_path()), 3));
    // What the disk does not take has not happened, and the file is not trusted any more.
    let (answer, before) = (server.push(3), at_path().0);
    assert_eq!(keys.begun().map(|(file, _)| file), Some(before));
    keys.go.send(false).unwrap();
    assert_eq!(answer.recv_timeout(TIME), Ok(Rcode::SERVFAIL));
    assert_eq!((server.serial(), found(&path).soa().unwrap().serial().0), (3, 3));
    server.wait_for_line("UPDATE for example.org. failed: committing zone: broken");
    let answer = server.push(4);
    let (begun, folder) = (keys.pass(), keys.pass());
    assert_eq!(answer.recv_timeout(TIME), Ok(Rcode::NOERROR));
    assert_eq!((begun, folder), (Some(at_path()), None));
    assert_eq!(found(&path).soa().unwrap().serial().0, 4);
}

/// A zone whose signatures expire soon, and what signs it.
fn signed(path: &Path) -> (Arc<DynamicZone>, Arc<Signer>) {
    let key = SigningKey::parse(
        include_str!("../../../nodens-zone/testdata/dnssec/Kexample.org.+015+21968.key"),
        include_str!("../../../nodens-zone/testdata/dnssec/Kexample.org.+015+21968.private"),
    );
    let signer = Signer::new(vec![key.unwrap()], Denial::Nsec);
    let mut edit = seed(None).data().unwrap().0.edit();
    (50..60).for_each(|number| _ = edit.add((&host(number)).into()).unwrap());
    let data = edit.finish().unwrap();
    let made = signer.whole(data, now_s() - 31 * 24 * 3600, &|| true).unwrap();
    let (zone, path) = (name("example.org."), Some(path.to_owned()));
    (Arc::new(DynamicZone::new(zone, path, made.data, &[])), Arc::new(signer))
}

#[test]
fn who_waits_for_an_update_is_woken_before_the_disk_is_waited_for_again() {
    let ((_folder, path), (disk, keys)) = (folder(), gate(""));
    let (zone, signer) = signed(&path);
    let wakers = Arc::new(vec![Waker::new().unwrap()]);
    let (sender, log) = sync_channel(100);
    let mut server = Server { zone: zone.clone(), updates: None, wakers: wakers.clone(), log };
    // It waits before there is anything to sign.
    let answer = server.push(1);
    let zones = (std::slice::from_ref(&zone), &[(zone.clone(), signer)][..]);
    let updates = Updates::with_disk(zones, wakers.clone(), Sink::new(sender), disk);
    server.updates = Some(updates.unwrap());
    // The version that it begins with, and the update.
    (0..3).for_each(|_| _ = keys.pass());
    assert_eq!(answer.recv_timeout(TIME), Ok(Rcode::NOERROR));
    // Signatures are made anew then.
    assert!(keys.begun().is_some());
    assert!(rustix::io::read(wakers[0].as_fd(), &mut [0; 8]).is_ok(), "not woken");
    drop(keys);
}

#[test]
fn a_disk_that_hangs_holds_up_its_own_zone_alone_and_not_the_end() {
    let (folder, (disk, keys)) = (TempDir::new().unwrap(), gate("hangs"));
    let paths = ["hangs", "quick"].map(|name| folder.path().join(name).join("db"));
    paths.iter().for_each(|path| fs::create_dir(path.parent().unwrap()).unwrap());
    let zones = [Some(&*paths[0]), Some(&*paths[1]), None].map(seed);
    let wakers = Arc::new(vec![Waker::new().unwrap()]);
    let (sender, log) = sync_channel(100);
    let sink = Sink::new(sender);
    let start = |disk: &Arc<Gate>| {
        Updates::with_disk((&zones, &[]), wakers.clone(), sink.clone(), disk.clone()).unwrap()
    };
    let server = |at: usize| Server {
        zone: zones[at].clone(),
        updates: None,
        wakers: wakers.clone(),
        log: sync_channel(1).1,
    };
    let updates = start(&disk);
    keys.pass();
    keys.pass();
    let [hangs, quick, memory] = [0, 1, 2].map(server);
    let first = hangs.push(1);
    assert!(keys.begun().is_some());
    for number in 0..5 {
        assert_eq!((quick.add(number), memory.add(number)), (Rcode::NOERROR, Rcode::NOERROR));
    }
    assert!(first.try_recv().is_err());
    // The configuration ends, and another one has the same zones.
    let began = Instant::now();
    drop(updates);
    assert!((DATABASE_END..2 * DATABASE_END).contains(&began.elapsed()), "{:?}", began.elapsed());
    let updates = start(&disk);
    for number in 5..10 {
        assert_eq!((quick.add(number), memory.add(number)), (Rcode::NOERROR, Rcode::NOERROR));
    }
    // The one that hangs has one writer all the time.
    let second = hangs.push(2);
    assert_eq!(second.recv_timeout(TIME), Ok(Rcode::SERVFAIL));
    (0..3).for_each(|_| keys.go.send(true).unwrap());
    assert_eq!((first.recv_timeout(TIME), hangs.serial()), (Ok(Rcode::NOERROR), 2));
    // By the new writer, once the old one has ended.
    while hangs.add(3) != Rcode::NOERROR {
        assert!(began.elapsed() < 2 * TIME, "{:?}", log.try_iter().collect::<Vec<_>>());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(hangs.serial(), 3);
    assert_eq!(found(&paths[0]).soa().unwrap().serial().0, hangs.serial());
    drop(updates);
    let lines: Vec<_> = log.try_iter().map(|record| format!("{record:?}")).collect();
    let said = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(said("still being written after 3 s, its disk does not answer"), 1, "{lines:?}");
    assert_eq!(said("or still being written by this one: updates fail"), 1, "{lines:?}");
}

#[test]
fn there_are_no_more_writers_than_may_be() {
    let zones: Vec<_> = (0..2 * DATABASE_WRITERS_MAX + 3)
        .map(|number| seed((number % 3 > 0).then(|| PathBuf::from(number.to_string())).as_deref()))
        .collect();
    let shares = shares(&zones);
    assert_eq!(shares.len(), DATABASE_WRITERS_MAX + 1);
    assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), zones.len());
    let (memory, kept) = shares.split_last().unwrap();
    assert!(memory.iter().all(|zone| zone.database().is_none()));
    assert!(kept.iter().flatten().all(|zone| zone.database().is_some()));
    assert!(kept.iter().all(|share| share.len() <= 2));
    assert_eq!(super::shares(&zones[1..3]).len(), 2);
}
