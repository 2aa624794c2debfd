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
fn only_directives_of_the_configuration_at_work_are_enabled() {
    let mut bench = Bench::new(".:53 {\n prometheus\n minimal\n whoami\n}");
    let enabled = |bench: &Bench| {
        let text = bench.shared.registry.render();
        let lines = text.lines().filter(|line| line.starts_with("coredns_plugin_enabled{"));
        let names = lines.filter_map(|line| line.split("name=\"").nth(1)?.split('"').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(enabled(&bench), ["minimal", "prometheus", "whoami"]);
    bench.reload(".:53 {\n prometheus\n whoami\n}").unwrap();
    assert_eq!(enabled(&bench), ["prometheus", "whoami"]);
    // One that is built and not taken up, as where a port is taken.
    let tree = nodens_corefile::parse("Corefile", ".:53 {\n prometheus\n any\n}", &nodens_corefile::NoSources);
    crate::config::build(&tree.unwrap(), &Default::default(), &bench.shared).unwrap();
    assert_eq!(enabled(&bench), ["prometheus", "whoami"]);
    bench.reload(".:53 {\n whoami\n}").unwrap();
    assert!(!bench.shared.registry.render().contains("coredns_plugin_enabled"));
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

#[test]
fn an_answer_takes_from_the_arrival_of_its_question_to_its_sending() {
    let mut bench = Bench::new("example.org:53 {\n prometheus\n whoami\n}");
    let series = |bench: &Bench, what: &str| {
        let text = bench.shared.registry.render();
        let name = format!("coredns_dns_request_duration_seconds_{what}");
        let series = text.lines().filter(|line| line.starts_with(&name));
        let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        (values.sum::<f64>() * 1000.0).round() / 1000.0
    };
    let arrived_ns = bench.now.mono_ns - 50_000_000;
    bench.worker.arrived(arrived_ns);
    let mut out = Vec::new();
    for _ in 0..500 {
        let request = crate::testing::request("a.example.org. A");
        bench.worker.receive(bench.now, bench.client, &request, &mut out);
    }
    assert!(bench.worker.has_unsent() && series(&bench, "count") == 0.0);
    bench.worker.sent(arrived_ns + 56_000_000);
    assert!(!bench.worker.has_unsent());
    assert_eq!((series(&bench, "count"), series(&bench, "sum")), (500.0, 28.0));
    // The next batch is another.
    bench.worker.receive(bench.now, bench.client, &crate::testing::request("a.example.org. A"), &mut out);
    bench.worker.sent(bench.now.mono_ns + 1_000_000_000);
    assert_eq!((series(&bench, "count"), series(&bench, "sum")), (501.0, 29.0));
}

#[test]
fn what_is_sent_at_many_times_is_counted_whole() {
    let mut bench = Bench::new("example.org:53 {\n prometheus\n whoami\n}");
    let request = crate::testing::request("a.example.org. A");
    for number in 1..=1000 {
        bench.worker.arrived(number);
        bench.worker.receive(bench.now, bench.client, &request, &mut Vec::new());
    }
    bench.worker.sent(bench.now.mono_ns);
    let text = bench.shared.registry.render();
    assert!(text.contains("duration_seconds_count{server=\"dns://:53\",zone=\"example.org.\",view=\"\"} 1000\n"));
}

#[test]
fn metrics_of_a_go_runtime_may_be_asked_for() {
    let error = |body: &str| {
        let text = format!(". {{\n prometheus {{\n{body}\n }}\n whoami\n}}");
        Bench::try_new(&text).err().map(|error| error.to_string())
    };
    assert_eq!(error(""), None);
    assert_eq!(error("runtime_metrics"), None);
    assert!(error("runtime_metrics all").unwrap().contains("Wrong argument count"));
    assert!(error("tls web.yaml").unwrap().contains("Nodens does not have it yet"));
    assert!(error("runtime").unwrap().contains("unknown property 'runtime'"));
}
