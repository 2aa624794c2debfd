//! How much more than the questions upstreams get when they do not answer.

use super::*;
use crate::limits::{QUERIES_PER_RETRY, RETRIES_FREE, RETRY_WINDOW_S};
use crate::testing::request;
use fastrand::Rng;

/// What became of a load.
struct Load {
    /// When clients asked, nanoseconds.
    queries: Vec<u64>,
    /// When an upstream was asked, health checks left out.
    packets: Vec<u64>,
    answers: usize,
    failures: usize,
    bench: Bench,
}

/// Asks so many questions a second, each for another name, for so many seconds.
fn load(mut bench: Bench, rate: u64, seconds: u64, mut react: impl FnMut(&Ask, &Message) -> Reaction + 'static) -> Load {
    let asked = Rc::new(RefCell::new(0_usize));
    let count = asked.clone();
    bench.upstream(move |ask, question| {
        let is_check = question.questions[0].qname.view().is_root();
        *count.borrow_mut() += usize::from(!is_check);
        react(ask, question)
    });
    let mut load = Load { queries: Vec::new(), packets: Vec::new(), answers: 0, failures: 0, bench };
    for n in 0..rate * seconds {
        let sent = load.bench.pass(Duration::from_nanos(1_000_000_000 / rate));
        load.count(sent.into_iter().map(|(_, wire)| wire));
        load.queries.push(load.bench.now.mono_ns);
        let answer = load.bench.ask_bytes(&request(&format!("n{n}.example. A")));
        load.count(answer);
        load.packets.resize(*asked.borrow(), load.bench.now.mono_ns);
    }
    for _ in 0..600 {
        let sent = load.bench.pass(10 * MS);
        load.count(sent.into_iter().map(|(_, wire)| wire));
        load.packets.resize(*asked.borrow(), load.bench.now.mono_ns);
    }
    assert_eq!(load.bench.worker.pending(), 0);
    assert_eq!(load.answers + load.failures, load.queries.len());
    load
}

impl Load {
    fn count(&mut self, wires: impl IntoIterator<Item = Vec<u8>>) {
        for wire in wires {
            match nodens_wire::header::flags(&wire).rcode() {
                Rcode::NOERROR => self.answers += 1,
                _ => self.failures += 1,
            }
        }
    }

    /// The most packets beyond the allowed share in any window.
    fn assert_bounded(&self) {
        let window = RETRY_WINDOW_S as u64 * 1_000_000_000;
        for (index, end) in self.packets.iter().enumerate() {
            let within = |times: &[u64]| {
                let since = end.saturating_sub(window);
                times.partition_point(|at| at <= end) - times.partition_point(|at| *at <= since)
            };
            let (packets, queries) = (within(&self.packets), within(&self.queries));
            let most = queries + queries / QUERIES_PER_RETRY as usize + RETRIES_FREE as usize;
            assert!(packets <= most, "packet {index}: {packets} packets for {queries} questions");
        }
    }
}

#[test]
fn an_upstream_that_drops_everything_gets_a_fifth_more_and_no_more() {
    let load = load(bench("192.0.2.1", ""), 1600, 12, |_, _| Reaction::Silence);
    load.assert_bounded();
    assert_eq!(load.answers, 0);
    // It gets what it may, too: it could be that it only loses some.
    assert!(load.packets.len() > load.queries.len() * 118 / 100, "{}", load.packets.len());
    let put_off = metric(&load.bench, "nodens_forward_retries_suppressed_total");
    assert!(put_off > 15_000.0, "{put_off}");
    let retries = load.packets.len() - load.queries.len();
    assert_eq!(metric(&load.bench, "nodens_forward_retries_total"), retries as f64);
}

#[test]
fn two_upstreams_that_refuse_everything_get_no_more_than_that() {
    let load = load(bench(&to(2), ""), 400, 14, |ask, _| refused(ask));
    load.assert_bounded();
    assert_eq!(load.answers, 0);
}

