//! Processes that hand over under load, with connections of every encrypted transport.

use super::load::Load;
use super::{Authority, Ours, PATIENT};
use crate::handover::{ANSWER, Load as Plain, rendezvous};
use nodens_wire::{Class, Flags, Message, Record, Type};
use std::collections::{HashSet, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a process hands over.
const TIMES: usize = 12;
/// How long the upstream takes, so that queries are in flight whenever a process hands over.
const DELAY: Duration = Duration::from_millis(5);

/// A server that answers every query after a while, and knows what it was asked.
struct Upstream {
    address: SocketAddr,
    asked: Arc<Mutex<HashSet<String>>>,
}

impl Upstream {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(HashSet::new()));
        let own = asked.clone();
        // As long as the test runs.
        std::thread::spawn(move || {
            let mut waiting: VecDeque<(Instant, Vec<u8>, SocketAddr)> = VecDeque::new();
            let mut buffer = [0; 4096];
            loop {
                if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let query = Message::parse(&buffer[..len]).unwrap();
                    own.lock().unwrap().insert(query.questions[0].qname.to_string());
                    waiting.push_back((Instant::now() + DELAY, answer(query), from));
                }
                while waiting.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
                    if let Some((_, answer, to)) = waiting.pop_front() {
                        _ = socket.send_to(&answer, to);
                    }
                }
            }
        });
        Self { address, asked }
    }
}

fn answer(mut message: Message) -> Vec<u8> {
    message.flags = message.flags.reply().with(Flags::RA, true);
    message.additional.clear();
    let owner = message.questions[0].qname.clone();
    let (rtype, class, ttl) = (Type::A, Class::IN, 60);
    message.answer.push(Record { owner, rtype, class, ttl, rdata: vec![192, 0, 2, 7] });
    let mut out = Vec::new();
    message.write(&mut out).unwrap();
    out
}

#[test]
fn a_hand_over_loses_no_answer_over_any_transport() {
    let authority = Authority::new();
    let upstream = Upstream::start();
    let directives =
        format!("{PATIENT}\n errors\n forward . {} {{\n  prefer_udp\n }}", upstream.address);
    let arguments = ["-handover-trial", "50ms", "-handover-dir", &rendezvous()];
    let ours = Ours::start_by("handover", &authority, &directives, &arguments);
    // Each of its queries is answered, whichever process has it.
    let plain = Plain::start(ours.server.address);
    let load = Load::start(ours.ports, &authority);
    load.goes_on();
    for _ in 0..TIMES {
        ours.server.signal("-USR2");
        ours.server.wait_long_for("the process that ran before is gone", ANSWER);
        plain.goes_on();
        load.goes_on();
    }
    assert!(plain.stop() > 100);
    let outcome = load.stop();
    let asked = upstream.asked.lock().unwrap();
    let lost: Vec<_> = outcome.unanswered.iter().filter(|own| asked.contains(&own.name)).collect();
    assert!(lost.is_empty(), "taken and not answered: {lost:?}");
    // Each connection that was kept ended once with each process, and hardly any other did.
    assert!(
        (3 * TIMES..=9 * TIMES).contains(&outcome.closed),
        "{} connections ended",
        outcome.closed
    );
    assert!(outcome.turned_away <= 9 * TIMES, "{} connections turned away", outcome.turned_away);
    assert!(outcome.answered > 1000, "{} answers", outcome.answered);
    assert!(asked.len() >= outcome.answered, "answers that the upstream did not give");
    drop(asked);
    ours.end();
}
