use crate::testing::Bench;
use nodens_wire::Flags;

fn answer_flags(rules: &str, question: &str) -> Flags {
    let corefile = format!(".:53 {{\n header {{\n{rules}\n }}\n whoami\n}}");
    Bench::new(&corefile).ask(question).flags
}

fn error(directive: &str) -> String {
    Bench::try_new(&format!(".:53 {{\n{directive}\n}}")).unwrap_err().to_string()
}

#[test]
fn flags_of_the_response_are_set_and_cleared_the_last_rule_wins() {
    let flags = answer_flags("response set ra\nresponse clear aa rd", "example.org. A");
    assert_eq!((flags.has(Flags::RA), flags.has(Flags::AA), flags.has(Flags::RD)), (true, false, false));
    let flags = answer_flags("response set ra\nRESPONSE Clear RA", "example.org. A");
    assert!(!flags.has(Flags::RA));
}

#[test]
fn flags_of_the_request_reach_whoever_answers() {
    assert!(!answer_flags("query clear rd", "example.org. A").has(Flags::RD));
    assert!(answer_flags("query set rd", "example.org. A +norec").has(Flags::RD));
}

#[test]
fn a_response_nobody_wrote_is_left_alone() {
    let mut bench = Bench::new(".:53 {\n header {\n response set ra\n }\n}");
    assert!(!bench.ask("example.org. A").flags.has(Flags::RA));
}

#[test]
fn only_the_first_header_counts() {
    let corefile = ".:53 {\n header {\n response set ra\n }\n header {\n response clear aa\n }\n whoami\n}";
    let flags = Bench::new(corefile).ask("example.org. A").flags;
    assert!(flags.has(Flags::RA | Flags::AA));
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    assert!(error("header").starts_with("Corefile:2:1: 'header' needs"));
    assert!(error("header {\n}").starts_with("Corefile:2:1: 'header' needs"));
    assert_eq!(
        error("header {\n answer set aa\n}"),
        "Corefile:3:2: unknown property 'answer': expected one of query, response"
    );
    assert_eq!(
        error("header {\n response flip aa\n}"),
        "Corefile:3:11: expected 'set' or 'clear', found `flip`"
    );
    assert_eq!(
        error("header {\n response set tc\n}"),
        "Corefile:3:15: expected one of the flags aa, ra, rd, found `tc`"
    );
    assert!(error("header {\n response set\n}").starts_with("Corefile:3:2: Wrong argument count"));
    assert!(error("header {\n response\n}").starts_with("Corefile:3:2: Wrong argument count"));
}
