use super::*;
use crate::limits::{NOTIFY_BURST, NOTIFY_PAUSE};
use crate::zone::Version;
use nodens_wire::{Message, NameRef};
use std::sync::atomic::{AtomicU32, Ordering};

const SECOND: u64 = 1_000_000_000;

fn soa(serial: u32) -> Soa {
    let apex = Name::parse("cluster.local.").unwrap();
    Soa::with(apex.view(), 5, (&apex, &apex), [serial, 7200, 1800, 86400, 5])
}

fn server(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 53))
}

/// A zone that has a serial and nothing else; 0 stands for none.
#[derive(Debug, Default)]
struct Numbered(AtomicU32);

impl Zone for Numbered {
    fn soa(&self) -> Option<Soa> {
        Some(self.0.load(Ordering::Relaxed)).filter(|serial| *serial > 0).map(soa)
    }

    fn version(&self) -> Option<Version> {
        None
    }
}

/// The same secondaries for every zone.
#[derive(Debug)]
struct All(Arc<Secondaries>);

impl NotifyRules for All {
    fn secondaries(&self, _zone: NameRef<'_>) -> Option<Arc<Secondaries>> {
        Some(self.0.clone())
    }
}

fn service(zones: &Arc<ZoneTable>, servers: &[u8]) -> NotifyService {
    let servers = servers.iter().map(|last| server(*last)).collect();
    let secondaries = Arc::new(Secondaries { servers, from: None });
    NotifyService { zones: zones.clone(), rules: Arc::new(All(secondaries)) }
}

/// Notes a message that is sent.
fn push<T>(told: &mut Vec<T>, message: T) -> bool {
    told.push(message);
    true
}

fn zone_name() -> Name {
    Name::parse("cluster.local.").unwrap()
}

/// A notifier whose messages are numbered from 1.
struct Fixture {
    zone: Arc<Numbered>,
    zones: Arc<ZoneTable>,
    changes: Arc<Changes>,
    notifier: Notifier,
    ids: u16,
    sent: Vec<(SocketAddr, Vec<u8>)>,
    /// Whether messages can be sent.
    reaches: bool,
}

impl Fixture {
    fn new(servers: &[u8]) -> Self {
        let (zone, zones) = (Arc::<Numbered>::default(), Arc::<ZoneTable>::default());
        zones.update(|update| _ = update.add(zone_name().view(), zone.clone()));
        let notifier = Notifier::new(&[service(&zones, servers)]);
        let changes = Arc::new(Changes::new(|| ()));
        notifier.listen(&changes);
        Self { zone, zones, changes, notifier, ids: 0, sent: Vec::new(), reaches: true }
    }

    /// Polls at this second; gives who is told and what ended.
    fn poll(&mut self, second: u64, serial: u32) -> (Vec<SocketAddr>, Vec<(SocketAddr, Outcome)>) {
        self.sent.clear();
        if self.zone.0.swap(serial, Ordering::Relaxed) != serial {
            self.zones.announce(zone_name().view());
        }
        let Self { notifier, ids, sent, reaches, .. } = self;
        notifier.take(&self.changes);
        let id = || {
            *ids += 1;
            *ids
        };
        let send = |out: Outgoing<'_>| {
            sent.push((out.to, out.message.to_vec()));
            *reaches
        };
        let ended = notifier.poll(second * SECOND, id, send);
        assert!(ended.iter().all(|ended| ended.zone == zone_name()));
        let ended = ended.into_iter().map(|ended| (ended.server, ended.outcome)).collect();
        (self.sent.iter().map(|(to, _)| *to).collect(), ended)
    }

    fn answer(&mut self, from: u8, id: u16, rcode: Rcode) -> Option<Outcome> {
        let flags = Flags(0).with_opcode(Opcode::NOTIFY).reply().with_rcode(rcode);
        let header = Header { id, flags, counts: [0; 4] };
        self.notifier.receive(server(from), &header.to_bytes())
    }
}

