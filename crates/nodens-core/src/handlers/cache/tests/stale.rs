//! `serve_stale` (RFC 8767).

use super::*;

/// What the upstream does from its second question on.
#[derive(Clone, Copy, Debug)]
enum Then {
    Answer,
    Deny,
    Servfail,
    Refuse,
    Fail,
    Silence,
    AnswerLate(Duration),
    DenyLate(Duration),
    DenyTarget,
    DenyWithoutSoa,
    LeadNowhere,
}

/// An address for ten seconds, then what `then` says; the second answer has another address.
fn bench_with(stale: &str, then: Then) -> (Bench, Rc<RefCell<Then>>) {
    let then = Rc::new(RefCell::new(then));
    let (told, mut fresh) = (then.clone(), true);
    let script = move |q: &Message| {
        if std::mem::take(&mut fresh) {
            return reply(q, Rcode::NOERROR).a(10, 1).send();
        }
        let answer = || reply(q, Rcode::NOERROR).a(10, 2).send();
        let denial = || reply(q, Rcode::NXDOMAIN).soa(10).send();
        match *told.borrow() {
            Then::Answer => answer(),
            Then::Deny => denial(),
            Then::Servfail => reply(q, Rcode::SERVFAIL).send(),
            Then::Refuse => reply(q, Rcode::REFUSED).send(),
            Then::Fail => fails(),
            Then::Silence => Reaction::Silence,
            Then::AnswerLate(time) => after(time, answer()),
            Then::DenyLate(time) => after(time, denial()),
            Then::DenyTarget => {
                reply(q, Rcode::NXDOMAIN).cname("@", "gone.example.", 10).soa(10).send()
            }
            Then::DenyWithoutSoa => reply(q, Rcode::NXDOMAIN).send(),
            Then::LeadNowhere => reply(q, Rcode::NOERROR).cname("@", "gone.example.", 10).send(),
        }
    };
    let mut bench = bench(&format!("cache {{\n {stale}\n }}"), script);
    assert_eq!(first(&bench.ask("www.example. A")), (1, 10));
    (bench, then)
}

fn ask(bench: &mut Bench) -> (u8, u32) {
    first(&bench.ask("www.example. A"))
}

/// Asks and waits; also how long it took.
fn wait(bench: &mut Bench) -> ((u8, u32), Duration) {
    let (answer, took) = bench.ask_for("www.example. A", 20 * SECOND).expect("an answer");
    (first(&answer), took)
}

#[test]
fn a_stale_answer_comes_at_once_and_the_next_one_is_fresh() {
    let (mut bench, _) = bench_with("serve_stale", Then::Answer);
    bench.pass(10 * SECOND);
    let stale = bench.ask("www.example. A +edns");
    assert_eq!((first(&stale), errors(&stale)), ((1, 0), vec![3]));
    let fresh = bench.ask("www.example. A +edns");
    assert_eq!((first(&fresh), errors(&fresh)), ((2, 10), vec![]));
    assert_eq!(metric(&bench, "coredns_cache_served_stale_total", ""), 1.0);
    assert_eq!(metric(&bench, "coredns_cache_prefetch_total", ""), 1.0);
}

#[test]
fn a_stale_denial_says_so() {
    let mut bench = bench("cache {\n serve_stale\n }", |q| {
        reply(q, Rcode::NXDOMAIN).soa(10).send()
    });
    bench.ask("www.example. A");
    bench.pass(10 * SECOND);
    let stale = bench.ask("www.example. A +edns");
    assert_eq!((stale.flags.rcode(), errors(&stale)), (Rcode::NXDOMAIN, vec![19]));
}

#[test]
fn nothing_is_served_after_the_stale_time() {
    for (pause, served) in [(69_999 * MS, true), (70 * SECOND, false)] {
        let (mut bench, _) = bench_with("serve_stale 1m", Then::Refuse);
        bench.pass(pause);
        let answer = bench.ask("www.example. A");
        assert_eq!(answer.flags.rcode() == Rcode::NOERROR, served);
    }
}

