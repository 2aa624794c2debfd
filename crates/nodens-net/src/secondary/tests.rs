mod keys;
mod lock;

use super::*;
use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Record, Section, Type};
use nodens_zone::secondary::{Configured, Primary, SecondaryZone};
use nodens_zone::{Serial, Soa, Zone};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn zone() -> Name {
    name("example.org.")
}

/// Refresh and retry are as short as they can be.
fn soa(serial: u32, expire: u32) -> Record {
    Soa::with(zone().view(), 60, (&zone(), &zone()), [serial, 1, 1, expire, 5]).record().clone()
}

fn host(number: u8) -> Record {
    let owner = name(&format!("h{number}.example.org."));
    Record { owner, rtype: Type::A, class: Class::IN, ttl: 60, rdata: vec![192, 0, 2, number] }
}

fn whole(serial: u32, hosts: &[u8]) -> Vec<Record> {
    let ends = soa(serial, 3600);
    let mut records = vec![ends.clone()];
    records.extend(hosts.iter().copied().map(host));
    records.push(ends);
    records
}

/// What a primary does with a query.
enum Reaction {
    /// Answers with these records, each in a message of its own.
    Records(Vec<Record>),
    /// The same, and closes the connection.
    Cut(Vec<Record>),
    Refuse(Rcode),
}

/// A server on a port of its own that reacts to each query as `react` says, by its number; gives the
/// address and what is asked.
fn primary(
    mut react: impl FnMut(usize, Type) -> Reaction + Send + 'static,
) -> (SocketAddr, Receiver<(usize, Type)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        let mut count = 0;
        for (connection, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            while let Ok(query) = read_message(&mut stream) {
                let query = Message::parse(&query).unwrap();
                let qtype = query.questions[0].qtype;
                if sender.send((connection, qtype)).is_err() {
                    return;
                }
                count += 1;
                let (records, rcode, ends) = match react(count, qtype) {
                    Reaction::Records(records) => (records, Rcode::NOERROR, false),
                    Reaction::Cut(records) => (records, Rcode::NOERROR, true),
                    Reaction::Refuse(rcode) => (Vec::new(), rcode, false),
                };
                let flags = Flags(0).reply().with(Flags::AA, true).with_rcode(rcode);
                let write = |records: &[Record]| {
                    let mut out = Vec::new();
                    let mut builder = Builder::new(&mut out, query.id, flags);
                    builder.question(zone().view(), qtype, Class::IN);
                    for record in records {
                        builder.push(Section::Answer, record).unwrap();
                    }
                    framed(&out)
                };
                let mut messages: Vec<_> = records.chunks(1).map(write).collect();
                if messages.is_empty() {
                    messages.push(write(&[]));
                }
                // Who has heard enough closes.
                if stream.write_all(&messages.concat()).is_err() || ends {
                    break;
                }
            }
        }
    });
    (address, asked)
}

struct Running {
    zone: Arc<SecondaryZone>,
    service: SecondaryService,
    log: Receiver<nodens_core::log::Record>,
    secondaries: Option<Secondaries>,
}

fn run(primaries: &[SocketAddr]) -> Running {
    run_with(primaries, None)
}

/// With a key that queries are signed with.
fn run_with(primaries: &[SocketAddr], key: Option<nodens_zone::tsig::Key>) -> Running {
    run_as(primaries, key, None)
}

/// With a folder that zones are kept in.
fn run_stored(primaries: &[SocketAddr], folder: &std::path::Path) -> Running {
    run_as(primaries, None, Some(folder.to_owned()))
}

fn run_as(
    primaries: &[SocketAddr],
    key: Option<nodens_zone::tsig::Key>,
    store: Option<std::path::PathBuf>,
) -> Running {
    let zone = Arc::new(SecondaryZone::new(
        zone(),
        primaries.iter().copied().map(Primary::from).collect::<Vec<_>>(),
    ));
    run_of(Configured { zone, catalog: None, key, store, groups: Vec::new() })
}

fn run_of(configured: Configured) -> Running {
    let zone = configured.zone.clone();
    let configured = vec![configured];
    let service = SecondaryService { configured, ..SecondaryService::default() };
    let shown = zone.clone() as Arc<dyn Zone>;
    service.zones.update(|update| update.replace(zone.origin().view(), shown));
    let (sender, log) = sync_channel(1000);
    let mut running = Running { zone, service, log, secondaries: None };
    running.start(sender);
    running
}

