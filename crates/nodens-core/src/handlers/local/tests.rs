use crate::testing::Bench;
use nodens_wire::{Message, Rcode, Type};

/// `RCODE section owner type` of the only record.
fn summary(answer: &Message) -> String {
    let (section, records) = match (answer.answer.as_slice(), answer.authority.as_slice()) {
        ([record], []) => ("answer", record),
        ([], [record]) => ("authority", record),
        other => panic!("{other:?}"),
    };
    assert_eq!(records.ttl, 604_800);
    format!("{} {section} {} {}", answer.flags.rcode(), records.owner, records.rtype)
}

/// Every line was seen with CoreDNS 1.15.0.
const CASES: &[(&str, &str)] = &[
    ("localhost. A", "NOERROR answer localhost. A"),
    ("localhost. AAAA", "NOERROR answer localhost. AAAA"),
    ("LOCALhost. SOA", "NOERROR answer LOCALhost. SOA"),
    ("localhost. NS", "NOERROR answer localhost. NS"),
    ("localhost. ANY", "NOERROR authority localhost. SOA"),
    ("foo.localhost. A", "NOERROR answer foo.localhost. A"),
    ("foo.localhost. MX", "NOERROR authority foo.localhost. SOA"),
    ("localhost.x. A", "NOERROR answer localhost.x. A"),
    ("127.in-addr.arpa. NS", "NOERROR answer 127.in-addr.arpa. NS"),
    ("127.in-addr.arpa. A", "NOERROR authority 127.in-addr.arpa. SOA"),
    ("1.0.0.127.in-addr.arpa. PTR", "NOERROR answer 1.0.0.127.in-addr.arpa. PTR"),
    ("1.0.0.127.in-addr.arpa. A", "NOERROR authority 127.in-addr.arpa. SOA"),
    ("2.0.0.127.In-addr.arpa. PTR", "NXDOMAIN authority 127.In-addr.arpa. SOA"),
    ("1.0.in-addr.arpa. PTR", "NXDOMAIN authority 0.in-addr.arpa. SOA"),
    ("255.255.in-addr.arpa. PTR", "NXDOMAIN authority 255.in-addr.arpa. SOA"),
];

#[test]
fn local_names_are_answered_as_coredns_does() {
    let mut bench = Bench::new(".:53 {\n local\n}");
    for (question, expected) in CASES {
        let answer = bench.ask(question);
        assert_eq!(summary(&answer), *expected, "{question}");
        assert!(!answer.flags.has(nodens_wire::Flags::AA));
    }
}

#[test]
fn the_records_say_what_they_should() {
    let mut bench = Bench::new(".:53 {\n local\n}");
    assert_eq!(bench.ask("localhost. A").answer[0].rdata, [127, 0, 0, 1]);
    assert_eq!(bench.ask("a.localhost. AAAA").answer[0].rdata.last(), Some(&1));
    let ptr = bench.ask("1.0.0.127.in-addr.arpa. PTR");
    assert_eq!(ptr.answer[0].rdata, b"\x09localhost\x00");
    let soa = bench.ask("localhost. SOA").answer.remove(0);
    assert_eq!((soa.rtype, soa.rdata.len()), (Type::SOA, 11 + 16 + 20));
}

#[test]
fn the_prefix_can_be_switched_off_and_other_names_pass() {
    let corefile = ".:53 {\n local {\n localhost_prefix off\n }\n}";
    let mut bench = Bench::new(corefile);
    assert_eq!(bench.ask("localhost.x. A").flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(bench.ask("notlocalhost. A").flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(bench.ask("foo.localhost. A").answer.len(), 1);
    let mut bench = Bench::new(".:53 {\n local {\n localhost_prefix off\n }\n local {\n localhost_prefix on\n }\n}");
    assert_eq!(bench.ask("localhost.x. A").answer.len(), 1);
}

#[test]
fn names_around_localhost_are_counted() {
    let mut bench = Bench::new(".:53 {\n local\n}");
    for question in ["localhost. A", "a.localhost. A", "localhost.x. A"] {
        bench.ask(question);
    }
    let text = bench.shared.registry.render();
    assert!(text.contains("\ncoredns_local_localhost_requests_total 2\n"), "{text}");
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    for (directive, expected) in [
        ("local here", "Corefile:2:8: Wrong argument count"),
        ("local {\n color\n}", "Corefile:3:2: unknown property 'color'"),
        ("local {\n localhost_prefix\n}", "Corefile:3:2: Wrong argument count"),
        ("local {\n localhost_prefix on off\n}", "Corefile:3:22: Wrong argument count"),
        ("local {\n localhost_prefix yes\n}", "Corefile:3:19: expected 'on' or 'off', found `yes`"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n {directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
