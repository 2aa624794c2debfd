//! Health: what is learned from failures and health checks, and what follows from it.

use super::*;

const CHECKS: &str = "coredns_proxy_healthcheck_failures_total{proxy_name=\"forward\",to=\"192.0.2.1:53\"}";

fn is_check(question: &Message) -> bool {
    question.questions[0].qtype == Type::NS
}

#[test]
fn after_a_failure_an_upstream_is_checked_until_it_answers() {
    let mut bench = bench(&to(2), "policy sequential");
    let healthy = Rc::new(RefCell::new(false));
    let state = healthy.clone();
    let checks = Rc::new(RefCell::new(Vec::new()));
    let seen = checks.clone();
    script(&mut bench, move |ask, question| {
        if is_check(question) {
            seen.borrow_mut().push(question.clone());
        }
        match number(ask) {
            1 if !*state.borrow() => refused(ask),
            _ => replies(question),
        }
    });
    bench.ask("example.org. A");
    assert_eq!(metric(&bench, CHECKS), 1.0, "the first check is made at once");
    bench.pass(1400 * MS);
    assert_eq!(metric(&bench, CHECKS), 3.0);
    bench.pass(60_000 * MS);
    let failed = metric(&bench, CHECKS);
    assert!((30.0..40.0).contains(&failed), "every 2 s at last: {failed}");
    *healthy.borrow_mut() = true;
    bench.pass(2000 * MS);
    assert_eq!(metric(&bench, CHECKS), failed);
    let checks = checks.borrow();
    let check = &checks[0];
    assert_eq!(check.questions[0].qname, Name::root());
    assert!(check.flags.has(Flags::RD));
    let number = checks.len();
    bench.pass(10_000 * MS);
    assert_eq!(checks.len(), number, "no more checks while all is well");
}

#[test]
fn a_bound_of_this_side_is_no_failure_of_the_upstream() {
    for (fault, checks) in [
        (Fault::Connect as fn(String) -> Fault, true),
        (Fault::Full, false),
    ] {
        let mut bench = bench("192.0.2.1", "force_tcp");
        let log = script(&mut bench, move |_, _| Reaction::Fail(fault("dial tcp".to_owned())));
        assert_eq!(rcode_of(&mut bench, "example.org. A"), Rcode::SERVFAIL);
        bench.pass(1400 * MS);
        assert!(!log.borrow().is_empty());
        assert_eq!(metric(&bench, CHECKS) > 0.0, checks);
    }
}

#[test]
fn the_health_check_is_as_the_corefile_says() {
    let mut bench = bench("192.0.2.1", "force_tcp\n health_check 3s no_rec domain health.example");
    let log = Rc::new(RefCell::new(Vec::new()));
    let seen = log.clone();
    bench.upstream(move |ask, question| {
        if is_check(question) {
            let qname = question.questions[0].qname.to_string();
            seen.borrow_mut().push((qname, question.flags, ask.carrier));
        }
        refused(ask)
    });
    bench.ask("example.org. A");
    bench.pass(6100 * MS);
    let expected = ("health.example.".to_owned(), Flags(0), Carrier::Tcp);
    assert_eq!(*log.borrow(), [expected.clone(), expected.clone(), expected]);
}

#[test]
fn an_upstream_that_is_down_is_not_asked() {
    let mut bench = bench(&to(2), "policy sequential\n force_tcp");
    let log = script(&mut bench, |ask, question| match number(ask) {
        1 => refused(ask),
        _ => replies(question),
    });
    bench.ask("example.org. A");
    assert_eq!(asked(&log), [1, 1, 2]);
    bench.ask("example.org. A");
    assert_eq!(asked(&log), [2], "a suspect comes last");
    bench.pass(1100 * MS);
    asked(&log);
    script(&mut bench, |ask, _| refused(ask));
    bench.ask("example.org. A");
    assert_eq!(metric(&bench, "coredns_forward_healthcheck_broken_total"), 0.0);
}

