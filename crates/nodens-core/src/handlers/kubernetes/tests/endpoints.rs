//! Headless services and names of endpoints, by zone too.

use super::*;
use crate::job::Transport;
use nodens_wire::Flags;

#[test]
fn a_headless_service_has_the_addresses_of_its_endpoints() {
    let mut bench = bench("");
    assert_eq!(
        answers(&mut bench, "heads.shop.svc.cluster.local A"),
        ["172.0.0.2", "172.0.0.3", "172.0.0.4", "172.0.0.5"]
    );
    assert_eq!(
        answers(&mut bench, "heads.shop.svc.cluster.local AAAA"),
        ["5678:abcd::1", "5678:abcd::"]
    );
    assert_eq!(answers(&mut bench, "bare.shop.svc.cluster.local A"), ["172.0.0.20"]);
    is_no_data(&mut bench, &["bare.shop.svc.cluster.local SRV", "bare.shop.svc.cluster.local AAAA"]);
    is_no_name(&mut bench, &["asleep.shop.svc.cluster.local A", "asleep.shop.svc.cluster.local TXT"]);
}

#[test]
fn srv_records_of_a_headless_service_name_each_endpoint_once() {
    let mut bench = bench("");
    let message = bench.ask("_http._tcp.heads.shop.svc.cluster.local SRV +edns");
    let targets = ["172-0-0-2", "172-0-0-3", "twice", "5678-abcd--1", "5678-abcd--0"];
    let srv: Vec<_> = message.answer.iter().map(rdata).collect();
    assert_eq!(srv, targets.map(|t| format!("0 16 80 {t}.heads.shop.svc.cluster.local.")));
    let glue = message.additional.iter().filter(|record| record.rtype != Type::OPT);
    let glue: Vec<_> = glue.map(text).collect();
    let expected = [
        ("172-0-0-2", "A 172.0.0.2"),
        ("172-0-0-3", "A 172.0.0.3"),
        ("twice", "A 172.0.0.4"),
        ("twice", "A 172.0.0.5"),
        ("5678-abcd--1", "AAAA 5678:abcd::1"),
        ("5678-abcd--0", "AAAA 5678:abcd::"),
    ];
    assert_eq!(glue, expected.map(|(t, a)| format!("{t}.heads.shop.svc.cluster.local. 5 {a}")));
}

#[test]
fn endpoints_have_names() {
    let mut bench = bench("");
    for (name, qtype, addresses) in [
        ("172-0-0-2.heads", "A", &["172.0.0.2"][..]),
        ("172-0-0-20.bare", "A", &["172.0.0.20"]),
        ("5678-abcd--1.heads", "AAAA", &["5678:abcd::1"]),
        ("5678-abcd--0.heads", "AAAA", &["5678:abcd::"]),
        ("TWICE.heads", "A", &["172.0.0.4", "172.0.0.5"]),
        ("ep1a.web", "A", &["172.0.0.1"]),
    ] {
        let question = format!("{name}.shop.svc.cluster.local {qtype}");
        assert_eq!(answers(&mut bench, &question), addresses, "{question}");
    }
    is_no_name(
        &mut bench,
        &[
            "other.heads.shop.svc.cluster.local A",
            "172-0-0-4.heads.shop.svc.cluster.local A",
            "172-0-0-1.web.shop.svc.cluster.local A",
            "other.none.shop.svc.cluster.local A",
        ],
    );
    is_no_data(&mut bench, &["172-0-0-2.heads.shop.svc.cluster.local AAAA"]);
    let srv = answers(&mut bench, "ep1a.web.shop.svc.cluster.local SRV");
    assert_eq!(srv, ["0 100 80 ep1a.web.shop.svc.cluster.local."]);
}

#[test]
fn endpoints_may_be_called_as_their_pods() {
    let objects = "
        namespace shop
        headless shop/db
        slice shop/db/1 :tcp:1 -- 10.1.0.1~db-0 10.1.0.2=host~db-1 10.1.0.3 10.1.0.4~etcd.node-1";
    let mut bench = unpublished("endpoint_pod_names");
    bench.publish(objects, SERIAL);
    let srv = answers(&mut bench, "db.shop.svc.cluster.local SRV");
    let names = ["db-0", "host", "10-1-0-3", "etcd.node-1"];
    assert_eq!(srv, names.map(|n| format!("0 25 1 {n}.db.shop.svc.cluster.local.")));
    assert_eq!(answers(&mut bench, "db-0.db.shop.svc.cluster.local A"), ["10.1.0.1"]);
    is_no_name(&mut bench, &["db-1.db.shop.svc.cluster.local A", "10-1-0-1.db.shop.svc.cluster.local A"]);

    let mut bench = unpublished("");
    bench.publish(objects, SERIAL);
    assert_eq!(answers(&mut bench, "10-1-0-1.db.shop.svc.cluster.local A"), ["10.1.0.1"]);
}

