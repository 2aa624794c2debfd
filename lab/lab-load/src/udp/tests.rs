use super::fetch::BATCHES_PER_TURN;
use super::*;
use crate::clock::Clock;
use crate::start::{Opening, StartLine};
use crate::transport::Placement;
use crate::{Config, Workload};
use nodens_wire::{Name, Type};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Instant, SystemTime};

/// Longer than the kernel takes to begin with stamps.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls `use_it` with the loop of one client to a server that does nothing by itself.
fn with_loop(stamps: Stamps, use_it: impl FnOnce(&mut Udp<'_>, &UdpSocket)) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let config = Config { clients: 1, stamps, ..Config::new(server.local_addr().unwrap(), 100.0) };
    let mut workload = Workload::new(1);
    workload.push(Name::parse("a.example.").unwrap().view(), Type::A, None);
    let stop = AtomicBool::new(false);
    let (ticks, _received) = mpsc::channel();
    let clock = Clock::new(Duration::ZERO, SystemTime::now);
    let shares = config.shares();
    let placement = Placement::new(&shares, 1, 1, 1);
    let line = StartLine::new(1, SystemTime::now);
    let opening = Opening::default();
    let shard = Shard {
        config: &config,
        workload: &workload,
        share: shares[0],
        placement: &placement,
        clients: 1,
        index: 0,
        threads: 1,
        items: (0, 1),
        clock: clock.into(),
        line: &line,
        opening: &opening,
        late_end: 2 * config.timeout,
        stop: &stop,
        abort: &stop,
        ticks,
    };
    let mut udp = Udp::open(&shard).unwrap();
    use_it(&mut udp, &server);
}

/// Sends a query and returns it as the server got it, with QR set, and where it came from.
fn ask(udp: &mut Udp<'_>, server: &UdpSocket) -> (Vec<u8>, std::net::SocketAddr) {
    udp.enqueue(Due { item: 0, intended: 0, client: 0 });
    udp.send_queues();
    let mut message = [0; 512];
    let (len, client) = server.recv_from(&mut message).unwrap();
    message[2] |= 0x80;
    (message[..len].to_vec(), client)
}

#[test]
fn with_the_kernels_stamps_waiting_in_the_socket_is_no_service_time() {
    let wait = Duration::from_millis(60);
    for stamps in [Stamps::Kernel, Stamps::User] {
        with_loop(stamps, |udp, server| {
            let began = Instant::now();
            let (answer, client) = ask(udp, server);
            server.send_to(&answer, client).unwrap();
            let answered = crate::nanos(began.elapsed());
            std::thread::sleep(wait);
            udp.receive_from(0);
            let tally = &udp.session.tally;
            assert_eq!((tally.counts.answered, udp.unstamped), (1, 0));
            let service = tally.service.max().unwrap();
            match stamps {
                Stamps::Kernel => {
                    assert!(service <= answered, "{service} {answered}");
                    assert!(tally.receive_wait.min().unwrap() >= crate::nanos(wait));
                }
                Stamps::User => {
                    assert!(service >= crate::nanos(wait));
                    assert_eq!(tally.receive_wait.recorded(), 0);
                }
            }
        });
    }
}

#[test]
fn after_a_pause_answers_that_came_in_time_by_the_kernels_stamps_are_no_timeouts() {
    // More than are taken from one socket in a turn; all of them fit into its buffer.
    const QUESTIONS: usize = (BATCHES_PER_TURN + 2) * BATCH;
    with_loop(Stamps::Kernel, |udp, server| {
        let answer_one = |udp: &mut Udp<'_>| {
            let (answer, client) = ask(udp, server);
            server.send_to(&answer, client).unwrap();
        };
        // The kernel takes some time to begin with stamps; until then it stamps what is fetched.
        let pause = Duration::from_millis(10);
        let began = Instant::now();
        while udp.session.tally.receive_wait.max() < Some(crate::nanos(pause)) {
            answer_one(udp);
            std::thread::sleep(pause);
            udp.receive_from(0);
            assert!(began.elapsed() < PATIENCE, "{} without a stamp", udp.unstamped);
        }
        let before = udp.session.tally.counts;
        (0..QUESTIONS).for_each(|_| answer_one(udp));
        // One without an answer.
        ask(udp, server);
        udp.housekeeping();
        let wait = 3 * udp.shard.config.timeout;
        std::thread::sleep(wait);
        udp.receive(None).unwrap();
        udp.housekeeping();
        assert!(udp.pause >= crate::nanos(wait), "some were left in the socket");
        let counts = udp.session.tally.counts.since(&before);
        assert_eq!((counts.answered, counts.timed_out), (QUESTIONS as u64, 1), "{counts:?}");
        udp.receive(None).unwrap();
        assert_eq!(udp.pause, 0, "what comes now did not wait for that long");
    });
}

