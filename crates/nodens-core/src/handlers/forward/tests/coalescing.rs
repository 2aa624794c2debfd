//! One question upstream for any number of clients.

use super::*;
use crate::shared::{Mail, Shared};
use crate::testing::request;
use crate::worker::{Action, Verdict, Worker};
use std::sync::Arc;

/// Workers over one [`Shared`], with every upstream's question kept for the test to answer.
struct Floor {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    asks: Vec<(usize, Ask)>,
    sent: usize,
    rcodes: Vec<Rcode>,
    bench: Bench,
}

impl Floor {
    fn new(body: &str) -> Self {
        let bench = bench("192.0.2.1", body);
        let shared = Arc::new(Shared::new(2, bench.shared.sink.clone()));
        let text = format!(".:53 {{\n forward . 192.0.2.1 {{\n{body}\n }}\n}}");
        let tree = nodens_corefile::parse("Corefile", &text, &nodens_corefile::NoSources).unwrap();
        let config = crate::config::build(&tree, &Default::default(), &shared).map(Arc::new);
        let config = config.unwrap();
        let workers =
            (0..2).map(|n| Worker::new(n, shared.clone(), config.clone(), n as u64)).collect();
        let (asks, rcodes) = (Vec::new(), Vec::new());
        Self { shared, workers, asks, sent: 0, rcodes, bench }
    }

    fn ask(&mut self, worker: usize, question: &str) -> Verdict {
        let mut out = Vec::new();
        let (now, client) = (self.bench.now, self.bench.client);
        let verdict = self.workers[worker].receive(now, client, &request(question), &mut out);
        self.act();
        verdict
    }

    fn act(&mut self) {
        loop {
            let before = self.sent + self.asks.len();
            let mut woken = Vec::new();
            for index in 0..self.workers.len() {
                let mut actions = Vec::new();
                self.workers[index].take_actions(&mut actions);
                self.workers[index].go_on(self.bench.now);
                for action in actions {
                    match action {
                        Action::Ask(ask) => self.asks.push((index, ask)),
                        Action::Send { wire, .. } => {
                            self.sent += 1;
                            self.rcodes.push(Message::parse(&wire).unwrap().flags.rcode());
                        }
                        Action::Wake(other) => woken.push(other),
                        Action::Forget { .. }
                        | Action::GiveUp { .. }
                        | Action::Stream { .. }
                        | Action::Silence(_) => {}
                    }
                }
            }
            for worker in &woken {
                self.workers[*worker].collect_mail(self.bench.now);
            }
            if woken.is_empty() && before == self.sent + self.asks.len() {
                return;
            }
        }
    }

    /// Answers the oldest question that an upstream has.
    fn answer(&mut self, rcode: Rcode) {
        let (worker, ask) = self.asks.remove(0);
        let message = self.workers[worker].ask_message(ask.ticket).unwrap().clone();
        let reply = answer(&Message::parse(&message).unwrap(), rcode, 1);
        self.workers[worker].reply(self.bench.now, ask.ticket, ask.attempt, &reply);
        self.act();
    }

    fn pending(&self) -> usize {
        self.workers.iter().map(Worker::pending).sum()
    }
}

#[test]
fn a_thousand_equal_questions_on_two_workers_are_asked_once() {
    let mut floor = Floor::new("");
    for n in 0..1000 {
        let qname = if n % 3 == 0 { "Example.ORG." } else { "example.org." };
        assert_eq!(floor.ask(n % 2, &format!("{qname} A")), Verdict::Pending);
    }
    assert_eq!((floor.asks.len(), floor.shared.in_flight.len()), (1, 1));
    floor.answer(Rcode::NOERROR);
    assert_eq!((floor.sent, floor.pending()), (1000, 0));
    assert!(floor.rcodes.iter().all(|rcode| *rcode == Rcode::NOERROR));
    assert!(floor.shared.in_flight.is_empty());
    floor.ask(0, "example.org. A");
    assert_eq!(floor.asks.len(), 1);
}

#[test]
fn a_long_answer_that_many_wait_for_is_never_there_for_all_of_them_at_once() {
    let mut floor = Floor::new("");
    for n in 0..400 {
        floor.ask(n % 2, "example.org. TXT");
    }
    let (worker, ask) = floor.asks.remove(0);
    let message = floor.workers[worker].ask_message(ask.ticket).unwrap().clone();
    let mut reply = answer(&Message::parse(&message).unwrap(), Rcode::NOERROR, 1);
    // A record of almost as much as a message can have.
    let rdata: Vec<u8> = std::iter::repeat_n([&[255][..], &[b'x'; 255]].concat(), 230).flatten().collect();
    let mut long = Message::parse(&reply).unwrap();
    let owner = long.questions[0].qname.clone();
    let (rtype, class) = (nodens_wire::Type::TXT, nodens_wire::Class::IN);
    long.answer = vec![nodens_wire::Record { owner, rtype, class, ttl: 60, rdata }];
    reply.clear();
    long.write(&mut reply).unwrap();
    let now = floor.bench.now;
    floor.bench.client.transport = crate::job::Transport::Tcp;
    floor.workers[worker].reply(now, ask.ticket, ask.attempt, &reply);
    let mut sent = 0;
    for index in [worker, 1 - worker] {
        floor.workers[index].collect_mail(now);
        loop {
            let mut actions = Vec::new();
            floor.workers[index].take_actions(&mut actions);
            let wires = actions.iter().filter_map(|action| match action {
                Action::Send { wire, .. } => Some(wire.len()),
                _ => None,
            });
            let wires: Vec<usize> = wires.collect();
            let octets: usize = wires.iter().sum();
            assert!(octets < crate::limits::ANSWERS_AT_ONCE + (1 << 16), "{octets} octets at once");
            sent += wires.len();
            floor.workers[index].go_on(now);
            if !floor.workers[index].has_actions() {
                break;
            }
        }
    }
    assert_eq!((sent, floor.pending()), (400, 0));
}

