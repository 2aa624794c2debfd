//! `@kubernetes`: each pod has a list of its own.

use super::{bench_of, owners};
use crate::log::{Level, Record};
use crate::testing::Bench;
use nodens_wire::{Message, Rcode};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

const CLUSTER: &str = "
namespace shop
namespace other
service shop/web 10.0.0.1 http:tcp:80
service other/web 10.0.0.2 http:tcp:80
service other/db 10.0.0.3 sql:tcp:3306
pod shop/usual 192.0.2.53,2001:db8::53
pod shop/more 192.0.2.54 search:b.test,svc.cluster.local
pod shop/own 192.0.2.55 policy:None search:b.test,shop.svc.cluster.local
pod shop/default 192.0.2.56 policy:Default search:b.test
pod shop/dots 192.0.2.57 ndots:1
pod shop/host 192.0.2.58 policy:Default
pod other/host 192.0.2.58
pod shop/twin-0 192.0.2.59
pod shop/twin-1 192.0.2.59
pod other/twin 192.0.2.60
pod shop/twin-2 192.0.2.60
pod shop/nothing 192.0.2.61 policy:None
";

/// A server for the cluster, whose nodes have the search domain `a.test`.
fn bench(zones: &str) -> (Bench, Rc<RefCell<Vec<String>>>) {
    let corefile = format!(
        ".:53 {{
            autopath {zones} @kubernetes {{
                node_search a.test
            }}
            kubernetes cluster.local {{
                pods verified
            }}
            forward . 192.0.2.53
        }}"
    );
    let (mut bench, seen) = bench_of("pods", "", &corefile);
    bench.publish(CLUSTER, 1);
    (bench, seen)
}

fn ask_from(bench: &mut Bench, client: &str, question: &str) -> Message {
    bench.client.peer.set_ip(client.parse::<IpAddr>().unwrap());
    bench.ask(question)
}

/// The name that the answer's address belongs to; NXDOMAIN if there is none.
fn found(bench: &mut Bench, client: &str, name: &str) -> String {
    let answer = ask_from(bench, client, &format!("{name} A"));
    match answer.answer.last() {
        Some(record) => record.owner.to_folded().to_string(),
        None => answer.flags.rcode().to_string(),
    }
}

#[test]
fn the_cluster_then_the_node_then_the_name_alone() {
    let (mut bench, seen) = bench("");
    let mut found = |name: &str| found(&mut bench, "192.0.2.53", name);
    assert_eq!(found("web.shop.svc.cluster.local."), "web.shop.svc.cluster.local.");
    assert_eq!(found("db.other.shop.svc.cluster.local."), "db.other.svc.cluster.local.");
    assert_eq!(found("db.other.svc.shop.svc.cluster.local."), "db.other.svc.cluster.local.");
    assert_eq!(*seen.borrow(), [""; 0]);
    assert_eq!(found("c.Shop.svc.Cluster.local."), "c.a.test.");
    assert_eq!(found("x.org.shop.svc.cluster.local."), "x.org.");
    assert_eq!(*seen.borrow(), ["c.a.test.", "x.org.a.test.", "x.org."]);
    assert_eq!(found("host.shop.svc.cluster.local."), "NXDOMAIN");
    let answer = ask_from(&mut bench, "2001:db8::53", "db.other.shop.svc.cluster.local. AAAA");
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::NOERROR, 0));
    let answer = ask_from(&mut bench, "::ffff:192.0.2.53", "x.org.shop.svc.cluster.local. A");
    let alias = "x.org.shop.svc.cluster.local. 30 CNAME";
    assert_eq!(owners(&answer), [alias, "x.org. 30 A"]);
}

#[test]
fn what_a_pod_adds_comes_behind_the_node() {
    let (mut bench, seen) = bench("");
    assert_eq!(found(&mut bench, "192.0.2.54", "host.shop.svc.cluster.local."), "host.b.test.");
    // `svc.cluster.local` stands in the list already.
    assert_eq!(*seen.borrow(), ["host.a.test.", "host.b.test."]);
}

#[test]
fn a_list_of_its_own_is_walked_alone() {
    let (mut bench, seen) = bench("");
    assert_eq!(found(&mut bench, "192.0.2.55", "web.b.test."), "web.shop.svc.cluster.local.");
    assert_eq!(*seen.borrow(), ["web.b.test."]);
    // One dot is enough for this pod.
    assert_eq!(found(&mut bench, "192.0.2.55", "x.org.b.test."), "NXDOMAIN");
    // The second of its domains begins no walk, though it is the first of other pods.
    let name = "db.other.shop.svc.cluster.local.";
    assert_eq!(found(&mut bench, "192.0.2.55", name), "NXDOMAIN");
}

