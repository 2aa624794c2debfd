//! Reverse zones, multicluster zones, name servers.

use super::*;
use crate::config::{BuildOptions, build};
use nodens_corefile::{NoSources, parse};
use std::collections::HashMap;
use std::sync::Arc;

const REVERSE: &str = "
    namespace shop
    namespace tools
    service shop/web 10.0.0.1,1234:abcd::1 http:tcp:80
    slice shop/web/1 http:tcp:80 -- 10.1.0.1=ep1a 10.1.0.2 10.0.0.1
    slice shop/web/2 http:tcp:80 -- 1234:abcd::2=ep1b
    headless shop/db
    slice shop/db/1 :tcp:1 -- 10.1.0.1=ep1a
    service tools/x 10.0.0.7 http:tcp:80
    slice tools/x/1 http:tcp:80 -- 10.1.0.7
    service gone/x 10.0.0.8 http:tcp:80";

#[test]
fn addresses_have_names() {
    let mut bench = unpublished("");
    bench.publish(REVERSE, SERIAL);
    let web = shown(&bench.ask("1.0.0.10.in-addr.arpa PTR"));
    assert_eq!(web, "NOERROR 1.0.0.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local. |  | ");
    let nibbles = |last: u8| format!("{last}{}.d.c.b.a.4.3.2.1.ip6.arpa PTR", ".0".repeat(23));
    assert_eq!(answers(&mut bench, &nibbles(1)), ["web.shop.svc.cluster.local."]);
    assert_eq!(answers(&mut bench, &nibbles(2)), ["ep1b.web.shop.svc.cluster.local."]);
    assert_eq!(
        answers(&mut bench, "1.0.1.10.in-addr.arpa PTR"),
        ["ep1a.web.shop.svc.cluster.local.", "ep1a.db.shop.svc.cluster.local."]
    );
    let unnamed = answers(&mut bench, "2.0.1.10.in-addr.arpa PTR");
    assert_eq!(unnamed, ["10-1-0-2.web.shop.svc.cluster.local."]);
    let soa = "ns.dns.in-addr.arpa. hostmaster.in-addr.arpa. 1499347823 7200 1800 86400 5";
    for question in
        ["9.0.0.10.in-addr.arpa PTR", "8.0.0.10.in-addr.arpa PTR", "web.shop.svc.in-addr.arpa A"]
    {
        let denial = format!("NXDOMAIN  | in-addr.arpa. 5 SOA {soa} | ");
        assert_eq!(shown(&bench.ask(question)), denial, "{question}");
    }
    let apex = shown(&bench.ask("in-addr.arpa PTR"));
    assert_eq!(apex, format!("NOERROR  | in-addr.arpa. 5 SOA {soa} | "));
}

#[test]
fn hidden_namespaces_have_no_reverse_names() {
    let mut bench = unpublished("namespaces shop");
    bench.publish(REVERSE, SERIAL);
    for question in ["7.0.0.10.in-addr.arpa PTR", "7.0.1.10.in-addr.arpa PTR"] {
        assert_eq!(bench.ask(question).flags.rcode(), nodens_wire::Rcode::NXDOMAIN);
    }
}

const IMPORTS: &str = "
    namespace shop
    service shop/web 10.0.0.1 http:tcp:80
    import shop/web 10.9.0.1,fd09::1 http:tcp:80
    import shop/nothing 10.9.0.2
    import shop/empty 10.9.0.3 http:tcp:80
    import shop/db headless
    importslice shop/web/1 cluster=east http:tcp:80 -- 172.0.0.1=ep1a
    importslice shop/empty/1 cluster=east http:tcp:80
    importslice shop/db/1 cluster=east http:tcp:80 -- 172.0.0.2 172.0.0.4=dup 5678:abcd::1
    importslice shop/db/2 cluster=west http:tcp:80 -- 172.0.0.5=dup";

#[test]
fn multicluster_zones_show_imports() {
    let corefile = ".:53 {
        kubernetes cluster.local clusterset.local {
            multicluster clusterset.local
        }
    }";
    let mut bench = Bench::new(corefile);
    bench.publish(IMPORTS, SERIAL);
    assert_eq!(answers(&mut bench, "web.shop.svc.cluster.local A"), ["10.0.0.1"]);
    assert_eq!(answers(&mut bench, "web.shop.svc.clusterset.local A"), ["10.9.0.1"]);
    assert_eq!(answers(&mut bench, "web.shop.svc.clusterset.local AAAA"), ["fd09::1"]);
    assert_eq!(
        answers(&mut bench, "db.shop.svc.clusterset.local A"),
        ["172.0.0.2", "172.0.0.4", "172.0.0.5"]
    );
    assert_eq!(
        answers(&mut bench, "_http._tcp.db.shop.svc.clusterset.local SRV"),
        ["172-0-0-2.east", "dup.east", "5678-abcd--1.east", "dup.west"]
            .map(|t| format!("0 25 80 {t}.db.shop.svc.clusterset.local."))
    );
    for (name, address) in [
        ("172-0-0-2.east.db", "172.0.0.2"),
        ("dup.east.db", "172.0.0.4"),
        ("dup.WEST.db", "172.0.0.5"),
        ("ep1a.east.web", "172.0.0.1"),
    ] {
        let question = format!("{name}.shop.svc.clusterset.local A");
        assert_eq!(answers(&mut bench, &question), [address], "{question}");
    }
    for name in ["172-0-0-2.db", "172-0-0-2.west.db", "dup.north.db", "nothing", "db.x"] {
        let denial = bench.ask(&format!("{name}.shop.svc.clusterset.local A"));
        assert_eq!(denial.flags.rcode(), nodens_wire::Rcode::NXDOMAIN, "{name}");
    }
    let version = answers(&mut bench, "dns-version.clusterset.local TXT");
    assert_eq!(version, ["\"1.1.0\""]);
}

