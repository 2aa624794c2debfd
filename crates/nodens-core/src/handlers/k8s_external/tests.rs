//! The cases of CoreDNS's own tests.

use crate::config::{BuildOptions, build};
use crate::job::Transport;
use crate::testing::{Bench, Reaction};
use nodens_corefile::{NoSources, parse};
use nodens_wire::{Class, Flags, Message, Name, Rcode, Record, Type};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const CLUSTER: &str = "
    namespace shop
    namespace dns-system
    service shop/web 10.0.0.1 http:tcp:80 external=1.2.3.4
    service shop/six 10.0.0.3 http:tcp:80 external=1:2::5
    service shop/two 10.0.0.4 http:tcp:80 https:tcp:443 external=1.2.3.5 external=1.2.3.6
    service shop/inner 10.0.0.5 http:tcp:80
    service shop/portless 10.0.0.6 external=1.2.3.7
    service shop/balanced 10.0.0.7 http:tcp:80 https:tcp:443 external=lb.example.test
    service shop/mixed 10.0.0.8 http:tcp:80 external=1.2.3.8 external=lb.example.test
    headless shop/heads http:tcp:80
    slice shop/heads/1 http:tcp:80 -- 172.0.0.1=first 172.0.0.2 1:2::9
    slice shop/inner/1 http:tcp:80 -- 172.0.0.3=only
    service hidden/web 10.0.0.9 http:tcp:80 external=1.2.3.9
    service dns-system/dns 10.0.0.53 dns:udp:53 external=192.0.2.53 external=192.0.2.54
    slice dns-system/dns/1 dns:udp:53 -- 10.1.0.53";

const COREFILE: &str = ".:53 {
    kubernetes cluster.local {
        ttl 7
    }
    k8s_external Example.com in-addr.arpa {
        OPTIONS
    }
    forward . 192.0.2.53
}";

fn bench(options: &str) -> Bench {
    let corefile = COREFILE.replace("OPTIONS", options);
    let mut bench = Bench::new(&corefile);
    let eth0: Vec<IpAddr> = vec!["10.1.0.53".parse().unwrap()];
    let interfaces = HashMap::from([("eth0".to_owned(), eth0)]);
    let tree = parse("Corefile", &corefile, &NoSources).unwrap();
    let options = BuildOptions { interfaces, ..BuildOptions::default() };
    let config = build(&tree, &options, &bench.shared).unwrap();
    bench.worker.set_config(Arc::new(config));
    bench.publish(CLUSTER, 1_499_347_823);
    bench.upstream(|_, question| {
        let mut reply = question.clone();
        reply.additional.clear();
        reply.flags = Flags(Flags::QR);
        let asked = &question.questions[0];
        let (owner, rtype) = (asked.qname.clone(), asked.qtype);
        let rdata = match rtype {
            Type::A => vec![192, 0, 2, 1],
            Type::AAAA => vec![1; 16],
            _ => return Reaction::Silence,
        };
        reply.answer.push(Record { owner, rtype, class: Class::IN, ttl: 77, rdata });
        let mut wire = Vec::new();
        reply.write(&mut wire).unwrap();
        Reaction::Reply(wire)
    });
    bench
}

/// `OWNER TTL TYPE RDATA` of a record that has one name or address.
fn text(record: &Record) -> String {
    let rdata = &record.rdata[..];
    let name = |octets: &[u8]| Name::from_wire(octets).unwrap().to_string();
    let number = |at: usize| u16::from_be_bytes([rdata[at], rdata[at + 1]]);
    let rdata = match record.rtype {
        Type::A => IpAddr::from(<[u8; 4]>::try_from(rdata).unwrap()).to_string(),
        Type::AAAA => IpAddr::from(<[u8; 16]>::try_from(rdata).unwrap()).to_string(),
        Type::SRV => format!("{} {} {}", number(2), number(4), name(&rdata[6..])),
        Type::SOA => {
            let end = rdata.iter().position(|octet| *octet == 0).unwrap() + 1;
            let rname = name(&rdata[end..rdata.len() - 20]);
            let serial = rdata[rdata.len() - 20..].first_chunk().unwrap();
            format!("{} {rname} {}", name(&rdata[..end]), u32::from_be_bytes(*serial))
        }
        _ => name(rdata),
    };
    format!("{} {} {} {rdata}", record.owner, record.ttl, record.rtype)
}

