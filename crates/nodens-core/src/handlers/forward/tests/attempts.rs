//! Whom is asked when: policies, retries, late answers, limits.

use super::*;
use crate::log::Record;

pub(super) fn errors(bench: &Bench) -> Vec<String> {
    let errors = bench.log.try_iter().filter_map(|record| match record {
        Record::Failure(failure) => Some(failure.text),
        _ => None,
    });
    errors.collect()
}

fn firsts(bench: &mut Bench, log: &Log, questions: usize) -> Vec<u16> {
    let mut firsts = Vec::new();
    for _ in 0..questions {
        bench.ask("example.org. A");
        firsts.push(asked(log)[0]);
    }
    firsts
}

#[test]
fn random_is_fair() {
    let mut bench = bench(&to(3), "");
    let log = script(&mut bench, |_, question| replies(question));
    let firsts = firsts(&mut bench, &log, 3000);
    for upstream in 1..=3 {
        let share = firsts.iter().filter(|first| **first == upstream).count();
        assert!((900..1100).contains(&share), "{upstream}: {share}");
    }
}

#[test]
fn round_robin_takes_turns_and_keeps_the_order_of_the_others() {
    let mut bench = bench(&to(3), "policy round_robin");
    let log = script(&mut bench, |ask, question| {
        let rcode = if number(ask) == 3 { Rcode::NOERROR } else { Rcode::SERVFAIL };
        Reaction::Reply(answer(question, rcode, 0))
    });
    assert_eq!(firsts(&mut bench, &log, 5), [2, 3, 1, 2, 3]);

    let mut bench = super::bench(&to(3), "policy round_robin\n failover SERVFAIL");
    let log = script(&mut bench, |_, question| {
        Reaction::Reply(answer(question, Rcode::SERVFAIL, 0))
    });
    for expected in [[2, 1, 3], [3, 1, 2], [1, 2, 3]] {
        bench.ask("example.org. A");
        assert_eq!(asked(&log), expected);
    }
}

#[test]
fn sequential_begins_with_the_first() {
    let mut bench = bench(&to(3), "policy sequential");
    let log = script(&mut bench, |_, question| replies(question));
    assert_eq!(firsts(&mut bench, &log, 4), [1, 1, 1, 1]);
}

#[test]
fn rtt_prefers_the_fast_and_still_looks_at_the_others() {
    let mut bench = bench(&to(3), "policy rtt");
    let log = script(&mut bench, |ask, question| {
        after(u32::from(number(ask)) * 5 * MS, replies(question))
    });
    let mut firsts = Vec::new();
    for _ in 0..1000 {
        bench.ask_for("example.org. A", 1000 * MS).unwrap();
        firsts.push(asked(&log)[0]);
    }
    let share = |upstream| firsts.iter().filter(|first| **first == upstream).count();
    assert!(share(1) > 900, "{}", share(1));
    assert!(share(2) > 2 && share(3) > 2, "{} {}", share(2), share(3));
}

#[test]
fn an_error_leads_to_the_next_at_once() {
    let mut bench = bench(&to(3), "policy sequential\n force_tcp");
    let log = script(&mut bench, |ask, question| match number(ask) {
        3 => replies(question),
        _ => refused(ask),
    });
    let (answer, took) = bench.ask_for("example.org. A", 1000 * MS).unwrap();
    assert_eq!((answer.flags.rcode(), took), (Rcode::NOERROR, Duration::ZERO));
    let questions: Vec<_> = asked(&log);
    assert_eq!(questions, [1, 1, 2, 2, 3], "each failure also starts a health check");
    assert!(errors(&bench).is_empty());
}

#[test]
fn a_broken_connection_is_made_good_on_the_same_upstream_once() {
    let broken = |ask: &Ask| Reaction::Fail(Fault::Broken(format!("{}: EOF", ask.upstream.name)));
    let mut bench = bench(&to(2), "policy sequential\n force_tcp\n max_fails 0");
    let log = script(&mut bench, move |ask, question| {
        if ask.elsewhere { replies(question) } else { broken(ask) }
    });
    bench.ask("example.org. A");
    assert_eq!(*log.borrow(), [(1, Carrier::Tcp, false), (1, Carrier::Tcp, true)]);
    asked(&log);
    let log = script(&mut bench, move |ask, question| {
        if number(ask) == 1 { broken(ask) } else { replies(question) }
    });
    bench.ask("example.org. A");
    assert_eq!(asked(&log), [1, 1, 2]);
}

#[test]
fn a_late_answer_is_asked_for_elsewhere_after_50_ms_and_the_first_one_counts() {
    // The first query begins with the second upstream, the next with the first.
    let mut bench = bench(&to(2), "policy round_robin");
    let log = script(&mut bench, |ask, question| match number(ask) {
        2 => after(80 * MS, Reaction::Reply(answer(question, Rcode::NOERROR, 1))),
        _ => after(10 * MS, Reaction::Reply(answer(question, Rcode::NOERROR, 2))),
    });
    let (answer, took) = bench.ask_for("example.org. A", 1000 * MS).unwrap();
    assert_eq!((answer.answer.len(), took), (2, 60 * MS));
    assert_eq!(asked(&log), [2, 1]);

    // The first to answer may also be the first that was asked.
    let log = script(&mut bench, |ask, question| {
        after(if number(ask) == 1 { 80 * MS } else { 100 * MS }, replies(question))
    });
    let (_, took) = bench.ask_for("example.org. A", 1000 * MS).unwrap();
    assert_eq!(took, 80 * MS);
    assert_eq!(asked(&log), [1, 2]);
}

