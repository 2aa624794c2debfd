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
