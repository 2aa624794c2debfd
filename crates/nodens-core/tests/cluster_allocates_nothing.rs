//! Answers of `kubernetes` allocate nothing. In a binary of its own, because it counts
//! allocations.

use nodens_core::testing::{Bench, request};
use nodens_core::worker::Verdict;
use nodens_testkit::alloc::{Counting, allocations_of_thread};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COREFILE: &str = ".:53 {
    errors
    prometheus :0
    cache 30
    k8s_external example.org
    kubernetes cluster.local in-addr.arpa {
        pods verified
        ignore empty_service
        zonal
        fallthrough in-addr.arpa
    }
    whoami
}";

const CLUSTER: &str = "
    namespace shop
    service shop/web 10.0.0.1,fd00::1 http:tcp:80 dns:udp:53 external=192.0.2.1
    slice shop/web/1 http:tcp:80 -- 10.1.0.1=ep
    headless shop/heads
    slice shop/heads/1 http:tcp:80 -- 172.0.0.2 172.0.0.3 172.0.0.4=twice 172.0.0.5=twice
    slice shop/heads/2 http:tcp:80 -- 5678:abcd::1@a 5678:abcd::
    pod shop/web-1 10.1.0.1";

const QUESTIONS: &[&str] = &[
    "web.shop.svc.cluster.local A",
    "Web.Shop.svc.cluster.local AAAA +edns",
    "web.shop.svc.cluster.local SRV",
    "_http._tcp.web.shop.svc.cluster.local SRV +edns",
    "heads.shop.svc.cluster.local A",
    "heads.shop.svc.cluster.local SRV +edns",
    "172-0-0-2.heads.shop.svc.cluster.local A",
    "5678-abcd--1.heads.shop.svc.cluster.local AAAA",
    "a.pin._zone.heads.shop.svc.cluster.local AAAA",
    "10-1-0-1.shop.pod.cluster.local A",
    "web.shop.svc.cluster.local HTTPS",
    "none.shop.svc.cluster.local A",
    "www.example.com.shop.svc.cluster.local A +edns",
    "www.example.com.svc.cluster.local AAAA",
    "www.example.com.cluster.local A",
    "dns-version.cluster.local TXT",
    "cluster.local SOA",
    "web.shop.example.org A",
    "web.shop.example.org SRV",
    "none.shop.example.org A",
];

#[test]
fn answers_from_a_cluster_allocate_nothing() {
    let mut bench = Bench::new(COREFILE);
    bench.publish(CLUSTER, 1);
    let requests: Vec<Vec<u8>> = QUESTIONS.iter().map(|question| request(question)).collect();
    let mut out = Vec::with_capacity(4096);
    let mut ask = |bench: &mut Bench, request: &[u8]| {
        let before = allocations_of_thread();
        let verdict = bench.worker.receive(bench.now, bench.client, request, &mut out);
        assert_eq!(verdict, Verdict::Answered);
        allocations_of_thread() - before
    };
    let cold: usize = requests.iter().map(|request| ask(&mut bench, request)).sum();
    assert!(cold > 0, "buffers have to grow, so the counter works");
    // Two buffers take turns.
    for request in requests.iter().chain(&requests) {
        assert!(ask(&mut bench, request) + ask(&mut bench, request) < 4);
    }
    for (request, question) in requests.iter().zip(QUESTIONS) {
        let warm: usize = (0..100).map(|_| ask(&mut bench, request)).sum();
        assert_eq!(warm, 0, "{question}");
    }
}
