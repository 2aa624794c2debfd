use crate::testing::Bench;
use nodens_wire::Message;

fn bench(rules: &str) -> Bench {
    Bench::new(&format!(". {{\n {rules}\n whoami\n}}"))
}

fn rcode(bench: &mut Bench, question: &str) -> String {
    bench.ask(question).flags.rcode().to_string()
}

fn extended_errors(message: &Message) -> Vec<(u16, Vec<u8>)> {
    let (_, options) = message.edns().expect("EDNS");
    options.map(|(code, data)| (code, data.to_vec())).collect()
}

#[test]
fn a_blocked_question_is_refused_with_a_reason() {
    let mut bench = bench("acl example.org {\n block\n }");
    let answer = bench.ask("a.example.org. A +edns");
    assert_eq!(answer.flags.rcode().to_string(), "REFUSED");
    assert!(!answer.flags.has(nodens_wire::Flags::AA));
    assert_eq!(extended_errors(&answer), [(15, vec![0, 15])]);
    assert_eq!(rcode(&mut bench, "example.net. A"), "NOERROR");
    assert!(bench.ask("a.example.org. A").additional.is_empty());
}

#[test]
fn a_filtered_question_has_an_empty_answer_with_a_reason() {
    let mut bench = bench("acl {\n filter type AAAA\n }");
    let answer = bench.ask("example.org. AAAA +edns");
    assert_eq!(answer.flags.rcode().to_string(), "NOERROR");
    assert_eq!(extended_errors(&answer), [(15, vec![0, 17])]);
    assert_eq!(bench.ask("example.org. A").additional.len(), 2);
}

#[test]
fn a_dropped_question_has_no_answer() {
    let mut bench = bench("acl {\n drop type TXT\n }");
    assert_eq!(bench.ask_bytes(&crate::testing::request("example.org. TXT")), None);
    assert_eq!(rcode(&mut bench, "example.org. A"), "NOERROR");
}

#[test]
fn the_first_policy_that_matches_counts_not_the_longest_prefix() {
    let mut bench = bench("acl {\n allow net 192.0.0.0/8\n block net 192.0.2.53\n block\n }");
    assert_eq!(rcode(&mut bench, "example.org. A"), "NOERROR");
    bench.client.peer = "[2001:db8::1]:1".parse().unwrap();
    assert_eq!(rcode(&mut bench, "example.org. A"), "REFUSED");
    bench.client.peer = "[::ffff:192.0.2.53]:1".parse().unwrap();
    assert_eq!(rcode(&mut bench, "example.org. A"), "NOERROR");
}

#[test]
fn allow_ends_the_search_and_no_match_goes_on_with_the_next_rule() {
    let rules = "acl a.example.org {\n ALLOW TYPE A\n }\n acl example.org {\n block type A MX\n }";
    let mut bench = bench(rules);
    assert_eq!(rcode(&mut bench, "a.example.org. A"), "NOERROR");
    assert_eq!(rcode(&mut bench, "a.example.org. MX"), "REFUSED");
    assert_eq!(rcode(&mut bench, "b.example.org. A"), "REFUSED");
}

#[test]
fn verdicts_are_counted_under_the_longest_zone() {
    let mut bench = bench("acl org Example.org {\n block type A\n filter type MX\n drop type TXT\n }");
    for question in ["a.example.org. A", "b.org. MX", "example.org. AAAA"] {
        bench.ask(question);
    }
    assert_eq!(bench.ask_bytes(&crate::testing::request("example.org. TXT")), None);
    let text = bench.shared.registry.render();
    for line in [
        "coredns_acl_blocked_requests_total{server=\"dns://:53\",zone=\"example.org.\",view=\"\"} 1\n",
        "coredns_acl_filtered_requests_total{server=\"dns://:53\",zone=\"org.\",view=\"\"} 1\n",
        "coredns_acl_dropped_requests_total{server=\"dns://:53\",zone=\"example.org.\",view=\"\"} 1\n",
        "coredns_acl_allowed_requests_total{server=\"dns://:53\",view=\"\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn malformed_rules_are_refused_with_their_place() {
    let cases = [
        ("deny", "3:2: unknown property 'deny': expected one of allow, block, filter, drop"),
        ("block types A", "3:8: expected `type` or `net`, found `types`"),
        ("block A", "3:8: expected `type` or `net`"),
        ("block type", "3:8: no token specified in \"type\" section"),
        ("block type net ::1", "3:8: no token specified in \"type\" section"),
        ("block net", "3:8: no token specified in \"net\" section"),
        ("block type a", "3:13: expected a type such as AAAA, or *, found `a`"),
        ("block type BOGUS", "3:13: expected a type"),
        ("block net 10.0.0.0/33", "3:12: expected an address or prefix"),
        ("block net A", "3:12: expected an address or prefix"),
        ("block type A {\n }", "3:2: 'block' takes no block"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n acl {{\n {line}\n }}\n}}")).unwrap_err();
        assert!(error.to_string().contains(wanted), "{line}: {error}");
    }
    for line in ["block type * BOGUS", "block net * BOGUS", "block type A type MX net ::1 net 10.0.0.1"] {
        bench(&format!("acl {{\n {line}\n }}"));
    }
}
