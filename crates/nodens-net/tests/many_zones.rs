//! What a hundred thousand zones cost that do not change. In a binary of its own, because it counts
//! the descriptors and octets of the whole process.

use nodens_core::log::Sink;
use nodens_net::Notifications;
use nodens_testkit::alloc::{Counting, held};
use nodens_testkit::{PATIENCE, eventually};
use nodens_wire::{Message, Name, NameRef, Rcode, header};
use nodens_zone::{
    Changes, Notifier, NotifyRules, NotifyService, Secondaries, Soa, Version, Zone, ZoneTable,
};
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often zones were asked for their SOA record.
static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// Messages that a secondary got: more than there are zones where a response came late.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

/// A zone with a serial and nothing else.
#[derive(Debug)]
struct Empty(AtomicU32);

impl Zone for Empty {
    fn soa(&self) -> Option<Soa> {
        LOOKS.fetch_add(1, Ordering::Relaxed);
        let (name, serial) = (name("empty.test."), self.0.load(Ordering::Relaxed));
        Some(Soa::with(name.view(), 5, (&name, &name), [serial, 7200, 1800, 86400, 5]))
    }

    fn version(&self) -> Option<Version> {
        None
    }
}

/// All zones have the same secondary, but those whose name is long have none.
#[derive(Debug)]
struct Short(Arc<Secondaries>);

impl NotifyRules for Short {
    fn secondaries(&self, zone: NameRef<'_>) -> Option<Arc<Secondaries>> {
        (zone.as_wire().len() < name("z00.test.").as_wire().len()).then(|| self.0.clone())
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// How often the notifier's thread has gone to sleep.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let mut notify = tasks.filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "notify")
    });
    let status = std::fs::read_to_string(notify.next().unwrap().join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// A secondary that accepts everything; gives the zones it was told of.
fn secondary() -> (Secondaries, mpsc::Receiver<Name>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let servers = vec![socket.local_addr().unwrap()];
    let (told, telling) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            MESSAGES.fetch_add(1, Ordering::Relaxed);
            let message = Message::parse(&buffer[..len]).unwrap();
            let mut reply = buffer[..len].to_vec();
            header::set_flags(&mut reply, message.flags.reply().with_rcode(Rcode::NOERROR));
            socket.send_to(&reply, from).unwrap();
            _ = told.send(message.questions[0].qname.clone());
        }
    });
    (Secondaries { servers, from: None }, telling)
}

/// Looks at zones, without that for each message: so a message that is sent again changes nothing.
fn looks_but_messages() -> usize {
    LOOKS.load(Ordering::Relaxed) - MESSAGES.load(Ordering::Relaxed)
}

/// Waits until there were so many looks but messages, and none come any more.
fn settle(looks: usize) {
    let mut before = None;
    eventually("the end of all messages", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = Some(LOOKS.load(Ordering::Relaxed));
        looks_but_messages() == looks && std::mem::replace(&mut before, now) == now
    });
}

