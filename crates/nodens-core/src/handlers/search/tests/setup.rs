use crate::cluster::{Api, Scope};
use crate::config::BuildOptions;
use crate::testing::Bench;

/// The directives in the chain of the first block, on a node or elsewhere.
fn chain(corefile: &str, ends_search_paths: bool) -> Vec<&'static str> {
    let options = BuildOptions { ends_search_paths, ..BuildOptions::default() };
    let bench = Bench::with_options(corefile, &options).unwrap();
    bench.worker.config().blocks[0].handlers.iter().map(|handler| handler.name()).collect()
}

#[test]
fn on_a_node_blocks_that_may_forward_a_clusters_zone_have_it() {
    let forward = "cluster.local {\n cache\n forward . 192.0.2.1\n}";
    assert_eq!(chain(forward, true), ["search", "cache", "forward"]);
    assert_eq!(chain(forward, false), ["cache", "forward"]);
    for other in [
        ". {\n forward . 192.0.2.1\n}",
        "in-addr.arpa ip6.arpa {\n forward . 192.0.2.1\n}",
        "10.in-addr.arpa {\n forward . 192.0.2.1\n}",
        "cluster.local {\n kubernetes\n forward . 192.0.2.1\n}",
        "cluster.local {\n whoami\n}",
        // Its names are those of services of other clusters, too.
        "ClusterSet.local {\n forward . 192.0.2.1\n}",
        "cluster.local clusterset.local {\n forward . 192.0.2.1\n}",
    ] {
        assert!(!chain(other, true).contains(&"search"), "{other}");
    }
    let own = "cluster.local {\n search {\n learn\n}\n forward . 192.0.2.1\n}";
    assert_eq!(chain(own, true), ["search", "forward"]);
}

#[test]
fn nobody_waits_for_the_names() {
    let bench = Bench::new("cluster.local {\n search {\n kubeconfig /x/config lab\n}\n whoami\n}");
    let [cluster] = &bench.worker.config().services.clusters[..] else { panic!() };
    assert!(cluster.optional);
    let source = cluster.feed.source();
    assert_eq!(source.scope, Scope::Names);
    let context = Some("lab".to_owned());
    assert_eq!(source.api, Api::Kubeconfig { path: "/x/config".into(), context });
}

#[test]
fn what_cannot_be_meant_is_refused_at_its_place() {
    for (directive, expected) in [
        ("search .", "2:1: the root and reverse zones have no search paths: expected zones"),
        ("search {\n learns\n}", "3:2: unknown property 'learns'"),
        ("search {\n learn now\n}", "3:"),
        ("search {\n except\n}", "3:"),
        ("search {\n except a..b\n}", "3:9: expected a name"),
        ("search {\n endpoint\n}", "3:"),
        ("search\n search", "3:2: this plugin can only be used once per Server Block"),
    ] {
        let corefile = format!("cluster.local {{\n{directive}\n}}");
        let error = Bench::try_new(&corefile).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{expected}")), "{error}");
    }
}
