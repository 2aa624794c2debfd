//! The same plan sends the same octets, whatever the number of threads (I19).

use crate::{PATIENCE, Server};
use lab_load::schedule::Arrivals;
use lab_load::{Config, Pace, Workload, run};
use lab_workload::edns::Edns;
use lab_workload::plan::PlanHash;
use lab_workload::{Style, Template, TypeMix};
use nodens_wire::Name;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// So few that the server's socket holds all of them even if its thread does not run meanwhile.
const QUESTIONS: u64 = 150;

/// What each client's socket sent, in order and with ID 0, sorted; and the plan's hash.
fn sent(workload: &Workload, threads: usize) -> (Vec<Vec<Vec<u8>>>, u64) {
    let record = Arc::new(Mutex::new(HashMap::<u16, Vec<Vec<u8>>>::new()));
    let writer = record.clone();
    let server = Server::udp(move |socket, message, peer| {
        let mut octets = message.to_vec();
        octets[..2].fill(0);
        octets[2] &= 0x7f;
        writer.lock().unwrap().entry(peer.port()).or_default().push(octets);
        _ = socket.send_to(message, peer);
    });
    let config = Config {
        pace: Pace::Open { rate: 1_000.0, arrivals: Arrivals::Poisson },
        queries: Some(QUESTIONS),
        timeout: PATIENCE,
        clients: 7,
        threads,
        ..Config::new(server.address, 1_000.0)
    };
    let outcome = run(&config, workload, &AtomicBool::new(false), |_| {}).unwrap();
    assert_eq!(outcome.tally.counts.answered, QUESTIONS, "{:?}", outcome.tally.counts);
    drop(server);
    let mut clients: Vec<_> = std::mem::take(&mut *record.lock().unwrap()).into_values().collect();
    clients.sort();
    (clients, outcome.plan_hash)
}

fn hash(clients: &[Vec<Vec<u8>>]) -> u64 {
    let mut hash = PlanHash::default();
    clients.iter().flatten().for_each(|octets| hash.write(octets));
    hash.finish()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

#[test]
fn the_octets_sent_do_not_depend_on_the_number_of_threads() {
    let mut edns = Edns::new(1232, true);
    edns.push_cookie(5).unwrap();
    edns.set_subnets("10.0.0.0/8,24".parse().unwrap());
    let style = Style { edns: Some(edns), ..Style::default() };
    let types: TypeMix = "A=70,AAAA=25,HTTPS=5".parse().unwrap();
    let template = Template::parse("{seq}.{rand:8}.{zipf:1000}.example.", |_| unreachable!());
    let made = Workload::generate(5, template.unwrap(), types.clone(), &style);
    let mut drawn = Workload::new(5);
    for n in 0..20 {
        for qtype in types.types() {
            drawn.push_question(name(&format!("n{n}.example.")).view(), qtype, &style);
        }
    }
    drawn.zipf_groups(1.0, 1_000, &types);
    drawn.set_hit_rate(0.7);
    let mut hashes = Vec::new();
    for workload in [made, drawn] {
        let one = sent(&workload, 1);
        assert_eq!(one.0.len(), 7);
        for threads in [2, 4] {
            assert_eq!(sent(&workload, threads), one, "{threads} threads");
        }
        hashes.push(hash(&one.0));
    }
    // Written down when the plan was made: another version or machine must send the same.
    assert_eq!(hashes, [11_264_068_194_468_194_652, 2_748_747_191_835_504_326]);
}