/// What so many zones cost: descriptors, looks at zones until all that have a secondary were told but
/// for one of each message, looks and wake-ups of the notifier while nothing changes, those of one change, less one of each
/// message, octets each.
fn cost(count: u32) -> (usize, usize, (usize, u64), (usize, u64), usize) {
    let (secondaries, told) = secondary();
    let before = (descriptors(), held().octets, looks_but_messages());
    let table = Arc::<ZoneTable>::default();
    table.update(|update| {
        for n in 0..count {
            let zone = Arc::new(Empty(AtomicU32::new(1)));
            assert!(update.add(name(&format!("z{n}.test.")).view(), zone));
        }
    });
    let each = (held().octets - before.1) / count as usize;
    let rules = Arc::new(Short(Arc::new(secondaries)));
    let (sender, _log) = mpsc::sync_channel(64);
    let service = NotifyService { zones: table.clone(), rules };
    let notifications = Notifications::start(&[service], &[], Sink::new(sender)).unwrap();
    let tell = || told.recv_timeout(PATIENCE).unwrap();
    // A message may come twice.
    let mut zones = HashSet::new();
    while zones.len() < 10 {
        zones.insert(tell());
    }
    // Each is noticed and accepted, and the notifier has taken the last response.
    settle(before.2 + 2 * 10);
    let (descriptors, looks) = (descriptors() - before.0, looks_but_messages() - before.2);
    let (rests, quiet) = (LOOKS.load(Ordering::Relaxed), sleeps());
    std::thread::sleep(Duration::from_secs(3));
    let idle = (LOOKS.load(Ordering::Relaxed) - rests, sleeps() - quiet);
    while told.try_recv().is_ok() {}
    let (looked, slept) = (looks_but_messages(), sleeps());
    let messages = MESSAGES.load(Ordering::Relaxed);
    let changed = Arc::new(Empty(AtomicU32::new(2)));
    table.update(|update| update.replace(name("z7.test.").view(), changed));
    assert_eq!(tell(), name("z7.test."));
    settle(looked + 2);
    let again = MESSAGES.load(Ordering::Relaxed) - messages - 1;
    // One that is sent again wakes the notifier for itself and for its response.
    let slept = (sleeps() - slept).saturating_sub(2 * again as u64);
    let change = (looks_but_messages() - looked, slept);
    drop(notifications);
    (descriptors, looks, idle, change, each)
}

#[allow(clippy::print_stdout, reason = "the figures are wanted, with `--nocapture`")]
#[test]
fn zones_that_do_not_change_cost_memory_alone() {
    let (few, many) = (cost(10), cost(100_000));
    println!("10 zones, (descriptors, looks, idle, change, octets each): {few:?}");
    println!("100,000 zones: {many:?}");
    // The wait of the notifier, its waker, one socket.
    assert_eq!((few.0, many.0), (3, 3));
    // Each zone that has a secondary: when it is noticed and when it is accepted.
    assert_eq!((few.1, many.1), (2 * 10, 2 * 10));
    assert_eq!((few.2, many.2), ((0, 0), (0, 0)));
    // Again one zone's, and a wake-up for the change and for the answer.
    assert_eq!((few.3.0, many.3.0), (2, 2));
    assert!(few.3.1 <= 3 && many.3.1 <= 3, "{few:?} {many:?}");
    assert!(many.4 <= 300, "{} octets", many.4);
    println!("50,000 notified zones, octets each while in flight and after: {:?}", notified());
}

/// Octets that the notifier holds for each of 50,000 zones (fewer than there are identifiers): while responses are
/// waited for, and when all have come.
fn notified() -> [usize; 2] {
    const COUNT: usize = 50_000;
    let server: SocketAddr = "192.0.2.1:53".parse().unwrap();
    let table = Arc::<ZoneTable>::default();
    let zone = Arc::new(Empty(AtomicU32::new(1)));
    table.update(|update| {
        for n in 0..COUNT {
            assert!(update.add(name(&format!("{n}.")).view(), zone.clone()));
        }
    });
    let rules = Arc::new(Short(Arc::new(Secondaries { servers: vec![server], from: None })));
    let before = held().octets;
    let changes = Arc::new(Changes::new(|| ()));
    let mut notifier = Notifier::new(&[NotifyService { zones: table, rules }]);
    notifier.listen(&changes);
    notifier.take(&changes);
    let (mut now, mut id, mut responses) = (0, 0, Vec::new());
    while responses.len() < COUNT {
        let ids = || {
            id += 1;
            id as u16
        };
        notifier.poll(now, ids, |out| {
            // Of the response, only its header.
            let mut response = out.message[..12].to_vec();
            let flags = header::flags(&response).reply();
            header::set_flags(&mut response, flags);
            response[4..].fill(0);
            responses.push(response.into_boxed_slice());
            true
        });
        // As if it were the same moment: nothing is sent again.
        now += 1;
        now = notifier.next_deadline().unwrap_or(now).max(now);
    }
    let kept = responses.len() * 12 + responses.capacity() * size_of::<Box<[u8]>>();
    let in_flight = held().octets - before - kept;
    let accepted = responses.iter().filter_map(|response| notifier.receive(server, response));
    assert_eq!(accepted.count(), COUNT);
    [in_flight / COUNT, (held().octets - before - kept) / COUNT]
}
