//! Zones of other clusters.

use super::*;

/// Another cluster with the same network for Services, as kubeadm makes them all.
const OTHER: &str = "
    namespace default
    namespace kube-system
    namespace billing
    service default/kubernetes 10.96.0.1
    service kube-system/metrics 10.104.3.9
    service billing/ledger 10.96.7.7
    service billing/tax 10.96.7.8
";

const MISSING: [&str; 4] =
    ["no.billing.svc", "nothing.shop.svc", "www.example.com", "a.b.c.billing.svc"];
const THERE: [&str; 2] = ["ledger.billing.svc", "tax.billing.svc"];

/// Asks for what is missing and for what is there, for more than ten minutes; gives how often what
/// is there was denied.
fn denied(pair: &mut Pair) -> usize {
    let mut denied = 0;
    for _ in 0..129 {
        for name in MISSING {
            for qtype in ["A", "AAAA"] {
                assert_eq!(pair.rcode(&format!("{name}.cluster.local {qtype}")).0, NO);
            }
        }
        for name in THERE {
            let (rcode, _) = pair.rcode(&format!("{name}.cluster.local A"));
            denied += usize::from(rcode != YES);
        }
        pair.pass(Duration::from_secs(5));
    }
    denied
}

/// What a block for another cluster's zone and `stubDomains` come to: a zone that is forwarded to
/// servers of a cluster that the node does not watch.
#[test]
fn another_clusters_zone_is_not_judged_by_this_ones_names() {
    for cache in ["", "cache 30"] {
        let mut pair = Pair::on_a_node(cache, "");
        pair.publish_apart(CLUSTER, OTHER);
        assert_eq!(denied(&mut pair), 0);
        assert_eq!(pair.metric("nodens_search_denied_total"), 0.0);
        assert!(pair.metric("nodens_search_proofs_total{server=\"dns://:53\",result=\"refuted\"}") > 9.0);
    }
    // Who writes `search` has not said whose zone it is.
    let mut pair = Pair::new("", "", "");
    pair.publish_apart(CLUSTER, OTHER);
    assert_eq!(denied(&mut pair), 0);
}

#[test]
fn without_a_service_of_its_own_a_cluster_is_known_by_shapes_alone() {
    let mut pair = Pair::on_a_node("", "");
    let same = OTHER.replace("service kube-system/metrics 10.104.3.9", "");
    let ours = "namespace kube-system\nservice default/kubernetes 10.96.0.1
        service kube-system/kube-dns 10.96.0.10";
    let now = pair.node.now.unix_s;
    pair.node.publish(ours, now);
    pair.central.borrow_mut().publish(&format!("{same}\nservice kube-system/kube-dns 10.96.0.10"), now);
    assert_eq!(denied(&mut pair), 0);
    assert!(pair.metric("nodens_search_denied_total{server=\"dns://:53\",ground=\"shape\"}") > 0.0);
    assert_eq!(pair.metric("nodens_search_denied_total{server=\"dns://:53\",ground=\"namespace\"}"), 0.0);
}

#[test]
fn on_a_node_nothing_is_denied_before_the_zone_is_shown_to_be_the_clusters() {
    let mut pair = Pair::on_a_node("", "");
    assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
    assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 0));
    // No API server, no cluster that the zone could be.
    let mut pair = Pair::on_a_node("", "");
    pair.node.worker.config().services.clusters[0].feed.publish(Default::default());
    for _ in 0..3 {
        assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
    }
}

/// Behind the same address answers another cluster from now on, or a new one.
#[test]
fn a_zone_that_became_anothers_is_noticed_in_time() {
    let mut pair = Pair::on_a_node("", "");
    for name in MISSING {
        pair.rcode(&format!("{name}.cluster.local A"));
        assert_eq!(pair.rcode(&format!("{name}.cluster.local A")), (NO, 0));
    }
    let now = pair.node.now.unix_s;
    pair.central.borrow_mut().publish(OTHER, now);
    for second in 0..=300 {
        for name in MISSING {
            pair.rcode(&format!("{name}.cluster.local A"));
        }
        let (rcode, _) = pair.rcode("ledger.billing.svc.cluster.local A");
        assert!(rcode == YES || second < 30, "denied after {second} s");
        pair.pass(Duration::from_secs(1));
    }
}

#[test]
fn other_upstreams_have_to_show_whose_they_are() {
    let mut pair = Pair::on_a_node("", "");
    pair.rcode("www.example.com.cluster.local A");
    assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 0));
    pair.central.borrow_mut().publish(OTHER, 7);
    // The Corefile of a node has other addresses whenever the upstreams are others.
    pair.node.reload("cluster.local {\n search\n forward . 192.0.2.7\n}").unwrap();
    pair.rcode("no.billing.svc.cluster.local A");
    assert_eq!(pair.rcode("ledger.billing.svc.cluster.local A"), (YES, 1));
}

/// Servers that are of no cluster do not hear the names of this one's.
#[test]
fn servers_of_other_zones_are_not_asked_whose_they_are() {
    let mut pair = Pair::on_a_node("", "template IN ANY cluster.local {
            rcode NXDOMAIN
            authority \"cluster.local. 60 IN SOA ns1.cluster.local. admin.cluster.local. 1 2 3 4 60\"
        }");
    for _ in 0..3 {
        assert_eq!(pair.rcode("www.example.com.cluster.local A"), (NO, 1));
    }
    assert_eq!((pair.node.asked, pair.metric("nodens_search_proofs_total")), (3, 0.0));
}
