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
    assert_eq!(metric(&bench, COUNTER), 2.0);
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
