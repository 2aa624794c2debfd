//! Replies that are no well-formed messages do not reach clients.

use super::*;
use crate::log::Record as LogRecord;
use nodens_wire::{Header, Records};
use proptest::prelude::*;

/// A reply with one record in its authority section, with RDATA as it is.
fn with_record(question: &Message, rcode: Rcode, rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut reply = answer(question, rcode, 0);
    reply.extend([0xc0, 12]);
    reply.extend(rtype.0.to_be_bytes());
    reply.extend([0, 1, 0, 0, 0, 60]);
    reply.extend((rdata.len() as u16).to_be_bytes());
    reply.extend(rdata);
    let mut header = Header::read(&reply).unwrap();
    header.counts[2] = 1;
    header.write_to(&mut reply);
    reply
}

/// A denial whose SOA record has this many octets behind its names; 20 are right.
fn denial(question: &Message, behind_names: usize) -> Reaction {
    let rdata = [&[0, 0][..], &[7; 30][..behind_names]].concat();
    Reaction::Reply(with_record(question, Rcode::NXDOMAIN, Type::SOA, &rdata))
}

const COUNTER: &str = "nodens_forward_malformed_replies_total{to=\"192.0.2.1:53\"}";

#[test]
fn another_upstream_is_asked_instead() {
    for tcp in [false, true] {
        for behind_names in [19, 21] {
            let mut bench = bench(&to(2), "policy sequential\n max_fails 0");
            if tcp {
                over_tcp(&mut bench);
            }
            let log = script(&mut bench, move |ask, question| match number(ask) {
                1 => denial(question, behind_names),
                _ => replies(question),
            });
            assert_eq!(bench.ask("example.org. A").answer.len(), 1);
            assert_eq!(asked(&log), [1, 2]);
            assert_eq!(metric(&bench, COUNTER), 1.0);
        }
    }
}

