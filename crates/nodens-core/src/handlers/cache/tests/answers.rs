//! What is kept, for how long, and what comes out.

use super::*;
use crate::testing::request;

#[test]
fn every_record_gets_the_lowest_ttl_and_grows_old() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(300, 1).a(100, 2).ns(200).glue(50).send();
    let mut bench = bench("cache", script);
    assert_eq!(ttls(&bench.ask("www.example. A")), [50; 4]);
    bench.pass(49 * SECOND + 999 * MS);
    assert_eq!(ttls(&bench.ask("www.example. A")), [1; 4]);
    assert_eq!(bench.asked, 1);
    bench.pass(MS);
    assert_eq!(ttls(&bench.ask("www.example. A")), [50; 4]);
    assert_eq!(bench.asked, 2, "nothing is served after its time");
}

#[test]
fn the_same_octets_come_out_of_the_cache_as_went_in() {
    let script = |q: &Message| {
        let reply = reply(q, Rcode::NOERROR).cname("@", "a.example.", 60);
        let rdata = [&[0, 10][..], name("mail.example.").as_wire()].concat();
        reply.answer("a.example.", Type::MX, 60, &rdata).soa(60).glue(60).opt(&[]).send()
    };
    let mut bench = bench("cache", script);
    let first = bench.ask("WWW.example. MX");
    let second = bench.ask("WWW.example. MX");
    assert_eq!((bench.asked, first), (1, second));
    // Aliases to the QNAME follow the case of the question.
    assert_eq!(bench.ask("wWw.eXAMPLE. MX").answer[0].owner.as_wire(), b"\x03wWw\x07eXAMPLE\0");
    assert_eq!(bench.asked, 1);
}

#[test]
fn flags_are_those_of_the_stored_response() {
    let script = |q: &Message| {
        assert!(q.flags.has(Flags::AD), "upstreams are asked for AD");
        let aa = if q.questions[0].qtype == Type::A { Flags::AA } else { 0 };
        reply(q, Rcode::NOERROR).flag(Flags::AD | aa).a(60, 1).soa(60).send()
    };
    let mut bench = bench("cache", script);
    for _ in 0..2 {
        let flags = |text: &str, bench: &mut Bench| bench.ask(text).flags;
        let plain = flags("www.example. A", &mut bench);
        assert!(plain.has(Flags::AA | Flags::RA | Flags::RD) && !plain.has(Flags::AD));
        assert!(flags("www.example. A +ad", &mut bench).has(Flags::AD));
        assert!(flags("www.example. A +do", &mut bench).has(Flags::AD));
        assert!(!flags("www.example. AAAA", &mut bench).has(Flags::AA));
        let norec = flags("www.example. A +norec", &mut bench);
        assert!(!norec.has(Flags::RD) && norec.has(Flags::RA));
    }
    assert_eq!(bench.asked, 4);
}

#[test]
fn an_answer_that_many_wait_for_is_stored_once_for_each_key() {
    let script = |q: &Message| after(10 * MS, reply(q, Rcode::NOERROR).a(60, 1).send());
    let mut bench = bench("cache", script);
    let insertions = |bench: &Bench| bench.shared.cache.insertions();
    (0..100).for_each(|_| assert!(bench.ask_bytes(&request("www.example. A")).is_none()));
    (0..10).for_each(|_| assert!(bench.ask_bytes(&request("www.example. A +do")).is_none()));
    assert_eq!(bench.pass(10 * MS).len(), 110);
    assert_eq!((bench.asked, insertions(&bench)), (2, 2));
    // Both are there.
    assert!(bench.ask_bytes(&request("www.example. A")).is_some());
    assert!(bench.ask_bytes(&request("www.example. A +do")).is_some());
    assert_eq!(bench.asked, 2);
    // What is asked after it has expired is new.
    bench.pass(61 * SECOND);
    (0..10).for_each(|_| assert!(bench.ask_bytes(&request("www.example. A")).is_none()));
    assert_eq!(bench.pass(10 * MS).len(), 10);
    assert_eq!((bench.asked, insertions(&bench)), (3, 3));
}

#[test]
fn of_those_who_wait_for_an_answer_each_stores_it_under_a_key_of_its_own() {
    // With and without RD, upstreams are asked the same.
    let corefile = ".:53 {\n cache\n header {\n  query set rd\n }\n forward . 192.0.2.9\n}";
    let mut bench = Bench::new(corefile);
    follow(&mut bench, |q| after(10 * MS, reply(q, Rcode::NOERROR).a(60, 1).send()));
    let questions = ["www.example. A", "www.example. A +norec"];
    for question in [questions, questions].as_flattened() {
        assert!(bench.ask_bytes(&request(question)).is_none());
    }
    assert_eq!(bench.pass(10 * MS).len(), 4);
    assert_eq!((bench.asked, bench.shared.cache.insertions()), (1, 2));
    for question in questions {
        assert_eq!(first(&bench.ask(question)), (1, 60));
    }
    assert_eq!(bench.asked, 1);
}

