//! Ten times as many queries as may wait, none of which is ever answered upstream: good clients
//! get their answers, memory stays where it was, and what is refused is counted and said.

use crate::fixture::{PATIENCE, Server, alone, free_port, http_get, request};
use nodens_wire::{Class, Flags, Message, Rcode, Record, Type};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Queries that may wait with `-pending-memory 1MiB` and one worker.
const WAITING_MAX: usize = 256;
/// What resident memory may grow by during the flood, in octets.
const GROWTH_MAX: u64 = 8 << 20;
/// Queries the flood has on the way: enough that a part has to be refused before others come, so
/// that it is as fast as the server, however slow the machine.
const ON_THE_WAY: usize = 2 * WAITING_MAX;

/// Answers every query.
fn upstream() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let Ok(mut message) = Message::parse(&buffer[..len]) else { continue };
            let owner = message.questions[0].qname.clone();
            message.flags = message.flags.reply().with(Flags::RA, true);
            let (rdata, class, rtype) = (vec![192, 0, 2, 1], Class::IN, Type::A);
            message.answer.push(Record { owner, rtype, class, ttl: 600, rdata });
            let mut wire = Vec::new();
            message.write(&mut wire).unwrap();
            _ = socket.send_to(&wire, from);
        }
    });
    address
}

/// Asks for names nobody answers from `clients` addresses in turn until `stop`.
fn flood(server: SocketAddr, clients: u32, stop: &AtomicBool, sent: &AtomicUsize) {
    let address = |n: u32| Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + n);
    let sockets: Vec<UdpSocket> =
        (0..clients).map(|n| UdpSocket::bind((address(n), 0)).unwrap()).collect();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let mut refusal = [0; 512];
    let (mut on_the_way, mut quiet) = (0, 0);
    for (number, socket) in sockets.iter().cycle().enumerate() {
        while on_the_way >= ON_THE_WAY {
            let heard = |socket: &&UdpSocket| socket.recv(&mut refusal).is_ok();
            let refused = sockets.iter().filter(heard).count();
            quiet = if refused > 0 { 0 } else { quiet + 1 };
            // Datagrams can get lost; then it is the turn of others.
            on_the_way = if quiet > 100 { 0 } else { on_the_way.saturating_sub(refused) };
            if stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(if refused > 0 { 0 } else { 2 }));
        }
        let question = request(&format!("bad{number}.example.org"), Type::A);
        if socket.send_to(&question, server).is_ok() {
            on_the_way += 1;
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Asks from an address of its own until there is a good answer, as a stub resolver would.
fn ask_well(server: SocketAddr, qname: &str) {
    let until = Instant::now() + 6 * PATIENCE;
    let mut heard = Vec::new();
    while Instant::now() < until {
        let socket = UdpSocket::bind("127.0.0.77:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket.send_to(&request(qname, Type::A), server).unwrap();
        let mut reply = [0; 512];
        let Ok(len) = socket.recv(&mut reply) else { continue };
        let answer = Message::parse(&reply[..len]).unwrap();
        if answer.flags.rcode() == Rcode::NOERROR && answer.answer.len() == 1 {
            return;
        }
        heard.push(answer.flags.rcode());
    }
    panic!("no good answer to {qname} but {heard:?}");
}

fn metric(port: u16, name: &str) -> f64 {
    let (_, text) = http_get(port, "/metrics").unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

fn survives(name: &str, clients: u32) {
    let _alone = alone();
    let metrics = free_port();
    // It is never read.
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (silent, good) = (nobody.local_addr().unwrap(), upstream());
    let block = |zone: &str, to: SocketAddr| {
        format!(
            "{zone}:PORT {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{metrics}\n cache 600\n forward . {to}\n}}\n"
        )
    };
    let corefile = block(".", silent) + &block("good", good);
    let arguments = ["-workers", "1", "-pending-memory", "1MiB"];
    let server = Server::start_with(name, &corefile, &arguments);
    ask_well(server.address, "hit.good");
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flooding = {
        let (stop, sent, address) = (stop.clone(), sent.clone(), server.address);
        std::thread::spawn(move || flood(address, clients, &stop, &sent))
    };
    let shed = || metric(metrics, "nodens_questions_shed_total") as usize;
    let until = Instant::now() + 12 * PATIENCE;
    let wait_for = |count: usize| {
        while shed() < count {
            assert!(
                Instant::now() < until,
                "{} of {} refused",
                shed(),
                sent.load(Ordering::Relaxed)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let started = Instant::now();
    wait_for(2 * WAITING_MAX);
    let before = metric(metrics, "process_resident_memory_bytes ") as u64;
    let mut asked = 0;
    while shed() < 10 * WAITING_MAX || asked < 20 {
        ask_well(server.address, "hit.good");
        ask_well(server.address, &format!("n{asked}.good"));
        asked += 1;
        assert!(Instant::now() < until, "{} refused", shed());
    }
    let after = metric(metrics, "process_resident_memory_bytes ") as u64;
    stop.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    assert!(after < before + GROWTH_MAX, "resident memory {before} -> {after}");
    let failed = metric(metrics, "coredns_dns_responses_total{") as usize;
    assert!(failed >= 10 * WAITING_MAX, "only {failed} responses counted");
    server.wait_for("queries refused: too many are waiting for upstreams");
    let said = server.count_seen("queries refused");
    assert!(said as u64 <= started.elapsed().as_secs() + 2, "said {said} times");
}

#[test]
fn a_flood_from_few_clients_leaves_others_their_answers() {
    survives("overload-few", 2);
}

#[test]
fn a_flood_from_many_clients_leaves_others_their_answers() {
    survives("overload-many", 300);
}