#[test]
fn an_upstream_that_is_always_slow_gets_the_time_it_needs() {
    let mut bench = bench(&to(2), "policy round_robin");
    let log = script(&mut bench, |_, question| after(200 * MS, replies(question)));
    for first in [vec![2, 1, 2], vec![1, 2]] {
        bench.ask_for("example.org. A", 1000 * MS).unwrap();
        assert_eq!(asked(&log), first, "at 0, 50 and 100 ms, until one has answered");
    }
    for _ in 0..20 {
        let (_, took) = bench.ask_for("example.org. A", 1000 * MS).unwrap();
        assert_eq!(took, 200 * MS);
        assert_eq!(asked(&log).len(), 1);
    }
}

/// The next one may be the Internet's, which denies what the first one has.
#[test]
fn sequential_does_not_ask_the_next_one_because_the_first_is_late() {
    for late in [80, 1900] {
        let mut bench = bench(&to(2), "policy sequential");
        let log = script(&mut bench, move |ask, question| match number(ask) {
            1 => after(late * MS, replies(question)),
            _ => Reaction::Reply(answer(question, Rcode::NXDOMAIN, 0)),
        });
        for n in 0..20 {
            let (answer, took) = bench.ask_for(&format!("n{n}.example. A"), 5000 * MS).unwrap();
            assert_eq!((answer.flags.rcode(), took), (Rcode::NOERROR, late * MS), "{n}");
            assert!(asked(&log).iter().all(|number| *number == 1), "{n}");
        }
    }
}

#[test]
fn sequential_sends_a_lost_datagram_again_and_leaves_an_upstream_that_fails() {
    let mut bench = bench(&to(2), "policy sequential\n max_fails 0");
    let mut count = 0;
    let log = script(&mut bench, move |_, question| {
        count += 1;
        if count == 1 { Reaction::Silence } else { after(2 * MS, replies(question)) }
    });
    let (_, took) = bench.ask_for("lost.example. A", 5000 * MS).unwrap();
    assert_eq!((asked(&log), took), (vec![1, 1], 52 * MS));
    let log = script(&mut bench, |ask, question| match number(ask) {
        1 => Reaction::Silence,
        _ => after(2 * MS, replies(question)),
    });
    let (answer, took) = bench.ask_for("dead.example. A", 5000 * MS).unwrap();
    assert_eq!((answer.flags.rcode(), took), (Rcode::NOERROR, 2002 * MS));
    assert_eq!(asked(&log).last(), Some(&2));
    // From then on it is the last one.
    let (_, took) = bench.ask_for("next.example. A", 5000 * MS).unwrap();
    assert_eq!((asked(&log), took), (vec![2], 2 * MS));
}

#[test]
fn rtt_learns_of_an_upstream_that_others_always_outrun() {
    let mut bench = bench(&to(2), "policy rtt");
    let log = script(&mut bench, |ask, question| {
        after(if number(ask) == 1 { 300 * MS } else { 20 * MS }, replies(question))
    });
    let mut slow_first = 0;
    for n in 0..200 {
        bench.ask_for(&format!("n{n}.example. A"), 5000 * MS).unwrap();
        slow_first += usize::from(asked(&log).first() == Some(&1));
        bench.pass(1000 * MS);
    }
    // One query in 32 tries it, or one at random.
    assert!(slow_first < 20, "{slow_first}");
}

#[test]
fn a_single_upstream_is_asked_again_on_another_connection() {
    let mut bench = bench("192.0.2.1", "force_tcp\n max_fails 0");
    let log = script(&mut bench, |_, _| Reaction::Silence);
    let (answer, took) = bench.ask_for("example.org. A +edns", 10_000 * MS).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    let (_, mut options) = answer.edns().unwrap();
    assert_eq!(options.next().map(|(_, data)| data[..2].to_vec()), Some(vec![0, 22]));
    // At 0, 50, 250 and 1050 ms, and at 2000 because the first fails then; after the second
    // failure no more.
    assert_eq!(took, 4000 * MS);
    let elsewhere: Vec<_> = log.borrow().iter().map(|(_, _, elsewhere)| *elsewhere).collect();
    assert_eq!(elsewhere, [false, true, true, true, true]);
}