#[test]
fn a_spinning_thread_reads_late_answers_when_they_come() {
    with_loop(Stamps::User, |udp, server| {
        udp.poller = None;
        udp.receive(None).unwrap();
        let (answer, client) = ask(udp, server);
        std::thread::sleep(udp.shard.config.timeout + Duration::from_millis(10));
        udp.housekeeping();
        assert_eq!(udp.session.waiting(0), 0, "given up");
        server.send_to(&answer, client).unwrap();
        udp.receive(None).unwrap();
        let counts = udp.session.tally.counts;
        assert_eq!((counts.timed_out, counts.late, counts.unknown), (1, 1, 0), "{counts:?}");
    });
}

#[test]
fn answers_that_found_no_room_in_the_own_socket_are_reported() {
    with_loop(Stamps::User, |udp, server| {
        udp.sockets[0].set_recv_buffer_size(4_096).unwrap();
        let (answer, client) = ask(udp, server);
        for _ in 0..2_000 {
            server.send_to(&answer, client).unwrap();
        }
        udp.receive_from(0);
        let received = udp.session.tally.counts.received;
        assert!(received > 0 && received < 2_000, "{received}");
        // All of them are accounted for: received, still in the socket, or dropped.
        (0..100).for_each(|_| _ = udp.receive_from(0));
        assert!(udp.dropped() > 0);
        assert_eq!(udp.dropped() + udp.session.tally.counts.received, 2_000);
        assert_eq!(udp.session.tally.counts.answered, 1);
    });
}

#[test]
fn what_waits_to_be_sent_when_the_run_is_stopped_is_skipped_and_what_is_in_flight_interrupted() {
    with_loop(Stamps::User, |udp, server| {
        ask(udp, server);
        for item in 1..4 {
            udp.enqueue(Due { item, intended: item, client: 0 });
        }
        udp.session.interrupt();
        udp.drop_queues();
        let counts = udp.session.tally.counts;
        assert_eq!((counts.scheduled, counts.interrupted, counts.skipped), (4, 1, 3));
        assert_eq!(udp.session.tally.contradictions(), [""; 0]);
    });
}

#[test]
fn queries_are_stamped_before_the_kernel_has_them() {
    const QUESTIONS: usize = 200;
    with_loop(Stamps::User, |udp, server| {
        lab_sys::socket::stamp_arrivals(server.as_fd()).unwrap();
        let start = udp.shard.clock.get().label().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let mut early = Vec::new();
        for _ in 0..QUESTIONS {
            udp.session.tally.lateness.clear();
            udp.enqueue(Due { item: 0, intended: 0, client: 0 });
            udp.send_queues();
            // Intended for the start, so its lateness is its stamp.
            let stamp = udp.session.tally.lateness.max().unwrap();
            server.peek(&mut [0]).unwrap();
            let mut batch = Batch::connected(1, 512).with_stamps();
            batch.receive(server.as_fd()).unwrap();
            let arrived = crate::nanos(batch.stamp(0).unwrap() - start);
            early.push(arrived as i64 - stamp as i64);
        }
        early.sort_unstable();
        // The median, since the two clocks cannot be read at once and a machine may be busy.
        assert!(early[QUESTIONS / 2] > 0, "{early:?}");
        // One system call per query was timed: that bounds how far the stamps may be off.
        assert_eq!(udp.session.tally.send_call.recorded(), QUESTIONS as u64);
    });
}

/// Opening the sockets took longer than the whole run and its grace: the run is late, not empty.
#[test]
fn a_thread_that_begins_after_the_end_still_sends_what_it_was_to_send() {
    with_loop(Stamps::User, |udp, server| {
        let late = udp.shard.send_end(0) + 1;
        assert!(late < udp.shard.send_end(late));
        assert_eq!(udp.shard.send_end(0), crate::nanos(udp.shard.config.duration) + crate::SECOND);
        udp.enqueue(Due { item: 0, intended: 0, client: 0 });
        udp.end_queues();
        let counts = udp.session.tally.counts;
        assert_eq!((counts.scheduled, counts.skipped, counts.overdue), (1, 1, 1));
        assert_eq!((udp.queued, udp.dirty.len()), (0, 0));
        _ = ask(udp, server);
        assert_eq!(udp.session.tally.counts.sent, 1);
    });
}
