use crate::log::Record;
use crate::testing::Bench;

/// Which of two views answers: the first wants `condition`, the second everything else.
fn first_wants(condition: &str, question: &str) -> bool {
    let text = format!(
        "example.org {{\n view first {{\n expr {condition}\n }}\n whoami\n}}\n\
         example.org {{\n acl {{\n block\n }}\n}}\n"
    );
    Bench::new(&text).ask(question).flags.rcode().to_string() == "NOERROR"
}

#[test]
fn every_function_tells_a_fact_of_the_question() {
    for condition in [
        "name() == 'a.example.org.'",
        "type() == 'A' and class() == 'IN'",
        "type() in ['A', 'AAAA']",
        "proto() == 'udp'",
        "client_ip() == '192.0.2.53' && port() == '40000'",
        "server_ip() == '192.0.2.1' && server_port() == '53'",
        "incidr(client_ip(), '192.0.2.0/24')",
        "incidr(client_ip(), '10.0.0.0/8') || incidr('2001:db8::1', '2001:db8::/32')",
        "id() == 4711",
        "opcode() == 0",
        "!do()",
        "bufsize() == 512",
        "size() == 31",
        "metadata('any/label') == ''",
        "name() matches '^a[.].*[.]org[.]$'",
    ] {
        assert!(first_wants(condition, "A.Example.Org. A"), "{condition}");
    }
    assert!(first_wants("do() and bufsize() == 1232", "a.example.org. A +do"));
}

#[test]
fn what_is_not_true_is_false() {
    for condition in
        ["false", "1", "'true'", "nil", "incidr('x', '10.0.0.0/8')", "incidr(client_ip(), 'x')"]
    {
        assert!(!first_wants(condition, "a.example.org. A"), "{condition}");
    }
}

#[test]
fn all_conditions_must_hold_and_a_view_without_any_wants_everything() {
    let text = |lines: &str| format!(". {{\n view v {{\n {lines}\n }}\n whoami\n}}");
    let rcode = |lines: &str| Bench::new(&text(lines)).ask("a. A").flags.rcode().to_string();
    assert_eq!(rcode("expr true\n expr name() == 'a.'"), "NOERROR");
    assert_eq!(rcode("expr true\n expr name() == 'b.'"), "REFUSED");
    assert_eq!(rcode(""), "NOERROR");
}

#[test]
fn views_share_a_zone_and_their_name_is_metadata_and_a_label() {
    let text = "example.org {\n metadata\n prometheus\n log . \"{/view/name} {/no/label}\"\n \
                view small {\n expr size() < 100\n }\n whoami\n}\nexample.org {\n whoami\n}";
    let mut bench = Bench::new(text);
    bench.ask("a.example.org. A");
    let lines: Vec<_> = bench
        .log
        .try_iter()
        .filter_map(|record| match record {
            Record::Query(query) => Some(query.line()),
            _ => None,
        })
        .collect();
    assert_eq!(lines, ["small -"]);
    let metrics = bench.shared.registry.render();
    assert!(metrics.contains("zone=\"example.org.\",view=\"small\",proto=\"udp\""), "{metrics}");
}

#[test]
fn conditions_see_the_metadata_of_their_own_block() {
    let text = |directive: &str| {
        format!(
            "example.org {{\n {directive}\n view first {{\n expr metadata('view/name') == 'first'\n \
             }}\n whoami\n}}\nexample.org {{\n acl {{\n block\n }}\n}}\n"
        )
    };
    let rcode = |directive: &str| {
        Bench::new(&text(directive)).ask("a.example.org. A").flags.rcode().to_string()
    };
    assert_eq!(rcode("metadata"), "NOERROR");
    assert_eq!(rcode("metadata b.example.org"), "REFUSED");
    assert_eq!(rcode(""), "REFUSED");
}

#[test]
fn malformed_views_are_refused_with_their_place() {
    let cases = [
        ("view", "2:2: Wrong argument count after 'view': expected 1"),
        ("view a b", "2:9: Wrong argument count"),
        ("view a\n view b", "3:2: this plugin can only be used once"),
        ("view a {\n when true\n }", "3:2: unknown property 'when'"),
        ("view a {\n expr\n }", "3:2: Wrong argument count after 'expr'"),
        ("view a {\n expr invalid expression\n }", "3:7: expression "),
        ("view a {\n expr nam() == 'x'\n }", "nam"),
        ("view a {\n expr incidr(client_ip())\n }", "3:7: expression "),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