#[test]
fn when_all_are_down_any_is_asked_or_none() {
    for (body, rcode) in
        [("", Rcode::NOERROR), ("failfast_all_unhealthy_upstreams", Rcode::SERVFAIL)]
    {
        let mut bench = bench(&to(2), &format!("health_check 1s\n {body}"));
        script(&mut bench, |ask, _| refused(ask));
        bench.ask("example.org. A");
        bench.pass(2100 * MS);
        script(&mut bench, |ask, question| {
            if is_check(question) { refused(ask) } else { replies(question) }
        });
        assert_eq!(rcode_of(&mut bench, "example.org. A"), rcode, "{body}");
        assert_eq!(metric(&bench, "coredns_forward_healthcheck_broken_total"), 1.0);
    }
}

#[test]
fn when_all_seem_down_the_one_that_answers_is_found() {
    for n in 0..100 {
        let mut bench = bench(&to(3), "read_timeout 60s");
        script(&mut bench, |ask, _| refused(ask));
        // Each draws random numbers, so what is asked at last is asked in many orders.
        (0..=n).for_each(|_| _ = bench.ask("example.org. A"));
        // Long enough for the retries of the outage to be forgotten.
        bench.pass(12_000 * MS);
        script(&mut bench, |ask, question| match number(ask) {
            _ if is_check(question) => refused(ask),
            1 => refused(ask),
            2 => Reaction::Silence,
            _ => after(40 * MS, replies(question)),
        });
        let (answer, took) = bench.ask_for("www.example.org. A", 6000 * MS).unwrap();
        assert!(metric(&bench, "coredns_forward_healthcheck_broken_total") > 0.0, "{n}");
        assert_eq!(answer.flags.rcode(), Rcode::NOERROR, "{n}");
        assert!(took < 200 * MS, "{n}: {took:?}");
    }
}

#[test]
fn with_max_fails_0_nothing_is_checked() {
    let mut bench = bench("192.0.2.1", "max_fails 0");
    let log = script(&mut bench, |ask, _| refused(ask));
    bench.ask("example.org. A");
    bench.pass(10_000 * MS);
    assert_eq!(asked(&log), [1, 1]);
}

#[test]
fn udp_and_tcp_are_judged_apart() {
    let mut bench = bench(&to(2), "policy sequential");
    let log = script(&mut bench, |ask, question| match (number(ask), ask.carrier) {
        (1, Carrier::Tcp) => refused(ask),
        _ => replies(question),
    });
    over_tcp(&mut bench);
    bench.ask("example.org. A");
    bench.pass(3000 * MS);
    asked(&log);
    bench.ask("example.org. A");
    assert_eq!(asked(&log), [2]);
    bench.client.transport = Transport::Udp;
    bench.ask("example.org. A");
    assert_eq!(asked(&log), [1]);
}

#[test]
fn health_checks_end_with_the_configuration_that_wanted_them() {
    let mut bench = bench("192.0.2.1", "");
    let log = script(&mut bench, |ask, _| refused(ask));
    bench.ask("example.org. A");
    bench.reload(".:53 {\n forward . 192.0.2.2\n}").unwrap();
    asked(&log);
    bench.pass(5000 * MS);
    assert!(asked(&log).is_empty());
}

