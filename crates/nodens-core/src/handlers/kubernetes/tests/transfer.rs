//! Who has the zone by transfer answers as this server does.

use super::{CLUSTER, SERIAL, rdata, text};
use crate::job::Transport;
use crate::testing::{Bench, cluster, request};
use nodens_wire::{Message, Record, Type};
use std::collections::{BTreeMap, BTreeSet};

const IMPORTS: &str = "
    namespace shop
    import shop/web 10.2.0.1 http:tcp:80
    import shop/portless 10.2.0.2
    import shop/db headless
    importslice shop/db/1 cluster=east sql:tcp:3306 -- 10.1.0.1 10.1.0.2=db-1
    importslice shop/db/2 cluster=west sql:tcp:3306 -- 10.9.0.1
";

fn bench(options: &str, objects: &str) -> Bench {
    let zones = "cluster.local clusterset.local in-addr.arpa";
    let corefile = format!(
        ".:53 {{\n bind 192.0.2.1 192.0.2.2\n transfer {{\n  to *\n }}\n \
         kubernetes {zones} {{\n  multicluster clusterset.local\n{options}\n }}\n}}"
    );
    let mut bench = Bench::new(&corefile);
    bench.publish(objects, SERIAL);
    bench.client.transport = Transport::Tcp;
    bench
}

/// All records of the zone.
fn transfer(bench: &mut Bench, zone: &str) -> Vec<Record> {
    let mut out = Vec::new();
    let request = request(&format!("{zone} AXFR +norec"));
    bench.worker.receive(bench.now, bench.client, &request, &mut out);
    let mut records = Message::parse(&out).unwrap().answer;
    if let Some(mut stream) = bench.worker.take_stream() {
        while !stream.is_done() {
            stream.next_message(bench.now, &mut out).unwrap();
            records.extend(Message::parse(&out).unwrap().answer);
        }
    }
    records
}

/// Checks that each name answers with what was transferred; gives the records in order.
fn agrees(bench: &mut Bench, zone: &str) -> Vec<String> {
    let records = transfer(bench, zone);
    let (Some(first), Some(last)) = (records.first(), records.last()) else { panic!("nothing") };
    assert_eq!((first, first.rtype), (last, Type::SOA));
    let mut sets: BTreeMap<(String, Type), BTreeSet<String>> = BTreeMap::new();
    for record in &records[1..] {
        let set = sets.entry((record.owner.to_string(), record.rtype)).or_default();
        assert!(set.insert(text(record)), "{} came twice", text(record));
    }
    for ((owner, rtype), records) in &sets {
        let answer = bench.ask(&format!("{owner} {rtype}")).answer;
        // An alias is answered with what it leads to as well.
        let answer = answer.iter().filter(|record| record.rtype == *rtype).map(text).collect();
        assert_eq!(*records, answer, "{owner} {rtype}");
    }
    let mut all: Vec<String> = sets.into_values().flatten().collect();
    all.sort();
    all
}

#[test]
fn a_zone_holds_what_its_names_are_answered_with() {
    let mut bench = bench("", CLUSTER);
    let records = agrees(&mut bench, "cluster.local.");
    for record in [
        "cluster.local. 5 NS ns.dns.cluster.local.",
        "ns.dns.cluster.local. 5 A 192.0.2.1",
        "ns.dns.cluster.local. 5 A 192.0.2.2",
        "dns-version.cluster.local. 28800 TXT \"1.1.0\"",
        "web.shop.svc.cluster.local. 5 A 10.0.0.1",
        "_http._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local.",
        "web.shop.svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local.",
        "both.shop.svc.cluster.local. 5 A 10.0.0.3",
        "both.shop.svc.cluster.local. 5 AAAA 10::3",
        "out.shop.svc.cluster.local. 5 CNAME www.example.test.",
        "heads.shop.svc.cluster.local. 5 A 172.0.0.2",
        "172-0-0-3.heads.shop.svc.cluster.local. 5 A 172.0.0.3",
        "twice.heads.shop.svc.cluster.local. 5 A 172.0.0.4",
        "5678-abcd--0.heads.shop.svc.cluster.local. 5 AAAA 5678:abcd::",
        "_http._tcp.heads.shop.svc.cluster.local. 5 SRV 0 16 80 \
         172-0-0-2.heads.shop.svc.cluster.local.",
        "bare.shop.svc.cluster.local. 5 A 172.0.0.20",
        "web.tools.svc.cluster.local. 5 A 10.0.1.1",
    ] {
        assert!(records.iter().any(|known| known == record), "{record} of {records:#?}");
    }
    // A service whose namespace there is not, and one without endpoints.
    assert!(!records.iter().any(|record| record.contains("nowhere") || record.contains("asleep")));
}

