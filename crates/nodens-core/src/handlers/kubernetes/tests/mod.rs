//! What is asked and what comes back, by kind of name. The cases are those of CoreDNS's own tests
//! and of the Kubernetes DNS specification.

mod aliases;
mod endpoints;
mod properties;
mod setup;
mod transfer;
mod waiting;
mod zones;

use crate::testing::Bench;
use nodens_wire::{Message, Name, Record, Type};
use std::net::{Ipv4Addr, Ipv6Addr};

const CLUSTER: &str = "
    namespace shop
    namespace tools
    namespace hidden
    service shop/web 10.0.0.1 http:tcp:80
    service shop/empty 10.0.0.2 http:tcp:80
    service shop/six 1234:abcd::1 http:tcp:80
    service shop/both 10.0.0.3,10::3 http:tcp:80
    service shop/two 10.0.0.4 http:tcp:80 https:tcp:443 dns:udp:53
    service shop/portless 10.0.0.5
    service nowhere/web 10.0.0.6 http:tcp:80
    slice shop/web/1 http:tcp:80 -- 172.0.0.1=ep1a
    slice shop/empty/1 http:tcp:80
    headless shop/heads
    slice shop/heads/1 http:tcp:80 -- 172.0.0.2 172.0.0.3 172.0.0.4=twice 172.0.0.5=twice
    slice shop/heads/2 http:tcp:80 -- 5678:abcd::1 5678:abcd::
    headless shop/bare
    slice shop/bare/1 -- 172.0.0.20
    headless shop/asleep
    slice shop/asleep/1 http:tcp:80
    alias shop/out www.example.test
    alias shop/same web.shop.svc.cluster.local
    service tools/web 10.0.1.1 http:tcp:80
    pod tools/job 10.240.0.1,fd00::1
";

/// The serial of every zone of [`bench`].
const SERIAL: u64 = 1_499_347_823;

fn bench(options: &str) -> Bench {
    let mut bench = unpublished(options);
    bench.publish(CLUSTER, SERIAL);
    bench
}

fn unpublished(options: &str) -> Bench {
    let zones = "cluster.local in-addr.arpa ip6.arpa";
    Bench::new(&format!(".:53 {{\n kubernetes {zones} {{\n{options}\n}}\n whoami\n}}"))
}

/// RDATA in presentation format, of the types that there are here.
fn rdata(record: &Record) -> String {
    let name = |octets: &[u8]| Name::from_wire(octets).unwrap().to_string();
    match record.rtype {
        Type::A => Ipv4Addr::from(<[u8; 4]>::try_from(&*record.rdata).unwrap()).to_string(),
        Type::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(&*record.rdata).unwrap()).to_string(),
        Type::CNAME | Type::NS | Type::PTR => name(&record.rdata),
        Type::TXT => format!("{:?}", std::str::from_utf8(&record.rdata[1..]).unwrap()),
        Type::SRV => {
            let number = |at: usize| u16::from_be_bytes([record.rdata[at], record.rdata[at + 1]]);
            format!("{} {} {} {}", number(0), number(2), number(4), name(&record.rdata[6..]))
        }
        Type::SOA => {
            let names_end = record.rdata.len() - 20;
            let first = record.rdata.iter().position(|octet| *octet == 0).unwrap() + 1;
            let (mname, rname) = record.rdata[..names_end].split_at(first);
            let numbers = record.rdata[names_end..].chunks(4);
            let numbers = numbers.map(|n| u32::from_be_bytes(n.try_into().unwrap()).to_string());
            format!("{} {} {}", name(mname), name(rname), numbers.collect::<Vec<_>>().join(" "))
        }
        other => panic!("{other}"),
    }
}

/// A record without its class: `OWNER TTL TYPE RDATA`.
fn text(record: &Record) -> String {
    let rdata = rdata(record);
    format!("{} {} {} {rdata}", record.owner.view(), record.ttl, record.rtype)
}