/// Asks the same twice, a second apart; the TTL of the second answer and whether it was kept.
fn twice(script: impl FnMut(&Message) -> Reaction + 'static, question: &str) -> (Vec<u32>, bool) {
    let mut bench = bench("cache", script);
    let first = bench.ask(question);
    bench.pass(SECOND);
    let second = bench.ask(question);
    assert_eq!(first.flags.rcode(), second.flags.rcode());
    (ttls(&second), bench.asked == 1)
}

#[test]
fn denials_are_kept_as_long_as_their_soa_record() {
    let kept = |rcode, ttl| twice(move |q| reply(q, rcode).soa(ttl).send(), "www.example. A");
    assert_eq!(kept(Rcode::NXDOMAIN, 600), (vec![599], true));
    assert_eq!(kept(Rcode::NOERROR, 600), (vec![599], true));
    assert_eq!(kept(Rcode::NXDOMAIN, 999_999), (vec![1799], true));
    assert_eq!(kept(Rcode::NXDOMAIN, 0), (vec![4], true));
    // The top bit of a TTL makes it zero.
    assert_eq!(kept(Rcode::NXDOMAIN, 0x8000_0000), (vec![4], true));
}

#[test]
fn denials_are_kept_no_longer_than_the_minimum_of_the_zone() {
    for rcode in [Rcode::NXDOMAIN, Rcode::NOERROR] {
        for (ttl, minimum, kept) in [(600, 60, 60), (60, 600, 60), (600, 0, 5)] {
            let deny = move |q: &Message| reply(q, rcode).soa_of(ttl, minimum).send();
            assert_eq!(twice(deny, "www.example. A"), (vec![kept - 1], true), "{ttl} {minimum}");
        }
    }
    let aliased = |q: &Message| {
        reply(q, Rcode::NOERROR).cname("@", "b.example.", 99).soa_of(99, 9).send()
    };
    assert_eq!(twice(aliased, "a.example. A"), (vec![8, 8], true));
    // Beside an answer it says nothing.
    let answered = |q: &Message| reply(q, Rcode::NOERROR).a(99, 1).soa_of(99, 9).send();
    assert_eq!(twice(answered, "a.example. A"), (vec![98, 98], true));
}

#[test]
fn aliases_that_lead_nowhere_are_denials_if_there_is_an_soa_record() {
    let with = |q: &Message| reply(q, Rcode::NOERROR).cname("@", "b.example.", 9).soa(99).send();
    assert_eq!(twice(with, "a.example. A"), (vec![8, 8], true));
    assert_eq!(twice(with, "a.example. CNAME"), (vec![8, 8], true));
    let without = |q: &Message| reply(q, Rcode::NOERROR).cname("@", "b.example.", 9).send();
    assert_eq!(twice(without, "a.example. A"), (vec![9], false));
    assert_eq!(twice(without, "a.example. CNAME"), (vec![8], true));
    assert_eq!(twice(without, "a.example. ANY"), (vec![8], true));
    let elsewhere = |q: &Message| {
        reply(q, Rcode::NOERROR).answer("other.example.", Type::A, 9, &[192, 0, 2, 1]).send()
    };
    assert_eq!(twice(elsewhere, "a.example. A"), (vec![9], false));
    let circle = |q: &Message| {
        let reply = reply(q, Rcode::NOERROR).cname("@", "b.example.", 9);
        reply.cname("b.example.", "A.example.", 9).a(9, 1).send()
    };
    assert_eq!(twice(circle, "a.example. A"), (vec![9; 3], false));
    let fork = |q: &Message| {
        let reply = reply(q, Rcode::NOERROR).cname("@", "b.example.", 9);
        reply.cname("@", "c.example.", 9).answer("c.example.", Type::A, 9, &[0; 4]).send()
    };
    assert_eq!(twice(fork, "a.example. A"), (vec![9; 3], false));
}

