//! Upstreams within TLS beside those without.

use super::*;

/// Each upstream of the first `forward`, and the name that its certificate must have.
fn upstreams(bench: &Bench) -> Vec<(String, Option<String>)> {
    let handlers = &bench.worker.config().blocks[0].handlers;
    let forward = handlers.iter().find_map(|handler| match handler {
        crate::handlers::Handler::Forward(forward) => Some(forward),
        _ => None,
    });
    let of = |upstream: &std::sync::Arc<crate::upstream::Upstream>| {
        let peer = upstream.key.tls.as_ref();
        (upstream.name.clone(), peer.map(|peer| peer.name().to_str().into_owned()))
    };
    forward.unwrap().asking.upstreams.iter().map(of).collect()
}

#[test]
fn names_come_from_the_upstream_from_the_block_or_are_the_address() {
    let own = "https://192.0.2.1 https://192.0.2.1%a.example:8443 tls://192.0.2.1 tls://192.0.2.1%A.example tls://192.0.2.1%a.example 192.0.2.1 \
               tls://[2001:db8::1%b.example]:8853 tls://2001:db8::2%b.example tls://[2001:db8::3]";
    let expected = [
        ("192.0.2.1:443", Some("192.0.2.1")),
        ("192.0.2.1:8443", Some("a.example")),
        ("192.0.2.1:853", Some("192.0.2.1")),
        ("192.0.2.1:853", Some("a.example")),
        ("192.0.2.1:53", None),
        ("[2001:db8::1]:8853", Some("b.example")),
        ("[2001:db8::2]:853", Some("b.example")),
        ("[2001:db8::3]:853", Some("2001:db8::3")),
    ];
    let owned = |all: &[(&str, Option<&str>)]| {
        let one = |(at, name): &(&str, Option<&str>)| ((*at).to_owned(), name.map(str::to_owned));
        all.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(upstreams(&bench(own, "")), owned(&expected));
    let all = bench("tls://192.0.2.1 192.0.2.2%eth0 tls://192.0.2.3:99", "tls_servername c.example.");
    let expected = [
        ("192.0.2.1:853", Some("c.example")),
        ("192.0.2.2:53", None),
        ("192.0.2.3:99", Some("c.example")),
    ];
    assert_eq!(upstreams(&all), owned(&expected));
    // An empty `tls_servername` sets no name.
    let none = bench("tls://192.0.2.1%d.example", "tls\n tls_servername \"\"");
    assert_eq!(upstreams(&none), owned(&[("192.0.2.1:853", Some("d.example"))]));
}

#[test]
fn a_host_with_a_name_may_have_another_in_its_certificate() {
    let options = crate::config::BuildOptions {
        lookup_host: |host, _| {
            assert_eq!(host, "dns.example.");
            Ok(vec!["192.0.2.9".parse().unwrap()])
        },
        ..Default::default()
    };
    for (to, at, name) in [
        // The address, as in CoreDNS: the name is looked up without proof.
        ("tls://dns.example", "192.0.2.9:853", "192.0.2.9"),
        ("tls://dns.example:8853", "192.0.2.9:8853", "192.0.2.9"),
        ("tls://dns.example%a.example", "192.0.2.9:853", "a.example"),
        ("tls://dns.example%a.example:8853", "192.0.2.9:8853", "a.example"),
    ] {
        let corefile = format!(".:53 {{\n forward . {to}\n}}");
        let bench = Bench::with_options(&corefile, &options).unwrap();
        assert_eq!(upstreams(&bench), [(at.to_owned(), Some(name.to_owned()))], "{to}");
    }
}

#[test]
fn an_upstream_within_tls_is_asked_so_whatever_others_are_asked_over() {
    for body in ["", "force_tcp", "prefer_udp"] {
        let mut bench = bench("tls://192.0.2.1 192.0.2.2", &format!("policy sequential\n{body}"));
        let log = script(&mut bench, |ask, question| match number(ask) {
            1 => refused(ask),
            _ => replies(question),
        });
        assert_eq!(rcode_of(&mut bench, "a.example A"), Rcode::NOERROR);
        let plain = if body == "force_tcp" { Carrier::Tcp } else { Carrier::Udp };
        let asked: Vec<_> = log.borrow().iter().map(|(who, how, _)| (*who, *how)).collect();
        // The query, the health check, the query.
        assert_eq!(asked.iter().filter(|asked| **asked == (1, Carrier::Tls)).count(), 2, "{asked:?}");
        assert!(asked.contains(&(2, plain)) && asked.len() == 3, "{asked:?}");
        let upstreams = &bench.worker.config().blocks[0].handlers;
        let Some(crate::handlers::Handler::Forward(forward)) = upstreams.last() else {
            panic!("no forward");
        };
        let encrypted = &forward.asking.upstreams[0];
        // There is one state, however it is asked for.
        assert!(Carrier::ALL.into_iter().all(|carrier| encrypted.path(carrier).is_suspect()));
    }
}

#[test]
fn a_server_that_speaks_two_ways_is_two_upstreams() {
    let mut bench = bench("tls://192.0.2.1:853 https://192.0.2.1:853", "policy round_robin");
    let log = script(&mut bench, |_, question| replies(question));
    for n in 0..4 {
        assert_eq!(rcode_of(&mut bench, &format!("a{n}.example A")), Rcode::NOERROR);
    }
    let log = log.borrow();
    for carrier in [Carrier::Tls, Carrier::Https] {
        assert_eq!(log.iter().filter(|(_, how, _)| *how == carrier).count(), 2);
    }
}

#[test]
fn doh_method_says_where_queries_stand() {
    for (body, in_target) in [("", false), ("doh_method POST", false), ("doh_method GET", true)] {
        let bench = bench("https://192.0.2.1", body);
        let handlers = &bench.worker.config().blocks[0].handlers;
        let Some(crate::handlers::Handler::Forward(forward)) = handlers.last() else {
            panic!("no forward");
        };
        assert_eq!(forward.asking.upstreams[0].key.settings.doh_get, in_target, "{body}");
    }
}

#[test]
fn metrics_name_the_encryption() {
    let bench = bench("tls://192.0.2.1 192.0.2.2 https://192.0.2.3", "");
    let text = bench.shared.registry.render();
    let has = |to: &str, proto: &str| {
        text.contains(&format!("hits_total{{proxy_name=\"forward\",to=\"{to}\",proto=\"{proto}\"}}"))
    };
    assert!(has("192.0.2.1:853", "tcp-tls") && !has("192.0.2.1:853", "tcp"), "{text}");
    assert!(has("192.0.2.3:443", "https") && !has("192.0.2.3:443", "tcp"), "{text}");
    assert!(has("192.0.2.2:53", "udp") && has("192.0.2.2:53", "tcp"), "{text}");
    assert!(!has("192.0.2.2:53", "tcp-tls"), "{text}");
}

#[test]
fn an_outage_names_what_each_upstream_is_asked_over() {
    let mut bench = bench("tls://192.0.2.1 192.0.2.2 tls://192.0.2.3", "");
    script(&mut bench, |ask, _| refused(ask));
    for n in 0..20 {
        assert_eq!(rcode_of(&mut bench, &format!("a{n}.example A")), Rcode::SERVFAIL);
        bench.pass(1000 * MS);
    }
    let said = bench.log.try_iter().any(|record| {
        matches!(record, crate::log::Record::Line { text, .. } if text.contains("are down over tcp-tls, udp: 192.0.2.1:853, 192.0.2.2:53, 192.0.2.3:853; "))
    });
    assert!(said);
}

#[test]
fn files_are_kept_over_a_reload_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let write = |name: &str| {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(&ca, made.cert.pem()).unwrap();
    };
    write("a.example");
    let corefile = format!(
        ".:53 {{\n forward a. tls://192.0.2.1 {{\n tls {0}\n }}\n forward b. tls://192.0.2.1 {{\n tls {0}\n }}\n \
         forward c. tls://192.0.2.1\n}}",
        ca.display()
    );
    let mut bench = Bench::new(&corefile);
    let ids = |bench: &Bench| {
        let handlers = &bench.worker.config().blocks[0].handlers;
        let forwards = handlers.iter().filter_map(|handler| match handler {
            crate::handlers::Handler::Forward(forward) => Some(forward.asking.upstreams[0].id),
            _ => None,
        });
        forwards.collect::<Vec<_>>()
    };
    let before = ids(&bench);
    assert!(before[0] == before[1] && before[0] != before[2], "{before:?}");
    // Other files are another task, and one for each is enough.
    assert_eq!(bench.tasks.len(), 1);
    write("b.example");
    bench.reload(&corefile).unwrap();
    assert_eq!(ids(&bench), before);
    std::fs::write(&ca, "nothing").unwrap();
    assert!(bench.reload(&corefile).is_err());
}
