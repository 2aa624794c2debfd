//! The loop over a UDP socket: batched system calls, and a queue of answers if any are held back.

use crate::queue::Queue;
use crate::{Fate, Injection, Injector, Medium, Truth, inject, listen};
use lab_sys::batch::{Batch, Peer};
use lab_sys::poll::{Interest, Poller};
use nodens_wire::Rcode;
use socket2::{Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Datagrams per system call.
const BATCH: usize = 64;
/// Octets of a datagram that are answered, and of an answer.
pub const DATAGRAM_LEN_MAX: usize = 1_232;
/// Receive buffer asked for; the kernel may give less.
const RECEIVE_BUFFER: usize = 4 << 20;
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Nanoseconds that waking up may take: answers due sooner are waited for without sleeping.
const WAKE_UP: u64 = 80_000;
/// Answers that one thread holds back at most.
const WAITING_MAX: usize = 1 << 20;
/// The oldest arrival that is accepted from a timestamp of the kernel: the wall clock may step.
const AGE_MAX: Duration = Duration::from_secs(5);

/// What a server is to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to inject.
    pub injection: Injection,
    /// Threads, each with a socket of its own on the same port; at least one is started.
    pub threads: usize,
    /// How many arrival times each thread keeps.
    pub arrivals_kept: usize,
    /// How long each answer is at least, up to [`DATAGRAM_LEN_MAX`]: shorter ones have one more record.
    pub octets: usize,
}

/// What a server has done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counts of what was injected.
    pub truth: Truth,
    /// When queries reached the socket, in nanoseconds since the start, in order.
    pub arrivals: Vec<u64>,
}

impl Report {
    /// Adds what another thread did.
    pub fn merge(&mut self, other: Self) {
        self.truth.merge(&other.truth);
        self.arrivals.extend(other.arrivals);
        self.arrivals.sort_unstable();
    }
}

/// A server in threads of this process. It ends when the value goes.
#[derive(Debug)]
pub struct Echo {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<Report>>>,
}

impl Echo {
    /// Listens on `address`; port 0 is a free one.
    pub fn start(address: SocketAddr, options: Options) -> io::Result<Self> {
        let count = options.threads.max(1);
        let (address, sockets) = listen::on_one_port(address, Type::DGRAM, count)?;
        for socket in &sockets {
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (start, plain) = (Instant::now(), options.injection.is_plain());
        let injectors = Injector::for_threads(options.injection, count);
        let threads = sockets.into_iter().zip(injectors).map(|(socket, injector)| {
            let (stop, kept, octets) = (stop.clone(), options.arrivals_kept, options.octets);
            std::thread::spawn(move || {
                let server = Server::new(socket, start, kept, octets)?;
                if plain { server.serve_plain(&stop) } else { server.serve(injector, &stop) }
            })
        });
        let threads = threads.collect();
        Ok(Self { address, stop, threads })
    }

    /// A server made of threads that end when `stop` is set.
    pub(crate) fn of(
        address: SocketAddr,
        stop: Arc<AtomicBool>,
        threads: Vec<JoinHandle<io::Result<Report>>>,
    ) -> Self {
        Self { address, stop, threads }
    }

    /// Whether a thread has ended by itself, which only an error makes it do.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the server and says what it did.
    pub fn stop(mut self) -> io::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let mut report = Report::default();
        for thread in self.threads.drain(..) {
            let panicked = |_| Err(io::Error::other("an echo thread panicked"));
            report.merge(thread.join().unwrap_or_else(panicked)?);
        }
        Ok(report)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The result is available with `stop`.
            _ = thread.join();
        }
    }
}

/// An answer that waits.
struct Held {
    peer: Peer,
    arrived: u64,
    message: Vec<u8>,
}

struct Server {
    socket: Socket,
    poller: Poller,
    start: Instant,
    /// How many more arrivals to keep.
    kept: usize,
    arrivals: Vec<u64>,
    /// See [`Options::octets`].
    octets: usize,
}

impl Server {
    fn new(socket: Socket, start: Instant, kept: usize, octets: usize) -> io::Result<Self> {
        let poller = Poller::new(1)?;
        poller.add(socket.as_fd(), 0, Interest::Read)?;
        Ok(Self { socket, poller, start, kept, arrivals: Vec::new(), octets })
    }

