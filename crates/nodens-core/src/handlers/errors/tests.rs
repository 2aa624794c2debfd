use crate::log::{Level, Record};
use crate::testing::Bench;

#[test]
fn a_failed_question_becomes_a_line_as_coredns_writes_it() {
    let mut bench = Bench::new(".:53 {\n errors {\n consolidate 30s \"^no next\" warning show_first\n }\n}");
    let answer = bench.ask("Example.org. AAAA");
    assert_eq!(answer.flags.rcode().to_string(), "SERVFAIL");
    let record = bench.log.try_iter().next();
    let Some(Record::Failure(failure)) = record else { panic!("{record:?}") };
    assert_eq!(failure.text, "2 example.org. AAAA: plugin/errors: no next plugin found");
    let pattern = &failure.rules.patterns[0];
    assert_eq!((pattern.level, pattern.show_first), (Level::Warning, true));
}

#[test]
fn bad_rules_are_refused_with_their_place() {
    let cases = [
        ("consolidate 30s", "expected `consolidate DURATION REGEX"),
        ("consolidate soon x", "expected a duration"),
        ("consolidate 30s (", "a regular expression"),
        ("consolidate 30s x loud", "warning, error, info, debug or show_first"),
        ("consolidate 30s x show_first info", "must come before show_first"),
        ("consolidated", "consolidate"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(".:53 {{\n errors {{\n  {line}\n }}\n}}")).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("Corefile:3:") && text.contains(wanted), "{line}: {text}");
    }
}

#[test]
fn stacktrace_takes_no_argument() {
    let accepted = |line: &str| {
        Bench::try_new(&format!(". {{\n errors {{\n{line}\n }}\n whoami\n}}")).is_ok()
    };
    assert!(accepted("stacktrace") && !accepted("stacktrace 1"));
}
