//! Whole runs against servers that behave in known ways.

mod octets;
mod streams;
mod truth;

use lab_histogram::Quantile;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Outcome, Pace, Spin, Transport, Workload, run};
use nodens_wire::{Name, Type};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server in a thread that ends with the value.
struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Hands each datagram, with QR set, and its sender to `treat`.
    fn udp(mut treat: impl FnMut(&UdpSocket, &mut [u8], SocketAddr) + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        Self::start(address, move |over| {
            let mut buffer = [0; 512];
            while !over.load(Ordering::Relaxed) {
                if let Ok((len, peer)) = socket.recv_from(&mut buffer) {
                    buffer[2] |= 0x80;
                    treat(&socket, &mut buffer[..len], peer);
                }
            }
        })
    }

    /// Answers `answers` questions per connection and then closes it.
    fn tcp(answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        Self::start(address, move |over| {
            while !over.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                stream.set_nodelay(true).unwrap();
                std::thread::spawn(move || {
                    for _ in 0..answers {
                        let mut len = [0; 2];
                        if stream.read_exact(&mut len).is_err() {
                            return;
                        }
                        let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
                        stream.read_exact(&mut message).unwrap();
                        message[2] |= 0x80;
                        // The frame in two pieces, as a stream may deliver it.
                        stream.write_all(&len).unwrap();
                        stream.write_all(&message).unwrap();
                    }
                });
            }
        })
    }

    fn start(address: SocketAddr, serve: impl FnOnce(Arc<AtomicBool>) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = over.clone();
            move || serve(over)
        });
        Self { address, over, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn workload() -> Workload {
    let mut workload = Workload::new(7);
    for n in 0..50 {
        let name = Name::parse(&format!("n{n}.example.")).unwrap();
        workload.push(name.view(), if n % 2 == 0 { Type::A } else { Type::AAAA }, None);
    }
    workload.shuffle(10_000);
    workload
}

fn config(server: &Server, rate: f64, millis: u64) -> Config {
    let pace = Pace::Open { rate, arrivals: Arrivals::Uniform };
    let (duration, timeout) = (Duration::from_millis(millis), Duration::from_secs(3));
    Config { pace, duration, timeout, clients: 8, ..Config::new(server.address, rate) }
}

/// For servers that do not answer everything.
fn impatient(config: Config) -> Config {
    Config { timeout: Duration::from_millis(300), ..config }
}

/// Runs it and checks that the counts add up.
fn measure(config: &Config) -> Outcome {
    let outcome = run(config, &workload(), &AtomicBool::new(false), |_| {}).unwrap();
    assert_eq!(outcome.tally.contradictions(), [""; 0], "{:?}", outcome.tally.counts);
    outcome
}

#[test]
fn every_question_to_an_echo_is_answered_on_both_kinds_of_loop_and_any_number_of_threads() {
    let server = Server::udp(|socket, message, peer| _ = socket.send_to(message, peer));
    for (threads, spin) in [(1, Spin::Never), (2, Spin::Auto), (3, Spin::Always)] {
        let config = Config { threads, spin, ..config(&server, 2_000.0, 500) };
        let counts = measure(&config).tally.counts;
        assert_eq!((counts.scheduled, counts.sent, counts.answered), (1_000, 1_000, 1_000));
        let pace = Pace::Closed { window: 4 };
        let (queries, duration) = (Some(3_000), Duration::from_secs(60));
        let outcome = measure(&Config { pace, queries, duration, ..config });
        assert!(outcome.tally.counts.answered >= 3_000, "{:?}", outcome.tally.counts);
        assert_eq!(outcome.tally.counts.lost(), 0);
    }
}

#[test]
fn a_freeze_delays_all_questions_of_its_time() {
    let start = Instant::now();
    let freeze = Duration::from_millis(800)..Duration::from_millis(1_300);
    let server = Server::udp(move |socket, message, peer| {
        if freeze.contains(&start.elapsed()) {
            std::thread::sleep(freeze.end.saturating_sub(start.elapsed()));
        }
        _ = socket.send_to(message, peer);
    });
    let outcome = measure(&config(&server, 400.0, 2_000));
    // A closed loop with a window of 8 would show 8. The ones at the end of the freeze wait little,
    // and a busy machine may delay others, too: that none are is shown where time is simulated.
    let delayed = outcome.tally.response.count_above(50_000_000);
    assert!(delayed >= 160, "{delayed}");
    assert_eq!(outcome.tally.counts.answered, 800);
}

#[test]
fn silence_is_a_timeout_in_the_second_of_the_question_and_the_run_ends() {
    let start = Instant::now();
    let silent = Duration::from_millis(0)..Duration::from_millis(1_000);
    let server = Server::udp(move |socket, message, peer| {
        if !silent.contains(&start.elapsed()) {
            _ = socket.send_to(message, peer);
        }
    });
    let began = Instant::now();
    let outcome = measure(&impatient(config(&server, 500.0, 2_000)));
    assert!(began.elapsed() < Duration::from_secs(6));
    let [first, second] = &outcome.tally.cohorts[..] else { panic!() };
    assert_eq!(first.answered + first.lost(), 500);
    // A busy machine may lose some of the second, too.
    assert!(first.lost() > 400 && second.lost() < 100, "{} {}", first.lost(), second.lost());
    assert_eq!(outcome.tally.response.quantile(0.9), Quantile::AtLeast(300_000_000));
}

#[test]
fn nobody_listening_is_refused_and_not_timed_out() {
    let server = Server::udp(|_, _, _| {});
    let config = config(&server, 500.0, 400);
    drop(server);
    let outcome = measure(&config);
    assert!(outcome.elapsed < Duration::from_secs(1));
    assert_eq!((outcome.tally.counts.refused, outcome.tally.counts.timed_out), (200, 0));
}

#[test]
fn duplicates_forgeries_and_late_answers_are_counted_apart() {
    let mut count = 0;
    let server = Server::udp(move |socket, message, peer| {
        count += 1;
        match count % 4 {
            0 => (0..2).for_each(|_| _ = socket.send_to(message, peer)),
            1 => {
                let forged = [&message[..13], b"x", &message[14..]].concat();
                _ = socket.send_to(&forged, peer);
                _ = socket.send_to(message, peer);
            }
            2 => {
                let (socket, message) = (socket.try_clone().unwrap(), message.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(400));
                    _ = socket.send_to(&message, peer);
                });
            }
            _ => _ = socket.send_to(message, peer),
        }
    });
    let counts = measure(&impatient(config(&server, 200.0, 1_000))).tally.counts;
    assert_eq!((counts.sent, counts.answered, counts.timed_out), (200, 150, 50));
    assert_eq!((counts.duplicate, counts.mismatched), (50, 50));
    // The last ones may come after the end of the run.
    assert!((25..=50).contains(&counts.late), "{}", counts.late);
}