#[test]
fn what_says_nothing_lasting_is_not_kept() {
    let kept = |rcode| twice(move |q| reply(q, rcode).send(), "www.example. A").1;
    assert!(!kept(Rcode::NXDOMAIN), "an NXDOMAIN without SOA");
    assert!(!kept(Rcode::REFUSED));
    assert!(!kept(Rcode::FORMERR));
    assert!(kept(Rcode::NOTIMP));
    let cut = |q: &Message| reply(q, Rcode::NOERROR).flag(Flags::TC).a(60, 1).send();
    assert!(!twice(cut, "www.example. A").1, "a truncated response");
    let both = |q: &Message| reply(q, Rcode::NXDOMAIN).a(60, 1).soa(60).send();
    assert!(!twice(both, "www.example. A").1, "NXDOMAIN with an answer");
    let transfer = |q: &Message| reply(q, Rcode::NOERROR).soa(60).send();
    assert!(!twice(transfer, "example. AXFR").1);
}

#[test]
fn responses_without_a_ttl_of_their_own_are_kept_for_five_seconds() {
    let empty = |q: &Message| reply(q, Rcode::NOERROR).send();
    assert_eq!(twice(empty, "www.example. A"), (vec![], true));
    let referral = |q: &Message| reply(q, Rcode::NOERROR).ns(600).glue(600).send();
    assert_eq!(twice(referral, "www.example. A"), (vec![4, 4], true));
}

#[test]
fn expired_signatures_are_not_kept_for_those_who_look_at_them() {
    let signed = |until: u32, dnssec_ok: bool| {
        move |q: &Message| {
            let mut rdata = vec![0, 1, 13, 2, 0, 0, 0, 60];
            rdata.extend(until.to_be_bytes());
            rdata.extend(1_600_000_000_u32.to_be_bytes());
            rdata.extend([0, 1, 0, 9, 9, 9]);
            let reply = reply(q, Rcode::NOERROR).a(60, 1).answer("@", Type::RRSIG, 60, &rdata);
            if dnssec_ok { reply.opt(&[]).send() } else { reply.send() }
        }
    };
    assert!(twice(signed(1_700_000_100, true), "www.example. A +do").1);
    assert!(!twice(signed(1_699_999_999, true), "www.example. A +do").1);
    assert!(twice(signed(1_699_999_999, true), "www.example. A").1);
    // Without DO in the response, as in CoreDNS.
    assert!(twice(signed(1_699_999_999, false), "www.example. A +do").1);
}

#[test]
fn failures_are_kept_for_five_seconds() {
    for failure in [Some(Rcode::SERVFAIL), None] {
        let script = move |q: &Message| failure.map_or_else(fails, |rcode| reply(q, rcode).send());
        let mut bench = bench("cache", script);
        let ask = |bench: &mut Bench| {
            let asked = bench.asked;
            let (answer, _) = bench.ask_for("www.example. A", 10 * SECOND).unwrap();
            assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
            bench.asked > asked
        };
        assert!(ask(&mut bench));
        bench.pass(4999 * MS);
        assert!(!ask(&mut bench));
        bench.pass(MS);
        assert!(ask(&mut bench));
        assert_eq!(metric(&bench, "coredns_cache_hits_total", "denial"), 1.0);
    }
}

#[test]
fn an_options_record_is_a_matter_of_one_hop() {
    let script = |q: &Message| reply(q, Rcode::NOERROR).a(60, 1).glue(60).opt(&[]).send();
    let mut bench = bench("cache", script);
    for _ in 0..2 {
        let plain = bench.ask("www.example. A");
        assert!(plain.edns().is_none());
        assert_eq!(plain.additional.len(), 1);
        assert!(bench.ask("www.example. A +edns").edns().is_some());
    }
    assert_eq!(bench.asked, 1);
}

#[test]
fn requests_other_than_queries_pass_by() {
    let mut bench = bench("cache", |q| reply(q, Rcode::NOERROR).a(60, 1).send());
    let mut notify = crate::testing::request("www.example. A");
    bench.ask("www.example. A");
    notify[2] |= 4 << 3;
    let before = metric(&bench, "coredns_cache_requests_total", "");
    bench.ask_bytes(&notify);
    assert_eq!(metric(&bench, "coredns_cache_requests_total", ""), before);
}

/// It says nothing of the question that there was no retry left.
#[test]
fn a_failure_for_want_of_a_retry_is_not_kept() {
    let mut lost = true;
    let mut bench = bench("cache", move |q| match q.questions[0].qname.to_string().as_str() {
        "lost." if !std::mem::take(&mut lost) => reply(q, Rcode::NOERROR).a(60, 1).send(),
        _ => Reaction::Silence,
    });
    // Without them the client would have retries of its own.
    for n in 0..100 {
        bench.ask_bytes(&crate::testing::request(&format!("never{n}. A")));
    }
    bench.pass(6 * SECOND);
    for expected in [Rcode::SERVFAIL, Rcode::NOERROR] {
        let (answer, _) = bench.ask_for("lost. A", 6 * SECOND).unwrap();
        assert_eq!(answer.flags.rcode(), expected);
    }
}