/// RCODE, then the sections with `;` between records and `|` between sections.
fn shown(message: &Message) -> String {
    assert_eq!(message.flags.has(nodens_wire::Flags::AA), message.flags.rcode().0 != 5);
    let section = |records: &[Record]| {
        let records = records.iter().filter(|record| record.rtype != Type::OPT);
        records.map(text).collect::<Vec<_>>().join("; ")
    };
    let [answer, authority, additional] =
        [&message.answer, &message.authority, &message.additional].map(|s| section(s));
    let rcode = message.flags.rcode();
    format!("{rcode} {answer} | {authority} | {additional}")
}

const SOA: &str = "ns.dns.cluster.local. hostmaster.cluster.local. 1499347823 7200 1800 86400 5";

fn no_data() -> String {
    format!("NOERROR  | cluster.local. 5 SOA {SOA} | ")
}

fn no_name() -> String {
    format!("NXDOMAIN  | cluster.local. 5 SOA {SOA} | ")
}

/// The RDATA of the answers to `question`.
fn answers(bench: &mut Bench, question: &str) -> Vec<String> {
    bench.ask(question).answer.iter().map(rdata).collect()
}

fn is_no_name(bench: &mut Bench, questions: &[&str]) {
    for question in questions {
        assert_eq!(shown(&bench.ask(question)), no_name(), "{question}");
    }
}

fn is_no_data(bench: &mut Bench, questions: &[&str]) {
    for question in questions {
        assert_eq!(shown(&bench.ask(question)), no_data(), "{question}");
    }
}

#[test]
fn services_have_addresses_of_both_families() {
    let mut bench = bench("");
    let web = shown(&bench.ask("web.shop.svc.cluster.local A"));
    assert_eq!(web, "NOERROR web.shop.svc.cluster.local. 5 A 10.0.0.1 |  | ");
    assert_eq!(answers(&mut bench, "empty.shop.svc.cluster.local A"), ["10.0.0.2"]);
    assert_eq!(answers(&mut bench, "six.shop.svc.cluster.local AAAA"), ["1234:abcd::1"]);
    assert_eq!(answers(&mut bench, "both.shop.svc.cluster.local A"), ["10.0.0.3"]);
    assert_eq!(answers(&mut bench, "both.shop.svc.cluster.local AAAA"), ["10::3"]);
    assert_eq!(answers(&mut bench, "two.shop.svc.cluster.local A"), ["10.0.0.4"]);
    assert_eq!(answers(&mut bench, "portless.shop.svc.cluster.local A"), ["10.0.0.5"]);
    assert_eq!(answers(&mut bench, "_http._tcp.web.shop.svc.cluster.local A"), ["10.0.0.1"]);
    let other = ["web.shop.svc.cluster.local AAAA", "web.shop.svc.cluster.local MX"];
    is_no_data(&mut bench, &other);
}

#[test]
fn srv_records_name_the_service_and_its_addresses() {
    let mut bench = bench("");
    let web = "svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local. |  | \
        web.shop.svc.cluster.local. 5 A 10.0.0.1";
    let asked = shown(&bench.ask("_http._tcp.web.shop.svc.cluster.local SRV"));
    assert_eq!(asked, format!("NOERROR _http._tcp.web.shop.{web}"));
    assert_eq!(
        shown(&bench.ask("web.shop.svc.cluster.local SRV")),
        format!("NOERROR web.shop.{web}")
    );
    let both = bench.ask("_http._tcp.both.shop.svc.cluster.local SRV");
    assert_eq!(
        shown(&both),
        "NOERROR _http._tcp.both.shop.svc.cluster.local. 5 SRV 0 50 80 both.shop.svc.cluster.local. \
         |  | both.shop.svc.cluster.local. 5 A 10.0.0.3; both.shop.svc.cluster.local. 5 AAAA 10::3"
    );
    let two = answers(&mut bench, "two.shop.svc.cluster.local SRV");
    let target = "two.shop.svc.cluster.local.";
    assert_eq!(two, [80, 443, 53].map(|port| format!("0 33 {port} {target}")));
    let dns = answers(&mut bench, "_dns._udp.two.shop.svc.cluster.local SRV");
    assert_eq!(dns, [format!("0 100 53 {target}")]);
    is_no_name(
        &mut bench,
        &[
            "_dns._tcp.two.shop.svc.cluster.local SRV",
            "_smtp._tcp.web.shop.svc.cluster.local SRV",
            "_http._tcp.portless.shop.svc.cluster.local SRV",
        ],
    );
    // An address without a port has no SRV record.
    is_no_data(&mut bench, &["portless.shop.svc.cluster.local SRV"]);
}