impl Running {
    fn start(&mut self, sender: std::sync::mpsc::SyncSender<nodens_core::log::Record>) {
        let services = std::slice::from_ref(&self.service);
        self.secondaries = Some(Secondaries::start(services, Sink::new(sender)).unwrap());
    }

    /// Waits until this version is served; `None` for none.
    fn until(&self, serial: Option<u32>) {
        let since = Instant::now();
        while self.zone.soa().map(|soa| soa.serial()) != serial.map(Serial) {
            assert!(since.elapsed() < PATIENCE, "{:?} {:?}", self.zone.soa(), self.lines());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn lines(&self) -> Vec<String> {
        let line = |record| match record {
            nodens_core::log::Record::Line { text, .. } => Some(text),
            _ => None,
        };
        self.log.try_iter().filter_map(line).collect()
    }

    fn until_said(&self, wanted: &str) -> String {
        let (since, mut all) = (Instant::now(), Vec::new());
        loop {
            all.extend(self.lines());
            if let Some(line) = all.iter().find(|line| line.contains(wanted)) {
                return line.clone();
            }
            assert!(since.elapsed() < PATIENCE, "{wanted:?} is not in {all:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn addresses(&self) -> usize {
        self.zone.data().map_or(0, |data| data.records() as usize - 1)
    }
}

#[test]
fn without_zones_there_is_no_thread() {
    let (sender, _log) = sync_channel(1);
    assert!(Secondaries::start(&[], Sink::new(sender)).unwrap().thread.is_none());
}

#[test]
fn a_zone_comes_from_the_first_primary_that_has_it() {
    let gone = nodens_testkit::free_address();
    let (refusing, _asked) = primary(|_, _| Reaction::Refuse(Rcode::REFUSED));
    let (cutting, _asked) = primary(|_, _| {
        let mut records = whole(7, &[1, 2]);
        records.pop();
        Reaction::Cut(records)
    });
    let (good, asked) = primary(|_, _| Reaction::Records(whole(7, &[1, 2])));
    let running = run(&[gone, refusing, cutting, good]);
    running.until(Some(7));
    assert_eq!((running.addresses(), asked.recv()), (2, Ok((0, Type::AXFR))));
    let line = running.until_said("Transferred: example.org. from ");
    assert!(line.contains(&good.to_string()) && line.contains("serial 7, 3 records, AXFR of "));
}

#[test]
fn a_primary_that_stays_down_beside_one_that_answers_is_said_to_be_once() {
    let gone = nodens_testkit::free_address();
    let (good, asked) = primary(|_, qtype| match qtype {
        Type::AXFR => Reaction::Records(whole(7, &[1, 2])),
        _ => Reaction::Records(vec![soa(7, 3600)]),
    });
    let mut running = run(&[gone, good]);
    assert_eq!(asked.iter().filter(|(_, qtype)| *qtype == Type::SOA).take(2).count(), 2);
    running.secondaries = None;
    let levels: Vec<_> = running
        .log
        .try_iter()
        .filter_map(|record| match record {
            nodens_core::log::Record::Line { text, level, .. } => Some((level, text)),
            _ => None,
        })
        .collect();
    let said = |level, wanted| {
        levels.iter().filter(|own| own.0 == level && own.1.contains(wanted)).count()
    };
    assert_eq!(said(Level::Warning, "Failed to transfer example.org. from "), 1, "{levels:?}");
    assert!(said(Level::Debug, "Failed to transfer example.org. from ") > 0, "{levels:?}");
    assert_eq!(said(Level::Info, "recovered"), 0, "{levels:?}");
}

#[test]
fn differences_are_asked_for_on_the_connection_of_the_query_for_the_serial() {
    let (address, asked) = primary(|_, qtype| match qtype {
        Type::AXFR => Reaction::Records(whole(7, &[1, 2])),
        Type::SOA => Reaction::Records(vec![soa(8, 3600)]),
        _ => {
            let (old, new) = (soa(7, 3600), soa(8, 3600));
            Reaction::Records(vec![new.clone(), old, host(1), new.clone(), host(3), host(4), new])
        }
    });
    let running = run(&[address]);
    running.until(Some(7));
    running.service.notices.note(zone(), 0, None);
    running.until(Some(8));
    assert_eq!(running.addresses(), 3);
    let queries: Vec<_> = asked.iter().take(3).collect();
    assert_eq!(queries, [(0, Type::AXFR), (1, Type::SOA), (1, Type::IXFR)]);
    running.until_said("serial 8 after 7, 4 records, IXFR of ");
    // They are handed on.
    assert!(running.zone.since(Serial(7)).is_none(), "more than the zone");
}

#[test]
fn differences_that_do_not_fit_are_followed_by_the_whole_zone() {
    for wrong in [
        || Reaction::Records([soa(8, 9), soa(7, 9), host(9), soa(8, 9), soa(8, 9)].to_vec()),
        || Reaction::Cut(vec![soa(8, 9), soa(7, 9)]),
        || Reaction::Refuse(Rcode::NOTIMP),
    ] {
        let (address, asked) = primary(move |count, qtype| match qtype {
            Type::AXFR if count == 1 => Reaction::Records(whole(7, &[1, 2])),
            Type::AXFR => Reaction::Records(whole(8, &[3])),
            Type::SOA => Reaction::Records(vec![soa(8, 3600)]),
            _ => wrong(),
        });
        let running = run(&[address]);
        running.until(Some(7));
        running.until(Some(8));
        assert_eq!(running.addresses(), 1);
        let queries: Vec<_> = asked.iter().take(4).map(|(_, qtype)| qtype).collect();
        assert_eq!(queries, [Type::AXFR, Type::SOA, Type::IXFR, Type::AXFR]);
        running.until_said("IXFR of example.org. from ");
    }
}

#[test]
fn what_is_served_stays_as_it_is_whatever_a_primary_sends() {
    let (address, asked) = primary(|count, qtype| match qtype {
        Type::AXFR if count == 1 => Reaction::Records(whole(7, &[1, 2])),
        Type::SOA => Reaction::Records(vec![soa(8, 3600)]),
        _ => Reaction::Records(vec![soa(8, 3600), host(3), soa(9, 3600)]),
    });
    let running = run(&[address]);
    running.until(Some(7));
    let failed = asked.iter().filter(|(_, qtype)| *qtype == Type::AXFR).take(3).count();
    assert_eq!((failed, running.addresses()), (3, 2));
    running.until(Some(7));
    running.until_said("ends with serial 9, and began with 8");
}

#[test]
fn a_zone_that_no_primary_has_expires_and_comes_back() {
    let (address, _asked) = primary(|count, _| match count {
        1 => {
            let ends = soa(7, 3);
            Reaction::Records(vec![ends.clone(), host(1), ends])
        }
        2..6 => Reaction::Refuse(Rcode::SERVFAIL),
        _ => Reaction::Records(whole(6, &[1])),
    });
    let running = run(&[address]);
    running.until(Some(7));
    running.until_said("Failed to transfer example.org. from ");
    running.until(None);
    running.until_said("Zone example.org. is expired");
    // What the primary says after that is not compared with what was there.
    running.until(Some(6));
    running.until_said("example.org. recovered");
}

#[test]
fn a_zone_that_was_made_anew_is_followed_once_the_one_before_expires() {
    let (address, _asked) = primary(|count, _| match count {
        1 => {
            let ends = soa(7, 4);
            Reaction::Records(vec![ends.clone(), host(1), ends])
        }
        _ => Reaction::Records(whole(5, &[1, 2])),
    });
    let running = run(&[address]);
    running.until(Some(7));
    running.until_said("it has serial 5, which is behind 7");
    running.until_said("Zone example.org. is expired");
    running.until(Some(5));
    assert_eq!(running.addresses(), 2);
}

#[test]
fn that_a_zone_has_expired_is_known_wherever_it_is_handed_on() {
    let (address, _asked) = primary(|count, _| match count {
        1 => {
            let ends = soa(7, 3);
            Reaction::Records(vec![ends.clone(), host(1), ends])
        }
        _ => Reaction::Refuse(Rcode::SERVFAIL),
    });
    let zone = Arc::new(SecondaryZone::new(zone(), vec![address.into()]));
    let service = || {
        let (key, store) = (None, None);
        let configured =
            vec![Configured { zone: zone.clone(), catalog: None, key, store, groups: Vec::new() }];
        let service = SecondaryService { configured, ..SecondaryService::default() };
        let shown = zone.clone() as Arc<dyn Zone>;
        service.handed_on.update(|update| update.replace(zone.origin().view(), shown));
        service
    };
    let services = [service(), service()];
    let changes = Arc::new(nodens_zone::Changes::new(|| ()));
    let (sender, log) = sync_channel(1000);
    let secondaries = Some(Secondaries::start(&services, Sink::new(sender)).unwrap());
    let running = Running { zone, service: services[0].clone(), log, secondaries };
    running.until(Some(7));
    for (number, service) in (0..).zip(&services) {
        service.handed_on.listen(&changes, number);
    }
    running.until_said("Transferred: ");
    assert!(changes.take().count() >= 2);
    running.until(None);
    running.until_said("Zone example.org. is expired");
    let since = Instant::now();
    let mut tables = std::collections::BTreeSet::new();
    while tables.len() < 2 {
        assert!(since.elapsed() < PATIENCE, "{tables:?}");
        tables.extend(changes.take().map(|(table, _)| table));
    }
}

#[test]
fn another_configuration_goes_on_with_what_is_here() {
    let (address, asked) = primary(|_, qtype| match qtype {
        Type::AXFR => Reaction::Records(whole(7, &[1, 2])),
        _ => Reaction::Records(vec![soa(7, 3600)]),
    });
    let mut running = run(&[address]);
    running.until(Some(7));
    running.secondaries = None;
    let (sender, log) = sync_channel(1000);
    running.log = log;
    running.start(sender);
    assert_eq!(asked.recv(), Ok((0, Type::AXFR)));
    assert_eq!(asked.recv_timeout(PATIENCE), Ok((1, Type::SOA)));
    assert_eq!(running.addresses(), 2);
}

#[test]
fn another_reason_why_a_primary_fails_is_said_although_it_has_failed_before() {
    let (address, _asked) = primary(|count, _| match count {
        1 | 2 => Reaction::Refuse(Rcode::REFUSED),
        3 | 4 => Reaction::Refuse(Rcode::SERVFAIL),
        _ => Reaction::Records(whole(7, &[1, 2])),
    });
    let running = run(&[address]);
    running.until(Some(7));
    let failures = running.log.try_iter().filter_map(|record| match record {
        nodens_core::log::Record::Line { level: Level::Warning, text, .. } => Some(text),
        _ => None,
    });
    let failed = format!("Failed to transfer example.org. from {address}: rcode");
    let wanted = [format!("{failed} REFUSED"), format!("{failed} SERVFAIL")];
    assert_eq!(failures.collect::<Vec<_>>(), wanted);
}

#[test]
fn a_restart_goes_on_with_what_is_on_disk() {
    let (address, asked) = primary(|_, qtype| match qtype {
        Type::AXFR => Reaction::Records(whole(7, &[1, 2, 3, 4, 5, 6])),
        Type::SOA => Reaction::Records(vec![soa(8, 3600)]),
        _ => {
            let (old, new) = (soa(7, 3600), soa(8, 3600));
            Reaction::Records(vec![new.clone(), old, new.clone(), host(7), new])
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = run_stored(&[address], folder);
    first.until(Some(7));
    drop(first);
    let second = run_stored(&[address], folder);
    second.until(Some(8));
    second.until_said("serial 8 after 7, 8 records, IXFR of ");
    drop(second);
    let queries: Vec<_> = asked.iter().take(3).map(|(_, qtype)| qtype).collect();
    assert_eq!(queries, [Type::AXFR, Type::SOA, Type::IXFR]);
    // Without a primary, and with differences for others.
    let gone = nodens_testkit::free_address();
    let third = run_stored(&[gone], folder);
    third.until(Some(8));
    third.until_said("Restored from disk: 1 zones, 8 records");
    assert_eq!(third.addresses(), 7);
    assert!(third.zone.since(Serial(7)).is_some());
    // What is too old is said, and fetched again, and so is what is damaged.
    drop(third);
    let path = folder.join("example.org.zone");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let late = run_stored(&[gone], folder);
    late.until_said("Failed to restore 1 zones from disk, such as example.org.: expired");
    assert!(late.zone.soa().is_none());
    drop(late);
    let mut octets = std::fs::read(&path).unwrap();
    octets[20] ^= 1;
    std::fs::write(&path, octets).unwrap();
    let fourth = run_stored(&[address], folder);
    fourth.until_said("Failed to read stored zone example.org.: damaged at octet 8");
    fourth.until(Some(7));
}

#[test]
fn a_version_that_could_not_be_stored_is_stored_later() {
    let (address, _asked) = primary(|_, qtype| match qtype {
        Type::AXFR => Reaction::Records(whole(7, &[1, 2])),
        _ => Reaction::Records(vec![soa(7, 3600)]),
    });
    let folder = tempfile::tempdir().unwrap();
    let (folder, path) =
        (folder.path().join("zones"), folder.path().join("zones/example.org.zone"));
    // No folder.
    std::fs::write(&folder, b"").unwrap();
    let running = run_stored(&[address], &folder);
    running.until_said("Failed to store zone example.org.: ");
    std::fs::remove_file(&folder).unwrap();
    let until_stored = || {
        let since = Instant::now();
        while !path.exists() {
            assert!(since.elapsed() < PATIENCE, "{:?}", running.lines());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until_stored();
    running.until_said("Store of zone example.org. recovered");
    // Somebody removes it.
    std::fs::remove_dir_all(&folder).unwrap();
    until_stored();
}

#[test]
fn another_configuration_does_not_read_what_is_stored_again() {
    let (address, _asked) = primary(|_, qtype| match qtype {
        Type::AXFR => Reaction::Records(whole(7, &[1, 2])),
        _ => Reaction::Records(vec![soa(7, 3600)]),
    });
    let folder = tempfile::tempdir().unwrap();
    let mut running = run_stored(&[address], folder.path());
    running.until_said("Transferred: ");
    running.secondaries = None;
    // Who reads it says that it is damaged, who replaces it makes another file.
    let path = folder.path().join("example.org.zone");
    let octets = std::fs::read(&path).unwrap();
    std::fs::write(&path, vec![0; octets.len()]).unwrap();
    let (sender, log) = sync_channel(1000);
    running.log = log;
    running.start(sender);
    std::thread::sleep(Duration::from_millis(300));
    running.secondaries = None;
    let lines = running.lines();
    assert!(!lines.iter().any(|line| line.contains("Failed to read")), "{lines:?}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![0; octets.len()]);
}

#[test]
fn a_connection_ends_with_a_reset_so_that_its_port_is_free_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = run(&[listener.local_addr().unwrap()]);
    let (mut stream, _) = listener.accept().unwrap();
    let query = Message::parse(&read_message(&mut stream).unwrap()).unwrap();
    let mut out = Vec::new();
    let flags = Flags(0).reply().with(Flags::AA, true);
    let mut builder = Builder::new(&mut out, query.id, flags);
    builder.question(zone().view(), Type::AXFR, Class::IN);
    for record in whole(7, &[1]) {
        builder.push(Section::Answer, &record).unwrap();
    }
    stream.write_all(&framed(&out)).unwrap();
    running.until(Some(7));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = std::io::Read::read(&mut stream, &mut [0]).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_primary_that_cannot_be_reached_is_passed_over_for_zones_that_have_another() {
    let gone = nodens_testkit::free_address();
    let (good, _asked) = primary(|_, _| Reaction::Records(whole(7, &[1, 2])));
    let running = run(&[gone, good]);
    running.until(Some(7));
    running.until_said("Failed to transfer example.org. from ");
    running.until_said(": it did not answer before");
}

#[test]
fn a_version_that_had_readers_is_freed_soon_after_the_last_of_them() {
    let (address, _asked) = primary(|count, qtype| match qtype {
        Type::AXFR if count == 1 => Reaction::Records(whole(7, &[1, 2])),
        Type::SOA => Reaction::Records(vec![soa(8, 3600)]),
        _ => Reaction::Records(whole(8, &[1])),
    });
    let running = run(&[address]);
    running.until(Some(7));
    let held = running.zone.served().load_full().unwrap();
    let weak = Arc::downgrade(&held);
    running.until(Some(8));
    running.until_said("serial 8 after 7");
    drop(held);
    let since = Instant::now();
    while weak.strong_count() > 0 {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The records of a zone with one member. `version` is its catalog version: with an unknown one the zone is
/// no catalog.
fn catalog(serial: u32, version: &[u8]) -> Vec<Record> {
    let below = |owner: &str, rtype, rdata: &[u8]| {
        let (owner, rdata) = (name(&format!("{owner}example.org.")), rdata.to_vec());
        Record { owner, rtype, class: Class::IN, ttl: 60, rdata }
    };
    let invalid = name("invalid.");
    let mut records = whole(serial, &[]);
    let own = [
        below("", Type::NS, invalid.as_wire()),
        below("version.", Type::TXT, version),
        below("1.zones.", Type::PTR, name("member.test.").as_wire()),
    ];
    records.splice(1..1, own);
    records
}

#[test]
fn a_version_that_is_no_catalog_is_not_stored() {
    let (address, _asked) = primary(|count, qtype| match (count, qtype) {
        (1, _) => Reaction::Records(catalog(7, b"\x012")),
        (_, Type::SOA) => Reaction::Records(vec![soa(8, 3600)]),
        (_, Type::IXFR) => Reaction::Records(catalog(8, b"\x019")),
        _ => Reaction::Refuse(Rcode::REFUSED),
    });
    let folder = tempfile::tempdir().unwrap();
    let run = |primary: SocketAddr| {
        let zone = Arc::new(SecondaryZone::new(zone(), vec![primary.into()]));
        let (store, groups) = (Some(folder.path().to_owned()), Vec::new());
        run_of(Configured { zone, catalog: Some(Vec::new()), key: None, store, groups })
    };
    let has_member =
        |running: &Running| running.service.zones.load().get(name("member.test.").view()).is_some();
    let first = run(address);
    first.until_said("with 1 member zones: 1 added");
    first.service.notices.note(zone(), 0, None);
    first.until_said("Failed to take up catalog zone example.org.: catalog zone example.org. has");
    assert_eq!(first.zone.soa().map(|soa| soa.serial()), Some(Serial(8)));
    // It has the same version.
    let reached = first.zone.reached_ns();
    first.service.notices.note(zone(), 0, None);
    let since = Instant::now();
    while first.zone.reached_ns() == reached {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    let failure = first.zone.failure().unwrap_or_default();
    assert!(failure.contains("not taken up as a catalog"), "{failure}");
    assert!(has_member(&first));
    drop(first);
    let gone = nodens_testkit::free_address();
    let second = run(gone);
    second.until(Some(7));
    second.until_said("with 1 member zones: 1 added");
    assert!(has_member(&second));
}

#[test]
fn a_catalog_is_stored_after_its_members() {
    let (address, _asked) = primary(|_, _| Reaction::Records(catalog(7, b"\x012")));
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("zones");
    std::fs::write(&folder, "no folder").unwrap();
    let zone = Arc::new(SecondaryZone::new(zone(), vec![address.into()]));
    let (store, groups) = (Some(folder), Vec::new());
    let running = run_of(Configured { zone, catalog: Some(Vec::new()), key: None, store, groups });
    let (since, mut lines) = (Instant::now(), Vec::new());
    let at = |lines: &[String], wanted| lines.iter().position(|line| line.starts_with(wanted));
    loop {
        lines.extend(running.lines());
        let followed = at(&lines, "Parsed catalog zone example.org. with 1 ");
        let stored = at(&lines, "Failed to store zone example.org.: ");
        if let Some((followed, stored)) = followed.zip(stored) {
            assert!(followed < stored, "{lines:?}");
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{lines:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_disk_that_does_not_answer_keeps_nobody_from_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    // To open a FIFO for reading blocks until a writer opens it.
    let file = folder.path().join("example.org.zone");
    let status = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(status.success());
    let zone = Arc::new(SecondaryZone::new(zone(), vec![]));
    let store = Some(folder.path().to_owned());
    let configured = vec![Configured { zone, catalog: None, key: None, store, groups: Vec::new() }];
    let service = SecondaryService { configured, ..SecondaryService::default() };
    let (sender, lines) = sync_channel(100);
    let secondaries =
        Secondaries::start(std::slice::from_ref(&service), Sink::new(sender)).unwrap();
    // It waits for the file after a moment.
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    drop(secondaries);
    assert!((STORE_END..2 * STORE_END).contains(&began.elapsed()), "{:?}", began.elapsed());
    let said = format!("{:?}", lines.try_iter().collect::<Vec<_>>());
    assert!(said.contains("their disk does not answer"), "{said}");
    assert!(!service.restoring.is_done());
    // The thread ends as soon as it can.
    drop(std::fs::OpenOptions::new().write(true).open(&file).unwrap());
    nodens_testkit::eventually("the thread lets go of the zone", || {
        Arc::strong_count(&service.configured[0].zone) == 1
    });
}
