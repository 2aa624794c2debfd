use super::*;
use nodens_core::log::Sink;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn an_attempt_that_fails_keeps_the_listeners_of_a_predecessor_for_the_next() {
    let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
    // The predecessor has the first still, and a stranger the second; they are opened in this order.
    let mut listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.sort_by_key(|listener| listener.local_addr().unwrap());
    let [first, second] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let [predecessor, stranger] = listeners;
    let text = format!(".:0 {{\n bind 127.0.0.1\n health {first}\n ready {second}\n whoami\n}}\n");
    let tree = nodens_corefile::parse("Corefile", &text, &nodens_corefile::SystemSources).unwrap();
    let config = nodens_core::build(&tree, &Default::default(), &shared).unwrap();
    let mut endpoints = Endpoints::new(Arc::new(Facts::new(shared))).unwrap();
    endpoints.inherit(vec![(first, predecessor.try_clone().unwrap())]);
    for _ in 0..2 {
        let error = endpoints.apply(&config.services).unwrap_err();
        assert_eq!(error.address, second.to_string(), "{error}");
    }
    drop(stranger);
    endpoints.apply(&config.services).unwrap();
    assert_eq!(endpoints.export().len(), 2);
}

#[test]
fn the_node_s_endpoint_is_tried_again_when_its_address_may_be_free() {
    let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
    let before = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = before.local_addr().unwrap();
    let tree =
        nodens_corefile::parse("Corefile", ".:0 {\n whoami\n}\n", &nodens_corefile::SystemSources);
    let config = nodens_core::build(&tree.unwrap(), &Default::default(), &shared).unwrap();
    let mut endpoints = Endpoints::new(Arc::new(Facts::new(shared))).unwrap();
    endpoints.serve_node(&[], &at.to_string());
    endpoints.apply(&config.services).unwrap();
    assert_eq!(endpoints.export().len(), 0);
    drop(before);
    for _ in 0..2 {
        endpoints.apply(&config.services).unwrap();
        assert_eq!(endpoints.export().len(), 1);
    }
    let mut client = TcpStream::connect(at).unwrap();
    write!(client, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut start = [0; 12];
    client.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.0 200");
}

/// Endpoints with `/health` at a port of its own.
fn with_health() -> (Endpoints, SocketAddr) {
    let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let text = format!(".:0 {{\n bind 127.0.0.1\n health {at}\n whoami\n}}\n");
    let tree = nodens_corefile::parse("Corefile", &text, &nodens_corefile::SystemSources).unwrap();
    let config = nodens_core::build(&tree, &Default::default(), &shared).unwrap();
    let mut endpoints = Endpoints::new(Arc::new(Facts::new(shared))).unwrap();
    endpoints.inherit(vec![(at, listener)]);
    endpoints.apply(&config.services).unwrap();
    endpoints.serve_inherited();
    (endpoints, at)
}

#[test]
fn a_request_that_does_not_end_is_not_kept() {
    let (_endpoints, at) = with_health();
    let connect = || {
        let client = TcpStream::connect(at).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    };
    let field = |n: usize| format!("X-{n}: {}\r\n", "x".repeat(1000));
    let mut client = connect();
    // As many as there may be at a time, each of them long, and each answered.
    for _ in 0..40 {
        let fields: String = (0..8).map(field).collect();
        write!(client, "GET /health HTTP/1.1\r\nHost: x\r\n{fields}\r\n").unwrap();
        let mut start = [0; 15];
        client.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        let mut rest = [0; 1000];
        while !rest.starts_with(b"OK") {
            let read = client.read(&mut rest).unwrap();
            rest.copy_within(read.saturating_sub(2)..read, 0);
        }
    }
    let mut client = connect();
    write!(client, "GET /health HTTP/1.1\r\nHost: x\r\n").unwrap();
    for n in 0..40 {
        // The server may have ended the connection by now.
        _ = client.write_all(field(n).as_bytes());
    }
    let read = client.read(&mut [0; 16]);
    assert!(
        !read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
        "{read:?}"
    );
    assert!(!read.is_ok_and(|read| read > 0));
}