#[test]
fn failures_never_replace_a_good_answer() {
    for then in [Then::Servfail, Then::Refuse, Then::Fail] {
        for mode in ["immediate", "verify", "verify 100ms"] {
            let (mut bench, told) = bench_with(&format!("serve_stale 1h {mode}"), then);
            bench.pass(10 * SECOND);
            for _ in 0..5 {
                let (answer, took) = wait(&mut bench);
                assert_eq!(answer, (1, 0), "{then:?} {mode}");
                assert!(took <= SECOND, "{then:?} {mode} {took:?}");
                bench.pass(10 * SECOND);
            }
            *told.borrow_mut() = Then::Answer;
            bench.pass(60 * SECOND);
            wait(&mut bench);
            assert_eq!(wait(&mut bench).0, (2, 10), "{then:?} {mode}");
        }
    }
}

#[test]
fn a_denial_replaces_a_stale_answer() {
    for mode in ["immediate", "verify"] {
        let (mut bench, _) = bench_with(&format!("serve_stale 1h {mode}"), Then::Deny);
        bench.pass(10 * SECOND);
        bench.ask("www.example. A");
        assert_eq!(bench.ask("www.example. A").flags.rcode(), Rcode::NXDOMAIN);
        // And is itself served stale later.
        bench.pass(20 * SECOND);
        assert_eq!(bench.ask("www.example. A").flags.rcode(), Rcode::NXDOMAIN);
    }
}

#[test]
fn what_is_not_stored_replaces_a_stale_answer_too() {
    for (then, rcode) in [
        (Then::DenyTarget, Rcode::NXDOMAIN),
        (Then::DenyWithoutSoa, Rcode::NXDOMAIN),
        (Then::LeadNowhere, Rcode::NOERROR),
    ] {
        for mode in ["immediate", "immediate 0s 30s", "verify", "verify 100ms 0s 30s"] {
            let (mut bench, _) = bench_with(&format!("serve_stale 1h {mode}"), then);
            bench.pass(10 * SECOND);
            let at_once = bench.ask("www.example. A");
            let next = bench.ask("www.example. A");
            let addresses = |m: &Message| m.answer.iter().filter(|r| r.rtype == Type::A).count();
            let is_stale = usize::from(mode.starts_with("immediate"));
            assert_eq!((addresses(&at_once), addresses(&next)), (is_stale, 0), "{then:?} {mode}");
            assert_eq!(next.flags.rcode(), rcode, "{then:?} {mode}");
            let refreshes = metric(&bench, "coredns_cache_prefetch_total", "");
            assert_eq!(refreshes, is_stale as f64, "{then:?} {mode}");
            assert_eq!(bench.shared.cache.entries(), 0, "{then:?} {mode}");
        }
    }
}

#[test]
fn with_verify_a_truncated_answer_sends_the_client_to_tcp() {
    use crate::job::Transport;
    for policy in ["", "\n serve_stale_policy prefer_positive"] {
        let corefile = format!(
            ".:53 {{\n cache {{\n serve_stale 1h verify 0s 0s 30s{policy}\n }}\n forward . 192.0.2.9\n}}"
        );
        let mut bench = Bench::new(&corefile);
        let mut asked = 0;
        bench.upstream(move |ask, q| {
            asked += 1;
            match (asked, ask.carrier.is_datagram()) {
                (1, _) => reply(q, Rcode::NOERROR).a(10, 1).send(),
                (_, true) => reply(q, Rcode::NOERROR).flag(Flags::TC).send(),
                (_, false) => reply(q, Rcode::NOERROR).a(10, 2).send(),
            }
        });
        ask(&mut bench);
        bench.pass(10 * SECOND);
        let cut = bench.ask("www.example. A");
        assert!(cut.flags.has(Flags::TC) && cut.answer.is_empty(), "{cut:?}");
        bench.client.transport = Transport::Tcp;
        assert_eq!(ask(&mut bench), (2, 10), "the entry is verified again at once");
        bench.client.transport = Transport::Udp;
        assert_eq!(ask(&mut bench), (2, 10));
    }
}

#[test]
fn a_client_over_tcp_gets_the_stale_answer_where_the_new_one_cannot_be_had_whole() {
    let (mut bench, _) = bench_with("serve_stale 1h verify", Then::Fail);
    follow(&mut bench, |q| reply(q, Rcode::NOERROR).flag(Flags::TC).send());
    bench.client.transport = crate::job::Transport::Tcp;
    bench.pass(10 * SECOND);
    assert_eq!(wait(&mut bench).0, (1, 0));
}

