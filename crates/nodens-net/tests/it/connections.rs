//! How many client connections there may be, which of them stay, and how soon they are served.

use super::client::{Stream, assert_answered, framed, question};
use super::server::{Server, eventually};
use super::tcp::{from, from_address};
use nodens_core::config::BuildOptions;
use nodens_net::Options;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::time::{Duration, Instant};

/// A server whose connections may be idle for so long, with these bounds.
fn with(workers: usize, idle: &str, options: Options) -> Server {
    let timeouts = format!("timeouts {{\n  read 10m\n  idle {idle}\n }}");
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n {timeouts}\n whoami\n}}");
    Server::of(workers, &corefile, options, &BuildOptions::default())
}

/// A connection that has asked one query.
fn served(ip: [u8; 4], port: u16) -> Stream {
    let mut stream = from_address(ip, port);
    assert_answered(&stream.ask("example.org A"));
    stream
}

/// Which of so many connections stay open where 1,000 may be, and 800 of a network, after the first has
/// asked again and again. Twenty more come than there is room for at ease.
fn left_under_pressure(workers: usize, clients: &[[u8; 4]]) -> Vec<bool> {
    let options = Options { connections_max: Some(1000), ..Options::default() };
    // With less than 12 % of the places left, half of that.
    let server = with(workers, "10s", options);
    let port = server.address().port();
    let begun = Instant::now();
    let mut streams: Vec<Stream> = clients.iter().map(|ip| served(*ip, port)).collect();
    assert!(streams.iter().all(Stream::is_open));
    let pressed = || server.count("nodens_tcp_closed_total{reason=\"pressure\"}");
    while pressed() < 20 {
        assert!(begun.elapsed() < Duration::from_secs(30), "only {} are closed", pressed());
        // Whoever asks stays.
        assert_answered(&streams[0].ask("example.org A"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(9), "closed after {took:?}, no sooner than in quiet times");
    let open: Vec<bool> = streams.iter().map(Stream::is_open).collect();
    // No more than it took.
    let left = open.iter().filter(|open| **open).count();
    let most = clients.len() - 20;
    assert!((most - 10..=most).contains(&left), "{left} are open");
    server.stop();
    open
}

#[test]
fn few_places_shorten_the_time_that_connections_may_be_idle() {
    let open = left_under_pressure(1, &of_nine_networks());
    let closed: Vec<usize> = (0..open.len()).filter(|at| !open[*at]).collect();
    assert!(closed.iter().all(|at| (1..=30).contains(at)), "closed: {closed:?}");
}

fn of_nine_networks() -> Vec<[u8; 4]> {
    (0..900_u16).map(|number| [127, 1, (number / 100) as u8, 1]).collect()
}

#[test]
fn a_network_with_few_places_left_shortens_the_time_of_its_own_connections() {
    // As the pods of a node, which are all of one network.
    let clients: Vec<_> = (0..724_u16).map(|number| [127, 1, 1, (number / 100) as u8]).collect();
    let open = left_under_pressure(1, &clients);
    let closed: Vec<usize> = (0..open.len()).filter(|at| !open[*at]).collect();
    assert!(closed.iter().all(|at| (1..=30).contains(at)), "closed: {closed:?}");
}

#[test]
fn shorter_times_of_a_reload_are_for_open_connections_too() {
    let corefile = |idle: &str| {
        format!(".:0 {{\n bind 127.0.0.1\n timeouts {{\n  idle {idle}\n }}\n whoami\n}}")
    };
    let mut server = Server::of(1, &corefile("10m"), Options::default(), &BuildOptions::default());
    let mut stream = served([127, 0, 0, 1], server.address().port());
    server.reload(&corefile("20m")).unwrap();
    assert_answered(&stream.ask("example.org A"));
    server.reload(&corefile("1s")).unwrap();
    eventually("the idle connection to be closed", || !stream.is_open());
    server.stop();
}

#[test]
fn each_worker_closes_its_own_idle_connections_while_few_places_are_left() {
    // Which of the workers is first is not certain.
    assert!(left_under_pressure(2, &of_nine_networks())[0], "the connection that asks is closed");
}

/// Lets this thread run on one of the CPUs it may run on, given by its place, or on the last.
fn run_on(place: usize) {
    let allowed = sched_getaffinity(None).unwrap();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut one = CpuSet::new();
    one.set(*cpus.get(place).or(cpus.last()).unwrap());
    sched_setaffinity(None, &one).unwrap();
}

#[test]
fn what_is_idle_for_longest_goes_first_whichever_worker_has_it() {
    // With a worker for each CPU, connections are those of the worker on their client's CPU.
    let options = Options { connections_max: Some(64), pin: true, ..Options::default() };
    let workers = nodens_net::cpu::allowed().len();
    let server = with(workers, "10m", options);
    let port = server.address().port();
    let connect = |(place, net): (usize, u8)| {
        let open = move || {
            run_on(place);
            served([127, 1, net, 1], port)
        };
        let stream = std::thread::spawn(open).join().unwrap();
        // An eighth of the places is kept free.
        eventually("room to be made", || server.count("nodens_tcp_connections") <= 56);
        stream
    };
    let old: Vec<Stream> = (0..40).map(|at| connect((0, at % 4))).collect();
    // Less than a tenth of a second makes no difference.
    std::thread::sleep(Duration::from_millis(300));
    let new: Vec<Stream> = (0..40).map(|at| connect((usize::MAX, 4 + at % 4))).collect();
    let closed = |streams: &[Stream]| {
        let all = streams.iter().enumerate();
        all.filter(|(_, stream)| !stream.is_open()).map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(closed(&new), []);
    assert_eq!(closed(&old), (0..24).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn a_network_that_has_all_it_may_loses_its_own_longest_idle_connection() {
    let options = Options { connections_per_network: Some(16), ..Options::default() };
    let server = with(1, "10m", options);
    let port = server.address().port();
    let other = served([127, 0, 1, 1], port);
    let streams: Vec<Stream> = (10..50).map(|last| served([127, 0, 0, last], port)).collect();
    let open: Vec<bool> = streams.iter().map(Stream::is_open).collect();
    assert!(open[28..].iter().all(|open| *open), "{open:?}");
    assert!(!open[..24].contains(&true), "{open:?}");
    assert!(other.is_open(), "a client of another network lost its connection");
    assert!(server.count("nodens_tcp_connections") <= 17);
    drop(streams);
    eventually("its places to be free", || server.count("nodens_tcp_connections") == 1);
    // What was known of it does no harm to those that come then.
    let again: Vec<Stream> = (10..24).map(|last| served([127, 0, 0, last], port)).collect();
    assert!(again.iter().all(Stream::is_open));
    server.stop();
}

#[test]
fn two_questions_in_one_write_are_answered_at_once_on_a_fresh_connection() {
    let server = with(1, "10m", Options::default());
    let port = server.address().port();
    let both = [framed(&question(1, "a.test A")), framed(&question(2, "a.test AAAA"))].concat();
    let times = (0..20).map(|_| {
        let mut stream = from(port, 1);
        let begun = Instant::now();
        stream.0.write_all(&both).unwrap();
        assert_eq!((stream.receive().id, stream.receive().id), (1, 2));
        begun.elapsed()
    });
    // A second answer that waits for the acknowledgement of the first takes 40 ms each time.
    let best = times.min().unwrap();
    assert!(best < Duration::from_millis(10), "both answers took {best:?}");
    server.stop();
}
