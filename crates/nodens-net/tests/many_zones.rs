//! What a hundred thousand zones cost that do not change. In a binary of its own, because it counts
//! the descriptors and octets of the whole process.

use nodens_core::log::Sink;
use nodens_net::Notifications;
use nodens_wire::{Message, Name, NameRef, Rcode, header};
use nodens_zone::{NotifyRules, NotifyService, Secondaries, Soa, Version, Zone, ZoneTable};
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often zones were asked for their SOA record.
static LOOKS: AtomicUsize = AtomicUsize::new(0);

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
            let message = Message::parse(&buffer[..len]).unwrap();
            let mut reply = buffer[..len].to_vec();
            header::set_flags(&mut reply, message.flags.reply().with_rcode(Rcode::NOERROR));
            socket.send_to(&reply, from).unwrap();
            _ = told.send(message.questions[0].qname.clone());
        }
    });
    (Secondaries { servers, from: None }, telling)
}

/// What so many zones cost: descriptors, looks at zones until all that have a secondary were told,
/// looks and wake-ups of the notifier while nothing changes, those of one change, octets each.
fn cost(count: u32) -> (usize, usize, (usize, u64), (usize, u64), usize) {
    let (secondaries, told) = secondary();
    let before = (descriptors(), LIVE.load(Ordering::Relaxed), LOOKS.load(Ordering::Relaxed));
    let table = Arc::<ZoneTable>::default();
    table.update(|update| {
        for n in 0..count {
            let zone = Arc::new(Empty(AtomicU32::new(1)));
            assert!(update.add(name(&format!("z{n}.test.")).view(), zone));
        }
    });
    let each = (LIVE.load(Ordering::Relaxed) - before.1) / count as usize;
    let rules = Arc::new(Short(Arc::new(secondaries)));
    let (sender, _log) = mpsc::sync_channel(64);
    let service = NotifyService { zones: table.clone(), rules };
    let notifications = Notifications::start(&[service], Sink::new(sender)).unwrap();
    let tell = || told.recv_timeout(Duration::from_secs(60)).unwrap();
    for _ in 0..10 {
        tell();
    }
    // Until the notifier has taken the last answer.
    let start = Instant::now();
    let mut rests = LOOKS.load(Ordering::Relaxed);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let looks = LOOKS.load(Ordering::Relaxed);
        if std::mem::replace(&mut rests, looks) == looks {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    let (descriptors, looks) = (descriptors() - before.0, rests - before.2);
    let quiet = sleeps();
    std::thread::sleep(Duration::from_secs(3));
    let idle = (LOOKS.load(Ordering::Relaxed) - rests, sleeps() - quiet);
    std::thread::sleep(Duration::from_secs(3));
    let (looked, slept) = (LOOKS.load(Ordering::Relaxed), sleeps());
    let changed = Arc::new(Empty(AtomicU32::new(2)));
    table.update(|update| update.replace(name("z7.test.").view(), changed));
    assert_eq!(tell(), name("z7.test."));
    std::thread::sleep(Duration::from_secs(1));
    let change = (LOOKS.load(Ordering::Relaxed) - looked, sleeps() - slept);
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
    // Each zone that has a secondary: when it is noticed, when it is told, when it is accepted.
    assert!(few.1 == many.1 && few.1 <= 3 * 10, "{few:?} {many:?}");
    assert_eq!((few.2, many.2), ((0, 0), (0, 0)));
    // Again one zone's, and a wake-up for the change and for the answer.
    assert_eq!((few.3.0, many.3.0), (3, 3));
    assert!(few.3.1 <= 3 && many.3.1 <= 3, "{few:?} {many:?}");
    assert!(many.4 <= 300, "{} octets", many.4);
}
