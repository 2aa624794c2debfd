//! Taking up another configuration, and stopping.

use super::client::{Stream, ask_udp, assert_answered, question, receive, udp_client};
use super::server::{Server, eventually};
use super::upstream::{Act, Upstream};
use nodens_net::Options;
use nodens_wire::Rcode;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn unchanged_listeners_keep_sockets_and_connections_and_lose_no_question() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(3)), Act::Send(asked.answer())]
    });
    let corefile = |other: &str| {
        let to = upstream.address;
        format!("test:0 {{\n bind 127.0.0.1\n forward . {to}\n}}\n{other}")
    };
    let mut server = Server::start(&corefile(""));
    let address = server.address();
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = |transport: &'static str| {
        let (stop, asked) = (stop.clone(), asked.clone());
        std::thread::spawn(move || {
            let udp = udp_client(address);
            let mut tcp = Stream::connect(address);
            while !stop.load(Ordering::SeqCst) {
                let name = format!("n{}.test A", asked.fetch_add(1, Ordering::SeqCst));
                if transport == "udp" {
                    udp.send(&question(1, &name)).unwrap();
                    assert_answered(&receive(&udp));
                } else {
                    assert_answered(&tcp.ask(&name));
                }
            }
        })
    };
    let threads = ["udp", "udp", "tcp", "tcp"].map(load);
    for round in 0..20 {
        // Listeners before and behind come and go, so that ours changes its place.
        let other = "other:0 {\n bind 127.0.0.2\n whoami\n}\n";
        let text = match round % 3 {
            0 => corefile(other),
            1 => format!("{other}{}", corefile("")),
            _ => corefile(""),
        };
        server.reload(&text).unwrap();
        let place = usize::from(round % 3 == 1);
        assert_eq!(server.runtime.local_addresses()[place], address);
        std::thread::sleep(Duration::from_millis(10));
    }
    stop.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(asked.load(Ordering::SeqCst) > 50);
    server.stop();
}

#[test]
fn an_old_configuration_is_freed_once_its_questions_are_answered() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(300)), Act::Send(asked.answer())]
    });
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address);
    let mut server = Server::start(&corefile);
    let client = udp_client(server.address());
    client.send(&question(1, "example.org A")).unwrap();
    eventually("the question to be asked", || upstream.count() > 0);
    server.reload(&corefile).unwrap();
    assert!(server.first.upgrade().is_some(), "a question still uses it");
    assert_answered(&receive(&client));
    eventually("the old configuration to be freed", || server.first.upgrade().is_none());
    server.stop();
}

#[test]
fn another_number_of_sockets_loses_no_datagram() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(20)), Act::Send(asked.answer())]
    });
    let corefile = |port: u16, sockets: usize| {
        let to = upstream.address;
        format!("test:{port} {{\n multisocket {sockets}\n forward . {to}\n}}")
    };
    let mut server = Server::start(&corefile(0, 2));
    let port = server.address().port();
    server.reload(&corefile(port, 3)).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for round in 0..12 {
        let clients: Vec<_> = (0..20).map(|_| udp_client(address)).collect();
        for (number, client) in clients.iter().enumerate() {
            client.send(&question(1, &format!("n{round}-{number}.test A"))).unwrap();
        }
        // The old sockets still owe answers while the new ones take questions.
        server.reload(&corefile(port, 1 + round % 6)).unwrap();
        let late: Vec<_> = (0..20).map(|_| udp_client(address)).collect();
        for (number, client) in late.iter().enumerate() {
            client.send(&question(2, &format!("l{round}-{number}.test A"))).unwrap();
        }
        for client in clients.iter().chain(&late) {
            assert_answered(&receive(client));
        }
    }
    server.stop();
}

#[test]
fn an_address_that_cannot_be_had_leaves_everything_as_it_was() {
    let mut server = Server::start(".:0 {\n bind 127.0.0.1\n whoami\n}");
    let address = server.address();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let corefile = format!(
        "other:0 {{\n bind 127.0.0.1\n whoami\n}}\nx:{port} {{\n bind 127.0.0.1\n whoami\n}}"
    );
    let error = server.reload(&corefile).unwrap_err();
    let text = format!("listen tcp 127.0.0.1:{port}: bind: address already in use");
    assert_eq!(error.to_string(), text);
    assert_eq!(server.runtime.local_addresses(), [address]);
    assert_eq!(ask_udp(address, "example.org A").flags.rcode(), Rcode::NOERROR);
    server.stop();
}