fn shown(message: &Message) -> String {
    assert!(message.flags.has(Flags::AA));
    let section = |records: &[Record]| records.iter().map(text).collect::<Vec<_>>().join("; ");
    let rcode = message.flags.rcode();
    let sections = [&message.answer, &message.authority, &message.additional];
    let [answer, authority, additional] = sections.map(|records| section(records));
    format!("{rcode} {answer} | {authority} | {additional}")
}

const SOA: &str = "ns1.dns.example.com. hostmaster.dns.example.com. 1499347823";

fn is_denied(bench: &mut Bench, rcode: Rcode, questions: &[&str]) {
    for question in questions {
        let denial = format!("{rcode}  | example.com. 5 SOA {SOA} | ");
        assert_eq!(shown(&bench.ask(question)), denial, "{question}");
    }
}

#[test]
fn services_have_the_addresses_they_have_outside() {
    let mut bench = bench("");
    let web = shown(&bench.ask("web.shop.example.com A"));
    assert_eq!(web, "NOERROR web.shop.example.com. 5 A 1.2.3.4 |  | ");
    assert_eq!(
        shown(&bench.ask("_http._tcp.six.shop.example.com SRV")),
        "NOERROR _http._tcp.six.shop.example.com. 7 SRV 100 80 six.shop.example.com. |  | \
         six.shop.example.com. 5 AAAA 1:2::5"
    );
    assert_eq!(
        shown(&bench.ask("two.shop.example.com SRV")),
        "NOERROR two.shop.example.com. 7 SRV 25 80 two.shop.example.com.; \
         two.shop.example.com. 7 SRV 25 443 two.shop.example.com. |  | \
         two.shop.example.com. 5 A 1.2.3.5; two.shop.example.com. 5 A 1.2.3.6"
    );
    assert_eq!(bench.ask("two.shop.example.com A").answer.len(), 2);
    assert_eq!(bench.ask("portless.shop.example.com A").answer.len(), 1);
    is_denied(
        &mut bench,
        Rcode::NOERROR,
        &[
            "web.shop.example.com AAAA",
            "web.shop.example.com TXT",
            "web.shop.example.com PTR",
            "shop.example.com A",
            "shop.example.com SOA",
            "portless.shop.example.com SRV",
        ],
    );
    is_denied(
        &mut bench,
        Rcode::NXDOMAIN,
        &[
            "none.shop.example.com A",
            "none.shop.example.com PTR",
            "inner.shop.example.com A",
            "heads.shop.example.com A",
            "web.hidden.example.com A",
            "hidden.example.com A",
            "_smtp._tcp.web.shop.example.com SRV",
            "*._not-udp-or-tcp.web.shop.example.com SRV",
            "a.b.c.web.shop.example.com A",
        ],
    );
}

#[test]
fn endpoints_of_headless_services_can_be_shown() {
    let mut bench = bench("headless");
    let heads = shown(&bench.ask("heads.shop.example.com A"));
    let a = "heads.shop.example.com. 5 A";
    assert_eq!(heads, format!("NOERROR {a} 172.0.0.1; {a} 172.0.0.2 |  | "));
    assert_eq!(
        shown(&bench.ask("first.heads.shop.example.com A")),
        "NOERROR first.heads.shop.example.com. 5 A 172.0.0.1 |  | "
    );
    let only = shown(&bench.ask("only.inner.shop.example.com A"));
    assert_eq!(only, "NOERROR only.inner.shop.example.com. 5 A 172.0.0.3 |  | ");
    assert_eq!(
        shown(&bench.ask("_http._tcp.heads.shop.example.com SRV")),
        "NOERROR _http._tcp.heads.shop.example.com. 7 SRV 33 80 first.heads.shop.example.com.; \
         _http._tcp.heads.shop.example.com. 7 SRV 33 80 172-0-0-2.heads.shop.example.com.; \
         _http._tcp.heads.shop.example.com. 7 SRV 33 80 1-2--9.heads.shop.example.com. |  | \
         first.heads.shop.example.com. 5 A 172.0.0.1; \
         172-0-0-2.heads.shop.example.com. 5 A 172.0.0.2; \
         1-2--9.heads.shop.example.com. 5 AAAA 1:2::9"
    );
    let denied = ["other.heads.shop.example.com A", "inner.shop.example.com A"];
    is_denied(&mut bench, Rcode::NXDOMAIN, &denied);
}

