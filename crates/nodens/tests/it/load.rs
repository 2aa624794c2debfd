//! A steady stream of queries, for tests that do something else meanwhile. It loses no count: a
//! query is answered with the right RCODE, answered wrongly, or lost.

use nodens_wire::{Builder, Class, Flags, Message, Name, Rcode, Type};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A client gives up after this long, as stub resolvers do.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long answers are waited for before their queries count as lost: on a busy machine others
/// may have the CPU for seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Queries that a server's socket holds, however long a busy machine lets the server wait for a
/// CPU: the kernel may cap a receive buffer at 416 KiB and counts 1 KiB or less for each.
pub(crate) const SOCKET_HOLDS: u64 = 250;

/// What became of the queries.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) wrong: u64,
    pub(crate) lost: u64,
    /// Sorted response times from the intended time of sending.
    pub(crate) times: Vec<Duration>,
}

impl Tally {
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let rank = (self.times.len() as f64 * percent / 100.0).ceil() as usize;
        self.times.get(rank.saturating_sub(1)).copied().unwrap_or(TIMEOUT)
    }
}

/// A running stream of queries.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    /// Set once nothing more will be sent.
    sent_all: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<Tally>,
    slots: Arc<Vec<AtomicU64>>,
}

impl Load {
    /// Asks `rate` queries a second for what `qname` gives, with at most `under_way_max` of them
    /// under way. Response times count from when a query should have been sent all the same.
    pub(crate) fn start(
        server: SocketAddr,
        (rate, under_way_max): (u64, u64),
        qname: impl Fn(u64) -> String + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // A busy machine must not lose answers on this side.
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
        let (stop, sent_all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        // Nanoseconds since `start` of the intended sending, by ID; 0 when nothing is under way.
        let slots: Arc<Vec<AtomicU64>> = Arc::new((0..=u16::MAX).map(|_| 0.into()).collect());
        let answered = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let sender = {
            let (socket, slots, stop) = (socket.try_clone().unwrap(), slots.clone(), stop.clone());
            let answered = answered.clone();
            std::thread::spawn(move || {
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    let due = Duration::from_nanos(1 + sent * 1_000_000_000 / rate);
                    if let Some(wait) = due.checked_sub(start.elapsed()) {
                        std::thread::sleep(wait);
                    }
                    if sent - answered.load(Ordering::Relaxed) >= under_way_max {
                        std::thread::sleep(Duration::from_micros(100));
                        continue;
                    }
                    let id = sent as u16;
                    let before =
                        slots[usize::from(id)].swap(due.as_nanos() as u64, Ordering::Relaxed);
                    assert_eq!(before, 0, "a question of {} s ago is still open", 65_536 / rate);
                    socket.send(&question(id, &qname(sent))).unwrap();
                    sent += 1;
                }
                sent
            })
        };
        let receiver = {
            let (slots, sent_all) = (slots.clone(), sent_all.clone());
            std::thread::spawn(move || receive(&socket, (&slots, &answered), &sent_all, start))
        };
        Self { stop, sent_all, sender, receiver, slots }
    }

    /// Stops asking, waits for what is under way, and tells.
    pub(crate) fn finish(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        self.sent_all.store(true, Ordering::Relaxed);
        let mut tally = self.receiver.join().unwrap();
        tally.sent = sent;
        let open = self.slots.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0);
        tally.lost = open.count() as u64;
        tally.times.sort_unstable();
        tally
    }
}

fn question(id: u16, qname: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let qname: Name = qname.parse().unwrap();
    Builder::new(&mut out, id, Flags(Flags::RD)).question(qname.view(), Type::A, Class::IN);
    out
}

fn receive(
    socket: &UdpSocket,
    (slots, answered): (&[AtomicU64], &AtomicU64),
    sent_all: &AtomicBool,
    start: Instant,
) -> Tally {
    let mut tally = Tally::default();
    let mut buffer = [0; 4096];
    let mut deadline = None;
    loop {
        if sent_all.load(Ordering::Relaxed) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            let open = slots.iter().any(|slot| slot.load(Ordering::Relaxed) != 0);
            if !open || Instant::now() > deadline {
                return tally;
            }
        }
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let now = start.elapsed();
        let Ok(message) = Message::parse(&buffer[..len]) else {
            tally.wrong += 1;
            continue;
        };
        let due = slots[usize::from(message.id)].swap(0, Ordering::Relaxed);
        if due != 0 {
            answered.fetch_add(1, Ordering::Relaxed);
        }
        if message.flags.rcode() != Rcode::NOERROR {
            tally.wrong += 1;
        }
        tally.times.push(now.saturating_sub(Duration::from_nanos(due)));
    }
}