#[test]
fn errors_are_worded_as_in_coredns() {
    let corefile = |body: &str| {
        format!(".:53 {{\n errors\n forward . 192.0.2.1 192.0.2.2 {{\n {body}\n }}\n}}")
    };
    let mut bench = Bench::new(&corefile("policy sequential\n force_tcp"));
    script(&mut bench, |ask, _| refused(ask));
    assert_eq!(rcode_of(&mut bench, "Example.org. A"), Rcode::SERVFAIL);
    let expected = "2 example.org. A: dial tcp 192.0.2.2:53: connect: connection refused";
    assert_eq!(errors(&bench), [expected]);

    let mut bench = Bench::new(&corefile(""));
    script(&mut bench, |_, _| Reaction::Silence);
    bench.ask_for("example.org. A", 10_000 * MS).unwrap();
    let expected = "2 example.org. A: read udp 192.0.2.1:40000->192.0.2.9:53: i/o timeout";
    assert_eq!(errors(&bench), [expected]);

    let mut bench = Bench::new(&corefile("max_concurrent 1"));
    script(&mut bench, |_, _| Reaction::Silence);
    bench.ask_bytes(&crate::testing::request("first. A"));
    assert_eq!(rcode_of(&mut bench, "example.org. A"), Rcode::REFUSED);
    assert_eq!(errors(&bench), ["5 example.org. A: concurrent queries exceeded maximum 1"]);
}

#[test]
fn attempts_are_limited() {
    for (body, expected) in [
        ("", 4),
        ("max_connect_attempts 1", 1),
        ("max_connect_attempts 3", 3),
    ] {
        let body = format!("policy sequential\n max_fails 0\n force_tcp\n {body}");
        let mut bench = bench(&to(2), &body);
        let log = script(&mut bench, |ask, _| refused(ask));
        let (_, took) = bench.ask_for("example.org. A", 10_000 * MS).unwrap();
        assert_eq!((asked(&log).len(), took), (expected, Duration::ZERO), "{body}");
    }
    // Without a limit, attempts go on at a pace that harms nobody.
    let mut bench = bench(&to(2), "max_fails 0\n max_connect_attempts 0");
    let log = script(&mut bench, |ask, _| refused(ask));
    let (_, took) = bench.ask_for("example.org. A", 10_000 * MS).unwrap();
    assert_eq!(took, 5000 * MS);
    assert!((6..20).contains(&asked(&log).len()));
}

#[test]
fn an_attempt_fails_after_read_timeout() {
    let body = "max_connect_attempts 1\n read_timeout 700ms";
    let mut bench = bench("192.0.2.1", body);
    script(&mut bench, |_, question| after(699 * MS, replies(question)));
    let (answer, _) = bench.ask_for("example.org. A", 10_000 * MS).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::NOERROR);
    script(&mut bench, |_, question| after(701 * MS, replies(question)));
    let (answer, took) = bench.ask_for("example.org. A", 10_000 * MS).unwrap();
    assert_eq!((answer.flags.rcode(), took), (Rcode::SERVFAIL, 700 * MS));
}

#[test]
fn concurrent_questions_are_limited_and_the_limit_is_given_back() {
    let mut bench = bench("192.0.2.1", "max_concurrent 2");
    script(&mut bench, |_, question| after(10 * MS, replies(question)));
    for _ in 0..3 {
        bench.ask_bytes(&crate::testing::request("a. A"));
        bench.ask_bytes(&crate::testing::request("b. A"));
        assert_eq!(rcode_of(&mut bench, "c. A"), Rcode::REFUSED);
        assert_eq!(bench.pass(10 * MS).len(), 2);
    }
    assert_eq!(metric(&bench, "coredns_forward_max_concurrent_rejects_total"), 3.0);
    bench.ask_bytes(&crate::testing::request("a. A"));
    bench.worker.abandon_all(bench.now);
    bench.act();
    bench.ask_bytes(&crate::testing::request("a. A"));
    bench.ask_bytes(&crate::testing::request("b. A"));
    assert_eq!(bench.pass(10 * MS).len(), 2);
}

#[test]
fn nothing_is_in_flight_when_all_is_done() {
    let mut bench = bench(&to(3), "next NXDOMAIN\n failover REFUSED");
    let mut turn = 0;
    script(&mut bench, move |ask, question| {
        turn += 1;
        match turn % 6 {
            0 => refused(ask),
            1 => after(170 * MS, replies(question)),
            2 => Reaction::Silence,
            3 => Reaction::Reply(answer(question, Rcode::REFUSED, 0)),
            4 => after(30 * MS, Reaction::Reply(vec![0; 12])),
            _ => replies(question),
        }
    });
    for n in 0..50 {
        bench.ask_for(&format!("{n}.example.org. A"), 10_000 * MS).unwrap();
    }
    bench.pass(10_000 * MS);
    let registry = &bench.shared.registry;
    for n in 1..=3 {
        let address = format!("192.0.2.{n}:53").parse().unwrap();
        let (source, tls, settings) = (None, None, crate::upstream::Settings::default());
        let kind = crate::transport::ListenerKind::Dns;
        let key = crate::upstream::Key { address, kind, source, tls, settings };
        let upstream = bench.shared.upstreams.get(key, registry);
        assert_eq!(upstream.path(Carrier::Udp).in_flight(), 0, "{n}");
        assert!(upstream.path(Carrier::Udp).p99() > Duration::ZERO);
    }
    assert!(bench.shared.in_flight.is_empty());
    assert_eq!(bench.worker.pending(), 0);
}
