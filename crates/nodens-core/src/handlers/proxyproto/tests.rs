use crate::log::Record;
use crate::proxy::{ProxyPolicy, ProxySettings};
use crate::testing::Bench;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

fn settings(lines: &str) -> ProxySettings {
    let bench = Bench::new(&format!(". {{\n {lines}\n whoami\n}}"));
    bench.worker.config().blocks[0].settings.proxy.clone().unwrap()
}

#[test]
fn every_option_is_read_and_several_directives_are_one() {
    assert_eq!(settings("proxyproto"), ProxySettings::default());
    let all = settings(
        "proxyproto {\n allow 192.0.2.0/24 2001:db8::/32\n allow\n default REJECT\n \
         udp_session_tracking 28s 20000\n tlv_metadata\n }\n proxyproto {\n allow 10.0.0.0/8\n }",
    );
    let allow = ["192.0.2.0/24", "2001:db8::/32", "10.0.0.0/8"].map(|text| text.parse().unwrap());
    assert_eq!(
        all,
        ProxySettings {
            allow: allow.to_vec(),
            others: Some(ProxyPolicy::Reject),
            tracking: Duration::from_secs(28),
            sessions_max: Some(20_000),
            tlvs: true,
        }
    );
    assert!(settings("proxyproto {\n udp_session_tracking -1s 5\n }").tracking.is_zero());
    for (word, policy) in [
        ("use", ProxyPolicy::Use),
        ("ignore", ProxyPolicy::Ignore),
        ("reject", ProxyPolicy::Reject),
        ("Skip", ProxyPolicy::Skip),
    ] {
        assert_eq!(settings(&format!("proxyproto {{\n default {word}\n }}")).others, Some(policy));
    }
}

#[test]
fn what_is_wrong_is_refused_where_it_stands() {
    let cases = [
        ("proxyproto on", "2:13: Wrong argument count"),
        ("proxyproto {\n allow 192.0.2.1\n }", "3:8: expected a prefix such as 10.0.0.0/8"),
        ("proxyproto {\n allow 192.0.2.0/24 all\n }", "3:21: expected a prefix"),
        ("proxyproto {\n default\n }", "3:2: Wrong argument count after 'default': expected 1"),
        ("proxyproto {\n default use skip\n }", "3:14: Wrong argument count"),
        ("proxyproto {\n default accept\n }", "3:10: expected use, ignore, reject or skip"),
        ("proxyproto {\n udp_session_tracking\n }", "3:2: Wrong argument count"),
        ("proxyproto {\n udp_session_tracking soon\n }", "3:23: expected a duration such as 30s"),
        ("proxyproto {\n udp_session_tracking --1s\n }", "3:23: expected a duration such as 30s"),
        ("proxyproto {\n udp_session_tracking -+1s\n }", "3:23: expected a duration such as 30s"),
        ("proxyproto {\n udp_session_tracking -\n }", "3:23: expected a duration such as 30s"),
        ("proxyproto {\n udp_session_tracking 1s 0\n }", "3:26: expected a number from 1"),
        ("proxyproto {\n udp_session_tracking 1s many\n }", "3:26: expected a number from 1"),
        ("proxyproto {\n udp_session_tracking 1s 1 1\n }", "3:28: Wrong argument count"),
        ("proxyproto {\n tlv_metadata yes\n }", "3:15: Wrong argument count"),
        ("proxyproto {\n alow 10.0.0.0/8\n }", "3:2: unknown property 'alow', did you mean 'allow'?"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn a_server_goes_by_the_last_of_its_blocks() {
    let bench = Bench::new(
        "a.test {\n proxyproto {\n allow 192.0.2.0/24\n default skip\n }\n whoami\n}\n\
         b.test {\n proxyproto {\n allow 10.0.0.0/8\n }\n whoami\n}\n\
         c.test {\n whoami\n}\n\
         d.test:1053 {\n whoami\n}",
    );
    let servers = &bench.worker.config().servers;
    let rules = servers[0].proxy.as_ref().unwrap();
    let policy = |ip: &str| rules.policy(ip.parse::<IpAddr>().unwrap());
    assert_eq!(policy("10.1.2.3"), ProxyPolicy::Use);
    assert_eq!(policy("::ffff:10.1.2.3"), ProxyPolicy::Use);
    assert_eq!(policy("192.0.2.1"), ProxyPolicy::Ignore);
    assert!(servers[1].proxy.is_none());
}

#[test]
fn tlvs_are_metadata_of_the_queries_they_came_with() {
    let mut bench = Bench::new(
        ". {\n metadata\n proxyproto {\n tlv_metadata\n }\n log . \"<{/proxyproto/tlv}>\"\n whoami\n}",
    );
    let tlvs: Arc<[u8]> = Arc::from([0xea, 0, 1, 0x0f]);
    bench.worker.announce(Some(&tlvs));
    bench.ask("example.org A");
    bench.worker.announce(None);
    bench.ask("example.org A");
    let records = bench.log.try_iter();
    let lines: Vec<String> = records
        .filter_map(|record| match record {
            Record::Query(query) => Some(query.line()),
            _ => None,
        })
        .collect();
    assert_eq!(lines, ["<ea00010f>", "<->"]);
}
