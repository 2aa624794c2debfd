use crate::testing::Bench;
use nodens_wire::{Flags, Type};

#[test]
fn any_questions_get_the_record_of_rfc_8482_and_others_pass() {
    let mut bench = Bench::new(".:53 {\n any\n whoami\n}");
    let answer = bench.ask("Example.org. ANY");
    assert!(!answer.flags.has(Flags::AA));
    let [record] = answer.answer.as_slice() else { panic!("{answer:?}") };
    assert_eq!((record.rtype, record.ttl), (Type::HINFO, 8482));
    assert_eq!(record.owner.to_string(), "Example.org.");
    assert_eq!(record.rdata, b"\x0dANY obsoleted\x0cSee RFC 8482");
    assert!(bench.ask("example.org. A").answer.is_empty());
}

#[test]
fn arguments_and_braces_are_refused() {
    for directive in ["any thing", "any {\n thing\n}"] {
        let error = Bench::try_new(&format!(".:53 {{\n {directive}\n}}")).unwrap_err();
        assert!(error.to_string().starts_with("Corefile:2:"), "{error}");
    }
}