#[test]
fn without_another_the_answer_is_servfail_and_the_log_says_why() {
    let mut bench = Bench::new(".:53 {\n errors\n cache\n forward . 192.0.2.1\n}");
    script(&mut bench, |_, question| denial(question, 19));
    let reply = bench.ask("example.org. A");
    assert_eq!(reply.flags.rcode(), Rcode::SERVFAIL);
    assert!(!reply.flags.has(Flags::TC) && reply.authority.is_empty());
    assert_eq!(metric(&bench, COUNTER), 1.0);
    let records: Vec<_> = bench.log.try_iter().collect();
    let lines = records.iter().filter_map(|record| match record {
        LogRecord::Line { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    let expected = "upstream 192.0.2.1:53 failed: reply to example.org. A is malformed: \
                    RDATA at octet 41 does not fit its type";
    assert_eq!(lines, [expected], "once in a while, not for every reply");
    let failure = records.iter().find_map(|record| match record {
        LogRecord::Failure(failure) => Some(failure.text.as_str()),
        _ => None,
    });
    assert!(failure.unwrap().contains("reply from 192.0.2.1:53 is malformed"), "{failure:?}");
    script(&mut bench, |_, question| denial(question, 20));
    assert_eq!(rcode_of(&mut bench, "example.com. A"), Rcode::NXDOMAIN);
}

/// Who owns a domain decides what its records look like, but not which upstreams are asked.
#[test]
fn a_malformed_reply_says_nothing_of_the_health_of_its_upstream() {
    for body in ["policy sequential", "policy sequential\n max_fails 0"] {
        let mut bench = bench(&to(2), body);
        let log = script(&mut bench, |ask, question| {
            let is_bad = question.questions[0].qname == name("bad.example.");
            if is_bad && number(ask) == 1 { denial(question, 19) } else { replies(question) }
        });
        for _ in 0..10 {
            assert_eq!(rcode_of(&mut bench, "bad.example. A"), Rcode::NOERROR);
            assert_eq!(asked(&log), [1, 2], "{body}: without a health check");
            assert_eq!(rcode_of(&mut bench, "good.example. A"), Rcode::NOERROR);
            assert_eq!(asked(&log), [1], "{body}");
        }
        assert_eq!(metric(&bench, COUNTER), 10.0);
    }
}

#[test]
fn an_upstream_whose_reply_is_malformed_is_not_asked_again_for_that_query() {
    for upstreams in 1..=3 {
        for body in ["", "max_fails 0", "max_connect_attempts 0", "failfast_all_unhealthy_upstreams"] {
            let mut bench = bench(&to(upstreams), &format!("policy sequential\n {body}"));
            let log = script(&mut bench, |_, question| denial(question, 19));
            assert_eq!(rcode_of(&mut bench, "bad.example. A"), Rcode::SERVFAIL);
            let all: Vec<u16> = (1..=upstreams as u16).collect();
            assert_eq!((asked(&log), bench.worker.pending()), (all, 0), "{body}");
            assert_eq!(metric(&bench, "coredns_forward_healthcheck_broken_total"), 0.0);
        }
    }
}

#[test]
fn beside_an_upstream_whose_reply_is_malformed_another_is_asked_as_often_as_ever() {
    let mut bench = bench(&to(2), "policy sequential\n max_fails 0");
    let log = script(&mut bench, |ask, question| match number(ask) {
        1 => denial(question, 19),
        _ => Reaction::Silence,
    });
    let (answer, took) = bench.ask_for("bad.example. A", 6000 * MS).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    let asked = asked(&log);
    assert_eq!(asked.iter().filter(|number| **number == 1).count(), 1, "{asked:?}");
    assert!(asked.len() > 3 && took > 3000 * MS, "{asked:?} in {took:?}");
}

#[test]
fn beside_an_upstream_whose_reply_is_malformed_failover_asks_no_other_twice() {
    let mut bench = bench(&to(3), "policy sequential\n failover SERVFAIL");
    let log = script(&mut bench, |ask, question| match number(ask) {
        1 => denial(question, 19),
        _ => Reaction::Reply(answer(question, Rcode::SERVFAIL, 0)),
    });
    assert_eq!(rcode_of(&mut bench, "bad.example. A"), Rcode::SERVFAIL);
    assert_eq!(asked(&log), [1, 2, 3]);
}

#[test]
fn beside_an_upstream_whose_reply_is_malformed_one_that_is_down_is_asked_once() {
    let mut bench = bench(&to(2), "policy round_robin");
    let log = script(&mut bench, |ask, question| {
        let qname = &question.questions[0].qname;
        match number(ask) {
            1 if *qname == name("bad.example.") => denial(question, 19),
            1 => replies(question),
            // Its health checks fail as well.
            _ => refused(ask),
        }
    });
    for n in 0..20 {
        bench.ask(&format!("n{n}.example. A"));
        bench.pass(500 * MS);
    }
    asked(&log);
    assert_eq!(rcode_of(&mut bench, "good.example. A"), Rcode::NOERROR);
    assert_eq!(asked(&log), [1], "the other is down");
    assert_eq!(rcode_of(&mut bench, "bad.example. A"), Rcode::SERVFAIL);
    assert_eq!(asked(&log), [1, 2]);
}

/// Two attempts are under way at the same upstream: one reply is malformed, and then the connection of the
/// other breaks, or its reply is truncated.
#[test]
fn an_upstream_whose_reply_is_malformed_is_not_asked_again_for_the_sake_of_another_attempt() {
    let broken = |_: &Message| Reaction::Fail(Fault::Broken("read: connection reset by peer".to_owned()));
    let truncated = |question: &Message| {
        let mut reply = answer(question, Rcode::NOERROR, 0);
        reply[2] |= 2;
        Reaction::Reply(reply)
    };
    type End = fn(&Message) -> Reaction;
    let cases: [(&str, bool, End); 2] =
        [("max_fails 0", true, broken), ("max_fails 0\n prefer_udp", false, truncated)];
    for (body, tcp, end) in cases {
        let mut bench = bench("192.0.2.1", body);
        if tcp {
            over_tcp(&mut bench);
        }
        let mut attempts = 0;
        let log = script(&mut bench, move |_, question| {
            attempts += 1;
            match attempts {
                1 => after(1500 * MS, end(question)),
                2 => after(10 * MS, denial(question, 19)),
                _ => replies(question),
            }
        });
        let (answer, _) = bench.ask_for("bad.example. A", 5000 * MS).unwrap();
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
        assert_eq!(asked(&log), [1, 1], "{body}");
    }
}

#[test]
fn without_budget_a_query_whose_replies_are_all_malformed_fails_at_once() {
    let mut bench = bench(&to(2), "policy sequential\n max_fails 0");
    script(&mut bench, |_, question| denial(question, 19));
    for n in 0..200 {
        let question = format!("n{n}.bad.example. A");
        let (answer, took) = bench.ask_for(&question, 5000 * MS).unwrap();
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
        assert!(took <= 1000 * MS, "{took:?}");
    }
}

#[test]
fn an_opt_record_in_the_wrong_place_or_a_second_one_is_malformed() {
    let mut bench = bench("192.0.2.1", "");
    script(&mut bench, |_, question| {
        Reaction::Reply(with_record(question, Rcode::NOERROR, Type::OPT, &[]))
    });
    assert_eq!(rcode_of(&mut bench, "example.org. A"), Rcode::SERVFAIL);
}

proptest! {
    /// Whatever upstreams send, clients get records that can be read to their last octet.
    #[test]
    fn what_leaves_is_well_formed(
        rdata in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xc0), 0..16_u8, any::<u8>()], 0..60),
        rtype in prop_oneof![(0..110_u16).prop_map(Type), Just(Type::CAA), Just(Type::URI)],
        tcp in any::<bool>(),
        cached in any::<bool>(),
    ) {
        let cache = if cached { "cache" } else { "" };
        let mut bench = Bench::new(&format!(".:53 {{\n {cache}\n forward . 192.0.2.1\n}}"));
        if tcp {
            over_tcp(&mut bench);
        }
        script(&mut bench, move |_, question| {
            Reaction::Reply(with_record(question, Rcode::NOERROR, rtype, &rdata))
        });
        for _ in 0..2 {
            let wire = bench.ask_bytes(&crate::testing::request("www.example.org. TXT +do")).unwrap();
            prop_assert!(Message::parse(&wire).is_ok());
            for record in Records::of(&wire).unwrap() {
                prop_assert_eq!(record.unwrap().validate(&wire), Ok(()));
            }
        }
    }
}
