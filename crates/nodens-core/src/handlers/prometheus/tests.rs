use crate::testing::Bench;

#[test]
fn questions_and_answers_are_counted_by_their_labels() {
    let mut bench = Bench::new("example.org:53 {\n prometheus\n whoami\n}");
    bench.ask("a.example.org. A");
    bench.ask("a.example.org. A +do");
    bench.ask("a.example.org. URI");
    bench.ask("elsewhere.net. A");
    let text = bench.shared.registry.render();
    let of = r#"server="dns://:53",zone="example.org.",view="""#;
    for line in [
        format!("coredns_dns_requests_total{{{of},proto=\"udp\",family=\"1\",type=\"A\"}} 2\n"),
        format!("coredns_dns_requests_total{{{of},proto=\"udp\",family=\"1\",type=\"other\"}} 1\n"),
        format!("coredns_dns_do_requests_total{{{of}}} 1\n"),
        format!("coredns_dns_responses_total{{{of},rcode=\"NOERROR\",plugin=\"whoami\"}} 3\n"),
        format!("coredns_dns_request_duration_seconds_count{{{of}}} 3\n"),
        format!("coredns_plugin_enabled{{{of},name=\"whoami\"}} 1\n"),
        "coredns_dns_responses_total{server=\"dns://:53\",zone=\"dropped\",view=\"\",rcode=\"REFUSED\",plugin=\"\"} 1\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn a_block_that_would_count_its_questions_twice_is_refused() {
    for text in [
        ".:53 {\n prometheus\n prometheus :9253\n whoami\n}",
        "(watched) {\n prometheus\n}\n.:53 {\n import watched\n import watched\n whoami\n}",
    ] {
        let error = Bench::try_new(text).unwrap_err().to_string();
        assert!(error.contains("can only be used once per Server Block"), "{error}");
    }
}

#[test]
fn blocks_at_one_address_count_each_question_once() {
    let watched = "(watched) {\n prometheus :9153\n whoami\n}\n";
    let blocks = ".:53 {\n import watched\n}\nexample.org:53 {\n import watched\n}";
    let mut bench = Bench::new(&format!("{watched}{blocks}"));
    bench.ask("a.example.org. A");
    bench.ask("a.example.net. A");
    let text = bench.shared.registry.render();
    let counts = text.lines().filter(|line| line.starts_with("coredns_dns_requests_total{"));
    let counts: Vec<_> = counts.map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(counts, [Some("1"), Some("1")], "{text}");
}