    /// The wall clock, and then the other: a pause between the two makes an arrival seem later and
    /// never earlier, so that no answer is held for less than its time.
    fn clocks(&self) -> (SystemTime, u64) {
        let wall = SystemTime::now();
        (wall, self.now())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Receives a batch; false if there is nothing.
    fn receive(&self, batch: &mut Batch) -> io::Result<bool> {
        match batch.receive(self.socket.as_fd()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Hands the batch to the kernel: how many it took, and how many not.
    fn send(&self, batch: &mut Batch) -> (u64, u64) {
        let (mut first, mut unsent) = (0, 0);
        while first < batch.len() {
            match batch.send(self.socket.as_fd(), first) {
                Ok(count) => first += count,
                // No room, or the client has gone: as on any network, this answer is lost.
                Err(_) => (first, unsent) = (first + 1, unsent + 1),
            }
        }
        (batch.len() as u64 - unsent, unsent)
    }

    /// Answers at once and counts.
    fn serve_plain(mut self, stop: &AtomicBool) -> io::Result<Report> {
        let mut batch = Batch::with_peers(BATCH, DATAGRAM_LEN_MAX);
        if self.kept > 0 {
            lab_sys::socket::stamp_arrivals(self.socket.as_fd())?;
            batch = batch.with_stamps();
        }
        let mut truth = Truth::default();
        while !stop.load(Ordering::Relaxed) {
            if !self.receive(&mut batch)? {
                drop(self.poller.wait(SLEEP_MAX)?);
                continue;
            }
            if self.kept > 0 {
                let (wall, now) = self.clocks();
                for at in 0..batch.len() {
                    let arrived = arrival(batch.stamp(at), now, wall);
                    self.keep(arrived, batch.get(at));
                }
            }
            let received = batch.len() as u64;
            keep_questions(&mut batch, self.octets);
            let questions = batch.len() as u64;
            let (sent, unsent) = self.send(&mut batch);
            truth.questions += questions;
            truth.ignored += received - questions;
            truth.rcodes[0] += questions;
            truth.sent += sent;
            truth.unsent += unsent;
        }
        Ok(Report { truth, arrivals: self.arrivals })
    }

    /// Answers when and how the injector says.
    fn serve(mut self, mut injector: Injector, stop: &AtomicBool) -> io::Result<Report> {
        lab_sys::socket::stamp_arrivals(self.socket.as_fd())?;
        lab_sys::cpu::tighten_timers();
        let mut into = Batch::with_peers(BATCH, DATAGRAM_LEN_MAX).with_stamps();
        let mut out = Batch::with_peers(BATCH, DATAGRAM_LEN_MAX);
        let mut queue = Queue::new(WAITING_MAX);
        while !stop.load(Ordering::Relaxed) {
            if self.receive(&mut into)? {
                let (wall, now) = self.clocks();
                for at in 0..into.len() {
                    let arrived = arrival(into.stamp(at), now, wall);
                    self.keep(arrived, into.get(at));
                    let fate = injector.decide(arrived, into.get(at), Medium::Datagram);
                    work(injector.work())?;
                    if let (Some(fate), Some(peer)) = (fate, into.peer(at)) {
                        lengthen(&mut into, at, self.octets);
                        let held = Held { peer, arrived, message: into.get(at).to_vec() };
                        hold(&mut queue, held, &fate, &mut injector.truth);
                    }
                }
                self.release(&mut queue, &mut out, &mut injector.truth);
                continue;
            }
            self.release(&mut queue, &mut out, &mut injector.truth);
            let next = queue.next_due().unwrap_or(u64::MAX).saturating_sub(WAKE_UP);
            let sleep = Duration::from_nanos(next.saturating_sub(self.now())).min(SLEEP_MAX);
            if !sleep.is_zero() {
                drop(self.poller.wait(sleep)?);
            }
        }
        injector.truth.unfinished += queue.len() as u64;
        Ok(Report { truth: injector.truth, arrivals: self.arrivals })
    }

    /// Sends what is due.
    fn release(&self, queue: &mut Queue<Held>, out: &mut Batch, truth: &mut Truth) {
        loop {
            let now = self.now();
            out.clear();
            while !out.is_full() {
                let Some(held) = queue.pop(now) else { break };
                out.push_to(&held.message, &held.peer);
                truth.held.record(now.saturating_sub(held.arrived));
            }
            if out.is_empty() {
                return;
            }
            let (sent, unsent) = self.send(out);
            truth.sent += sent;
            truth.unsent += unsent;
        }
    }

    fn keep(&mut self, arrived: u64, message: &[u8]) {
        if self.kept > 0 && inject::is_question(message) {
            self.kept -= 1;
            self.arrivals.push(arrived);
        }
    }
}

/// Uses `time` of CPU, however long that takes.
fn work(time: Duration) -> io::Result<()> {
    if time.is_zero() {
        return Ok(());
    }
    let until = lab_sys::cpu::thread_time()? + time;
    while lab_sys::cpu::thread_time()? < until {
        std::hint::spin_loop();
    }
    Ok(())
}

/// When a datagram arrived that was received at `now`, which is `wall` on the wall clock.
///
/// The difference of two wall-clock times is all that is taken from the kernel's stamp.
fn arrival(stamp: Option<Duration>, now: u64, wall: SystemTime) -> u64 {
    let stamp = stamp.and_then(|stamp| SystemTime::UNIX_EPOCH.checked_add(stamp));
    let age = stamp.and_then(|stamp| wall.duration_since(stamp).ok());
    let age = age.filter(|age| *age < AGE_MAX).unwrap_or_default();
    now.saturating_sub(age.as_nanos() as u64)
}

/// Keeps the answer until its time, as often as it is to be sent.
fn hold(queue: &mut Queue<Held>, mut held: Held, fate: &Fate, truth: &mut Truth) {
    inject::answer(&mut held.message, fate);
    for _ in 1..fate.copies {
        let again = Held { peer: held.peer, arrived: held.arrived, message: held.message.clone() };
        truth.overflowed += u64::from(queue.push(fate.at, again).is_err());
    }
    if fate.copies > 0 {
        truth.overflowed += u64::from(queue.push(fate.at, held).is_err());
    }
}

/// Turns queries into answers and drops everything else, so that two echoes never answer each
/// other for ever.
fn keep_questions(batch: &mut Batch, octets: usize) {
    let fate = Fate { copies: 1, at: 0, truncated: false, rcode: Rcode::NOERROR };
    let mut at = 0;
    while at < batch.len() {
        if inject::is_question(batch.get(at)) {
            inject::answer(batch.get_mut(at), &fate);
            lengthen(batch, at, octets);
            at += 1;
        } else {
            batch.swap_remove(at);
        }
    }
}

/// Makes an answer so long, if it is shorter by as much as another record takes.
fn lengthen(batch: &mut Batch, at: usize, octets: usize) {
    let len = batch.get(at).len();
    if octets > len && !inject::fill(batch.lengthen(at, octets), len) {
        batch.shorten(at, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::HEADER_LEN;
    use std::net::UdpSocket;

    const QUESTION: [u8; 17] = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];

    fn client(echo: &Echo) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(echo.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    fn start(options: Options) -> Echo {
        Echo::start("127.0.0.1:0".parse().unwrap(), options).unwrap()
    }

    fn question(n: u16) -> [u8; 17] {
        let mut question = QUESTION;
        question[..2].copy_from_slice(&n.to_be_bytes());
        question
    }

    #[test]
    fn work_costs_the_time_that_was_asked_for() {
        let before = lab_sys::cpu::thread_time().unwrap();
        (0..100).for_each(|_| work(Duration::from_micros(50)).unwrap());
        let used = lab_sys::cpu::thread_time().unwrap() - before;
        assert!(used >= Duration::from_millis(5), "{used:?}");
        work(Duration::ZERO).unwrap();
    }

    #[test]
    fn queries_become_answers_and_the_rest_is_dropped() {
        let mut answer = QUESTION;
        answer[2] |= 0x80;
        let mut batch = Batch::connected(4, 64);
        assert!(batch.push(&answer) && batch.push(&[1]) && batch.push(&QUESTION));
        keep_questions(&mut batch, 0);
        assert_eq!((batch.len(), batch.get(0)), (1, &answer[..]));
    }

    #[test]
    fn answers_are_as_long_as_wanted_and_whole_messages() {
        let slow = Injection { latency: Some("1ms".parse().unwrap()), ..Injection::default() };
        for injection in [Injection::default(), slow] {
            for (octets, len) in
                [(0, 17), (16, 17), (17, 17), (27, 17), (28, 28), (500, 500), (1232, 1232)]
            {
                let echo =
                    start(Options { injection: injection.clone(), octets, ..Options::default() });
                let (client, mut answer) = (client(&echo), [0xff; 2000]);
                // Longer ones in the same buffer before.
                for n in 0..3 {
                    client.send(&question(n)).unwrap();
                    assert_eq!(client.recv(&mut answer).unwrap(), len, "{octets}");
                }
                let answer = &answer[..len];
                let header = nodens_wire::Header::read(answer).unwrap();
                let has_record = len > QUESTION.len();
                assert_eq!((header.id, header.counts), (2, [1, 0, 0, u16::from(has_record)]));
                assert_eq!(answer[HEADER_LEN..17], QUESTION[HEADER_LEN..]);
                let rdlength = u16::try_from(len - 17).unwrap().saturating_sub(11).to_be_bytes();
                let head = [0, 0, 10, 0, 1, 0, 0, 0, 0, rdlength[0], rdlength[1]];
                assert!(!has_record || answer[17..28] == head, "{octets}");
            }
        }
    }

    #[test]
    fn a_plain_echo_answers_and_counts_and_keeps_arrivals() {
        let echo = start(Options { threads: 2, arrivals_kept: 1_000, ..Options::default() });
        let socket = client(&echo);
        for n in 0..500 {
            socket.send(&question(n)).unwrap();
            let mut got = [0; 32];
            assert_eq!(socket.recv(&mut got).unwrap(), 17);
            assert_eq!(got[..4], [(n >> 8) as u8, n as u8, 0x81, 0]);
        }
        socket.send(&[1, 2, 3]).unwrap();
        socket.send(&question(9)).unwrap();
        socket.recv(&mut [0; 32]).unwrap();
        let report = echo.stop().unwrap();
        assert_eq!((report.truth.questions, report.truth.sent), (501, 501));
        assert_eq!(report.truth.ignored, 1);
        assert!(report.truth.adds_up(), "{:?}", report.truth);
        assert_eq!(report.arrivals.len(), 501);
        assert!(report.arrivals.is_sorted());
    }

    #[test]
    fn what_is_injected_arrives_as_counted_and_never_too_early() {
        let injection = Injection {
            latency: Some("90%:2ms,10%:exp:5ms".parse().unwrap()),
            loss: 0.1,
            duplicate: 0.2,
            truncate: 0.3,
            rcodes: "10%:REFUSED".parse().unwrap(),
            seed: 3,
            ..Injection::default()
        };
        let mut same = Injector::for_threads(injection.clone(), 1).remove(0);
        let echo = start(Options { injection, ..Options::default() });
        let socket = client(&echo);
        let mut seen = Truth::default();
        // In rounds that fit into the client's receive buffer.
        for round in 0..10 {
            let mut copies = 0;
            for n in 0..100 {
                let question = question(round * 100 + n);
                socket.send(&question).unwrap();
                copies += same.decide(0, &question, Medium::Datagram).unwrap().copies;
            }
            for _ in 0..copies {
                let mut got = [0; 32];
                socket.recv(&mut got).unwrap();
                seen.sent += 1;
                seen.truncated += u64::from(got[2] & 2 != 0);
                seen.rcodes[usize::from(got[3] & 15)] += 1;
            }
        }
        let truth = echo.stop().unwrap().truth;
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 32]).is_err(), "more than was injected");
        assert!(truth.adds_up() && truth.questions == 1_000, "{truth:?}");
        assert_eq!(truth.unsent + truth.unfinished + truth.overflowed, 0);
        assert_eq!(seen.sent, 1_000 - truth.lost + truth.duplicated);
        assert!(truth.lost > 50 && truth.duplicated > 100 && truth.truncated > 200);
        assert!(seen.truncated >= truth.truncated);
        assert!(seen.rcodes[5] >= truth.rcodes[5] && truth.rcodes[5] > 50);
        assert_eq!(truth.held.recorded(), truth.sent);
        // Ranks of two multisets, one of which is nowhere smaller: early answers would show here.
        let (held, chosen) = (truth.held.quantile(0.3), truth.chosen.quantile(0.3));
        assert!(held >= chosen, "{held:?} {chosen:?}");
    }

    #[test]
    fn a_stopped_echo_says_what_it_still_held() {
        let injection = Injection { latency: Some("1h".parse().unwrap()), ..Injection::default() };
        let echo = start(Options { injection, arrivals_kept: 10, ..Options::default() });
        let socket = client(&echo);
        (0..5).for_each(|n| _ = socket.send(&question(n)).unwrap());
        // Whether it has received them all cannot be seen from outside.
        std::thread::sleep(Duration::from_millis(500));
        let report = echo.stop().unwrap();
        assert_eq!(report.truth.unfinished, report.truth.questions);
        assert!(report.truth.adds_up() && report.truth.sent == 0);
    }

    #[test]
    fn a_step_of_the_wall_clock_makes_no_nonsense() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let stamp = |millis| Some(Duration::from_millis(millis));
        assert_eq!(arrival(stamp(999_999), 70_000_000, wall), 69_000_000);
        assert_eq!(arrival(stamp(1_000_001), 70_000_000, wall), 70_000_000);
        assert_eq!(arrival(stamp(900_000), 70_000_000, wall), 70_000_000);
        assert_eq!(arrival(None, 70_000_000, wall), 70_000_000);
    }
}