#[test]
fn dots_enough_are_no_walk() {
    let (mut bench, _) = bench("");
    let name = "db.other.shop.svc.cluster.local.";
    assert_eq!(found(&mut bench, "192.0.2.57", name), "NXDOMAIN");
    let name = "1.2.3.4.x.org.shop.svc.cluster.local.";
    assert_eq!(found(&mut bench, "192.0.2.53", name), "NXDOMAIN");
}

#[test]
fn clients_without_a_list_that_is_known_are_left_alone() {
    let (mut bench, seen) = bench("");
    let name = "db.other.shop.svc.cluster.local.";
    for client in ["192.0.2.1", "192.0.2.56", "192.0.2.58", "192.0.2.60", "192.0.2.61"] {
        assert_eq!(found(&mut bench, client, name), "NXDOMAIN", "{client}");
    }
    assert_eq!(found(&mut bench, "192.0.2.56", "c.a.test."), "c.a.test.");
    assert_eq!(found(&mut bench, "192.0.2.53", "db.other.other.svc.cluster.local."), "NXDOMAIN");
    assert_eq!(found(&mut bench, "192.0.2.59", name), "db.other.svc.cluster.local.");
    assert_eq!(*seen.borrow(), ["c.a.test."]);
}

#[test]
fn pods_are_those_of_the_newest_snapshot() {
    let (mut bench, _) = bench("");
    let name = "db.other.shop.svc.cluster.local.";
    assert_eq!(found(&mut bench, "192.0.2.53", name), "db.other.svc.cluster.local.");
    bench.publish(&CLUSTER.replace("pod shop/usual", "pod other/usual"), 2);
    assert_eq!(found(&mut bench, "192.0.2.53", name), "NXDOMAIN");
    let name = "db.other.other.svc.cluster.local.";
    assert_eq!(found(&mut bench, "192.0.2.53", name), "db.other.svc.cluster.local.");
}

#[test]
fn zones_limit_which_questions_are_walked() {
    let (mut bench, _) = bench("b.test");
    let name = "db.other.shop.svc.cluster.local.";
    assert_eq!(found(&mut bench, "192.0.2.53", name), "NXDOMAIN");
    assert_eq!(found(&mut bench, "192.0.2.55", "web.b.test."), "web.shop.svc.cluster.local.");
}

/// The warnings of a Corefile.
fn warnings(corefile: &str) -> Vec<String> {
    let records = Bench::new(corefile).log.try_iter().collect::<Vec<_>>();
    let warning = |record| match record {
        Record::Line { level: Level::Warning, text, .. } => Some(text),
        _ => None,
    };
    records.into_iter().filter_map(warning).collect()
}

#[test]
fn a_warning_says_when_nothing_can_be_walked() {
    let warned = warnings(". {\n autopath @kubernetes\n whoami\n}");
    assert_eq!(warned, ["@kubernetes has no effect: the server block has no kubernetes"]);
    let warned = warnings(". {\n autopath @kubernetes\n kubernetes a.test\n}");
    assert_eq!(warned, ["autopath @kubernetes has no effect without `pods verified`"]);
    let text = ". {\n autopath @kubernetes\n kubernetes a.test {\n pods verified\n }\n}";
    assert_eq!(warnings(text), [""; 0]);
}

/// `@node`: the names are another server's, and so are most of the pods.
#[test]
fn on_a_node_its_own_pods_are_walked_for() {
    let corefile = "cluster.local {
            autopath @node {
                node_search a.test
                endpoint http://192.0.2.1
            }
            forward . 192.0.2.53
        }
        . {
            forward . 192.0.2.53
        }";
    let (mut bench, seen) = bench_of("node", "", corefile);
    let [cluster] = &bench.worker.config().services.clusters[..] else { panic!() };
    assert!(cluster.optional);
    assert_eq!(cluster.feed.source().scope, crate::cluster::Scope::PodsOf("localhost".into()));
    let pods = CLUSTER.lines().filter(|line| line.starts_with("pod "));
    bench.publish(&pods.collect::<Vec<_>>().join("\n"), 1);
    assert_eq!(found(&mut bench, "192.0.2.53", "x.org.shop.svc.cluster.local."), "x.org.");
    let walked = [
        "x.org.shop.svc.cluster.local.",
        "x.org.svc.cluster.local.",
        "x.org.cluster.local.",
        "x.org.a.test.",
        "x.org.",
    ];
    assert_eq!(*seen.borrow(), walked);
    assert_eq!(found(&mut bench, "192.0.2.54", "c.shop.svc.cluster.local."), "c.a.test.");
    assert_eq!(found(&mut bench, "192.0.2.55", "host.b.test."), "host.b.test.");
    // A pod of another node, and one that shares its address.
    for client in ["192.0.2.99", "192.0.2.60", "192.0.2.56"] {
        seen.borrow_mut().clear();
        assert_eq!(found(&mut bench, client, "x.org.shop.svc.cluster.local."), "NXDOMAIN");
        assert_eq!(*seen.borrow(), walked[..1]);
    }
}