#[test]
fn imports_without_endpoints_can_be_ignored() {
    let mut bench = Bench::new(
        ".:53 {\n kubernetes set.local {\n multicluster set.local\n ignore empty_service\n }\n}",
    );
    bench.publish(IMPORTS, SERIAL);
    let denial = bench.ask("empty.shop.svc.set.local A");
    assert_eq!(denial.flags.rcode(), nodens_wire::Rcode::NXDOMAIN);
    assert_eq!(answers(&mut bench, "web.shop.svc.set.local A"), ["10.9.0.1"]);
}

/// A server on a host with these addresses.
fn on_host(corefile: &str, addresses: &[&str], objects: &str) -> Bench {
    let mut bench = Bench::new(corefile);
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    let interfaces = HashMap::from([("eth0".to_owned(), addresses)]);
    let tree = parse("Corefile", corefile, &NoSources).unwrap();
    let options = BuildOptions { interfaces, ..BuildOptions::default() };
    let config = build(&tree, &options, &bench.shared).unwrap();
    bench.worker.set_config(Arc::new(config));
    bench.publish(objects, SERIAL);
    bench
}

const PLAIN: &str = ".:53 {\n kubernetes cluster.local\n}";
const DNS: &str = "
    namespace kube-system
    service kube-system/dns 10.0.0.10,fd00::a dns:udp:53
    slice kube-system/dns/1 dns:udp:53 -- 10.1.0.53 10.1.0.54
    slice kube-system/dns/2 dns:udp:53 -- fd01::53
    headless kube-system/bare
    slice kube-system/bare/1 dns:udp:53 -- 10.1.0.53 10.1.0.54";

#[test]
fn the_servers_of_a_zone_are_the_services_in_front_of_this_one() {
    let mut bench = on_host(PLAIN, &["127.0.0.1", "10.1.0.53", "fd01::53"], DNS);
    let message = bench.ask("cluster.local NS");
    let names: Vec<_> = message.answer.iter().map(text).collect();
    let ns = |name: &str| format!("cluster.local. 5 NS {name}.kube-system.svc.cluster.local.");
    assert_eq!(names, ["dns", "10-1-0-53.bare", "10-1-0-54.bare"].map(ns));
    let glue: Vec<_> = message.additional.iter().map(text).collect();
    let expected = [
        ("dns", "A 10.0.0.10"),
        ("dns", "AAAA fd00::a"),
        ("10-1-0-53.bare", "A 10.1.0.53"),
        ("10-1-0-54.bare", "A 10.1.0.54"),
    ];
    assert_eq!(glue, expected.map(|(n, a)| format!("{n}.kube-system.svc.cluster.local. 5 {a}")));
    let owner = bench.ask("ns.dns.cluster.local A").answer.iter().map(text).collect::<Vec<_>>();
    assert_eq!(
        owner,
        ["10.0.0.10", "10.1.0.53", "10.1.0.54"].map(|a| format!("ns.dns.cluster.local. 5 A {a}"))
    );
    assert_eq!(answers(&mut bench, "ns.dns.cluster.local AAAA"), ["fd00::a"]);
    is_no_data(&mut bench, &["ns.dns.cluster.local TXT", "ns.dns.cluster.local SRV"]);
}

#[test]
fn without_a_service_a_server_names_itself() {
    let mut bench = on_host(PLAIN, &["127.0.0.1", "192.0.2.7", "::1"], DNS);
    let message = shown(&bench.ask("cluster.local NS"));
    assert_eq!(
        message,
        "NOERROR cluster.local. 5 NS ns.dns.cluster.local. |  | ns.dns.cluster.local. 5 A 192.0.2.7"
    );
    let bound = "  .:53 {\n bind 192.0.2.8 127.0.0.9\n kubernetes cluster.local\n}";
    let mut bench = on_host(bound, &["192.0.2.7"], DNS);
    assert_eq!(answers(&mut bench, "ns.dns.cluster.local A"), ["192.0.2.8"]);
    let mut bench = on_host(PLAIN, &[], DNS);
    is_no_data(&mut bench, &["cluster.local NS", "ns.dns.cluster.local A"]);
}

#[test]
fn a_server_among_thousands_of_endpoints_takes_no_time_that_grows_with_their_square() {
    let (sender, answer) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        let addresses = (0..30_000).map(|n| format!(" 10.9.{}.{}", n / 250, n % 250));
        let addresses: String = addresses.collect();
        let objects = format!(
            "namespace tools\nheadless tools/kubelet :tcp:10250\n\
             slice tools/kubelet/1 :tcp:10250 --{addresses}"
        );
        let mut bench = on_host(PLAIN, &["10.9.0.0"], &objects);
        _ = sender.send(bench.ask("cluster.local NS").answer);
    });
    // It took longer.
    let answer = answer.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    assert!(!answer.is_empty());
    asking.join().unwrap();
}