#[test]
fn an_endpoint_in_two_slices_is_one_record() {
    let mut objects = String::from("namespace shop\nheadless shop/db\n");
    let mut distinct = std::collections::BTreeSet::new();
    for slice in 0..3 {
        objects.push_str(&format!("slice shop/db/{slice} a:tcp:1 b:tcp:2 --"));
        for n in 0..40 {
            let address = format!("10.1.{}.1", n * (slice + 1));
            objects.push_str(&format!(" {address}"));
            distinct.insert(address);
        }
        objects.push('\n');
    }
    let mut bench = unpublished("");
    bench.publish(&objects, SERIAL);
    bench.client.transport = crate::Transport::Tcp;
    let mut addresses = answers(&mut bench, "db.shop.svc.cluster.local A");
    addresses.sort();
    assert_eq!(addresses, distinct.iter().cloned().collect::<Vec<_>>());
    let count = distinct.len();
    let message = bench.ask("db.shop.svc.cluster.local SRV");
    assert_eq!((message.answer.len(), message.additional.len()), (2 * count, count));
}

#[test]
fn services_without_endpoints_can_be_ignored() {
    let mut bench = bench("ignore empty_service");
    is_no_name(&mut bench, &["empty.shop.svc.cluster.local A", "six.shop.svc.cluster.local AAAA"]);
    assert_eq!(answers(&mut bench, "web.shop.svc.cluster.local A"), ["10.0.0.1"]);
    assert_eq!(answers(&mut bench, "heads.shop.svc.cluster.local A").len(), 4);
    assert_eq!(answers(&mut bench, "out.shop.svc.cluster.local CNAME"), ["www.example.test."]);
}

const ZONAL: &str = "
    namespace shop
    service shop/web 10.0.0.10 http:tcp:80
    headless shop/db
    slice shop/db/1 http:tcp:80 -- 172.0.0.1@us-2a 172.0.0.2@us-2b 172.0.0.3@us-2b 172.0.0.4
    slice shop/db/2 http:tcp:80 -- 172.0.0.5@corp.example.com";

#[test]
fn zonal_names_choose_endpoints_by_zone() {
    let mut bench = unpublished("zonal");
    bench.publish(ZONAL, SERIAL);
    let all = ["172.0.0.1", "172.0.0.2", "172.0.0.3", "172.0.0.4", "172.0.0.5"];
    for (zone, addresses) in [
        ("us-2a.pin", &all[..1]),
        ("US-2b.pin", &all[1..3]),
        ("us-2b.prefer", &all[1..3]),
        ("us-2c.prefer", &all),
        ("corp.example.com.pin", &all[4..]),
        ("example.com.prefer", &all),
    ] {
        let question = format!("{zone}._zone.db.shop.svc.cluster.local A");
        assert_eq!(answers(&mut bench, &question), addresses, "{question}");
    }
    for zone in ["us-2c.pin", "example.com.pin"] {
        for qtype in ["A", "AAAA", "SRV", "TXT", "HTTPS"] {
            is_no_data(&mut bench, &[&format!("{zone}._zone.db.shop.svc.cluster.local {qtype}")]);
        }
    }
    is_no_name(
        &mut bench,
        &[
            "us-2a.pin._zone.none.shop.svc.cluster.local A",
            "us-2a.nail._zone.db.shop.svc.cluster.local A",
            "us-2a.pin._zone.web.shop.svc.cluster.local A",
            "us-2a.prefer._zone.web.shop.svc.cluster.local TXT",
        ],
    );
    let message = bench.ask("us-2b.pin._zone.db.shop.svc.cluster.local SRV");
    let targets = ["172-0-0-2", "172-0-0-3"];
    let srv: Vec<_> = message.answer.iter().map(rdata).collect();
    assert_eq!(srv, targets.map(|t| format!("0 50 80 {t}.db.shop.svc.cluster.local.")));
    assert_eq!(message.additional.len(), 2);
}

#[test]
fn without_the_option_there_are_no_zonal_names() {
    let mut bench = unpublished("");
    bench.publish(ZONAL, SERIAL);
    is_no_name(&mut bench, &["us-2a.pin._zone.db.shop.svc.cluster.local A"]);
}

#[test]
fn nothing_is_looked_at_behind_the_end_of_a_full_message() {
    let ports: String = (0..5).map(|n| format!(" p{n}:tcp:{}", 8000 + n)).collect();
    let mut objects = format!("namespace shop\nheadless shop/many{ports}\n");
    for slice in 0..10 {
        let addresses: String = (0..100).map(|n| format!(" 10.9.{slice}.{n}")).collect();
        objects += &format!("slice shop/many/{slice}{ports} --{addresses}\n");
    }
    let mut bench = Bench::new(".:53 {\n kubernetes cluster.local\n}");
    bench.publish(&objects, 1);
    bench.client.transport = Transport::Tcp;
    let message = bench.ask("many.shop.svc.cluster.local SRV");
    assert!(message.flags.has(Flags::TC));
    // There would be room for an address or two: who looks for them goes through all endpoints with all ports.
    assert!(message.answer.len() > 1000 && message.additional.is_empty());
}
