use crate::log::Record;
use crate::testing::Bench;

fn lines(bench: &Bench) -> Vec<String> {
    let records = bench.log.try_iter();
    records
        .filter_map(|record| match record {
            Record::Query(query) => Some(query.line()),
            _ => None,
        })
        .collect()
}

#[test]
fn without_the_directive_there_are_no_values() {
    let text = ". {\n log . \"{/view/name}\"\n view inner {\n expr true\n }\n whoami\n}";
    let mut bench = Bench::new(text);
    bench.ask("a.example.org. A");
    assert_eq!(lines(&bench), ["-"]);
}

#[test]
fn malformed_uses_are_refused() {
    let cases = [
        ("metadata\n metadata", "3:2: this plugin can only be used once per Server Block"),
        ("metadata {\n all\n }", "3:2: unknown property 'all'"),
        ("metadata a..b", "2:11: "),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn labels_have_values_only_in_the_zones_named() {
    let text = ". {\n metadata example.org\n log . \"{name} {/view/name}\"\n \
                view inner {\n expr true\n }\n whoami\n}";
    let mut bench = Bench::new(text);
    bench.ask("a.example.org. A");
    bench.ask("a.example.net. A");
    assert_eq!(lines(&bench), ["a.example.org. inner", "a.example.net. -"]);
}

#[test]
fn the_upstream_that_answered_is_known() {
    let text = ". {\n metadata\n log . \"{/forward/upstream}\"\n forward . 192.0.2.8:5353\n}";
    let mut bench = Bench::new(text);
    bench.upstream(|_, question| {
        let mut reply = Vec::new();
        let flags = question.flags.reply();
        let asked = &question.questions[0];
        nodens_wire::Builder::new(&mut reply, 0, flags).question(
            asked.qname.view(),
            asked.qtype,
            asked.qclass,
        );
        crate::testing::Reaction::Reply(reply)
    });
    bench.ask("a.example.org. A");
    assert_eq!(lines(&bench), ["192.0.2.8:5353"]);
}