#[test]
fn names_that_are_not_there_do_not_exist() {
    let mut bench = bench("");
    is_no_name(
        &mut bench,
        &[
            "none.shop.svc.cluster.local A",
            "none.shop.svc.cluster.local AAAA",
            "none.shop.svc.cluster.local SRV",
            "none.shop.svc.cluster.local TXT",
            "none.shop.svc.cluster.local CNAME",
            "none.shop.svc.cluster.local MX",
            "none.shop.svc.cluster.local NS",
            "none.shop.svc.cluster.local HTTPS",
            "none.shop.svc.cluster.local PTR",
            "web.nowhere.svc.cluster.local A",
            "nowhere.svc.cluster.local A",
            "foo.cluster.local A",
            "foo.cluster.local NS",
            "a.b.c.web.shop.svc.cluster.local A",
            "www.example.test.cluster.local A",
            "100.0.0.10.cluster.local PTR",
        ],
    );
}

#[test]
fn names_above_services_exist_and_are_empty() {
    let mut bench = bench("");
    for name in ["svc.", "pod.", "shop.svc.", "dns.", "", "web.shop.svc."] {
        for qtype in ["TXT", "PTR", "MX", "HTTPS", "CNAME"] {
            is_no_data(&mut bench, &[&format!("{name}cluster.local {qtype}")]);
        }
    }
    is_no_data(&mut bench, &["cluster.local A", "cluster.local SRV", "svc.cluster.local NS"]);
    is_no_data(&mut bench, &["shop.svc.cluster.local NS", "dns-version.cluster.local A"]);
    is_no_data(&mut bench, &["web.shop.svc.cluster.local SOA", "none.cluster.local SOA"]);
}

#[test]
fn the_zone_says_its_version_and_its_authority() {
    let mut bench = bench("ttl 30");
    let version = shown(&bench.ask("dns-version.cluster.local TXT"));
    assert_eq!(version, "NOERROR dns-version.cluster.local. 28800 TXT \"1.1.0\" |  | ");
    let soa = "ns.dns.cluster.local. hostmaster.cluster.local. 1499347823 7200 1800 86400 30";
    let asked = shown(&bench.ask("cluster.local SOA"));
    assert_eq!(asked, format!("NOERROR cluster.local. 30 SOA {soa} |  | "));
    let mut bench = self::bench("ttl 3600");
    let soa = "ns.dns.cluster.local. hostmaster.cluster.local. 1499347823 7200 1800 86400 3600";
    let denial = shown(&bench.ask("none.cluster.local A"));
    // The SOA record's own TTL is at most five minutes.
    assert_eq!(denial, format!("NXDOMAIN  | cluster.local. 300 SOA {soa} | "));
    assert_eq!(bench.ask("web.shop.svc.cluster.local A").answer[0].ttl, 3600);
    assert_eq!(bench.ask("cluster.local AXFR").flags.rcode(), nodens_wire::Rcode::REFUSED);
}

#[test]
fn the_case_of_the_question_is_kept_where_it_stands() {
    let mut bench = bench("");
    let denial = bench.ask("none.shop.svc.ClUsTeR.lOcAl A");
    assert_eq!(
        shown(&denial),
        format!("NXDOMAIN  | ClUsTeR.lOcAl. 5 SOA {} | ", SOA.replace("cluster.local", "ClUsTeR.lOcAl"))
    );
    let web = shown(&bench.ask("wEb.ShOp.SvC.cLuStEr.LoCaL A"));
    assert_eq!(web, "NOERROR wEb.ShOp.SvC.cLuStEr.LoCaL. 5 A 10.0.0.1 |  | ");
    let srv = shown(&bench.ask("_HtTp._TcP.wEb.ShOp.SvC.cLuStEr.LoCaL SRV"));
    assert_eq!(
        srv,
        "NOERROR _HtTp._TcP.wEb.ShOp.SvC.cLuStEr.LoCaL. 5 SRV 0 100 80 web.shop.svc.cLuStEr.LoCaL. \
         |  | web.shop.svc.cLuStEr.LoCaL. 5 A 10.0.0.1"
    );
}