#[test]
fn host_names_of_load_balancers_are_followed() {
    let mut bench = bench("");
    let cname = "balanced.shop.example.com. 7 CNAME lb.example.test.";
    assert_eq!(
        shown(&bench.ask("balanced.shop.example.com A")),
        format!("NOERROR {cname}; lb.example.test. 77 A 192.0.2.1 |  | ")
    );
    let mixed = "mixed.shop.example.com.";
    assert_eq!(
        shown(&bench.ask("mixed.shop.example.com A")),
        format!(
            "NOERROR {mixed} 5 A 1.2.3.8; {mixed} 7 CNAME lb.example.test.; \
             lb.example.test. 77 A 192.0.2.1 |  | "
        )
    );
    let balanced = "balanced.shop.example.com. 7 SRV 50";
    assert_eq!(
        shown(&bench.ask("balanced.shop.example.com SRV")),
        format!(
            "NOERROR {balanced} 80 lb.example.test.; {balanced} 443 lb.example.test. |  | \
             lb.example.test. 77 A 192.0.2.1; lb.example.test. 77 AAAA 101:101:101:101:101:101:101:101"
        )
    );
    let denied = ["balanced.shop.example.com TXT"];
    is_denied(&mut bench, Rcode::NOERROR, &denied);
    is_denied(&mut bench, Rcode::NXDOMAIN, &["_no._tcp.balanced.shop.example.com A"]);
    bench.upstream(|_, question| {
        let mut reply = question.clone();
        reply.flags = Flags(Flags::QR).with_rcode(Rcode::SERVFAIL);
        let mut wire = Vec::new();
        reply.write(&mut wire).unwrap();
        Reaction::Reply(wire)
    });
    let failed = bench.ask("balanced.shop.example.com A");
    assert_eq!((failed.flags.rcode(), failed.answer.len()), (Rcode::SERVFAIL, 1));
}

#[test]
fn the_zone_has_names_of_its_own() {
    let mut bench = bench("");
    let soa = shown(&bench.ask("example.com SOA"));
    assert_eq!(soa, format!("NOERROR example.com. 5 SOA {SOA} |  | "));
    let ns1 = "ns1.dns.example.com. 5 A";
    assert_eq!(
        shown(&bench.ask("example.com NS")),
        format!(
            "NOERROR example.com. 5 NS ns1.dns.example.com. |  | {ns1} 192.0.2.53; {ns1} 192.0.2.54"
        )
    );
    assert_eq!(
        shown(&bench.ask("ns1.dns.example.com A")),
        format!("NOERROR {ns1} 192.0.2.53; {ns1} 192.0.2.54 |  | ")
    );
    is_denied(
        &mut bench,
        Rcode::NOERROR,
        &[
            "example.com SRV",
            "example.com A",
            "dns.example.com SRV",
            "dns.example.com NS",
            "ns1.dns.example.com AAAA",
            "ns1.dns.example.com SRV",
        ],
    );
    let denied = ["ns2.dns.example.com A", "x.ns1.dns.example.com A"];
    is_denied(&mut bench, Rcode::NXDOMAIN, &denied);
    // `xdns` does not end with the label `dns`.
    is_denied(&mut bench, Rcode::NXDOMAIN, &["xdns.example.com A"]);

    let mut bench = self::bench("apex a.b\n ttl 400");
    let soa = shown(&bench.ask("example.com SOA"));
    assert!(soa.contains("example.com. 400 SOA ns1.a.b.example.com. hostmaster.a.b."), "{soa}");
    assert_eq!(bench.ask("ns1.a.b.example.com A").answer.len(), 2);
}