#[test]
fn verify_prefers_what_the_upstream_says_now() {
    let (mut bench, _) = bench_with("serve_stale 1h verify", Then::AnswerLate(SECOND));
    bench.pass(10 * SECOND);
    assert_eq!(wait(&mut bench), ((2, 10), SECOND));
    assert_eq!(metric(&bench, "coredns_cache_served_stale_total", ""), 0.0);
}

#[test]
fn verify_waits_no_longer_than_its_timeout() {
    let then = Then::AnswerLate(SECOND);
    let (mut bench, _) = bench_with("serve_stale 1h verify 100ms 30s", then);
    bench.pass(10 * SECOND);
    assert_eq!(wait(&mut bench), ((1, 30), 100 * MS));
    // Meanwhile others do not wait at all, and the answer comes in the end, to nobody.
    assert_eq!(ask(&mut bench), (1, 30));
    assert!(bench.pass(SECOND).is_empty());
    assert_eq!(ask(&mut bench), (2, 10));
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn within_its_timeout_verify_gives_the_fresh_answer() {
    let then = Then::AnswerLate(50 * MS);
    let (mut bench, _) = bench_with("serve_stale 1h verify 100ms", then);
    bench.pass(10 * SECOND);
    assert_eq!(wait(&mut bench), ((2, 10), 50 * MS));
    assert!(bench.pass(SECOND).is_empty(), "one answer and no more");
}

#[test]
fn an_answer_given_early_passes_the_handlers_in_front() {
    let corefile = ".:53 {\n prometheus\n errors\n cache {\n serve_stale 1h verify 100ms\n }\n \
                    forward . 192.0.2.9\n}";
    let mut bench = Bench::new(corefile);
    let mut fresh = true;
    follow(&mut bench, move |q| {
        if std::mem::take(&mut fresh) { reply(q, Rcode::NOERROR).a(10, 1).send() } else { fails() }
    });
    ask(&mut bench);
    bench.pass(10 * SECOND);
    assert_eq!(wait(&mut bench).0, (1, 0));
    bench.pass(30 * SECOND);
    assert_eq!(bench.worker.pending(), 0);
    assert_eq!(metric(&bench, "coredns_dns_responses_total", "rcode=\"NOERROR\""), 2.0);
    assert_eq!(metric(&bench, "coredns_dns_responses_total", "rcode=\"SERVFAIL\""), 0.0);
    assert!(bench.log.try_recv().is_err(), "what the client did not see is no error");
}

#[test]
fn an_answer_can_be_given_early_while_something_behind_the_cache_looks_up_another_name() {
    let corefile = ".:53 {\n cache {\n serve_stale 1h verify 100ms 30s\n }\n \
                    template IN A www.example {\n \
                    answer \"{{ .Name }} 10 IN CNAME b.example.\"\n }\n forward . 192.0.2.9\n}";
    let mut bench = Bench::new(corefile);
    let last = counter();
    follow(&mut bench, move |q| {
        *last.borrow_mut() += 1;
        match *last.borrow() {
            1 => reply(q, Rcode::NOERROR).a(10, 1).send(),
            _ => after(SECOND, reply(q, Rcode::NOERROR).a(10, 2).send()),
        }
    });
    let address = |answer: &Message| (*answer.answer[1].rdata.last().unwrap(), ttls(answer)[1]);
    assert_eq!(address(&bench.ask("www.example. A")), (1, 10));
    bench.pass(10 * SECOND);
    let (answer, took) = bench.ask_for("www.example. A", 20 * SECOND).unwrap();
    assert_eq!((address(&answer), took), ((1, 30), 100 * MS));
    assert!(bench.pass(2 * SECOND).is_empty());
    assert_eq!(address(&bench.ask("www.example. A")).0, 2);
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn a_silent_upstream_is_asked_again_only_after_the_recheck_time() {
    let (mut bench, _) = bench_with("serve_stale 1h immediate 30s 30s", Then::Servfail);
    bench.pass(10 * SECOND);
    for _ in 0..5 {
        assert_eq!(ask(&mut bench), (1, 30));
        bench.pass(5 * SECOND);
    }
    assert_eq!(bench.asked, 2);
    bench.pass(5 * SECOND);
    ask(&mut bench);
    assert_eq!(bench.asked, 3);
}

#[test]
fn while_one_verifies_others_are_served() {
    let then = Then::AnswerLate(50 * MS);
    let (mut bench, _) = bench_with("serve_stale 1h verify 0 0s 30s", then);
    bench.pass(10 * SECOND);
    assert!(bench.ask_bytes(&crate::testing::request("www.example. A")).is_none());
    assert_eq!(ask(&mut bench), (1, 0));
    let sent = bench.pass(50 * MS);
    assert_eq!(first(&Message::parse(&sent[0].1).unwrap()), (2, 10));
    assert_eq!(bench.asked, 2);
}

#[test]
fn an_upstream_that_says_nothing_leads_to_the_stale_answer() {
    let (mut bench, _) = bench_with("serve_stale 1h verify", Then::Silence);
    bench.pass(10 * SECOND);
    let (answer, took) = wait(&mut bench);
    assert_eq!(answer, (1, 0));
    assert!(took > SECOND, "{took:?}");
}

#[test]
fn shutdown_serves_what_it_has() {
    let (mut bench, _) = bench_with("serve_stale 1h verify", Then::Silence);
    bench.pass(10 * SECOND);
    assert!(bench.ask_bytes(&crate::testing::request("www.example. A")).is_none());
    bench.worker.abandon_all(bench.now);
    let sent = bench.act();
    assert_eq!(first(&Message::parse(&sent[0].1).unwrap()), (1, 0));
}

#[test]
fn prefer_positive_goes_on_with_the_answer() {
    let stale = "serve_stale 1h\n serve_stale_policy prefer_positive";
    let (mut bench, told) = bench_with(stale, Then::Deny);
    bench.pass(10 * SECOND);
    for _ in 0..3 {
        assert_eq!(ask(&mut bench), (1, 0));
        bench.pass(SECOND);
    }
    assert_eq!(metric(&bench, "coredns_cache_entries", "type=\"denial\""), 1.0);
    *told.borrow_mut() = Then::Answer;
    ask(&mut bench);
    assert_eq!(ask(&mut bench), (2, 10));
    assert_eq!(metric(&bench, "coredns_cache_entries", "type=\"denial\""), 0.0);
    // In the end the denial counts.
    *told.borrow_mut() = Then::Deny;
    bench.pass(3610 * SECOND);
    assert_eq!(bench.ask("www.example. A").flags.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn with_prefer_positive_verify_takes_only_answers() {
    let stale = "serve_stale 1h verify\n serve_stale_policy prefer_positive";
    let (mut bench, told) = bench_with(stale, Then::DenyLate(MS));
    bench.pass(10 * SECOND);
    assert_eq!(wait(&mut bench), ((1, 0), MS));
    *told.borrow_mut() = Then::AnswerLate(MS);
    assert_eq!(wait(&mut bench), ((2, 10), MS));
}

#[test]
fn with_prefer_positive_an_empty_response_does_not_replace_an_answer() {
    let calls = counter();
    let script = move |q: &Message| {
        *calls.borrow_mut() += 1;
        match *calls.borrow() {
            1 => reply(q, Rcode::NOERROR).a(10, 1).send(),
            _ => reply(q, Rcode::NOERROR).send(),
        }
    };
    let stale = "serve_stale 1h\n serve_stale_policy prefer_positive";
    let mut bench = bench(&format!("cache {{\n {stale}\n }}"), script);
    ask(&mut bench);
    bench.pass(10 * SECOND);
    for _ in 0..3 {
        assert_eq!(ask(&mut bench), (1, 0));
    }
}

#[test]
fn a_cached_failure_does_not_hide_an_answer() {
    // Without serve_stale a failure is stored under the same key as an answer that expired; with
    // a new answer it is forgotten.
    let calls = counter();
    let script = move |q: &Message| {
        *calls.borrow_mut() += 1;
        match *calls.borrow() {
            1 => reply(q, Rcode::SERVFAIL).send(),
            n => reply(q, Rcode::NOERROR).a(10, n).send(),
        }
    };
    let mut bench = bench("cache", script);
    assert_eq!(bench.ask("www.example. A").flags.rcode(), Rcode::SERVFAIL);
    bench.pass(5 * SECOND);
    assert_eq!(ask(&mut bench), (2, 10));
    assert_eq!(metric(&bench, "coredns_cache_entries", "type=\"denial\""), 0.0);
}
