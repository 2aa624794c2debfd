//! Many packets, a third of them malformed: memory stays where it was, nothing panics, and good
//! queries are answered throughout. `NODENS_FLOOD` sets the number of packets.

use crate::fixture::{Server, alone, free_port, request};
use crate::upstreams::{Habit, Upstream};
use nodens_wire::Type;
use std::net::UdpSocket;
use std::time::Duration;

/// Enough to see a leak per packet, few enough for every run of the tests.
const PACKETS_DEFAULT: u64 = 300_000;
/// Distinct names, so that the cache fills early and then stays as it is.
const NAMES: u64 = 20_000;
/// What resident memory may grow by after the first fifth, in octets.
const GROWTH_MAX: u64 = 8 << 20;
/// Packets between two waits for the server to catch up.
const BURST: u64 = 64;

/// Repeatable random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> usize {
        (self.next() % bound) as usize
    }
}

/// Breaks a good query in one of the ways that have broken servers.
fn malform(packet: &mut Vec<u8>, random: &mut Random) {
    match random.below(8) {
        0 => packet.truncate(random.below(packet.len() as u64)),
        1 => (0..4).for_each(|_| {
            let at = random.below(packet.len() as u64);
            packet[at] ^= 1 << random.below(8);
        }),
        2 => packet[12..14].copy_from_slice(&[0xc0, 12]),
        3 => packet[5] = 2 + random.below(200) as u8,
        4 => packet[2] |= 0x80,
        5 => packet[12] |= 0x40,
        6 => packet[random.below(6) + 6] = 0xff,
        _ => packet.iter_mut().for_each(|byte| *byte = random.next() as u8),
    }
}

fn resident(metrics_port: u16) -> u64 {
    let (_, text) = crate::fixture::http_get(metrics_port, "/metrics").unwrap();
    assert!(text.contains("coredns_panics_total 0\n"), "a panic was contained");
    let line = text.lines().find(|line| line.starts_with("process_resident_memory_bytes "));
    line.unwrap().split_once(' ').unwrap().1.parse::<f64>().unwrap() as u64
}

#[test]
fn memory_stays_flat_under_a_flood_with_malformed_packets() {
    let _alone = alone();
    let packets: u64 = std::env::var("NODENS_FLOOD")
        .map_or(PACKETS_DEFAULT, |text| text.parse().expect("NODENS_FLOOD is a number"));
    let upstream = Upstream::start(Habit::Answers(Duration::ZERO));
    let metrics = free_port();
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n errors\n prometheus 127.0.0.1:{metrics}\n any\n loadbalance\n cache 30\n forward . {}\n}}\n",
        upstream.address
    );
    let server = Server::start("flood", &corefile);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    let mut random = Random(1);
    let mut before = 0;
    for n in 0..packets {
        let mut packet = request(&format!("n{}.example.org", random.below(NAMES)), Type::A);
        packet[..2].copy_from_slice(&(n as u16).to_be_bytes());
        if random.below(10) < 3 {
            malform(&mut packet, &mut random);
        }
        // A full socket buffer is the server's right to drop; a refusal is its end.
        _ = socket.send(&packet);
        if n % BURST == 0 {
            drain(&socket);
        }
        if n == packets / 5 {
            before = resident(metrics);
        }
    }
    server.ask("good.example.org", Type::A);
    let after = resident(metrics);
    eprintln!("{packets} packets: resident memory {before} -> {after} octets");
    assert!(after < before + GROWTH_MAX, "{before} -> {after}");
}

/// Takes what has arrived and gives the server a moment.
fn drain(socket: &UdpSocket) {
    let mut buffer = [0; 4096];
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut buffer).is_ok() {}
    socket.set_nonblocking(false).unwrap();
}
