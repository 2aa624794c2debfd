//! How much more than the questions upstreams get when they do not answer.

use super::attempts::errors;
use super::*;
use crate::limits::{QUERIES_PER_RETRY, RETRIES_FREE, RETRIES_PER_CLIENT, RETRY_WINDOW_S};
use crate::shared::Shared;
use crate::testing::request;
use crate::worker::{Action, Worker};
use fastrand::Rng;
use std::sync::Arc;

/// Retries of one client that it need not have earned, in any window: this touches two of those for which its share of the
/// reserve is.
const FREE: u32 = RETRIES_FREE + 2 * RETRIES_PER_CLIENT;

/// What became of a load.
struct Load {
    /// When clients asked, nanoseconds.
    queries: Vec<u64>,
    /// When an upstream was asked, health checks left out.
    packets: Vec<u64>,
    answers: usize,
    failures: usize,
    /// Names that were answered with a failure.
    failed: Vec<String>,
    /// The longest time to an answer to a name in `example.`.
    slowest: Duration,
    bench: Bench,
}

/// Asks so many questions a second, each for another name, for so many seconds.
fn load(bench: Bench, rate: u64, seconds: u64, react: impl FnMut(&Ask, &Message) -> Reaction + 'static) -> Load {
    load_of(bench, rate, seconds, |n| format!("n{n}.example."), react)
}

/// The number in a name of a load.
fn number_of(qname: &Name) -> usize {
    qname.to_string()[1..].split('.').next().unwrap().parse().unwrap()
}