#[test]
fn everybody_is_told_at_the_start_and_of_every_change_until_they_accept() {
    let mut fixture = Fixture::new(&[1, 2]);
    assert_eq!(fixture.poll(0, 0), (Vec::new(), Vec::new()));
    assert_eq!(fixture.notifier.next_deadline(), None);
    assert_eq!(fixture.poll(10, 7), (vec![server(1), server(2)], Vec::new()));
    let message = Message::parse(&fixture.sent[0].1).unwrap();
    assert_eq!((message.id, message.flags.opcode()), (1, Opcode::NOTIFY));
    assert!(message.flags.has(Flags::AA) && !message.flags.has(Flags::QR));
    assert_eq!(message.questions[0].qtype, Type::SOA);
    assert_eq!(message.answer, [soa(7).record().clone()]);
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.notifier.next_deadline(), Some(12 * SECOND));
    assert_eq!(fixture.poll(12, 7).0, [server(2)]);
    assert_eq!(fixture.answer(2, 3, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.notifier.next_deadline(), None);
    assert_eq!(fixture.poll(14, 7).0, []);
    // Changes that follow one another soon are told as one.
    assert_eq!(fixture.poll(14, 8).0, []);
    assert_eq!(fixture.poll(15, 9).0, [server(1), server(2)]);
}

#[test]
fn one_who_never_accepts_is_told_five_times_at_growing_intervals() {
    let mut fixture = Fixture::new(&[1]);
    let mut told = Vec::new();
    let mut ended = Vec::new();
    for second in 0..200 {
        let (sent, gone) = fixture.poll(second, 7);
        told.extend(sent.iter().map(|_| second));
        ended.extend(gone.iter().map(|(_, outcome)| (second, *outcome)));
        if second == 31 {
            assert_eq!(fixture.answer(1, 5, Rcode::NOTAUTH), None);
        }
    }
    assert_eq!(told, [0, 2, 6, 14, 30]);
    assert_eq!(ended, [(62, Outcome::GivenUp(Some(Rcode::NOTAUTH)))]);
    // The next version is a new beginning.
    assert_eq!(fixture.poll(200, 8).0, [server(1)]);
}

#[test]
fn a_newer_version_takes_the_place_of_one_that_is_being_told() {
    let mut fixture = Fixture::new(&[1]);
    fixture.poll(0, 7);
    fixture.poll(2, 7);
    assert_eq!(fixture.poll(5, 8).0, [server(1)]);
    // An answer to an earlier message says nothing of this version.
    assert_eq!(fixture.answer(1, 2, Rcode::NOERROR), None);
    assert_eq!(fixture.answer(1, 3, Rcode::NOERROR), Some(Outcome::Accepted));
}

#[test]
fn answers_of_others_and_what_is_no_answer_are_passed_over() {
    let mut fixture = Fixture::new(&[1]);
    fixture.poll(0, 7);
    assert_eq!(fixture.answer(2, 1, Rcode::NOERROR), None);
    assert_eq!(fixture.answer(1, 2, Rcode::NOERROR), None);
    assert_eq!(fixture.notifier.receive(server(1), &[0; 11]), None);
    let question = Header { id: 1, flags: Flags(0).with_opcode(Opcode::NOTIFY), counts: [0; 4] };
    assert_eq!(fixture.notifier.receive(server(1), &question.to_bytes()), None);
    let other = Header { id: 1, flags: Flags(0).reply(), counts: [0; 4] };
    assert_eq!(fixture.notifier.receive(server(1), &other.to_bytes()), None);
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), None);
}

#[test]
fn a_zone_that_comes_is_told_of_and_one_that_goes_is_forgotten() {
    let mut fixture = Fixture::new(&[1]);
    assert_eq!(fixture.poll(0, 7).0, [server(1)]);
    fixture.zones.update(|update| assert!(update.remove(zone_name().view())));
    assert_eq!(fixture.poll(2, 7).0, []);
    assert_eq!(fixture.notifier.next_deadline(), None);
    assert_eq!(fixture.answer(1, 1, Rcode::NOERROR), None);
    let nothing = |notifier: &Notifier| {
        notifier.notices.is_empty() && notifier.by_zone.is_empty() && notifier.in_flight.is_empty()
    };
    assert!(nothing(&fixture.notifier), "{:?}", fixture.notifier);
    let zone = fixture.zone.clone();
    fixture.zones.update(|update| _ = update.add(zone_name().view(), zone));
    assert_eq!(fixture.poll(3, 7).0, [server(1)]);
}