#[test]
fn a_listener_that_goes_answers_what_it_was_asked_and_closes() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(300)), Act::Send(asked.answer())]
    });
    let mut server =
        Server::start(&format!(".:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address));
    let old = server.address();
    let udp = udp_client(old);
    let mut tcp = Stream::connect(old);
    udp.send(&question(1, "udp.test A")).unwrap();
    tcp.send(2, "tcp.test A");
    eventually("the questions to be asked", || upstream.count() >= 2);
    server.reload(".:0 {\n bind 127.0.0.2\n whoami\n}").unwrap();
    assert_eq!(receive(&udp).id, 1);
    assert_eq!(tcp.receive().id, 2);
    assert!(tcp.is_closed());
    assert_eq!(server.address().ip().to_string(), "127.0.0.2");
    ask_udp(server.address(), "example.org A");
    let refused = || {
        let client = udp_client(old);
        client.send(&question(3, "example.org A")).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        client.recv(&mut [0; 512]).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    eventually("the old address to be closed", refused);
    server.stop();
}

#[test]
fn a_shutdown_answers_what_is_under_way_and_then_ends() {
    let upstream = Upstream::start(|asked| {
        let slow = asked.name().starts_with("never");
        if slow {
            return Vec::new();
        }
        vec![Act::Wait(Duration::from_millis(200)), Act::Send(asked.answer())]
    });
    let server =
        Server::start(&format!(".:0 {{\n bind 127.0.0.1\n forward . {}\n}}", upstream.address));
    let address: SocketAddr = server.address();
    let (udp, never) = (udp_client(address), udp_client(address));
    let mut tcp = Stream::connect(address);
    let mut idle = Stream::connect(address);
    assert_answered(&idle.ask("idle.test A"));
    udp.send(&question(1, "udp.test A")).unwrap();
    tcp.send(2, "tcp.test A");
    never.send(&question(3, "never.test A")).unwrap();
    eventually("the questions to be asked", || upstream.count() >= 4);
    let start = std::time::Instant::now();
    server.runtime.shutdown(Duration::from_secs(2));
    // One question would wait for five seconds.
    assert!(start.elapsed() < Duration::from_millis(4_500), "{:?}", start.elapsed());
    assert_eq!(receive(&udp).flags.rcode(), Rcode::NOERROR);
    assert_eq!(tcp.receive().flags.rcode(), Rcode::NOERROR);
    assert_eq!(receive(&never).flags.rcode(), Rcode::SERVFAIL);
    assert!(tcp.is_closed() && idle.is_closed());
}

#[test]
fn a_worker_that_ends_leaves_its_question_to_one_who_waits_for_the_same() {
    let upstream = Upstream::start(|asked| {
        vec![Act::Wait(Duration::from_millis(300)), Act::Send(asked.answer())]
    });
    let to = upstream.address;
    let corefile = format!(".:0 {{\n bind 127.0.0.1\n forward . {to} {{\n prefer_udp\n }}\n}}");
    // Most times the two clients are on different workers.
    for _ in 0..4 {
        let server = Server::with(&corefile, Options { pin: false, ..Options::default() });
        let before = upstream.count();
        let mut tcp = Stream::connect(server.address());
        tcp.send(1, "same.test A");
        eventually("the question to be asked", || upstream.count() > before);
        let udp = udp_client(server.address());
        udp.send(&question(2, "same.test A")).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        // A reset leaves the one who asks without a client.
        socket2::SockRef::from(&tcp.0).set_linger(Some(Duration::ZERO)).unwrap();
        drop(tcp);
        std::thread::sleep(Duration::from_millis(50));
        server.runtime.shutdown(Duration::from_secs(2));
        assert_answered(&receive(&udp));
    }
}