fn load_of(
    mut bench: Bench,
    rate: u64,
    seconds: u64,
    name: impl Fn(u64) -> String,
    mut react: impl FnMut(&Ask, &Message) -> Reaction + 'static,
) -> Load {
    let asked = Rc::new(RefCell::new(0_usize));
    let count = asked.clone();
    bench.upstream(move |ask, question| {
        let is_check = question.questions[0].qname.view().is_root();
        *count.borrow_mut() += usize::from(!is_check);
        react(ask, question)
    });
    let mut load = Load { queries: Vec::new(), packets: Vec::new(), answers: 0, failures: 0, failed: Vec::new(), slowest: Duration::ZERO, bench };
    for n in 0..rate * seconds {
        let sent = load.bench.pass(Duration::from_nanos(1_000_000_000 / rate));
        load.count(sent.into_iter().map(|(_, wire)| wire));
        load.queries.push(load.bench.now.mono_ns);
        let answer = load.bench.ask_bytes(&request(&format!("{} A", name(n))));
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
            let message = Message::parse(&wire).unwrap();
            let qname = &message.questions[0].qname;
            if message.flags.rcode() != Rcode::NOERROR {
                self.failed.push(qname.to_string());
            } else if qname.to_string().ends_with(".example.") {
                let since = self.queries[number_of(qname)];
                self.slowest = self.slowest.max(Duration::from_nanos(self.bench.now.mono_ns - since));
            }
        }
    }

    /// The most packets beyond the allowed share in any window.
    fn assert_bounded(&self) {
        self.assert_bounded_with(0, 0);
    }

    /// The same, with so many fresh starts in a window, and so many of a hundred queries that have no response in all their
    /// time though others have: each is sent once more, two seconds later.
    fn assert_bounded_with(&self, starts: u64, spare: usize) {
        let window = RETRY_WINDOW_S as u64 * 1_000_000_000;
        for (index, end) in self.packets.iter().enumerate() {
            let within = |times: &[u64], windows: u64| {
                let since = end.saturating_sub(windows * window);
                times.partition_point(|at| at <= end) - times.partition_point(|at| *at <= since)
            };
            let (packets, queries) = (within(&self.packets, 1), within(&self.queries, 1));
            // Those before a fresh start are paid for by the ten seconds up to it.
            let paying = (0..=starts).map(|start| within(&self.queries, 1 + start)).sum::<usize>();
            let free = FREE as usize + RETRIES_FREE as usize * starts as usize;
            // A fresh start in the first ten seconds adds at most what two seconds ask.
            let start = self.queries.first().copied().unwrap_or_default();
            let is_early = starts > 0 && *end < start + 2 * window;
            let early = self.queries.partition_point(|at| *at < start + 2_000_000_000);
            let early = if is_early { early } else { 0 };
            let again = within(&self.queries, 2) * spare / 100;
            let most = queries + paying / QUERIES_PER_RETRY as usize + free + early + again;
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
fn an_upstream_that_answers_health_checks_alone_gets_no_more_than_that() {
    let load = load(bench("192.0.2.1", ""), 400, 12, |_, question| {
        if question.questions[0].qname.view().is_root() { replies(question) } else { Reaction::Silence }
    });
    load.assert_bounded_with(1, 0);
    assert_eq!(load.answers, 0);
}

#[test]
fn two_upstreams_that_refuse_everything_get_no_more_than_that() {
    let mut load = load(bench(&to(2), ""), 400, 14, |ask, _| refused(ask));
    // The first query reaches neither of them, and of the second one nothing was known.
    load.packets.remove(0);
    load.assert_bounded();
    assert_eq!(load.answers, 0);
}

#[test]
fn a_lossy_way_is_made_good_as_far_as_the_budget_goes() {
    for (loss, least) in [(10, 100), (30, 90)] {
        let mut rng = Rng::with_seed(7);
        let mut load = load(bench("192.0.2.1", ""), 400, 20, move |_, question| {
            if rng.u8(..100) < loss { Reaction::Silence } else { after(2 * MS, replies(question)) }
        });
        load.assert_bounded_with(1, loss.into());
        // The pauses between the retries that are left at last look like an outage.
        let end = load.queries.last().copied();
        load.packets.retain(|at| Some(*at) <= end);
        load.assert_bounded_with(0, loss.into());
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
            // What was lost goes to the other one, whatever the budget.
            assert!(load.packets.len() < load.queries.len() * 3 / 2, "{body}, silent: {silent}");
            assert_eq!(load.failures, 0, "{body}, silent: {silent}");
        }
    }
}

#[test]
fn beside_an_upstream_that_answers_no_query_fails_because_others_refuse() {
    for body in ["", "force_tcp", "max_fails 0", "policy sequential"] {
        let mut bench = bench(&to(3), body);
        script(&mut bench, |ask, question| match number(ask) {
            1 | 2 => after(MS, refused(ask)),
            _ => after(40 * MS, replies(question)),
        });
        // Many more at once than there are free retries, before anything is known of the upstreams.
        let rcodes = burst(&mut bench, 2000, 100 * MS);
        let answered = rcodes.iter().filter(|rcode| **rcode == Rcode::NOERROR).count();
        assert_eq!(answered, 2000, "{body}");
        assert_eq!(metric(&bench, "nodens_forward_retries_suppressed_total"), 0.0, "{body}");
        assert_eq!(metric(&bench, "coredns_forward_requests_total{to=\"192.0.2.3:53\"}"), 2000.0);
    }
}

#[test]
fn an_upstream_that_is_only_late_answers_what_others_refuse() {
    for body in ["", "max_fails 0"] {
        let mut bench = bench(&to(3), body);
        // When the refusals come, all that the third was asked has been late, and nothing answered yet.
        script(&mut bench, |ask, question| match number(ask) {
            1 | 2 => after(120 * MS, refused(ask)),
            _ => after(300 * MS, replies(question)),
        });
        let rcodes = burst(&mut bench, 2000, 1000 * MS);
        let answered = rcodes.iter().filter(|rcode| **rcode == Rcode::NOERROR).count();
        assert_eq!(answered, 2000, "{body}");
    }
}

#[test]
fn upstreams_that_truncate_and_refuse_tcp_get_no_more_than_the_budget() {
    for body in ["prefer_udp", "prefer_udp\n max_fails 0"] {
        let load = load(bench(&to(4), body), 400, 12, |ask, question| {
            if ask.carrier == Carrier::Tcp {
                return refused(ask);
            }
            let mut reply = answer(question, Rcode::NOERROR, 0);
            let flags = question.flags.reply().with(Flags::TC, true);
            nodens_wire::header::set_flags(&mut reply, flags);
            Reaction::Reply(reply)
        });
        // Each attempt over UDP is followed by one over TCP, which its response asks for.
        let over_udp = load.packets.len() / 2;
        let most = load.queries.len() * 13 / 10 + 2 * RETRIES_FREE as usize;
        assert!(over_udp <= most, "{body}: {over_udp} of {most}");
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

fn broken(ask: &Ask) -> Reaction {
    Reaction::Fail(Fault::Broken(format!("{}: EOF", ask.upstream.name)))
}

/// Asks for so many names at one time; gives what came of them within `limit`.
fn burst(bench: &mut Bench, queries: usize, limit: Duration) -> Vec<Rcode> {
    let mut sent = Vec::new();
    for n in 0..queries {
        sent.extend(bench.ask_bytes(&request(&format!("n{n}.example. A"))));
    }
    sent.extend(bench.pass(limit).into_iter().map(|(_, wire)| wire));
    sent.iter().map(|wire| nodens_wire::header::flags(wire).rcode()).collect()
}

#[test]
fn without_budget_and_attempts_no_question_waits_for_its_deadline() {
    let body = "policy sequential\n force_tcp\n max_fails 0\n max_connect_attempts 2";
    let mut bench = bench(&to(2), body);
    script(&mut bench, |ask, question| match number(ask) {
        1 => after(MS, refused(ask)),
        _ if ask.elsewhere => replies(question),
        _ => after(5 * MS, broken(ask)),
    });
    let rcodes = burst(&mut bench, 64, 2000 * MS);
    assert_eq!(rcodes.len(), 64);
    let answered = rcodes.iter().filter(|rcode| **rcode == Rcode::NOERROR).count();
    assert!(answered >= 40, "{answered}");
}

#[test]
fn a_dead_connection_is_made_good_for_every_question_on_it() {
    let mut bench = bench("192.0.2.1", "force_tcp");
    script(&mut bench, |ask, question| {
        if ask.elsewhere { replies(question) } else { after(5 * MS, broken(ask)) }
    });
    assert_eq!(burst(&mut bench, 200, 10 * MS), vec![Rcode::NOERROR; 200]);
    assert_eq!(metric(&bench, "nodens_forward_retries_total"), 0.0);
}

#[test]
fn an_upstream_that_closes_after_each_answer_answers_every_question() {
    let load = load(bench("192.0.2.1", "force_tcp"), 200, 12, |ask, question| {
        if ask.elsewhere { after(MS, replies(question)) } else { broken(ask) }
    });
    assert_eq!((load.failures, load.packets.len()), (0, 2 * load.queries.len()));
    assert!(load.slowest <= 10 * MS, "{:?}", load.slowest);
}

/// What the upstream does for the latest query that it got, as a number from 0.
fn by_latest(
    mut react: impl FnMut(usize, &Ask, &Message) -> Reaction + 'static,
) -> impl FnMut(&Ask, &Message) -> Reaction + 'static {
    let mut latest = 0;
    move |ask, question| {
        let qname = &question.questions[0].qname;
        if !qname.view().is_root() {
            latest = latest.max(number_of(qname));
        }
        react(latest, ask, question)
    }
}

#[test]
fn a_short_outage_costs_no_answer_then_or_later() {
    for body in ["", "max_fails 0"] {
        let mut rng = Rng::with_seed(3);
        let react = by_latest(move |latest, _, question| match latest {
            1000..1150 => Reaction::Silence,
            1150.. if rng.u8(..100) == 0 => Reaction::Silence,
            _ => after(2 * MS, replies(question)),
        });
        let load = load(bench("192.0.2.1", body), 100, 22, react);
        assert_eq!(load.failed, Vec::<String>::new());
        assert!(load.slowest <= 2600 * MS, "{:?}", load.slowest);
        load.assert_bounded_with(1, 0);
    }
}

#[test]
fn an_outage_right_after_the_start_costs_no_answer() {
    for body in ["", "max_fails 0"] {
        for (rate, until) in [(100, 150), (1000, 1500), (30, 30)] {
            let react = by_latest(move |latest, _, question| {
                if latest < until { Reaction::Silence } else { after(2 * MS, replies(question)) }
            });
            let load = load(bench("192.0.2.1", body), rate, 22, react);
            assert_eq!(load.failed, Vec::<String>::new(), "{rate} {body}");
            // Up to the recovery a fifth of the queries, then as if there had been ten seconds more.
            let before = until / QUERIES_PER_RETRY as usize;
            let most = before + 2 * rate as usize + 2 * RETRIES_FREE as usize;
            let retries = load.packets.len() - load.queries.len();
            assert!(retries <= most, "{retries} of {most}");
        }
    }
}

#[test]
fn a_burst_right_after_the_start_is_no_rate_to_go_by() {
    // One retry for each at most, although they came within a moment.
    let react = by_latest(|latest, _, question| {
        if latest < 1000 { Reaction::Silence } else { after(2 * MS, replies(question)) }
    });
    let mut bench = bench("192.0.2.1", "");
    bench.upstream(react);
    for n in 0..1000 {
        bench.ask_bytes(&request(&format!("n{n}.example. A")));
    }
    bench.pass(600 * MS);
    bench.ask_bytes(&request("n1000.example. A"));
    bench.pass(6000 * MS);
    let free = 2.0 * f64::from(RETRIES_FREE);
    let retries = metric(&bench, "nodens_forward_retries_total");
    assert!(retries <= 200.0 + 1001.0 + free, "{retries}");
}

/// What so many workers make of an upstream that is silent: when they asked it first for a query,
/// and when again.
fn silent_for(workers: usize, queries_each: usize, times: u64) -> [Vec<u64>; 2] {
    let mut bench = bench("192.0.2.1", "");
    let shared = Arc::new(Shared::new(workers, bench.shared.sink.clone()));
    let text = ".:53 {\n forward . 192.0.2.1 {\n max_fails 0\n }\n}";
    let tree = nodens_corefile::parse("Corefile", text, &nodens_corefile::NoSources).unwrap();
    let config = crate::config::build(&tree, &Default::default(), &shared).map(Arc::new).unwrap();
    let worker = |n| Worker::new(n, shared.clone(), config.clone(), n as u64);
    let mut workers: Vec<_> = (0..workers).map(worker).collect();
    let mut asked = [Vec::new(), Vec::new()];
    let mut known = std::collections::HashSet::new();
    for step in 0..times * 1100 {
        bench.now.mono_ns += 10_000_000;
        for (index, worker) in workers.iter_mut().enumerate() {
            for n in 0..if step % 1100 == 0 { queries_each } else { 0 } {
                let request = request(&format!("w{index}n{n}t{step}.example. A"));
                worker.receive(bench.now, bench.client, &request, &mut Vec::new());
            }
            worker.tick(bench.now);
            let mut actions = Vec::new();
            worker.take_actions(&mut actions);
            for action in actions {
                match action {
                    Action::Ask(ask) => {
                        let is_again = !known.insert((index, ask.ticket.slot, ask.ticket.serial));
                        asked[usize::from(is_again)].push(bench.now.mono_ns);
                    }
                    Action::GiveUp { ticket, attempt } => {
                        worker.failed(bench.now, ticket, attempt, &Fault::Timeout(String::new()));
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(workers.iter().all(|worker| worker.pending() == 0));
    asked
}

#[test]
fn what_is_free_is_so_for_all_workers_together() {
    for workers in [1, 2, 8, 128] {
        let [first, again] = silent_for(workers, 4, 2);
        assert_eq!(first.len(), workers * 4 * 2);
        for end in &again {
            let since = end.saturating_sub(RETRY_WINDOW_S as u64 * 1_000_000_000);
            let within = again.iter().filter(|at| **at > since && *at <= end).count();
            assert!(within <= FREE as usize, "{within} with {workers} workers");
        }
        // They have it, too, and again after the time.
        let most = 2 * (RETRIES_FREE as usize).min(workers * 4 * 4);
        assert!(again.len() >= most.min(2 * 16), "{} with {workers} workers", again.len());
        if workers >= 8 {
            assert_eq!(again.len(), 2 * (RETRIES_FREE + RETRIES_PER_CLIENT) as usize);
        }
    }
}

#[test]
fn an_upstream_that_comes_and_goes_gets_one_budget_more_in_ten_seconds() {
    let react = by_latest(|latest, _, question| {
        if latest / 200 % 2 == 0 { Reaction::Silence } else { replies(question) }
    });
    let load = load(bench("192.0.2.1", ""), 400, 30, react);
    load.assert_bounded_with(1, 50);
}

#[test]
fn what_a_lone_upstream_refused_waits_a_moment_for_it_to_recover() {
    let mut bench = bench("192.0.2.1", "max_fails 0");
    script(&mut bench, |ask, _| refused(ask));
    let failed = burst(&mut bench, 200, 300 * MS);
    assert!(failed.len() < 100, "{}", failed.len());
    script(&mut bench, |_, question| replies(question));
    assert_eq!(rcode_of(&mut bench, "again.example. A"), Rcode::NOERROR);
    let sent = bench.pass(700 * MS);
    let answered = sent.iter().filter(|(_, wire)| nodens_wire::header::flags(wire).rcode() == Rcode::NOERROR);
    assert!(answered.count() >= 72, "as many as the budget allows");
}

#[test]
fn an_error_ends_as_that_of_coredns_whether_retries_are_left_or_not() {
    let mut bench = Bench::new(".:53 {\n errors\n forward . 192.0.2.1\n}");
    script(&mut bench, |ask, _| refused(ask));
    burst(&mut bench, 200, 3000 * MS);
    let errors = errors(&bench);
    assert!(errors.iter().all(|text| text.ends_with(": connection refused")), "{errors:?}");
    let is_limited = |text: &&String| text.contains(" A: no retry left: read udp ");
    assert!(errors.iter().filter(is_limited).count() > 50, "{errors:?}");
}

#[test]
fn a_dead_upstream_takes_no_retries_from_other_zones() {
    let corefile = ".:53 {\n forward dead.test 192.0.2.2\n forward . 192.0.2.1\n}";
    let mut rng = Rng::with_seed(5);
    let name = |n: u64| if n % 11 == 10 { format!("n{n}.dead.test.") } else { format!("n{n}.example.") };
    let load = load_of(Bench::new(corefile), 110, 20, name, move |ask, question| {
        let lost = number(ask) == 2 || rng.u8(..100) == 0;
        if lost { Reaction::Silence } else { after(2 * MS, replies(question)) }
    });
    assert_eq!(load.failures, 200);
    assert!(load.failed.iter().all(|name| name.ends_with("dead.test.")));
    assert!(load.slowest < 500 * MS, "{:?}", load.slowest);
}

/// Half a minute of queries that are never answered, beside a datagram now and then that is lost, of another client or of
/// the same, which may be a cache for many.
#[test]
fn queries_that_are_never_answered_do_not_take_the_retries_of_others() {
    for (upstreams, other) in [(1, 51), (1, 50), (2, 51), (2, 50)] {
        // What the same client has beside it shows that the upstream is well; another one has a reserve.
        let is_same = other == 50;
        let mut bench = bench(&to(upstreams), "");
        let mut seen = std::collections::HashSet::new();
        script(&mut bench, move |_, question| {
            let qname = question.questions[0].qname.to_string();
            let is_lost = qname.starts_with("lost") && seen.insert(qname.clone());
            if is_lost || qname.starts_with("never") { Reaction::Silence } else { replies(question) }
        });
        let mut seen = (0, 0);
        for n in 0..1500 {
            bench.client.peer.set_ip([192, 0, 2, 50].into());
            bench.ask_bytes(&request(&format!("never{n}.example. A")));
            if is_same {
                bench.ask_bytes(&request(&format!("good{n}.example. A")));
            }
            if n % 100 == 99 {
                bench.client.peer.set_ip([192, 0, 2, other].into());
                bench.ask_bytes(&request(&format!("lost{n}.example. A")));
            }
            for (_, wire) in bench.pass(20 * MS) {
                let message = Message::parse(&wire).unwrap();
                if message.questions[0].qname.to_string().starts_with("lost") {
                    seen.0 += usize::from(message.flags.rcode() == Rcode::NOERROR);
                    seen.1 += 1;
                }
            }
        }
        assert!(seen.0 == seen.1 && seen.1 >= 14, "{seen:?} with {upstreams} upstreams, {other}");
    }
}
