use crate::log::Record;
use crate::testing::Bench;
use nodens_wire::{Flags, Message, Name, Type};
use std::net::{Ipv4Addr, Ipv6Addr};

fn bench(rules: &str) -> Bench {
    Bench::new(&format!(". {{\n errors\n metadata\n {rules}\n whoami\n}}"))
}

/// RCODE and the answer section: `OWNER TTL TYPE RDATA`.
fn show(message: &Message) -> String {
    if message.additional.len() == 2 && message.additional[1].rtype == Type::SRV {
        return "next handler".to_owned();
    }
    let mut text = message.flags.rcode().to_string();
    for record in &message.answer {
        let rdata = match record.rtype {
            Type::A => Ipv4Addr::from(<[u8; 4]>::try_from(&*record.rdata).unwrap()).to_string(),
            Type::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(&*record.rdata).unwrap()).to_string(),
            Type::TXT => String::from_utf8_lossy(&record.rdata[1..]).into_owned(),
            _ => Name::from_wire(&record.rdata).unwrap().to_string(),
        };
        text.push_str(&format!("; {} {} {} {rdata}", record.owner, record.ttl, record.rtype));
    }
    text
}

fn answer(bench: &mut Bench, question: &str) -> String {
    show(&bench.ask(question))
}

/// What a TXT template makes of a question.
fn text(template: &str, options: &str, question: &str) -> String {
    let rule = format!("template IN TXT example.org {{\n {options}\n answer \". 0 TXT \\\"{template}\\\"\"\n }}");
    let shown = answer(&mut bench(&rule), question);
    shown.strip_prefix("NOERROR; . 0 TXT ").map_or(shown.clone(), str::to_owned)
}

fn errors(bench: &Bench) -> Vec<String> {
    let records = bench.log.try_iter();
    records
        .filter_map(|record| match record {
            Record::Failure(failure) => Some(failure.text),
            _ => None,
        })
        .collect()
}

#[test]
fn a_name_that_must_not_be_asked_has_no_address() {
    let corefile = ".:53 {
        template IN A {
            match \"__the_bad_name__\"
            rcode NXDOMAIN
            fallthrough
        }
        whoami
    }";
    let mut bench = Bench::new(corefile);
    assert_eq!(answer(&mut bench, "x__The_Bad_Name__.example.org. A"), "NXDOMAIN");
    assert_eq!(answer(&mut bench, "x__The_Bad_Name__.example.org. AAAA"), "next handler");
    assert_eq!(answer(&mut bench, "good.example.org. A"), "next handler");
    // Patterns see names in lower case, so one with capitals matches nothing.
    let mut bench = Bench::new(&corefile.replace("__the_bad_name__", "__THE_BAD_NAME__"));
    assert_eq!(answer(&mut bench, "x__THE_BAD_NAME__.example.org. A"), "next handler");
}

#[test]
fn groups_of_the_match_make_records_in_all_sections() {
    let mut bench = bench(
        "template IN A a.org b.org {
            match ^ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)[.]a[.]org[.]$
            answer \"{{ .Name }} 60 IN A 10.{{ .Group.a }}.{{ index .Match 2 }}.{{ len .Zone }}\"
            additional \"ns.a.org. 60 IN TXT x\"
            authority \"a.org. 60 IN NS ns.a.org.\"
            ederror 21 \"Blocked here\"
        }",
    );
    let message = bench.ask("IP-1-2.A.org. A +edns");
    assert_eq!(show(&message), "NOERROR; ip-1-2.a.org. 60 A 10.1.2.6");
    assert!(message.flags.has(Flags::AA));
    assert_eq!(message.authority[0].rtype, Type::NS);
    assert_eq!(message.additional[0].rtype, Type::TXT);
    let (_, mut options) = message.edns().unwrap();
    assert_eq!(options.next(), Some((15, &b"\0\x15Blocked here"[..])));
    // A name in the zone that no pattern matches has no answer, one elsewhere is not looked at.
    assert_eq!(answer(&mut bench, "x.a.org. A"), "SERVFAIL");
    assert_eq!(answer(&mut bench, "x.b.org. A"), "SERVFAIL");
    assert_eq!(answer(&mut bench, "x.a.org. MX"), "next handler");
    assert_eq!(answer(&mut bench, "x.c.org. A"), "next handler");
    assert_eq!(errors(&bench), [""; 0]);
}