/// Three upstreams over TCP: one is killed, one accepts questions and says nothing, one needs
/// 40 ms. No client may notice more than the time of the slow one and one change of mind, but where the frozen one is to
/// be waited for.
#[test]
fn one_killed_one_frozen_one_slow() {
    for policy in ["random", "round_robin", "sequential", "rtt"] {
        let mut bench = bench(&to(3), &format!("force_tcp\n policy {policy}"));
        let broken = Rc::new(RefCell::new(false));
        let state = broken.clone();
        script(&mut bench, move |ask, question| match (*state.borrow(), number(ask)) {
            (true, 1) => refused(ask),
            (true, 2) => Reaction::Silence,
            (_, 3) => after(40 * MS, replies(question)),
            _ => after(2 * MS, replies(question)),
        });
        let mut times = Vec::new();
        for n in 0..2000 {
            *broken.borrow_mut() = n >= 500;
            let question = format!("n{n}.example.org. A");
            let (answer, took) = bench.ask_for(&question, 10_000 * MS).unwrap();
            assert_eq!(answer.flags.rcode(), Rcode::NOERROR, "{policy} {n}");
            times.push(took);
            bench.pass(5 * MS);
        }
        let slowest = times.iter().max().copied().unwrap_or_default();
        let most = if policy == "sequential" { 2150 * MS } else { 150 * MS };
        assert!(slowest < most, "{policy}: {slowest:?}");
        let late = times.iter().skip(500).filter(|took| **took > 45 * MS).count();
        assert!(late <= 20, "{policy}: {late} questions went to the frozen one first");
    }
}

#[test]
fn a_question_under_way_waits_for_its_answer_when_all_go_down_meanwhile() {
    let mut bench = bench(&to(2), "health_check 10ms\n failfast_all_unhealthy_upstreams");
    let log = script(&mut bench, |ask, question| {
        let qname = question.questions[0].qname.to_string();
        if qname == "slow." { after(300 * MS, replies(question)) } else { refused(ask) }
    });
    bench.ask("fails. A");
    let (answer, took) = bench.ask_for("slow. A", 1000 * MS).unwrap();
    assert_eq!((answer.flags.rcode(), took), (Rcode::NOERROR, 300 * MS));
    assert!(log.borrow().len() < 100);
}

/// What `forward` wrote to the log.
fn said(bench: &Bench) -> Vec<String> {
    let lines = bench.log.try_iter().filter_map(|record| match record {
        crate::log::Record::Line { origin: "forward", text, .. } => Some(text),
        _ => None,
    });
    lines.collect()
}

#[test]
fn an_outage_is_said_once_and_so_is_its_end() {
    let mut bench = bench(&to(2), "health_check 1s");
    script(&mut bench, |ask, _| refused(ask));
    for n in 0..20 {
        assert_eq!(rcode_of(&mut bench, &format!("n{n}.example.org. A")), Rcode::SERVFAIL);
        bench.pass(500 * MS);
    }
    let beginning = "all upstreams for . are down over udp: 192.0.2.1:53, 192.0.2.2:53; answering SERVFAIL for uncached names until one recovers";
    assert_eq!(said(&bench), [beginning]);
    script(&mut bench, |_, question| replies(question));
    bench.pass(5000 * MS);
    for n in 0..20 {
        assert_eq!(rcode_of(&mut bench, &format!("m{n}.example.org. A")), Rcode::NOERROR);
        bench.pass(500 * MS);
    }
    let said = said(&bench);
    assert_eq!(said.len(), 2, "one for each upstream: {said:?}");
    assert!(said.iter().all(|line| line.contains(":53 has recovered over udp after ")), "{said:?}");
}

#[test]
fn an_outage_is_that_of_one_carrier_and_of_the_zones_of_a_block() {
    let mut bench = Bench::new(
        "a.test b.test c.test d.test {\n forward . 192.0.2.1\n}\ne.test {\n forward e.test 192.0.2.2\n}\nf.test {\n forward . 192.0.2.2\n}",
    );
    script(&mut bench, |ask, question| match ask.carrier {
        Carrier::Udp => replies(question),
        _ => refused(ask),
    });
    over_tcp(&mut bench);
    bench.ask("www.a.test. A");
    bench.ask("www.e.test. A");
    bench.pass(5000 * MS);
    for transport in [Transport::Tcp, Transport::Udp, Transport::Tcp] {
        bench.client.transport = transport;
        bench.ask("www.a.test. A");
        bench.ask("www.e.test. A");
        bench.ask("www.f.test. A");
    }
    let said = said(&bench);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("all upstreams for a.test., b.test., c.test. and others are down over tcp"));
    assert!(said[1].starts_with("all upstreams for e.test. are down over tcp: 192.0.2.2:53; "));
}