#[test]
fn a_stop_ends_the_run_with_all_counts() {
    let server = Server::udp(|_, _, _| {});
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let config = Config { timeout: Duration::from_secs(5), ..config(&server, 1_000.0, 60_000) };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        run(&config, &workload(), &stop, |_| {}).unwrap()
    });
    assert!(began.elapsed() < Duration::from_secs(3) && outcome.interrupted);
    assert!(outcome.tally.counts.interrupted > 100);
    assert_eq!(outcome.tally.contradictions(), [""; 0]);
}

#[test]
fn tcp_pipelines_and_survives_closed_connections() {
    let server = Server::tcp(usize::MAX);
    let tcp = Config { transport: Transport::Tcp, ..config(&server, 2_000.0, 500) };
    let outcome = measure(&tcp);
    assert_eq!(outcome.tally.counts.answered, 1_000);
    assert_eq!(outcome.tally.connect.recorded(), 8);
    let closed = Config { pace: Pace::Closed { window: 16 }, queries: Some(2_000), ..tcp.clone() };
    assert!(measure(&closed).tally.counts.answered >= 2_000);
    let short = Server::tcp(20);
    let outcome = measure(&Config { server: short.address, ..tcp.clone() });
    assert!(outcome.tally.connect.recorded() > 8 && outcome.tally.counts.answered > 200);
    drop(short);
    let dead = Server::tcp(0);
    let address = dead.address;
    drop(dead);
    let outcome = measure(&Config { server: address, ..tcp });
    let counts = outcome.tally.counts;
    assert_eq!((counts.sent, counts.connection_failed), (1_000, 1_000));
    assert_eq!(outcome.tally.connections.refused, outcome.tally.connections.attempts);
}