#[test]
fn a_lossy_way_is_made_good_as_far_as_the_budget_goes() {
    for (loss, least) in [(10, 98), (30, 80)] {
        let mut rng = Rng::with_seed(7);
        let load = load(bench("192.0.2.1", ""), 400, 20, move |_, question| {
            if rng.u8(..100) < loss { Reaction::Silence } else { after(2 * MS, replies(question)) }
        });
        load.assert_bounded();
        let share = load.answers * 100 / load.queries.len();
        assert!(share >= least, "{loss} % lost: {share} % answered");
    }
}

#[test]
fn with_one_of_two_upstreams_dead_every_question_is_answered() {
    for body in ["", "policy sequential", "policy round_robin", "policy rtt", "max_fails 0"] {
        for silent in [true, false] {
            let load = load(bench(&to(2), body), 100, 12, move |ask, question| {
                match number(ask) {
                    1 if silent => Reaction::Silence,
                    1 => refused(ask),
                    _ => after(2 * MS, replies(question)),
                }
            });
            load.assert_bounded();
            assert_eq!(load.failures, 0, "{body}, silent: {silent}");
        }
    }
}

#[test]
fn after_an_outage_all_is_as_before() {
    let down = Rc::new(RefCell::new(true));
    let is_down = down.clone();
    let mut load = load(bench("192.0.2.1", ""), 400, 6, move |_, question| {
        if *is_down.borrow() { Reaction::Silence } else { after(MS, replies(question)) }
    });
    *down.borrow_mut() = false;
    for n in 0..100 {
        let question = format!("again{n}.example. A");
        let (answer, took) = load.bench.ask_for(&question, 5000 * MS).unwrap();
        assert_eq!((answer.flags.rcode(), took), (Rcode::NOERROR, MS));
    }
}

#[test]
fn a_lone_question_is_asked_as_often_as_its_time_allows() {
    let mut bench = bench("192.0.2.1", "max_fails 0");
    let log = script(&mut bench, |_, _| Reaction::Silence);
    assert_eq!(bench.ask_for("example.org. A", 6000 * MS).unwrap().0.flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(asked(&log).len(), 5, "at 0, 50, 250 and 1050 ms, and when the first has failed");
    // Ten seconds later it is alone again.
    bench.pass(11_000 * MS);
    bench.ask_for("example.com. A", 6000 * MS).unwrap();
    assert_eq!(asked(&log).len(), 5);
}

#[test]
fn what_an_answer_asks_for_is_no_retry() {
    let mut bench = bench(&to(2), "policy sequential\n failover REFUSED\n prefer_udp");
    let log = script(&mut bench, |ask, question| {
        let rcode = if number(ask) == 1 { Rcode::REFUSED } else { Rcode::NOERROR };
        let mut reply = answer(question, rcode, 1);
        if ask.carrier == Carrier::Udp && number(ask) == 2 {
            let flags = question.flags.reply().with(Flags::TC, true);
            nodens_wire::header::set_flags(&mut reply, flags);
        }
        Reaction::Reply(reply)
    });
    for n in 0..100 {
        assert_eq!(rcode_of(&mut bench, &format!("n{n}.example. A")), Rcode::NOERROR);
    }
    assert_eq!(asked(&log), [1, 2, 2].repeat(100));
    assert_eq!(metric(&bench, "nodens_forward_retries_total"), 0.0);
}

#[test]
fn an_upstream_that_fails_without_health_checks_is_tried_now_and_then() {
    let mut bench = bench(&to(2), "policy sequential\n max_fails 0");
    let dead = Rc::new(RefCell::new(true));
    let is_dead = dead.clone();
    let log = script(&mut bench, move |ask, question| {
        if number(ask) == 1 && *is_dead.borrow() { refused(ask) } else { replies(question) }
    });
    let firsts = |bench: &mut Bench, questions: usize| {
        let mut firsts = 0;
        for n in 0..questions {
            assert_eq!(rcode_of(bench, &format!("n{n}.example. A")), Rcode::NOERROR);
            firsts += usize::from(asked(&log)[0] == 1);
        }
        firsts
    };
    let tried = firsts(&mut bench, 640);
    assert!((5..60).contains(&tried), "{tried}");
    *dead.borrow_mut() = false;
    firsts(&mut bench, 640);
    assert_eq!(firsts(&mut bench, 10), 10, "the first in order is asked first again");
}
