//! Clients that read nothing of what they ask for: memory stays bounded, and others are served.

use crate::fixture::{Server, alone, framed, free_port, http_get, memory, request};
use crate::upstreams::{Habit, Upstream};
use nodens_wire::Type;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Connections that read nothing, and queries that each asks at once.
const CONNECTIONS: usize = 200;
const QUESTIONS: usize = 24;
/// What the program may have grown to, in octets, its file of some 25 MiB included. Each answer has
/// 64 KiB: all of them have 300 MiB.
const PEAK_MAX: usize = 144 << 20;

/// A connection from 127.0.0.2 that takes little unread.
fn rude(server: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    socket.into()
}

#[test]
fn a_client_that_reads_nothing_does_not_take_all_memory() {
    let _alone = alone();
    let upstream = Upstream::start(Habit::FillsLate(Duration::from_millis(800)));
    let metrics = free_port();
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{metrics}\n forward . {} {{\n  force_tcp\n }}\n}}\n\
         polite:PORT {{\n bind 127.0.0.1\n whoami\n}}\n",
        upstream.address
    );
    let arguments = ["-workers", "2", "-memory", "192MiB", "-pending-memory", "64MiB"];
    let server = Server::start_with("unread", &corefile, &arguments);
    // All wait for the same answer, which comes for all of them at once.
    let question = request("long.example.org", Type::A);
    let questions = framed(&question).repeat(QUESTIONS);
    let clients: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = rude(server.address);
            client.write_all(&questions).unwrap();
            client
        })
        .collect();
    let count = |series: &str| {
        let (_, text) = http_get(metrics, "/metrics").unwrap();
        let line = text.lines().find(|line| line.starts_with(series)).map(str::to_owned);
        line.map_or(0.0, |line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
    };
    let until = Instant::now() + crate::fixture::PATIENCE;
    let closed = || count("nodens_tcp_closed_total{reason=\"unread_in_all\"}");
    while closed() == 0.0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.ask("polite", Type::A);
    let peak = memory(server.pid(), "VmHWM");
    assert!(peak < PEAK_MAX, "{} MiB were in use", peak >> 20);
    assert!(closed() > 0.0, "no connection was closed for the sake of all");
    drop(clients);
}
