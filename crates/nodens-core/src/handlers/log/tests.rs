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
fn the_common_format_is_that_of_coredns() {
    let mut bench = Bench::new(".:53 {\n log\n whoami\n}");
    bench.ask("Example.org. A +do");
    assert_eq!(
        lines(&bench),
        ["192.0.2.53:40000 - 4711 \"A IN example.org. udp 40 true 1232\" NOERROR qr,aa,rd 69 0s"]
    );
}

#[test]
fn a_class_that_a_type_is_called_like_is_a_number() {
    let mut bench = Bench::new(".:53 {\n chaos\n log . {class}\n whoami\n}");
    bench.ask("example.org. A ANY");
    bench.ask("example.org. A CH");
    assert_eq!(lines(&bench), ["CLASS255", "CH"]);
}

#[test]
fn names_and_classes_select_and_the_first_matching_rule_counts() {
    let corefile = ".:53 {
        log example.org { class denial }
        log . \"{name} {unknown} {/no/label} {rcode\"
        whoami
    }";
    let mut bench = Bench::new(corefile);
    bench.ask("a.example.org. A");
    bench.ask("b.example.net. A");
    assert_eq!(lines(&bench), ["b.example.net. {unknown} - {rcode"]);
}

#[test]
fn what_is_not_a_class_is_named_with_its_place() {
    let error = Bench::try_new(".:53 {\n log {\n  class good\n }\n}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Corefile:3:9: expected a class: all, success, denial or error, found `good`"
    );
}
