use crate::testing::Bench;
use nodens_wire::{Class, Rcode, Type};

fn texts(bench: &mut Bench, question: &str) -> Vec<String> {
    let answer = bench.ask(question);
    assert!(answer.answer.iter().all(|r| (r.rtype, r.class, r.ttl) == (Type::TXT, Class::CH, 0)));
    let text = |rdata: &[u8]| String::from_utf8(rdata.get(1..).unwrap().to_vec()).unwrap();
    let mut texts: Vec<_> = answer.answer.iter().map(|record| text(&record.rdata)).collect();
    texts.sort();
    texts
}

#[test]
fn version_authors_and_hostname_are_told() {
    let mut bench = Bench::new(".:53 {\n chaos V1 bob alice bob\n}");
    assert_eq!(texts(&mut bench, "version.bind. TXT CH"), ["V1"]);
    assert_eq!(texts(&mut bench, "VERSION.server. TXT CH"), ["V1"]);
    assert_eq!(texts(&mut bench, "authors.bind. TXT CH"), ["alice", "bob"]);
    assert_eq!(texts(&mut bench, "hostname.bind. TXT CH"), ["localhost"]);
    assert_eq!(texts(&mut bench, "id.server. TXT CH"), ["localhost"]);
}

#[test]
fn without_arguments_it_says_what_it_is() {
    let mut bench = Bench::new(".:53 {\n chaos\n}");
    assert!(texts(&mut bench, "version.bind. TXT CH").concat().starts_with("Nodens-"));
    assert_eq!(texts(&mut bench, "authors.bind. TXT CH").len(), 1);
}

#[test]
fn the_order_of_authors_changes() {
    let mut bench = Bench::new(".:53 {\n chaos V1 a b c d e\n}");
    let orders: std::collections::HashSet<Vec<Vec<u8>>> = (0..20)
        .map(|_| bench.ask("authors.bind. TXT CH").answer.into_iter().map(|r| r.rdata).collect())
        .collect();
    assert!(orders.len() > 1);
}

#[test]
fn other_names_types_and_classes_pass() {
    let mut bench = Bench::new(".:53 {\n chaos V1\n}");
    for question in ["foo.bind. TXT CH", "version.bind. A CH", "version.bind. TXT"] {
        let answer = bench.ask(question);
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL, "{question}");
        assert!(answer.answer.is_empty());
    }
}

#[test]
fn a_text_is_cut_at_255_octets() {
    let long = "x".repeat(300);
    let mut bench = Bench::new(&format!(".:53 {{\n chaos {long} {long}\n}}"));
    assert_eq!(texts(&mut bench, "version.bind. TXT CH"), ["x".repeat(255)]);
    assert_eq!(texts(&mut bench, "authors.bind. TXT CH"), ["x".repeat(255)]);
}

#[test]
fn properties_are_refused() {
    let error = Bench::try_new(".:53 {\n chaos V1 {\n color\n }\n}").unwrap_err();
    assert_eq!(error.to_string(), "Corefile:3:2: unknown property 'color'");
}
