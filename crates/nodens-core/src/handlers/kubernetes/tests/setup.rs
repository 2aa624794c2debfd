//! What may stand in the Corefile.

use super::*;
use crate::cluster::{Api, Scope, Source, Tls};
use std::time::Duration;

fn error(options: &str) -> String {
    let corefile = format!("cluster.local {{\n kubernetes {{\n  {options}\n }}\n}}");
    Bench::try_new(&corefile).map(drop).unwrap_err().to_string()
}

fn source(directive: &str) -> Source {
    let bench = Bench::new(&format!("cluster.local {{\n {directive}\n}}"));
    bench.worker.config().services.clusters[0].feed.source().clone()
}

#[test]
fn mistakes_are_named_where_they_are() {
    for (options, at, wrong) in [
        ("pods sometimes", "3:8", "expected disabled, verified or insecure"),
        ("pods", "3:3", "after 'pods': expected 1"),
        ("namespaces", "3:3", "after 'namespaces': expected 1 or more"),
        ("endpoint", "3:3", "after 'endpoint': expected 1 or more"),
        ("tls cert key", "3:3", "after 'tls': expected 3"),
        ("labels", "3:3", "after 'labels': expected 1 or more"),
        ("labels a in b", "3:10", "unable to parse label selector 'a in b': expected '('"),
        ("namespace_labels a>1", "3:20", "'>' is not supported"),
        ("ttl", "3:3", "a number from 0 to 3600"),
        ("ttl 3601", "3:7", "a number from 0 to 3600"),
        ("ttl -1", "3:7", "a number from 0 to 3600"),
        ("ttl five", "3:7", "a number from 0 to 3600"),
        ("noendpoints ixtlan", "3:15", "after 'noendpoints': expected 0"),
        ("endpoint_pod_names really", "3:22", "after 'endpoint_pod_names': expected 0"),
        ("zonal yes", "3:9", "after 'zonal': expected 0"),
        ("ignore nothing", "3:10", "expected empty_service"),
        ("kubeconfig", "3:3", "after 'kubeconfig': expected 1 to 2"),
        ("kubeconfig a b c", "3:18", "after 'kubeconfig': expected 1 to 2"),
        ("startup_timeout soon", "3:19", "a duration such as 30s"),
        ("startup_timeout", "3:3", "a duration such as 5s"),
        ("apiserver_qps fast", "3:17", "a number that is not below 0"),
        ("apiserver_qps -1", "3:17", "a number that is not below 0"),
        ("apiserver_burst 1.5", "3:19", "a number from 0"),
        ("apiserver_max_inflight -1", "3:26", "a number from 0"),
        ("multicluster set.local", "3:16", "not authoritative for the multicluster zone set.local."),
        ("fallthrough a..b", "3:15", "zone is not a valid"),
        ("upstream 192.0.2.1", "3:3", "upstream"),
        ("resyncperiod 5m", "3:3", "resyncperiod"),
        ("namespaces a\n  namespace_labels b", "4:3", "cannot both be set"),
        ("noendpoints\n  zonal", "4:3", "zonal requires the endpoint cache"),
    ] {
        let error = error(options);
        assert!(error.contains(at) && error.contains(wrong), "{options}: {error}");
    }
}

#[test]
fn a_zone_that_is_no_reverse_zone_is_needed_once() {
    let wrong = |corefile: &str| Bench::try_new(corefile).map(drop).unwrap_err().to_string();
    let error = wrong(".:53 {\n kubernetes 10.0.0.0/8 2001:db8::/32\n}");
    assert!(error.contains("2:2") && error.contains("non-reverse zone"), "{error}");
    let error = wrong("10.0.0.0/24 {\n kubernetes\n}");
    assert!(error.contains("non-reverse zone"), "{error}");
    let error = wrong(".:53 {\n kubernetes a.local\n kubernetes b.local\n}");
    assert!(error.contains("3:2") && error.contains("once"), "{error}");
    Bench::new("in-addr.arpa {\n kubernetes\n}");
}

#[test]
fn options_say_what_is_watched() {
    let stock = Source { endpoints: true, ..Source::default() };
    assert_eq!(source("kubernetes"), stock);
    assert_eq!(source("kubernetes {\n pods insecure\n ignore\n }"), stock);
    assert_eq!(source("kubernetes {\n noendpoints\n }"), Source::default());
    let all = source(
        "kubernetes cluster.local set.local {
            endpoint http://a:8080 http://b:8080
            tls c k a
            labels environment in (staging, qa),application=nginx
            namespace_labels istio=enabled
            pods verified
            endpoint_pod_names
            zonal
            multicluster set.local
            apiserver_qps 2.5
            apiserver_burst 0
            apiserver_max_inflight 7
            startup_timeout 1m30s
            ttl 0 ignored
        }",
    );
    let tls = Some(Tls { cert: "c".into(), key: "k".into(), ca: "a".into() });
    let expected = Source {
        scope: Scope::Whole,
        needed: false,
        api: Api::Endpoint { url: "http://a:8080".to_owned(), tls },
        labels: Some("environment in (staging, qa),application=nginx".to_owned()),
        namespace_labels: Some("istio=enabled".to_owned()),
        pods: true,
        endpoints: true,
        zones: true,
        pod_names: true,
        imports: true,
        milli_qps: Some(2500),
        burst: None,
        max_inflight: Some(7),
    };
    assert_eq!(all, expected);
    let file = source("kubernetes {\n endpoint http://a\n kubeconfig /x/config lab\n }");
    let context = Some("lab".to_owned());
    assert_eq!(file.api, Api::Kubeconfig { path: "/x/config".into(), context });
}

#[test]
fn starting_waits_as_long_as_is_said() {
    let timeout = |options: &str| {
        let bench = Bench::new(&format!("cluster.local {{\n kubernetes {{\n{options}\n}}\n}}"));
        bench.worker.config().services.clusters[0].startup_timeout
    };
    assert_eq!(timeout(""), Duration::from_secs(5));
    assert_eq!(timeout("startup_timeout 100ms"), Duration::from_millis(100));
}

#[test]
fn a_second_endpoint_is_worth_a_warning() {
    let bench = Bench::new("cluster.local {\n kubernetes {\n endpoint http://a http://b\n }\n}");
    let line = bench.log.try_iter().map(|record| format!("{record:?}")).collect::<String>();
    assert!(line.contains("several endpoints are deprecated"), "{line}");
}
