//! Before the cluster is known.

use super::*;
use nodens_wire::Rcode;
use nodens_wire::edns::code;
use std::time::Duration;

#[test]
fn an_unknown_cluster_is_waited_for_and_then_admitted() {
    for question in [
        "web.shop.svc.cluster.local A +edns",
        "none.shop.svc.cluster.local A +edns",
        "cluster.local SOA +edns",
        "1.0.0.10.in-addr.arpa PTR +edns",
    ] {
        let mut bench = unpublished("fallthrough");
        let (answer, time) = bench.ask_for(question, Duration::from_secs(5)).unwrap();
        assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL, "{question}");
        assert_eq!(time, Duration::from_secs(1));
        let opt = answer.additional.iter().find(|record| record.rtype == Type::OPT).unwrap();
        let option = [&code::EXTENDED_ERROR.to_be_bytes()[..], &[0, 46], &[0, 14]].concat();
        assert!(opt.rdata.starts_with(&option), "{:?}", opt.rdata);
    }
}

#[test]
fn a_question_that_waits_is_answered_as_soon_as_the_cluster_is_known() {
    let mut bench = unpublished("fallthrough");
    let request = crate::testing::request("web.shop.svc.cluster.local A");
    assert_eq!(bench.ask_bytes(&request), None);
    assert_eq!(bench.pass(Duration::from_millis(300)), []);
    bench.publish(CLUSTER, SERIAL);
    let sent = bench.pass(Duration::from_millis(160));
    let answer = Message::parse(&sent[0].1).unwrap();
    assert_eq!(answer.answer[0].rdata, [10, 0, 0, 1]);
}

#[test]
fn names_outside_the_zones_do_not_wait() {
    let mut bench = unpublished("");
    assert_eq!(bench.ask("elsewhere.test A").additional.len(), 2);
}

#[test]
fn the_refusal_is_not_kept() {
    let mut bench = Bench::new(".:53 {\n cache\n kubernetes cluster.local\n}");
    let question = "web.shop.svc.cluster.local A";
    let (answer, _) = bench.ask_for(question, Duration::from_secs(5)).unwrap();
    assert_eq!(answer.flags.rcode(), Rcode::SERVFAIL);
    bench.publish(CLUSTER, SERIAL);
    assert_eq!(answers(&mut bench, question), ["10.0.0.1"]);
}

#[test]
fn ready_waits_for_the_cluster_and_reloads_keep_it() {
    let corefile = ".:53 {\n ready\n kubernetes cluster.local\n}\n.:54 {\n kubernetes cluster.local {\n ttl 7\n }\n}";
    let mut bench = Bench::new(corefile);
    let services = &bench.worker.config().services;
    assert_eq!((services.clusters.len(), services.readiness.len()), (1, 1));
    let check = services.readiness[0].check.clone();
    assert!(!check());
    bench.publish(CLUSTER, SERIAL);
    assert!(check());
    bench.reload(&corefile.replace("ttl 7", "ttl 8")).unwrap();
    assert_eq!(answers(&mut bench, "web.shop.svc.cluster.local A"), ["10.0.0.1"]);
}