#[test]
fn questions_that_differ_are_asked_each() {
    let mut floor = Floor::new("");
    let questions = ["a. A", "a. AAAA", "b. A", "a. A +do", "a. A +cd", "a. A CH", "a. A +norec"];
    for question in questions {
        floor.ask(0, question);
        floor.ask(1, question);
    }
    over_tcp(&mut floor.bench);
    floor.ask(0, "a. A");
    assert_eq!(floor.asks.len(), questions.len() + 1);
}

#[test]
fn all_who_wait_learn_of_a_failure() {
    let mut floor = Floor::new("force_tcp\n max_fails 0\n max_connect_attempts 1");
    for n in 0..10 {
        floor.ask(n % 2, "example.org. A");
    }
    let (worker, ask) = floor.asks.remove(0);
    let fault = Fault::Connect("dial tcp 192.0.2.1:53: connect: connection refused".to_owned());
    floor.workers[worker].failed(floor.bench.now, ask.ticket, ask.attempt, &fault);
    floor.act();
    assert_eq!(floor.rcodes, [Rcode::SERVFAIL; 10]);
    assert!(floor.asks.is_empty() && floor.shared.in_flight.is_empty());
}

#[test]
fn when_the_one_who_asks_leaves_the_next_in_line_asks() {
    let mut floor = Floor::new("");
    floor.ask(0, "example.org. A");
    for n in 0..9 {
        floor.ask(1 - n % 2, "example.org. A");
    }
    assert_eq!(floor.asks.len(), 1);
    floor.workers[0].abandon_all(floor.bench.now);
    floor.asks.clear();
    floor.act();
    assert_eq!(floor.workers[0].pending(), 0);
    assert_eq!(floor.asks.len(), 1, "one of the other worker's jobs has taken over");
    floor.answer(Rcode::NXDOMAIN);
    assert_eq!((floor.sent, floor.pending()), (10, 0));
    assert_eq!(floor.rcodes.iter().filter(|rcode| **rcode == Rcode::NXDOMAIN).count(), 5);
    assert!(floor.shared.in_flight.is_empty());
}

#[test]
fn who_waits_for_another_keeps_to_its_own_time() {
    let mut floor = Floor::new("max_fails 0");
    floor.ask(0, "example.org. A");
    floor.ask(1, "example.org. A");
    floor.bench.now.mono_ns += 5_000_000_000;
    floor.workers[1].tick(floor.bench.now);
    floor.act();
    assert_eq!(floor.rcodes, [Rcode::SERVFAIL]);
    floor.answer(Rcode::NOERROR);
    assert_eq!((floor.sent, floor.pending()), (2, 0));
    assert!(floor.shared.in_flight.is_empty());
}

#[test]
fn one_who_gave_up_waiting_is_not_made_the_one_to_ask() {
    let mut floor = Floor::new("max_fails 0");
    floor.ask(0, "example.org. A");
    floor.ask(1, "example.org. A");
    floor.bench.now.mono_ns += 900_000_000;
    floor.ask(1, "example.org. A");
    floor.bench.now.mono_ns += 4_100_000_000;
    floor.workers[1].tick(floor.bench.now);
    floor.act();
    assert_eq!((floor.sent, floor.pending()), (1, 2));
    floor.asks.clear();
    floor.workers[0].abandon_all(floor.bench.now);
    floor.act();
    assert_eq!(floor.asks.len(), 1, "the one who still waits asks");
    floor.answer(Rcode::NXDOMAIN);
    assert_eq!(floor.rcodes.last(), Some(&Rcode::NXDOMAIN));
    assert!(floor.shared.in_flight.is_empty());
}