#[test]
fn servers_that_two_tables_name_for_a_zone_are_told_once() {
    let zone = Arc::new(Numbered(AtomicU32::new(7)));
    let tables = [(); 3].map(|()| Arc::<ZoneTable>::default());
    for table in &tables {
        table.update(|update| _ = update.add(zone_name().view(), zone.clone()));
    }
    let [a, b, c] = &tables;
    let services = [service(a, &[1, 2]), service(b, &[1, 2]), service(c, &[3])];
    let mut notifier = Notifier::new(&services);
    let changes = Arc::new(Changes::new(|| ()));
    notifier.listen(&changes);
    notifier.take(&changes);
    let (mut told, mut id) = (Vec::new(), 0);
    let ids = || {
        id += 1;
        id
    };
    assert_eq!(notifier.poll(0, ids, |out| push(&mut told, out.to)), []);
    assert_eq!(told, [server(1), server(2), server(3)]);
    // The first table has the zone no more: the second one tells the servers.
    a.update(|update| assert!(update.remove(zone_name().view())));
    notifier.take(&changes);
    let mut told = Vec::new();
    assert_eq!(notifier.poll(SECOND, || 9, |out| push(&mut told, out.to)), []);
    assert_eq!(told, [server(1), server(2)]);
    b.update(|update| assert!(update.remove(zone_name().view())));
    notifier.take(&changes);
    assert_eq!(notifier.notices.len(), 1);
}

#[test]
fn identifiers_of_messages_to_one_server_differ() {
    let mut fixture = Fixture::new(&[1]);
    let other = Name::parse("other.test.").unwrap();
    let zone = Arc::new(Numbered(AtomicU32::new(7)));
    fixture.zones.update(|update| _ = update.add(other.view(), zone));
    fixture.zone.0.store(7, Ordering::Relaxed);
    fixture.notifier.take(&fixture.changes);
    let mut ids = [5, 5, 5, 6].into_iter();
    let mut sent = Vec::new();
    let send = |out: Outgoing<'_>| push(&mut sent, Header::read(out.message).unwrap().id);
    fixture.notifier.poll(0, || ids.next().unwrap(), send);
    assert_eq!(sent, [5, 6]);
    assert_eq!(fixture.answer(1, 6, Rcode::NOERROR), Some(Outcome::Accepted));
    assert_eq!(fixture.answer(1, 5, Rcode::NOERROR), Some(Outcome::Accepted));
}

#[test]
fn very_many_zones_are_told_of_one_burst_after_the_other() {
    const ZONES: u32 = 1000;
    let (table, _) = table_of(ZONES);
    let mut notifier = Notifier::new(&[service(&table, &[1])]);
    let changes = Arc::new(Changes::new(|| ()));
    notifier.listen(&changes);
    notifier.take(&changes);
    let (mut told, mut now, mut id) = (HashMap::new(), 0, 0);
    for _ in 0..ZONES / NOTIFY_BURST {
        let ids = || {
            id += 1;
            id
        };
        let before = told.values().sum::<u32>();
        let count = |out: Outgoing<'_>| {
            *told.entry(out.zone.clone()).or_insert(0) += 1;
            true
        };
        assert_eq!(notifier.poll(now, ids, count), []);
        assert_eq!(notifier.poll(now + 1, || panic!(), |_| panic!()), []);
        assert_eq!(told.values().sum::<u32>() - before, NOTIFY_BURST);
        let next = notifier.next_deadline().unwrap();
        assert!(next >= now + nanoseconds(NOTIFY_PAUSE), "{next} {now}");
        now = next;
    }
    assert!(told.len() == ZONES as usize && told.values().all(|count| *count == 1));
}

/// A table with so many zones that have version 7, and one of them.
fn table_of(zones: u32) -> (Arc<ZoneTable>, Arc<Numbered>) {
    let table = Arc::<ZoneTable>::default();
    let zone = Arc::new(Numbered(AtomicU32::new(7)));
    table.update(|update| {
        for n in 0..zones {
            let name = Name::parse(&format!("z{n}.test.")).unwrap();
            update.add(name.view(), zone.clone());
        }
    });
    (table, zone)
}