#[test]
fn options_of_the_directive_hold_for_transfers_too() {
    let mut fewer = bench("  namespaces shop\n  ignore empty_service\n  ttl 30", CLUSTER);
    let records = agrees(&mut fewer, "cluster.local.");
    let has = |name: &str| records.iter().any(|record| record.contains(name));
    assert!(has("web.shop.svc.cluster.local. 30 A 10.0.0.1"));
    assert!(!has("tools") && !has("empty.shop") && !has("portless.shop"));
    let named = "namespace shop\n headless shop/db\n \
        slice shop/db/1 sql:tcp:3306 -- 10.1.0.1~db-abc 10.1.0.2=own~db-def";
    let mut bench = bench("  endpoint_pod_names", named);
    let records = agrees(&mut bench, "cluster.local.");
    assert!(records.contains(&"db-abc.db.shop.svc.cluster.local. 5 A 10.1.0.1".to_owned()));
    assert!(records.contains(&"own.db.shop.svc.cluster.local. 5 A 10.1.0.2".to_owned()));
}

#[test]
fn service_imports_have_a_zone_of_their_own() {
    let mut bench = bench("", &format!("{CLUSTER}{IMPORTS}"));
    let records = agrees(&mut bench, "clusterset.local.");
    for record in [
        "web.shop.svc.clusterset.local. 5 A 10.2.0.1",
        "10-1-0-1.east.db.shop.svc.clusterset.local. 5 A 10.1.0.1",
        "db-1.east.db.shop.svc.clusterset.local. 5 A 10.1.0.2",
        "_sql._tcp.db.shop.svc.clusterset.local. 5 SRV 0 33 3306 \
         10-9-0-1.west.db.shop.svc.clusterset.local.",
    ] {
        assert!(records.iter().any(|known| known == record), "{record} of {records:#?}");
    }
    assert!(!records.iter().any(|record| record.contains("heads") || record.contains("portless")));
    let records = agrees(&mut bench, "cluster.local.");
    assert!(!records.iter().any(|record| record.contains("db.shop")));
}

#[test]
fn ports_and_endpoints_that_are_alike_are_told_once() {
    let objects = "
        namespace kube-system
        service kube-system/kube-dns 10.0.0.10 dns:udp:53 dns-tcp:tcp:53 metrics:tcp:9153
        headless kube-system/peers
        slice kube-system/peers/1 dns:udp:53 dns-tcp:tcp:53 -- 10.1.0.1 10.1.0.2
        slice kube-system/peers/2 dns:udp:53 dns-tcp:tcp:53 -- 10.1.0.2 10.1.0.3
        headless kube-system/set
        slice kube-system/set/4 sql:tcp:3306 -- 10.1.0.4=set-0 10.1.0.5=set-1
        slice kube-system/set/6 sql:tcp:3306 -- fd00::4=set-0 fd00::5=set-1
    ";
    let mut bench = bench("", objects);
    let records = agrees(&mut bench, "cluster.local.");
    let of = |text: &str| records.iter().filter(|record| record.starts_with(text)).count();
    assert_eq!(of("kube-dns.kube-system.svc.cluster.local. 5 SRV"), 2);
    assert_eq!(of("peers.kube-system.svc.cluster.local. 5 A "), 3);
    assert_eq!(of("peers.kube-system.svc.cluster.local. 5 SRV"), 3);
    assert_eq!(of("_sql._tcp.set.kube-system.svc.cluster.local. 5 SRV"), 2);
    assert_eq!(of("set-0.set.kube-system.svc.cluster.local. 5 "), 2);
}