#[test]
fn who_comes_late_asks_for_itself_and_whoever_has_a_response_first_answers_those_who_wait() {
    for first in [0, 1] {
        let mut floor = Floor::new("max_fails 0");
        floor.ask(0, "example.org. A");
        floor.ask(1, "example.org. A");
        floor.bench.now.mono_ns += 1_100_000_000;
        floor.ask(1, "example.org. A");
        floor.ask(0, "example.org. A");
        assert_eq!(floor.asks.len(), 2, "the fourth waits for the third");
        let (later, earlier) = (floor.asks.pop().unwrap(), floor.asks.pop().unwrap());
        let [now, then] = if first == 0 { [earlier, later] } else { [later, earlier] };
        floor.asks.push(now);
        floor.answer(Rcode::NXDOMAIN);
        assert_eq!((floor.sent, floor.pending()), (3, 1), "{first}");
        floor.asks.push(then);
        floor.answer(Rcode::NXDOMAIN);
        assert_eq!((floor.sent, floor.pending()), (4, 0), "{first}");
        assert!(floor.shared.in_flight.is_empty());
    }
}

#[test]
fn who_asked_before_and_fails_takes_nobody_with_it() {
    let mut floor = Floor::new("max_fails 0");
    floor.ask(0, "example.org. A");
    floor.bench.now.mono_ns += 3_900_000_000;
    floor.ask(1, "example.org. A");
    floor.ask(0, "example.org. A");
    floor.bench.now.mono_ns += 1_100_000_000;
    floor.workers[0].tick(floor.bench.now);
    floor.act();
    assert_eq!((floor.rcodes.as_slice(), floor.pending()), (&[Rcode::SERVFAIL][..], 2));
    let later = floor.asks.remove(1);
    floor.asks = vec![later];
    floor.answer(Rcode::NOERROR);
    assert_eq!((floor.sent, floor.pending()), (3, 0));
    assert!(floor.shared.in_flight.is_empty());
}

#[test]
fn an_answer_to_what_a_job_no_longer_waits_for_is_not_its_answer() {
    let mut floor = Floor::new("");
    floor.ask(0, "own.example. A");
    let mut other = Message::parse(&request("other.example. A")).unwrap();
    other.flags = other.flags.reply();
    let mut wire = Vec::new();
    other.write(&mut wire).unwrap();
    let ticket = floor.asks[0].1.ticket;
    for message in [Some(Arc::from(wire)), None] {
        assert!(floor.shared.post(0, Mail { ticket, query: 7, message }));
        floor.workers[0].collect_mail(floor.bench.now);
        floor.act();
        assert_eq!((floor.sent, floor.pending()), (0, 1));
    }
    floor.answer(Rcode::NOERROR);
    assert_eq!((floor.sent, floor.pending()), (1, 0));
}

#[test]
fn queries_of_two_configurations_are_not_coalesced() {
    let mut bench = bench("192.0.2.1", "");
    script(&mut bench, |_, question| after(10 * MS, replies(question)));
    bench.ask_bytes(&request("example.org. A"));
    bench.reload(".:53 {\n forward . 192.0.2.2\n}").unwrap();
    bench.ask_bytes(&request("example.org. A"));
    assert_eq!((bench.asked, bench.pass(10 * MS).len()), (2, 2));
}

#[test]
fn who_waits_for_a_worker_that_is_stuck_asks_in_its_place() {
    let mut floor = Floor::new("");
    floor.ask(0, "www.example.org. A");
    floor.ask(1, "www.example.org. A");
    floor.ask(1, "www.example.org. A");
    assert_eq!(floor.asks.len(), 1);
    for (worker, mail) in floor.shared.in_flight.take_over_from(0) {
        assert_eq!(worker, 1);
        floor.shared.post(worker, mail);
        floor.workers[worker].collect_mail(floor.bench.now);
    }
    floor.act();
    assert_eq!(floor.asks.iter().map(|(worker, _)| *worker).collect::<Vec<_>>(), [0, 1]);
    // The worker is stuck, so its answer comes last.
    let stuck = floor.asks.remove(0);
    floor.answer(Rcode::NOERROR);
    assert_eq!((floor.sent, floor.workers[1].pending()), (2, 0));
    floor.asks.push(stuck);
    floor.answer(Rcode::NOERROR);
    assert_eq!((floor.sent, floor.pending()), (3, 0));
    assert!(floor.shared.in_flight.is_empty());
}

#[test]
fn whoever_comes_takes_over_from_a_worker_that_is_stuck() {
    let mut floor = Floor::new("");
    floor.ask(0, "www.example.org. A");
    floor.ask(0, "www.example.org. A");
    assert!(floor.shared.in_flight.take_over_from(0).is_empty());
    floor.ask(1, "www.example.org. A");
    floor.ask(1, "www.example.org. A");
    assert_eq!(floor.asks.len(), 2);
    let stuck = floor.asks.remove(0);
    floor.answer(Rcode::NOERROR);
    assert_eq!(floor.workers[1].pending(), 0);
    floor.asks.push(stuck);
    floor.answer(Rcode::NOERROR);
    floor.workers[0].collect_mail(floor.bench.now);
    floor.act();
    assert_eq!((floor.sent, floor.pending()), (4, 0));
    assert!(floor.shared.in_flight.is_empty());
    assert_eq!(floor.rcodes, [Rcode::NOERROR; 4]);
}