#[test]
fn patterns_are_read_as_go_does() {
    for (pattern, name, groups) in [
        // A range cannot begin with a class, so the hyphen stands for itself.
        (r"^([\w-.]+)\Q.example.org.\E$", "a_b-c.d", "a_b-c.d|"),
        // A name may come twice, and the later group counts.
        (r"^(?P<n>[[:alpha:]])(?<n>[[:word:]])", "ab", "a|b"),
        (r"^([+--]+)(?<n>\.)", "+-", "+-|."),
        (r"^([a&&b]+)", "a&b", "a&b|"),
        (r"^([[a]+)(?P<n>b){0}", "[a", "[a|"),
        // Braces without a lower number count nothing.
        (r"^(\d{,2})", "1{,2}", "1{,2}|"),
    ] {
        let template = "{{ index .Match 1 }}|{{ with .Group.n }}{{ . }}{{ end }}";
        let options = format!("match \"{pattern}\"\n fallthrough");
        assert_eq!(text(template, &options, &format!("{name}.example.org. TXT")), groups, "{pattern}");
    }
    for pattern in [r"\8", "(?x)a", "a{1001}", r"[\b]", r"\p{Alphabetic}", r"\u0041", "a**", "[a-[b]--c]"] {
        let corefile = format!(". {{\n template IN A . {{\n match \"{pattern}\"\n }}\n}}");
        let error = Bench::try_new(&corefile).unwrap_err().to_string();
        assert!(error.starts_with("Corefile:3:8: expected a regular expression (error parsing regexp: "), "{error}");
    }
}

#[test]
fn templates_see_everything_about_the_question() {
    let question = "A.b.Example.org. TXT +edns";
    for (template, expected) in [
        ("{{ .Zone }}", "example.org."),
        ("{{ .Name }}", "a.b.example.org."),
        ("{{ .Class }} {{ .Type }} {{ .Remote }}", "IN TXT 192.0.2.53"),
        ("{{ .Regex }}", ".*"),
        ("{{ len .Match }} {{ index .Match 0 }}", "1 a.b.example.org."),
        ("{{ .Group }}", "map[0:a.b.example.org.]"),
        ("{{ .Question.Name }} {{ .Question.Qtype }}", "A.b.Example.org. 16"),
        ("{{ .Message.Id }} {{ .Message.RecursionDesired }}", "4711 true"),
        ("{{ (index .Message.Question 0).Qclass }} {{ len .Message.Extra }}", "1 1"),
        ("{{ .Message.IsEdns0.UDPSize }}", "1232"),
        ("{{ .Meta `view/name` }}|{{ .Meta `x` }}", "|"),
        ("{{ parseInt `ff` 16 8 }}", "255"),
        ("{{ if eq .Type `TXT` }}yes{{ else }}no{{ end }}", "yes"),
    ] {
        assert_eq!(text(template, "", question), expected, "{template}");
    }
    let options = "match ^(?P<first>[a-z]+)([.]x)?";
    let template = "{{ .Group.first }}|{{ index .Group `2` }}|{{ .Group.nothing }}|{{ .Regex }}";
    let expected = "a||<no value>|^(?P<first>[a-z]+)([.]x)?";
    assert_eq!(text(template, options, question), expected);
}

#[test]
fn variables_and_conditions_decide_with_the_groups() {
    let options = "match ^(?P<n>[0-9]+)[.]\n var n int(group('n'))\n var twice n * 2\n \
                   var list [group(0), group('n'), group('x')]\n expr twice < 10\n expr type() == 'TXT'";
    let template = "{{ .Var.n }} {{ .Var.twice }} {{ .Var.list }}";
    assert_eq!(text(template, options, "4.example.org. TXT"), "4 8 [4. 4 ]");
    assert_eq!(text(template, options, "5.example.org. TXT"), "SERVFAIL");
    let through = format!("{options}\n fallthrough 7.example.org");
    assert_eq!(text(template, &through, "7.example.org. TXT"), "next handler");
    // A number too large is no value, which nothing lets pass.
    let large = "99999999999999999999.example.org. TXT";
    assert_eq!(text(template, &format!("{options}\n fallthrough"), large), "SERVFAIL");
}