#[test]
fn this_server_is_named_by_its_service() {
    let objects = "
        namespace kube-system
        service kube-system/kube-dns 10.0.0.10 dns:udp:53
        slice kube-system/kube-dns/1 dns:udp:53 -- 192.0.2.1
    ";
    let mut named = bench("", objects);
    let records = agrees(&mut named, "cluster.local.");
    let ns = "cluster.local. 5 NS kube-dns.kube-system.svc.cluster.local.".to_owned();
    assert!(records.contains(&ns), "{records:#?}");
    assert!(records.contains(&"ns.dns.cluster.local. 5 A 10.0.0.10".to_owned()));
    // Where the zone does not show the service, its address comes along.
    let mut hidden = bench("  namespaces shop", objects);
    let shown = transfer(&mut hidden, "cluster.local.");
    let glue = "kube-dns.kube-system.svc.cluster.local. 5 A 10.0.0.10";
    assert_eq!(shown.iter().filter(|record| text(record) == glue).count(), 1);
}

#[test]
fn many_endpoints_come_in_many_messages_of_one_state() {
    let mut objects = "namespace shop\n headless shop/db\n".to_owned();
    for slice in 0..30 {
        objects.push_str(&format!("slice shop/db/{slice} sql:tcp:3306 --"));
        (0..100).for_each(|n| objects.push_str(&format!(" 10.1.{slice}.{n}")));
        objects.push('\n');
    }
    let mut bench = bench("", &objects);
    let mut out = Vec::new();
    let request = request("cluster.local. AXFR");
    bench.worker.receive(bench.now, bench.client, &request, &mut out);
    let mut records = Message::parse(&out).unwrap().answer;
    let mut stream = bench.worker.take_stream().unwrap();
    // The cluster is gone; what was begun goes on.
    bench.publish("namespace shop", SERIAL + 1);
    while !stream.is_done() {
        stream.next_message(bench.now, &mut out).unwrap();
        records.extend(Message::parse(&out).unwrap().answer);
    }
    // Address of the service, of the endpoint, two SRV records; the apex and two SOA records.
    assert_eq!(records.len(), 3000 * 4 + 4 + 2);
    assert_eq!(rdata(&records[0]), rdata(records.last().unwrap()));
    assert!(rdata(&records[0]).contains(" 1499347823 "));
    let now = transfer(&mut bench, "cluster.local.");
    assert_eq!(now.len(), 6);
}

#[test]
fn what_is_not_there_is_refused_and_what_is_not_known_yet_is_a_failure() {
    let mut bench = bench("", CLUSTER);
    for name in ["in-addr.arpa.", "shop.svc.cluster.local.", "web.shop.svc.cluster.local."] {
        let answer = bench.ask(&format!("{name} AXFR"));
        assert_eq!(answer.flags.rcode().to_string(), "REFUSED", "{name}");
    }
    let corefile = ".:53 {\n transfer {\n  to *\n }\n kubernetes cluster.local\n}";
    let mut bench = Bench::new(corefile);
    bench.client.transport = Transport::Tcp;
    assert_eq!(bench.ask("cluster.local. AXFR").flags.rcode().to_string(), "SERVFAIL");
    let feed = bench.worker.config().services.clusters[0].feed.clone();
    feed.publish(cluster::cluster(CLUSTER, SERIAL));
    feed.set_synced();
    assert!(transfer(&mut bench, "cluster.local.").len() > 20);
}