#[test]
fn a_rate_that_would_use_up_the_ids_is_refused_before_it_starts() {
    let server = Server::udp(|_, _, _| {});
    let config = Config { clients: 1, ..impatient(config(&server, 1_000_000.0, 1_000)) };
    let error = run(&config, &workload(), &AtomicBool::new(false), |_| {}).unwrap_err();
    assert!(error.to_string().contains("need at least 10 clients"), "{error}");
}

#[test]
fn clients_are_spread_over_the_source_addresses_on_any_number_of_threads() {
    let sources = lab_load::sources::parse("127.0.0.2-127.0.0.4").unwrap();
    for threads in [1, 3] {
        let seen = Arc::new(Mutex::new(std::collections::HashMap::new()));
        let server = Server::udp({
            let seen = seen.clone();
            move |socket, message, peer| {
                seen.lock().unwrap().entry(peer.ip()).or_insert_with(HashSet::new).insert(peer);
                _ = socket.send_to(message, peer);
            }
        });
        let sources = sources.clone();
        let config = Config { threads, sources, clients: 9, ..config(&server, 1_000.0, 300) };
        assert_eq!(measure(&config).tally.counts.answered, 300);
        let seen = seen.lock().unwrap();
        let mut sockets: Vec<_> = seen.iter().map(|(ip, peers)| (*ip, peers.len())).collect();
        sockets.sort();
        let wanted: Vec<_> = config.sources.iter().map(|source| (*source, 3)).collect();
        assert_eq!(sockets, wanted);
    }
    let foreign = Config {
        sources: vec!["::1".parse().unwrap()],
        ..Config::new("127.0.0.1:9".parse().unwrap(), 1.0)
    };
    let error = run(&foreign, &workload(), &AtomicBool::new(false), |_| {}).unwrap_err();
    assert!(error.to_string().contains("::1 cannot be the source"), "{error}");
}

#[test]
fn tcp_clients_have_source_addresses_too() {
    let server = Server::tcp(usize::MAX);
    let sources = lab_load::sources::parse("127.0.0.2,127.0.0.3").unwrap();
    let transport = Transport::Tcp;
    let outcome = measure(&Config { transport, sources, ..config(&server, 500.0, 400) });
    assert_eq!(outcome.tally.counts.answered, 200);
    // An address that is not here: no connection can come from it, and the run says so.
    let sources = vec!["192.0.2.1".parse().unwrap()];
    let outcome = measure(&Config { transport, sources, ..config(&server, 100.0, 200) });
    assert_eq!((outcome.tally.counts.answered, outcome.tally.counts.connection_failed), (0, 20));
    let why = outcome.verdict.invalid.join(" ");
    assert!(why.contains("connections could not be asked for"), "{why}");
}

#[test]
fn a_profile_decides_how_many_questions_each_second_gets() {
    let server = Server::udp(|socket, message, peer| _ = socket.send_to(message, peer));
    let mut config = config(&server, 1.0, 100);
    config.follow(lab_load::schedule::Profile::steps("200:1s,0:500ms,800:500ms,50:1s").unwrap());
    assert_eq!((config.duration, config.peak_rate()), (Duration::from_secs(3), 800.0));
    let outcome = measure(&config);
    let sent: Vec<_> = outcome.tally.cohorts.iter().take(3).map(|cohort| cohort.sent).collect();
    assert_eq!(sent, [200, 400, 50]);
    let endless = Config { profile: lab_load::schedule::Profile::Steps(Vec::new()), ..config };
    assert!(run(&endless, &workload(), &AtomicBool::new(false), |_| {}).is_err());
}