#[test]
fn class_and_type_any_match_all_and_are_matched_by_questions_for_any() {
    let mut bench = bench("template ANY ANY a.org {\n answer \"a. 1 A 192.0.2.{{ len .Type }}\"\n }\n \
                           template IN MX b.org {\n answer \"b. 1 A 192.0.2.{{ len .Type }}\"\n }");
    assert_eq!(answer(&mut bench, "a.org. AAAA"), "NOERROR; a. 1 A 192.0.2.4");
    assert_eq!(answer(&mut bench, "a.org. ANY"), "NOERROR; a. 1 A 192.0.2.3");
    assert_eq!(answer(&mut bench, "b.org. ANY"), "NOERROR; b. 1 A 192.0.2.2");
    assert_eq!(answer(&mut bench, "b.org. A"), "next handler");
}

#[test]
fn the_first_rule_that_matches_answers_and_the_first_that_keeps_what_it_does_not_match_fails() {
    let mut bench = bench(
        "template IN A {\n match ^a[.] ^b[.]\n answer \"x. 1 A 192.0.2.1\"\n fallthrough c.org\n }\n \
         template IN A {\n match ^c[.]\n answer \"x. 1 A 192.0.2.2\"\n fallthrough\n }",
    );
    assert_eq!(answer(&mut bench, "b.org. A"), "NOERROR; x. 1 A 192.0.2.1");
    assert_eq!(answer(&mut bench, "c.d.org. A"), "SERVFAIL");
    assert_eq!(answer(&mut bench, "c.org. A"), "NOERROR; x. 1 A 192.0.2.2");
    assert_eq!(answer(&mut bench, "d.c.org. A"), "next handler");
}

#[test]
fn aliases_are_followed_for_addresses() {
    let mut bench = bench(
        "template ANY ANY c.org {
            answer \"{{ .Name }} 60 IN CNAME a.d.org.\" \"z. 5 TXT z\"
        }
        template IN A d.org {
            answer \"a.d.org. 30 A 192.0.2.1\" \"a.d.org. 30 A 192.0.2.2\"
        }",
    );
    let followed = "NOERROR; x.c.org. 60 CNAME a.d.org.; a.d.org. 30 A 192.0.2.1; \
                    a.d.org. 30 A 192.0.2.2; z. 5 TXT z";
    assert_eq!(answer(&mut bench, "x.c.org. A"), followed);
    assert_eq!(answer(&mut bench, "x.c.org. MX"), "NOERROR; x.c.org. 60 CNAME a.d.org.; z. 5 TXT z");
    // The target's other types are the next handler's, whose answer section is empty.
    assert_eq!(answer(&mut bench, "x.c.org. AAAA"), "NOERROR; x.c.org. 60 CNAME a.d.org.; z. 5 TXT z");
}

#[test]
fn an_alias_of_itself_ends() {
    let mut bench = bench("template IN A {\n answer \"{{ .Name }} 60 CNAME x{{ .Name }}\"\n }");
    let message = bench.ask("a.org. A");
    assert_eq!(message.flags.rcode().to_string(), "NOERROR");
    assert!((2..=10).contains(&message.answer.len()), "{}", message.answer.len());
}

#[test]
fn a_target_that_the_client_may_not_ask_is_not_followed() {
    let text = ". {\n acl d.org {\n drop\n }\n template IN A {\n match ^x\n \
                answer \"{{ .Name }} 60 CNAME a.d.org.\"\n fallthrough\n }\n \
                template IN A {\n answer \"a. 1 A 192.0.2.1\"\n }\n}";
    let mut bench = Bench::new(text);
    assert_eq!(answer(&mut bench, "x.c.org. A"), "NOERROR; x.c.org. 60 CNAME a.d.org.");
}

