//! What is accepted, and how what is not is refused.

use super::*;
use crate::log::{Level, Record};

fn error(text: &str) -> String {
    match Bench::try_new(&format!(".:53 {{\n{text}\n}}")) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

fn body_error(body: &str) -> String {
    error(&format!("forward . 192.0.2.1 {{\n{body}\n}}"))
}

#[test]
fn every_option_is_accepted() {
    let body = "except a.example b.example\n force_tcp\n prefer_udp\n policy rtt\n max_fails 3\n\
                health_check 1s no_rec domain example.org\n expire 20s\n max_age 1m\n\
                max_idle_conns 4\n read_timeout 3s\n max_concurrent 1000\n\
                max_connect_attempts 5\n next NXDOMAIN SERVFAIL\n next_on_nodata\n\
                failover SERVFAIL refused\n failfast_all_unhealthy_upstreams\n\
                source_address 192.0.2.99\n resolver 192.0.2.53 [2001:db8::1]:53\n doh_method GET";
    let bench = bench("192.0.2.1 dns://192.0.2.2 [2001:db8::2]:1053 192.0.2.1:53", body);
    let crate::handlers::Handler::Forward(forward) = &bench.worker.config().blocks[0].handlers[1]
    else {
        panic!("no forward");
    };
    let names: Vec<_> = forward.asking.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    assert_eq!(names, ["192.0.2.1:53", "192.0.2.2:53", "[2001:db8::2]:1053"]);
    let key = &forward.asking.upstreams[0].key;
    assert_eq!(key.source, Some("192.0.2.99".parse().unwrap()));
    let settings = &key.settings;
    assert_eq!((settings.expire, settings.max_age), (20_000 * MS, 60_000 * MS));
    assert_eq!((settings.idle_max, settings.probe_interval), (4, 1000 * MS));
    assert_eq!((settings.probe_recursion, &settings.probe_domain), (false, &name("example.org")));
}

#[test]
fn errors_say_where_and_what() {
    for (body, expected) in [
        ("polic random", "Corefile:3:1: unknown property 'polic', did you mean 'policy'?"),
        ("policy fastest", "Corefile:3:8: unknown policy 'fastest': expected random"),
        ("max_fails many", "Corefile:3:11: expected a number from 0 to"),
        ("max_fails -1", "Corefile:3:11: expected a number from 0 to"),
        ("max_fails", "Corefile:3:1: Wrong argument count after 'max_fails': expected 1, found 0"),
        ("force_tcp yes", "Corefile:3:11: Wrong argument count after 'force_tcp'"),
        ("except", "Corefile:3:1: Wrong argument count after 'except'"),
        ("health_check soon", "Corefile:3:14: expected a duration"),
        ("health_check 1s fast", "Corefile:3:17: health_check: unknown option fast"),
        ("health_check 1s domain a..b", "Corefile:3:24: health_check: invalid domain name a..b"),
        ("max_age 5s", "Corefile:2:1: max_age (5s) must not be less than expire (10s)"),
        ("read_timeout 0s", "Corefile:3:1: read_timeout must be positive"),
        ("next NOPE", "Corefile:3:6: NOPE is not a valid rcode"),
        ("failover NOERROR", "Corefile:3:1: NoError cannot be used in failover"),
        ("source_address eth0", "Corefile:3:16: expected an IP address"),
        ("resolver dns.example", "Corefile:3:10: resolver must be an IP address or IP:port"),
        ("doh_method PUT", "Corefile:3:12: expected GET or POST"),
        ("tls a b c d", "Corefile:3:11: Wrong argument count after 'tls'"),
        ("tls /none/ca.pem", "Corefile:3:1: could not read /none/ca.pem: "),
        ("tls Cargo.toml", "Corefile:3:1: ./Cargo.toml: expected certificates in PEM format"),
        ("tls /none/cert.pem /none/key.pem", "Corefile:3:1: could not read /none/cert.pem: "),
        ("tls_servername", "Corefile:3:1: Wrong argument count after 'tls_servername'"),
        ("tls_servername a b", "Corefile:3:18: Wrong argument count after 'tls_servername'"),
        ("tls_servername a..b", "Corefile:3:16: \"a..b\" is no name that a certificate can have"),
    ] {
        let error = body_error(body);
        assert!(error.starts_with(expected), "{body}: {error}");
    }
}

#[test]
fn destinations_are_checked() {
    let many = (1..=16).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>().join(" ");
    for (line, expected) in [
        ("forward".to_owned(), "Corefile:2:1: Wrong argument count after 'forward'"),
        ("forward .".to_owned(), "Corefile:2:1: Wrong argument count after 'forward'"),
        ("forward . tls://".to_owned(), "Corefile:2:11: invalid address: \"tls://\""),
        ("forward . tls://9.9.9.9%a..b".to_owned(), "Corefile:2:1: \"a..b\" is no name that"),
        (
            "forward . tls://9.9.9.9%a {\n tls_servername b\n}".to_owned(),
            "Corefile:2:1: both forward ('b') and proxy level ('a') TLS servernames are set for \
             upstream proxy 'tls://9.9.9.9:853'",
        ),
        (
            "forward . tls:///etc/hosts".to_owned(),
            "Corefile:2:11: \"tls:///etc/hosts\": the servers of a file are asked without encryption",
        ),
        ("forward . tls://dns.example".to_owned(), "Corefile:2:11: failed to resolve \"dns.example\""),
        ("forward . https://dns.example".to_owned(), "Corefile:2:11: failed to resolve \"dns.example\""),
        (
            "forward . https://9.9.9.9/dns-query".to_owned(),
            "Corefile:2:11: paths are not allowed in HTTPS upstream addresses (the /dns-query path is \
             used by default): https://9.9.9.9/dns-query",
        ),
        (
            "forward . https://9.9.9.9%a {\n tls_servername b\n}".to_owned(),
            "Corefile:2:1: both forward ('b') and proxy level ('a') TLS servernames are set for \
             upstream proxy 'https://9.9.9.9:443'",
        ),
        ("forward . https3://9.9.9.9".to_owned(), "Corefile:2:11: 'https3' is not supported as a dest"),
        ("forward . http://9.9.9.9".to_owned(), "Corefile:2:11: 'http' is not supported as a dest"),
        ("forward . quic://".to_owned(), "Corefile:2:11: invalid address: \"quic://\""),
        ("forward . quic://9.9.9.9%a..b".to_owned(), "Corefile:2:1: \"a..b\" is no name that"),
        (
            "forward . quic://9.9.9.9%a {\n tls_servername b\n}".to_owned(),
            "Corefile:2:1: both forward ('b') and proxy level ('a') TLS servernames are set for \
             upstream proxy 'quic://9.9.9.9:853'",
        ),
        (
            "forward . quic:///etc/hosts".to_owned(),
            "Corefile:2:11: \"quic:///etc/hosts\": the servers of a file are asked without encryption",
        ),
        ("forward . quic://dns.example".to_owned(), "Corefile:2:11: failed to resolve \"dns.example\""),
        (
            "forward . grpc://192.0.2.1".to_owned(),
            "Corefile:2:11: 'grpc' is not supported as a destination protocol in forward",
        ),
        ("forward . /no/such/file".to_owned(), "Corefile:2:11: not an IP address, file, or valid"),
        ("forward . dns.example".to_owned(), "Corefile:2:11: failed to resolve \"dns.example\""),
        ("forward a..b 192.0.2.1".to_owned(), "Corefile:2:9: zone is not a valid domain name"),
        (format!("forward . {many}"), "Corefile:2:11: more than 15 TOs configured: 16"),
    ] {
        let error = error(&line);
        assert!(error.starts_with(expected), "{line}: {error}");
    }
}

#[test]
fn files_and_names_are_read_when_the_configuration_is_built() {
    let folder = std::env::temp_dir().join(format!("nodens-forward-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let real = write("real.conf", "nameserver 192.0.2.7\nnameserver 192.0.2.8\n");
    let stub = write("stub.conf", "nameserver 127.0.0.53\noptions edns0\n");
    let empty = write("empty.conf", "search example.org\n");
    let options = crate::config::BuildOptions {
        resolved_conf: real.clone(),
        lookup_host: |host, servers| {
            assert_eq!((host, servers), ("dns.example.", &["192.0.2.53:53".parse().unwrap()][..]));
            Ok(vec!["192.0.2.9".parse().unwrap(), "192.0.2.7".parse().unwrap()])
        },
        ..Default::default()
    };
    let upstreams = |to: &str| {
        let text = format!(".:53 {{\n forward . {to} {{\n resolver 192.0.2.53\n }}\n}}");
        let tree = nodens_corefile::parse("Corefile", &text, &nodens_corefile::NoSources).unwrap();
        let bench = Bench::new(".:53 {\n whoami\n}");
        let config = crate::config::build(&tree, &options, &bench.shared);
        let upstreams = config.map(|config| match &config.blocks[0].handlers[0] {
            crate::handlers::Handler::Forward(forward) => {
                forward.asking.upstreams.iter().map(|upstream| upstream.name.clone()).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        });
        let lines: Vec<_> = bench.log.try_iter().collect();
        (upstreams.map_err(|error| error.to_string()), lines)
    };
    let both = || Ok(vec!["192.0.2.7:53".to_owned(), "192.0.2.8:53".to_owned()]);
    assert_eq!(upstreams(&real.display().to_string()).0, both());
    let (followed, lines) = upstreams(&stub.display().to_string());
    assert_eq!(followed, both());
    assert!(matches!(&lines[..], [Record::Line { level: Level::Info, .. }]), "{lines:?}");
    let (named, _) = upstreams(&format!("{} dns.example:99", empty.display()));
    assert_eq!(named, Ok(vec!["192.0.2.9:99".to_owned(), "192.0.2.7:99".to_owned()]));
    let (none, _) = upstreams(&empty.display().to_string());
    assert_eq!(none.unwrap_err(), "Corefile:2:12: no valid upstream addresses found");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_prefix_that_needs_several_zones_stands_for_the_first() {
    let mut bench = Bench::new(".:53 {\n forward 10.0.0.0/23 192.0.2.1\n}");
    let warned = bench.log.try_iter().any(|record| {
        matches!(record, Record::Line { level: Level::Warning, origin: "forward", text }
            if text.starts_with("Unsupported CIDR notation: '10.0.0.0/23'"))
    });
    assert!(warned);
    let log = script(&mut bench, |_, question| replies(question));
    bench.ask("1.0.0.10.in-addr.arpa. PTR");
    bench.ask("1.1.0.10.in-addr.arpa. PTR");
    assert_eq!(asked(&log), [1]);
}

#[test]
fn blocks_that_agree_share_an_upstream_and_a_reload_keeps_it() {
    let corefile = "a:53 {\n forward . 192.0.2.1\n}\nb:53 {\n forward . 192.0.2.1\n}\n\
                    c:53 {\n forward . 192.0.2.1 {\n expire 1s\n }\n}";
    let mut bench = Bench::new(corefile);
    let upstream = |bench: &Bench, block: usize| {
        match &bench.worker.config().blocks[block].handlers[0] {
            crate::handlers::Handler::Forward(forward) => forward.asking.upstreams[0].clone(),
            _ => panic!("no forward"),
        }
    };
    let (a, b, c) = (upstream(&bench, 0), upstream(&bench, 1), upstream(&bench, 2));
    assert_eq!((a.id == b.id, a.id == c.id), (true, false));
    bench.reload(corefile).unwrap();
    assert_eq!(upstream(&bench, 0).id, a.id);
}

#[test]
fn names_of_upstreams_are_complete() {
    let options = crate::config::BuildOptions {
        lookup_host: |host, _| {
            assert_eq!(host, "dns.example.");
            Ok(vec!["192.0.2.9".parse().unwrap()])
        },
        ..Default::default()
    };
    for to in ["dns.example", "dns.example.", "dns.example:5353"] {
        Bench::with_options(&format!(".:53 {{\n forward . {to}\n}}"), &options).unwrap();
    }
}
