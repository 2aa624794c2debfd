//! Zones that others have a part of.

use super::*;

/// `kubernetai`, or `fallthrough` to another cluster's servers: one zone with the names of two.
#[test]
fn a_zone_with_the_names_of_two_clusters_is_found_out_in_time() {
    let theirs = format!("{WITNESSES}{CLUSTER}
        namespace billing
        service billing/ledger 10.96.7.7
        service shop/wholesale 10.96.7.9");
    let there = ["ledger.billing.svc", "wholesale.shop.svc"];
    let mut pair = Pair::on_a_node("cache 30", "");
    pair.publish_apart(CLUSTER, &theirs);
    let mut last = 0;
    for second in 0..300 {
        // What is asked most of all is missing.
        for name in ["no.billing.svc", "ledgr.billing.svc", "no.wholesale.shop.svc", "x.no.shop.svc"] {
            for qtype in ["A", "AAAA"] {
                pair.rcode(&format!("{name}.cluster.local {qtype}"));
            }
        }
        for name in there {
            if pair.rcode(&format!("{name}.cluster.local A")).0 != YES {
                last = second;
            }
        }
        pair.pass(Duration::from_secs(1));
    }
    assert!(last <= 30, "denied after {last} s");
    assert!(pair.metric("nodens_search_surprises_total") >= 1.0);
}

/// A client that asks for AAAA first, as Envoy does, where the servers have the name from elsewhere
/// and for one type.
#[test]
fn a_type_that_does_not_exist_denies_no_other() {
    let zone = "office.cluster.local";
    let hosts = "hosts office.cluster.local {\n 192.0.2.9 printer.office.cluster.local\n fallthrough\n}";
    let template = "template IN A office.cluster.local {
            match ^printer[.]office
            answer \"{{ .Name }} 60 IN A 192.0.2.9\"
            fallthrough
        }";
    for (central, search) in [(template, ""), (template, "learn"), (hosts, "")] {
        let mut pair = Pair::new(search, "", central);
        for second in 0..120 {
            for qtype in ["AAAA", "HTTPS", "TXT"] {
                pair.rcode(&format!("printer.{zone} {qtype}"));
            }
            assert_eq!(pair.rcode(&format!("printer.{zone} A")).0, YES, "after {second} s: {central}");
            pair.pass(Duration::from_secs(1));
        }
    }
}

#[test]
fn a_name_from_elsewhere_is_denied_for_half_a_minute_at_most() {
    let central = "template IN A office.cluster.local {
            match ^printer[.]office
            answer \"{{ .Name }} 60 IN A 192.0.2.9\"
            fallthrough
        }";
    let mut pair = Pair::on_a_node("", central);
    for second in 0..600 {
        // Its neighbours are asked for all the time.
        for name in ["scanner", "copier", "plotter"] {
            assert_eq!(pair.rcode(&format!("{name}.office.cluster.local A")).0, NO);
        }
        if second % 5 == 0 {
            let (rcode, _) = pair.rcode("printer.office.cluster.local A");
            assert!(rcode == YES || second < 30, "denied after {second} s");
        }
        pair.pass(Duration::from_secs(1));
    }
    assert_eq!(pair.metric("nodens_search_surprises_total"), 1.0);
}

/// A zone of its own below the cluster's, such as `file` has.
#[test]
fn the_authority_of_another_zone_denies_nothing() {
    let central = "template IN ANY office.cluster.local {
            rcode NXDOMAIN
            authority \"office.cluster.local. 60 IN SOA ns.dns.office.cluster.local. hostmaster.office.cluster.local. 1 2 3 4 60\"
        }";
    let mut pair = Pair::on_a_node("", central);
    pair.rcode("www.example.com.cluster.local A");
    for _ in 0..3 {
        assert_eq!(pair.rcode("scanner.office.cluster.local A"), (NO, 1));
    }
}