#[test]
fn templates_that_make_no_record_fail_and_are_counted() {
    let mut bench = bench(
        "template IN MX fail.org {\n answer \"{{ .Name }} 60 IN MX bogus\"\n }
         template IN TXT fail.org {\n additional \"{{ .Nope }} 60 IN MX bogus\"\n }
         template IN SRV fail.org {\n authority \"\"\n }
         template IN A fail.org {\n rcode SERVFAIL\n answer \"bogus\"\n }",
    );
    for qtype in ["MX", "TXT", "SRV", "A"] {
        assert_eq!(answer(&mut bench, &format!("x.fail.org. {qtype}")), "SERVFAIL");
    }
    let errors = errors(&bench);
    assert_eq!(
        errors[0],
        "2 x.fail.org. MX: expected a number, found `bogus` in `x.fail.org. 60 IN MX bogus`"
    );
    assert!(errors[1].starts_with("2 x.fail.org. TXT: ") && errors[1].contains("Nope"), "{errors:?}");
    assert_eq!(errors[2], "2 x.fail.org. SRV: expected a record, found nothing in ``");
    assert_eq!(errors.len(), 3);
    let of = "server=\"dns://:53\",zone=\"fail.org.\",view=\"\",class=\"IN\"";
    let metrics = bench.shared.registry.render();
    for line in [
        format!("coredns_template_matches_total{{{of},type=\"MX\"}} 1\n"),
        format!("coredns_template_matches_total{{{of},type=\"A\"}} 1\n"),
        format!("coredns_template_rr_failures_total{{{of},type=\"MX\",section=\"answer\",template=\"{{{{.Name}}}} 60 IN MX bogus\"}} 1\n"),
        format!("coredns_template_rr_failures_total{{{of},type=\"SRV\",section=\"authority\",template=\"\"}} 1\n"),
        format!("coredns_template_template_failures_total{{{of},type=\"TXT\",section=\"additional\",template=\"{{{{.Nope}}}} 60 IN MX bogus\"}} 1\n"),
    ] {
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[test]
fn a_response_with_an_error_as_rcode_is_sent_once_with_its_records() {
    let mut bench = bench("template ANY ANY {\n rcode REFUSED\n answer \"x. 60 A 192.0.2.1\"\n }");
    assert_eq!(answer(&mut bench, "x.org. A"), "REFUSED; x. 60 A 192.0.2.1");
}

#[test]
fn malformed_uses_are_refused_with_their_place() {
    let long = format!("match {}", "a".repeat(10_001));
    for (line, wanted) in [
        ("match", "3:2: Wrong argument count after 'match'"),
        ("match \"(\"", "3:8: expected a regular expression"),
        (&long, "3:8: expected a regular expression (regex pattern too long: 10001 > 10000)"),
        ("answer", "3:2: Wrong argument count after 'answer'"),
        ("answer \"{{ .Name\"", "3:9: expected a template of a record (template answer:1:"),
        ("answer a \"{{ nope }}\"", "3:11: expected a template of a record"),
        ("authority", "3:2: Wrong argument count"),
        ("additional", "3:2: Wrong argument count"),
        ("rcode", "3:2: Wrong argument count"),
        ("rcode nxdomain", "3:8: expected an RCODE such as NXDOMAIN, found `nxdomain`"),
        ("rcode NXDOMAIN now", "3:17: Wrong argument count"),
        ("ederror", "3:2: Wrong argument count"),
        ("ederror 65536", "3:10: expected a number from 0 to 65535"),
        ("ederror x", "3:10: expected a number"),
        ("ederror 1 2 3", "3:14: Wrong argument count"),
        ("nonsense", "3:2: unknown property 'nonsense'"),
        ("var a", "3:2: Wrong argument count after 'var'"),
        ("var 1a 1", "3:6: invalid variable name \"1a\""),
        ("var name 1", "3:6: variable name \"name\" is reserved"),
        ("var len 1", "3:6: variable name \"len\" is reserved"),
        ("var true 1", "3:6: variable name \"true\" is reserved"),
        ("var a nope()", "3:8: expression "),
        ("var a 1\n var a 2", "4:6: variable name \"a\" is reserved"),
        ("expr", "3:2: Wrong argument count after 'expr'"),
        ("expr a == '1'\n var a group(1)", "3:7: expression "),
        ("rcode NXDOMAIN {\n }", "3:2: 'rcode' takes no block"),
    ] {
        let error = Bench::try_new(&format!(". {{\n template IN A {{\n {line}\n }}\n}}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
    for (line, wanted) in [
        ("template", "2:2: Wrong argument count"),
        ("template IN", "2:2: Wrong argument count"),
        ("template in A", "2:11: expected a class such as IN or ANY, found `in`"),
        ("template IN a", "2:14: expected a type such as AAAA or ANY, found `a`"),
    ] {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
    for line in ["answer \"{{ .Nope }}\"", "answer \"not a record\"", "expr 1", "upstream a b", "match \"\\Qa.b\\E\""] {
        bench(&format!("template IN A {{\n {line}\n }}"));
    }
}