const OUTSIDE: &str = "
    namespace shop
    namespace hidden
    service shop/web 10.0.0.1 http:tcp:80 external=1.2.3.4
    service shop/six 10.0.0.3 http:tcp:80 external=1:2::5
    service shop/two 10.0.0.4 http:tcp:80 https:tcp:443 dns:udp:443 external=1.2.3.5 external=1.2.3.6
    service shop/inner 10.0.0.5 http:tcp:80
    service shop/portless 10.0.0.6 external=1.2.3.7
    headless shop/heads
    slice shop/heads/1 http:tcp:80 -- 172.0.0.1=first 172.0.0.2 1:2::9
    service nowhere/web 10.0.0.9 http:tcp:80 external=1.2.3.9
";

fn outside(options: &str, objects: &str) -> Bench {
    let corefile = format!(
        ".:53 {{\n bind 192.0.2.1\n transfer {{\n  to *\n }}\n kubernetes cluster.local\n \
         k8s_external Example.com in-addr.arpa {{\n  ttl 9\n{options}\n }}\n}}"
    );
    let mut bench = Bench::new(&corefile);
    bench.publish(objects, SERIAL);
    bench.client.transport = Transport::Tcp;
    bench
}

#[test]
fn what_can_be_reached_from_outside_has_a_zone_of_its_own() {
    let mut plain = outside("", OUTSIDE);
    let records = agrees(&mut plain, "example.com.");
    for record in [
        "example.com. 9 NS ns1.dns.example.com.",
        "ns1.dns.example.com. 9 A 192.0.2.1",
        "web.shop.example.com. 9 A 1.2.3.4",
        "six.shop.example.com. 9 AAAA 1:2::5",
        "two.shop.example.com. 9 A 1.2.3.6",
        "_https._tcp.two.shop.example.com. 5 SRV 0 50 443 two.shop.example.com.",
        "portless.shop.example.com. 9 A 1.2.3.7",
    ] {
        assert!(records.iter().any(|known| known == record), "{record} of {records:#?}");
    }
    let lacks = |records: &[String], name: &str| !records.iter().any(|r| r.contains(name));
    assert!(lacks(&records, "inner") && lacks(&records, "heads") && lacks(&records, "nowhere"));
    let mut headless = outside("  headless", OUTSIDE);
    let records = agrees(&mut headless, "example.com.");
    for record in [
        "first.heads.shop.example.com. 9 A 172.0.0.1",
        "heads.shop.example.com. 9 AAAA 1:2::9",
        "_http._tcp.heads.shop.example.com. 5 SRV 0 33 80 172-0-0-2.heads.shop.example.com.",
    ] {
        assert!(records.iter().any(|known| known == record), "{record} of {records:#?}");
    }
}

#[test]
fn hosts_of_load_balancers_are_aliases_where_there_is_nothing_else() {
    let objects = "
        namespace shop
        service shop/balanced 10.0.0.7 http:tcp:80 external=lb.example.test
        service shop/mixed 10.0.0.8 http:tcp:80 external=1.2.3.8 external=lb.example.test
    ";
    let mut bench = outside("", objects);
    let records: Vec<String> = transfer(&mut bench, "example.com.").iter().map(text).collect();
    let of = |name: &str| {
        let mut found: Vec<&String> = records.iter().filter(|r| r.starts_with(name)).collect();
        found.sort();
        found
    };
    assert_eq!(of("balanced."), ["balanced.shop.example.com. 5 CNAME lb.example.test."]);
    assert_eq!(
        of("mixed."),
        [
            "mixed.shop.example.com. 5 SRV 0 50 80 lb.example.test.",
            "mixed.shop.example.com. 5 SRV 0 50 80 mixed.shop.example.com.",
            "mixed.shop.example.com. 9 A 1.2.3.8",
        ]
    );
    assert_eq!(of("_http._tcp.balanced.").len() + of("_http._tcp.mixed.").len(), 3);
}
