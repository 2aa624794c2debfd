use crate::testing::Bench;
use super::cut;
use nodens_wire::{Builder, Class, Flags, Message, Name, Section, Type};

fn message(records: &[(Section, Type, &[u8])]) -> Vec<u8> {
    let mut wire = Vec::new();
    let owner = Name::parse("www.example.org").unwrap();
    let mut builder = Builder::new(&mut wire, 1, Flags(0x8180));
    builder.question(owner.view(), Type::A, Class::IN);
    for (section, rtype, rdata) in records {
        builder.record(*section, owner.view(), (*rtype, Class::IN, 60), rdata).unwrap();
    }
    wire
}

const A: (Section, Type, &[u8]) = (Section::Answer, Type::A, &[192, 0, 2, 1]);
const NS: (Section, Type, &[u8]) = (Section::Authority, Type::NS, b"\x02ns\x03org\x00");
const SOA: (Section, Type, &[u8]) =
    (Section::Authority, Type::SOA, b"\x00\x00aaaabbbbccccddddeeee");
const GLUE: (Section, Type, &[u8]) = (Section::Additional, Type::A, &[192, 0, 2, 9]);

fn counts(records: &[(Section, Type, &[u8])]) -> (usize, usize, usize) {
    let mut wire = message(records);
    cut(&mut wire);
    let message = Message::parse(&wire).unwrap();
    (message.answer.len(), message.authority.len(), message.additional.len())
}

#[test]
fn a_positive_response_keeps_its_answers_alone() {
    assert_eq!(counts(&[A, A, NS, GLUE]), (2, 0, 0));
    assert_eq!(counts(&[A, GLUE]), (1, 0, 0));
    assert_eq!(counts(&[A]), (1, 0, 0));
}

#[test]
fn nodata_and_referrals_stay_whole() {
    assert_eq!(counts(&[SOA, GLUE]), (0, 1, 1));
    assert_eq!(counts(&[NS, GLUE]), (0, 1, 1));
}

#[test]
fn an_empty_response_that_is_neither_loses_its_additional_records() {
    assert_eq!(counts(&[GLUE]), (0, 0, 0));
    // As CoreDNS does with the two records of whoami.
    let answer = Bench::new(".:53 {\n minimal\n whoami\n}").ask("example.org. A");
    assert!(answer.additional.is_empty());
}

#[test]
fn errors_are_left_alone() {
    let corefile = ".:53 {\n local\n minimal\n}";
    let answer = Bench::new(corefile).ask("9.0.0.127.in-addr.arpa. PTR");
    assert_eq!(answer.authority.len(), 1);
}

#[test]
fn a_malformed_response_is_left_to_the_server() {
    let whole = message(&[A, NS, GLUE]);
    for len in 0..whole.len() {
        let mut part = whole.get(..len).unwrap().to_vec();
        cut(&mut part);
        assert!(part.len() <= len);
    }
}

#[test]
fn arguments_and_braces_are_refused() {
    for directive in ["minimal now", "minimal {\n}"] {
        let corefile = format!(".:53 {{\n {directive}\n}}");
        let error = Bench::try_new(&corefile).unwrap_err().to_string();
        assert!(error.starts_with("Corefile:2:"), "{error}");
    }
}
