//! Sockets that pass from one runtime to the next.

use super::client::{Stream, assert_answered, question, receive, udp_client};
use super::server::{Server, WORKERS};
use nodens_net::Options;
use std::time::Duration;

const COREFILE: &str = "test:0 {\n bind 127.0.0.1\n prometheus 127.0.0.1:0\n template IN A test {\n answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }\n}\n";

/// The next server, which takes nothing yet.
fn heir(old: &Server) -> Server {
    let inherited = old.runtime.export().unwrap();
    assert_eq!(inherited.iter().map(|listener| listener.pairs.len()).sum::<usize>(), WORKERS);
    let heir = Server::with(COREFILE, Options { inherited, paused: true, ..Options::default() });
    assert_eq!(heir.address(), old.address());
    heir
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