#[test]
fn outside_addresses_have_names() {
    let mut bench = bench("");
    assert_eq!(
        shown(&bench.ask("4.3.2.1.in-addr.arpa PTR")),
        "NOERROR 4.3.2.1.in-addr.arpa. 5 PTR web.shop.example.com. |  | "
    );
    for question in ["9.3.2.1.in-addr.arpa PTR", "1.0.0.10.in-addr.arpa PTR"] {
        assert_eq!(bench.ask(question).flags.rcode(), Rcode::NXDOMAIN, "{question}");
    }
}

#[test]
fn names_fall_through_where_allowed() {
    let mut bench = bench("fallthrough example.com");
    assert_eq!(bench.ask("none.shop.example.com A").answer[0].rdata, [192, 0, 2, 1]);
    assert_eq!(bench.ask("web.shop.example.com AAAA").answer.len(), 0);
    assert_eq!(bench.ask("9.3.2.1.in-addr.arpa PTR").flags.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn an_unknown_cluster_is_waited_for() {
    let mut bench = Bench::new(&COREFILE.replace("OPTIONS", "fallthrough"));
    let (answer, time) = bench.ask_for("web.shop.example.com A", Duration::from_secs(5)).unwrap();
    assert_eq!((answer.flags.rcode(), time), (Rcode::SERVFAIL, Duration::from_secs(1)));
    let request = crate::testing::request("web.shop.example.com A");
    assert_eq!(bench.ask_bytes(&request), None);
    bench.publish(CLUSTER, 1);
    assert_eq!(bench.pass(Duration::from_millis(20)).len(), 1);
}

#[test]
fn mistakes_are_named_where_they_are() {
    let error = |corefile: &str| Bench::try_new(corefile).map(drop).unwrap_err().to_string();
    let alone = error(".:53 {\n k8s_external example.org\n}");
    assert!(alone.contains("2:2") && alone.contains("kubernetes plugin not loaded"), "{alone}");
    for (options, at, wrong) in [
        ("ttl 3601", "4:6", "a number from 0 to 3600"),
        ("ttl", "4:2", "expected 1 or more"),
        ("apex", "4:2", "expected 1 or more"),
        ("apex a..b", "4:7", "a label such as dns"),
        ("hostmaster x", "4:2", "hostmaster"),
    ] {
        let corefile = format!(
            ".:53 {{\n kubernetes cluster.local\n k8s_external example.org {{\n {options}\n }}\n}}"
        );
        let error = error(&corefile);
        assert!(error.contains(at) && error.contains(wrong), "{options}: {error}");
    }
}

#[test]
fn a_service_with_thousands_of_ports_takes_no_time_that_grows_with_their_square() {
    let (sender, answer) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        let mut bench = bench("");
        let ports: String = (1..=20_000).map(|n| format!(" t{n}:tcp:{n} u{n}:udp:{n}")).collect();
        let places = "external=lb.example.test external=LB.example.test external=1.2.3.4";
        bench.publish(&format!("namespace shop\nservice shop/media 10.0.0.1{ports} {places}"), 1);
        bench.client.transport = Transport::Tcp;
        _ = sender.send(bench.ask("media.shop.example.com SRV").answer);
    });
    // It took minutes.
    let answer = answer.recv_timeout(Duration::from_secs(20)).unwrap();
    let numbers: HashSet<&[u8]> = answer.iter().map(|record| &record.rdata[4..]).collect();
    assert_eq!(numbers.len(), answer.len(), "a record stands there twice");
    assert!(numbers.len() > 9, "{}", numbers.len());
    asking.join().unwrap();
}
