//! Sockets that pass from one runtime to the next.

use super::client::{Stream, assert_answered, question, receive, udp_client};
use super::server::{Server, WORKERS};
use super::upstream::{Act, Upstream};
use nodens_net::Options;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const COREFILE: &str = "test:0 {\n bind 127.0.0.1\n prometheus 127.0.0.1:0\n template IN A test {\n answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }\n}\n";

/// The next server, which takes nothing yet.
fn heir(old: &Server) -> Server {
    heir_with(old, COREFILE)
}

fn heir_with(old: &Server, corefile: &str) -> Server {
    let inherited = old.runtime.export();
    let sockets = inherited.iter().map(|listener| listener.sockets.len());
    assert_eq!(sockets.sum::<usize>(), 2 * WORKERS);
    let heir = Server::with(corefile, Options { inherited, paused: true, ..Options::default() });
    assert_eq!(heir.address(), old.address());
    heir
}

/// Lets `old` end, its connections going to `heir`; gives how many did.
fn succeed(old: Server, heir: &Server, grace: Duration) -> usize {
    let kept = old.runtime.bound_listeners();
    let (sender, connections) = channel();
    let leave = std::thread::spawn(move || old.runtime.leave(&kept, &sender, grace));
    let mut adopter = heir.runtime.adopter();
    let adopted = connections.iter().map(|connection| adopter.adopt(connection)).count();
    leave.join().unwrap();
    adopted
}

#[test]
fn what_arrives_while_nobody_takes_questions_waits_for_whoever_does_next() {
    let old = Server::start(COREFILE);
    let address = old.address();
    old.runtime.pause().unwrap();
    let clients: Vec<_> = (0..50).map(|_| udp_client(address)).collect();
    clients.iter().for_each(|client| _ = client.send(&question(1, "a.test A")).unwrap());
    let mut streams: Vec<_> = (0..50).map(|_| Stream::connect(address)).collect();
    streams.iter_mut().for_each(|stream| stream.send(1, "a.test A"));
    let mut heir = heir(&old);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(old.count("coredns_dns_requests_total"), 0);
    assert_eq!(heir.count("coredns_dns_requests_total"), 0);
    heir.runtime.resume().unwrap();
    clients.iter().for_each(|client| assert_answered(&receive(client)));
    streams.iter_mut().for_each(|stream| assert_answered(&stream.receive()));
    assert_eq!(heir.count("coredns_dns_requests_total"), 100);
    heir.stop();
    old.stop();
}

#[test]
fn an_heir_that_goes_before_it_takes_questions_leaves_them_all() {
    let mut old = Server::start(COREFILE);
    let address = old.address();
    old.runtime.pause().unwrap();
    let heir = heir(&old);
    let clients: Vec<_> = (0..50).map(|_| udp_client(address)).collect();
    clients.iter().for_each(|client| _ = client.send(&question(1, "a.test A")).unwrap());
    // As a process that crashes: nobody is told anything, and its sockets close.
    std::mem::forget(heir);
    old.runtime.resume().unwrap();
    clients.iter().for_each(|client| assert_answered(&receive(client)));
    assert_eq!(old.count("coredns_dns_requests_total"), 50);
    old.stop();
}

#[test]
fn connections_go_on_with_what_had_arrived_and_what_is_owed() {
    let upstream = Upstream::start(|asked| {
        let wait = if asked.number == 0 { 200 } else { 0 };
        vec![Act::Wait(Duration::from_millis(wait)), Act::Send(asked.answer())]
    });
    let corefile = format!("test:0 {{\n bind 127.0.0.1\n forward . {}\n}}\n", upstream.address);
    let old = Server::start(&corefile);
    let address = old.address();
    let [mut idle, mut waiting, mut half] = [(); 3].map(|()| Stream::connect(address));
    waiting.send(1, "slow.test A");
    assert_answered(&idle.ask("a.test A"));
    assert_answered(&half.ask("b.test A"));
    let rest = super::client::framed(&question(7, "half.test A"));
    half.0.write_all(&rest[..9]).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let mut heir = heir_with(&old, &corefile);
    heir.runtime.resume().unwrap();
    assert_eq!(succeed(old, &heir, Duration::from_secs(5)), 3);
    assert_answered(&waiting.receive());
    half.0.write_all(&rest[9..]).unwrap();
    assert_eq!(half.receive().id, 7);
    for stream in [&mut idle, &mut waiting, &mut half] {
        assert_answered(&stream.ask("again.test A"));
    }
    heir.stop();
}

#[test]
fn an_idle_connection_has_the_time_of_idle_ones_in_the_successor() {
    let timeouts = "timeouts {\n  read 1s\n  idle 1m\n }";
    let corefile = format!("test:0 {{\n bind 127.0.0.1\n {timeouts}\n whoami\n}}\n");
    let old = Server::start(&corefile);
    let mut idle = Stream::connect(old.address());
    assert_answered(&idle.ask("a.test A"));
    let mut heir = heir_with(&old, &corefile);
    heir.runtime.resume().unwrap();
    assert_eq!(succeed(old, &heir, Duration::from_secs(5)), 1);
    std::thread::sleep(Duration::from_millis(1500));
    assert_answered(&idle.ask("again.test A"));
    heir.stop();
}

#[test]
fn fifty_successions_under_load_lose_nothing() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(3)), Act::Send(asked.answer())]
    });
    let corefile = format!("test:0 {{\n bind 127.0.0.1\n forward . {}\n}}\n", upstream.address);
    let mut server = Server::start(&corefile);
    let address = server.address();
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let ask = |kind: &'static str| {
        let (stop, asked) = (stop.clone(), asked.clone());
        std::thread::spawn(move || load(kind, address, &stop, &asked))
    };
    let threads = ["udp", "udp", "tcp", "tcp", "pipelined", "new"].map(ask);
    let mut adopted = 0;
    for _ in 0..50 {
        let before = asked.load(Ordering::SeqCst);
        let mut heir = heir_with(&server, &corefile);
        heir.runtime.resume().unwrap();
        server.runtime.pause().unwrap();
        adopted += succeed(server, &heir, Duration::from_secs(5));
        heir.runtime.settle();
        server = heir;
        super::server::eventually("questions", || asked.load(Ordering::SeqCst) > before + 20);
    }
    stop.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(adopted >= 150, "{adopted} connections adopted");
    server.stop();
}

/// Asks until it is told to stop; each question is asked once and has to be answered.
fn load(kind: &str, address: SocketAddr, stop: &AtomicBool, asked: &AtomicUsize) {
    let udp = udp_client(address);
    let mut tcp = Stream::connect(address);
    while !stop.load(Ordering::SeqCst) {
        let name = format!("n{}.test A", asked.fetch_add(1, Ordering::SeqCst));
        match kind {
            "udp" => {
                udp.send(&question(1, &name)).unwrap();
                assert_answered(&receive(&udp));
            }
            "tcp" => assert_answered(&tcp.ask(&name)),
            "new" => assert_answered(&Stream::connect(address).ask(&name)),
            _ => {
                (0..20).for_each(|id| tcp.send(id, &name));
                (0..20).for_each(|_| assert_answered(&tcp.receive()));
            }
        }
    }
}