#[test]
fn pods_are_names_of_addresses() {
    is_no_name(&mut bench(""), &["10-240-0-1.tools.pod.cluster.local A", "tools.pod.cluster.local A"]);

    let mut insecure = bench("pods insecure");
    assert_eq!(answers(&mut insecure, "10-240-0-1.tools.pod.cluster.local A"), ["10.240.0.1"]);
    assert_eq!(answers(&mut insecure, "172-0-0-9.tools.pod.cluster.local A"), ["172.0.0.9"]);
    assert_eq!(answers(&mut insecure, "fd00--9.tools.pod.cluster.local AAAA"), ["fd00::9"]);
    assert_eq!(
        answers(&mut insecure, "172-0-0-9.tools.pod.cluster.local SRV"),
        ["0 100 0 172-0-0-9.tools.pod.cluster.local."]
    );
    is_no_data(&mut insecure, &["tools.pod.cluster.local A", "1-2-3-4.tools.pod.cluster.local AAAA"]);
    is_no_name(
        &mut insecure,
        &[
            "blah.tools.pod.cluster.local A",
            "blah.tools.pod.cluster.local HINFO",
            "1-2-3-4.nowhere.pod.cluster.local A",
            "1-2-3.tools.pod.cluster.local A",
        ],
    );

    let mut verified = bench("pods verified");
    assert_eq!(answers(&mut verified, "10-240-0-1.tools.pod.cluster.local A"), ["10.240.0.1"]);
    assert_eq!(answers(&mut verified, "fd00--1.tools.pod.cluster.local AAAA"), ["fd00::1"]);
    is_no_data(&mut verified, &["tools.pod.cluster.local A"]);
    is_no_name(
        &mut verified,
        &[
            "10-240-0-1.shop.pod.cluster.local A",
            "172-0-0-9.tools.pod.cluster.local A",
            "fd00-0-0-0-0-0-0-1.tools.pod.cluster.local AAAA",
            "nowhere.pod.cluster.local A",
        ],
    );
}

#[test]
fn only_namespaces_that_are_listed_are_shown() {
    let mut bench = bench("namespaces shop other");
    assert_eq!(answers(&mut bench, "web.shop.svc.cluster.local A"), ["10.0.0.1"]);
    is_no_name(
        &mut bench,
        &["web.tools.svc.cluster.local A", "tools.svc.cluster.local A", "other.svc.cluster.local A"],
    );
}

#[test]
fn names_that_do_not_exist_fall_through_where_allowed() {
    let mut bench = bench("fallthrough in-addr.arpa shop.svc.cluster.local");
    is_no_name(&mut bench, &["web.nowhere.svc.cluster.local A"]);
    let answered_by_next =
        |bench: &mut Bench, question: &str| bench.ask(question).additional.len() == 2;
    assert!(answered_by_next(&mut bench, "none.shop.svc.cluster.local A"));
    assert!(answered_by_next(&mut bench, "9.9.9.9.in-addr.arpa PTR"));
    assert!(answered_by_next(&mut bench, "elsewhere.test A"));
    assert!(!answered_by_next(&mut bench, "web.shop.svc.cluster.local A"));
    assert!(!answered_by_next(&mut bench, "web.shop.svc.cluster.local AAAA"));
}

#[test]
fn live_answers_are_not_kept() {
    let mut bench = Bench::new(
        ".:53 {\n cache 30\n kubernetes cluster.local {\n ttl 60\n fallthrough shop.svc.cluster.local\n }\n whoami\n}",
    );
    bench.publish("namespace shop", SERIAL);
    let denied = bench.ask("web.cluster.local A");
    assert_eq!(denied.flags.rcode(), nodens_wire::Rcode::NXDOMAIN);
    assert_eq!(denied.authority[0].ttl, 30, "`cache` still says how long others may keep it");
    bench.ask("web.tools.svc.cluster.local A");
    for last in [1, 2] {
        let cluster = format!("namespace tools\nservice tools/web 10.0.0.{last} http:tcp:80");
        bench.publish(&cluster, SERIAL + last);
        assert_eq!(answers(&mut bench, "web.tools.svc.cluster.local A"), [format!("10.0.0.{last}")]);
    }
}