#[test]
fn a_change_is_told_before_what_was_there_at_the_beginning_and_each_server_at_its_own_rate() {
    let (table, zone) = table_of(NOTIFY_BURST * 3);
    let mut notifier = Notifier::new(&[service(&table, &[1, 2])]);
    let changes = Arc::new(Changes::new(|| ()));
    notifier.listen(&changes);
    notifier.take(&changes);
    let mut id = 0;
    let mut poll = |notifier: &mut Notifier, now| {
        let mut told = Vec::new();
        let ids = || {
            id += 1;
            id
        };
        notifier.poll(now, ids, |out| push(&mut told, (out.zone.clone(), out.to)));
        told
    };
    let told = poll(&mut notifier, 0);
    let of = |server| told.iter().filter(|(_, to)| *to == server).count();
    assert_eq!([of(server(1)), of(server(2))], [NOTIFY_BURST as usize; 2]);
    // One that waits for its turn changes, and another one comes.
    let is_told = |name: &Name| told.iter().any(|(zone, _)| zone == name);
    let names = (0..NOTIFY_BURST * 3).map(|n| Name::parse(&format!("z{n}.test.")).unwrap());
    let waiting = names.into_iter().rfind(|name| !is_told(name)).unwrap();
    let new = Name::parse("new.test.").unwrap();
    table.announce(waiting.view());
    table.update(|update| assert!(update.add(new.view(), zone)));
    notifier.take(&changes);
    let told = poll(&mut notifier, nanoseconds(NOTIFY_PAUSE));
    assert_eq!(told.len(), 2 * NOTIFY_BURST as usize);
    for first in [&told[..2], &told[NOTIFY_BURST as usize..][..2]] {
        assert!(first.iter().any(|(zone, _)| *zone == waiting), "{first:?}");
        assert!(first.iter().any(|(zone, _)| *zone == new), "{first:?}");
    }
}

#[test]
fn a_response_about_another_zone_says_nothing() {
    let mut fixture = Fixture::new(&[1]);
    fixture.poll(0, 7);
    let respond = |zone: &str| {
        let mut out = Vec::new();
        let flags = Flags(0).with_opcode(Opcode::NOTIFY).reply();
        let zone = Name::parse(zone).unwrap();
        Builder::new(&mut out, 1, flags).question(zone.view(), Type::SOA, Class::IN);
        out
    };
    let own = respond("Cluster.Local.");
    for other in [&respond("other.test."), &own[..own.len() - 6]] {
        assert_eq!(fixture.notifier.receive(server(1), other), None);
    }
    assert_eq!(fixture.notifier.receive(server(1), &own), Some(Outcome::Accepted));
}

#[test]
fn a_message_for_which_no_identifier_is_free_takes_none_from_others_and_is_sent_later() {
    let (table, _) = table_of(2);
    let mut notifier = Notifier::new(&[service(&table, &[1])]);
    let changes = Arc::new(Changes::new(|| ()));
    notifier.listen(&changes);
    notifier.take(&changes);
    let mut told = Vec::new();
    let mut poll = |notifier: &mut Notifier, now, id: u16| {
        notifier.poll(now, || id, |out| push(&mut told, (out.zone.clone(), id)));
        told.len()
    };
    assert_eq!(poll(&mut notifier, 0, 5), 1);
    assert_eq!(notifier.next_deadline(), Some(nanoseconds(NOTIFY_TIMEOUT)));
    assert_eq!(notifier.in_flight.len(), 1);
    // The first again, and the second.
    assert_eq!(poll(&mut notifier, nanoseconds(NOTIFY_TIMEOUT), 6), 2);
    assert_eq!(poll(&mut notifier, nanoseconds(NOTIFY_TIMEOUT) * 2, 7), 3);
    assert!(told[0].0 != told[1].0 || told[0].0 != told[2].0, "{told:?}");
}

#[test]
fn a_server_that_nothing_could_be_sent_to_is_not_said_to_be_silent() {
    let mut fixture = Fixture::new(&[1]);
    let end = |fixture: &mut Fixture, version, seconds: std::ops::Range<u64>| {
        let ended = |second| fixture.poll(second, version).1;
        seconds.flat_map(ended).map(|(_, outcome)| outcome).collect::<Vec<_>>()
    };
    fixture.reaches = false;
    assert_eq!(end(&mut fixture, 7, 0..100), [Outcome::Unsent]);
    assert_eq!(end(&mut fixture, 8, 100..110), []);
    fixture.reaches = true;
    assert_eq!(end(&mut fixture, 8, 110..200), [Outcome::GivenUp(None)]);
    fixture.reaches = false;
    assert_eq!(end(&mut fixture, 9, 200..300), [Outcome::Unsent]);
}
