//! Switched off, and only counting.

use super::*;
use crate::config::SearchMode;

fn with(mode: SearchMode, corefile: &str, central: &str) -> Pair {
    let options = BuildOptions {
        ends_search_paths: true,
        search: mode,
        ..BuildOptions::default()
    };
    Pair::of(corefile, &options, central)
}

const WRITTEN: &str = "cluster.local {\n search\n forward . 192.0.2.1\n}";
const UNWRITTEN: &str = "cluster.local {\n forward . 192.0.2.1\n}";

#[test]
fn switched_off_it_is_not_there_written_or_not() {
    for corefile in [WRITTEN, UNWRITTEN] {
        let mut pair = with(SearchMode::Off, corefile, "");
        let config = pair.node.worker.config();
        assert!(config.blocks[0].handlers.iter().all(|handler| handler.name() != "search"));
        assert!(config.services.clusters.is_empty());
        for _ in 0..3 {
            assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
        }
    }
}

#[test]
fn a_dry_run_denies_nothing_and_says_what_would_have_been_wrong() {
    let central = "rewrite stop name exact legacy.com.cluster.local web.shop.svc.cluster.local answer auto";
    for corefile in [WRITTEN, UNWRITTEN] {
        let mut pair = with(SearchMode::DryRun, corefile, central);
        for _ in 0..3 {
            assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
        }
        let dry_run = "nodens_search_dry_run_total{server=\"dns://:53\",ground=\"shape\"}";
        assert_eq!((pair.metric(dry_run), pair.metric("nodens_search_surprises_total")), (2.0, 0.0));
        assert_eq!(pair.rcode("legacy.com.cluster.local A"), (YES, 1));
        assert_eq!((pair.metric(dry_run), pair.metric("nodens_search_surprises_total")), (3.0, 1.0));
        // From then on its neighbours would go on.
        assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
        assert_eq!(pair.metric(dry_run), 3.0);
        assert_eq!(pair.metric("nodens_search_denied_total"), 0.0);
    }
}

/// The node hears of a deletion, and the servers have not: that is no surprise.
#[test]
fn what_is_deleted_is_no_surprise() {
    let mut pair = with(SearchMode::DryRun, UNWRITTEN, "");
    pair.rcode("no.shop.svc.cluster.local A");
    assert_eq!(pair.rcode("web.shop.svc.cluster.local A").0, YES);
    let less = CLUSTER.replace("service shop/web 10.0.0.1 http:tcp:80", "");
    pair.publish_apart(&less, &format!("{WITNESSES}{CLUSTER}"));
    assert_eq!(pair.rcode("web.shop.svc.cluster.local A").0, YES);
    assert_eq!(pair.metric("nodens_search_elsewhere_total"), 1.0);
    assert_eq!(pair.metric("nodens_search_surprises_total"), 0.0);
}
