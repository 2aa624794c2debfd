//! Whatever upstreams do and whenever: every question gets exactly one answer in time, and
//! nothing is left behind.

use super::*;
use crate::testing::request;
use crate::upstream::{Key, Settings};
use fastrand::Rng;
use proptest::prelude::*;

const BODIES: [&str; 9] = [
    "",
    "force_tcp",
    "prefer_udp\n policy round_robin",
    "policy sequential\n failover SERVFAIL REFUSED\n max_fails 1",
    "policy rtt\n max_concurrent 20",
    "max_connect_attempts 0\n read_timeout 300ms",
    "max_connect_attempts 1\n failfast_all_unhealthy_upstreams",
    "max_fails 0\n next NXDOMAIN",
    "max_fails 1\n health_check 10ms\n failfast_all_unhealthy_upstreams",
];

fn reaction(rng: &mut Rng, ask: &Ask, question: &Message) -> Reaction {
    let reaction = match rng.u8(..12) {
        0..5 => replies(question),
        5 => Reaction::Silence,
        6 => refused(ask),
        7 => Reaction::Fail(Fault::Broken("EOF".to_owned())),
        8 => Reaction::Reply(answer(question, Rcode::SERVFAIL, 0)),
        9 => Reaction::Reply(answer(question, Rcode::NXDOMAIN, 0)),
        10 => truncates(ask, question),
        _ => {
            let mut reply = answer(question, Rcode::NOERROR, 3);
            reply.truncate(12 + rng.usize(..reply.len() - 12));
            Reaction::Reply(reply)
        }
    };
    if rng.bool() { after(rng.u32(1..3000) * MS / 10, reaction) } else { reaction }
}

fn truncates(ask: &Ask, question: &Message) -> Reaction {
    let mut reply = answer(question, Rcode::NOERROR, 1);
    if ask.carrier == Carrier::Udp {
        nodens_wire::header::set_flags(&mut reply, question.flags.reply().with(Flags::TC, true));
    }
    Reaction::Reply(reply)
}

/// Runs random questions against random upstreams; gives the bench when all is over.
fn run(body: &str, seed: u64) -> (Bench, usize, usize) {
    let corefile = format!(
        ".:53 {{\n forward a.example 192.0.2.1 192.0.2.2 {{\n{body}\n }}\n forward . {}\n}}",
        to(3)
    );
    let mut bench = Bench::new(&corefile);
    let mut rng = Rng::with_seed(seed);
    let mut upstreams = rng.fork();
    bench.upstream(move |ask, question| reaction(&mut upstreams, ask, question));
    let (mut questions, mut answers) = (0, 0);
    for _ in 0..400 {
        match rng.u8(..40) {
            0 => bench.reload(&corefile).unwrap(),
            1 => {
                bench.worker.abandon_all(bench.now);
                answers += bench.act().len();
            }
            2..10 => {
                let time = rng.u32(1..400) * MS;
                answers += bench.pass(time).len();
            }
            _ => {
                if rng.u8(..8) == 0 {
                    over_tcp(&mut bench);
                } else {
                    bench.client.transport = Transport::Udp;
                }
                questions += 1;
                // Few names, so that questions meet.
                let zone = if rng.bool() { "a.example" } else { "b.example" };
                let request = request(&format!("{}.{zone}. A", rng.u8(..4)));
                let mut out = Vec::new();
                let verdict = bench.worker.receive(bench.now, bench.client, &request, &mut out);
                answers += usize::from(verdict == crate::worker::Verdict::Answered);
                answers += bench.act().len();
            }
        }
    }
    answers += bench.pass(5001 * MS).len();
    (bench, questions, answers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_question_gets_one_answer_and_nothing_is_left(seed: u64) {
        for body in BODIES {
            let (bench, questions, answers) = run(body, seed);
            prop_assert_eq!(questions, answers, "{}", body);
            prop_assert_eq!(bench.worker.pending(), 0);
            prop_assert!(bench.shared.in_flight.is_empty());
            for n in 1..=3 {
                let address = format!("192.0.2.{n}:53").parse().unwrap();
                let (source, tls) = (None, None);
                let (kind, settings) = (crate::ListenerKind::Dns, Settings::default());
                let key = Key { address, kind, source, tls, settings };
                let upstream = bench.shared.upstreams.get(key, &bench.shared.registry);
                for carrier in [Carrier::Udp, Carrier::Tcp] {
                    prop_assert_eq!(upstream.path(carrier).in_flight(), 0);
                }
            }
            for block in &bench.worker.config().blocks {
                for handler in &block.handlers {
                    if let crate::handlers::Handler::Forward(forward) = handler {
                        let open = forward.concurrent.load(std::sync::atomic::Ordering::Relaxed);
                        prop_assert_eq!(open, 0);
                    }
                }
            }
        }
    }
}
