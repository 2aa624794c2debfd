use super::Prefix;
use crate::testing::{Bench, Reaction};
use nodens_wire::{Builder, Class, Flags, Message, Rcode, Section, Type};
use std::net::{Ipv6Addr, SocketAddr};

type Rr = (Section, Type, u32, Vec<u8>);

fn a(ttl: u32) -> Rr {
    (Section::Answer, Type::A, ttl, vec![192, 0, 2, 33])
}

fn aaaa() -> Rr {
    (Section::Answer, Type::AAAA, 900, vec![1; 16])
}

fn soa(ttl: u32) -> Rr {
    (Section::Authority, Type::SOA, ttl, vec![0; 22])
}

/// A server whose upstream answers AAAA and A questions like this.
fn bench(directive: &str, six: (Rcode, Vec<Rr>), four: (Rcode, Vec<Rr>)) -> Bench {
    let mut bench = Bench::new(&format!(".:53 {{\n{directive}\nforward . 192.0.2.53\n}}"));
    bench.client.peer = SocketAddr::from((Ipv6Addr::LOCALHOST, 40_000));
    bench.upstream(move |_, question| {
        let asked = &question.questions[0];
        let (rcode, records) = if asked.qtype == Type::AAAA { &six } else { &four };
        let mut reply = Vec::new();
        let flags = question.flags.reply().with(Flags::RA, true).with_rcode(*rcode);
        let mut builder = Builder::new(&mut reply, question.id, flags);
        builder.question(asked.qname.view(), asked.qtype, asked.qclass);
        for (section, rtype, ttl, rdata) in records {
            let fields = (*rtype, Class::IN, *ttl);
            builder.record(*section, asked.qname.view(), fields, rdata).unwrap();
        }
        Reaction::Reply(reply)
    });
    bench
}

fn answers(message: &Message) -> Vec<(Type, u32, Vec<u8>)> {
    message.answer.iter().map(|r| (r.rtype, r.ttl, r.rdata.clone())).collect()
}

fn synthetic(ttl: u32) -> (Type, u32, Vec<u8>) {
    let address: Ipv6Addr = "64:ff9b::c000:221".parse().unwrap();
    (Type::AAAA, ttl, address.octets().to_vec())
}

const OK: Rcode = Rcode::NOERROR;

#[test]
fn a_name_with_a_alone_gets_aaaa_and_is_counted() {
    let mut bench = bench("dns64", (OK, vec![]), (OK, vec![a(900), a(60)]));
    let answer = bench.ask("Ok.test. AAAA");
    assert_eq!(answers(&answer), [synthetic(600), synthetic(60)]);
    assert_eq!(answer.questions[0].qtype, Type::AAAA);
    assert_eq!(answer.answer[0].owner.to_string(), "Ok.test.");
    assert_eq!(answer.flags, Flags(Flags::QR | Flags::RD));
    let text = bench.shared.registry.render();
    let line = "coredns_dns64_requests_translated_total{server=\"dns://:53\"} 1\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(bench.worker.pending(), 0);
}

#[test]
fn the_soa_of_the_empty_answer_limits_the_ttl() {
    for (soa_ttl, expected) in [(60, 60), (3600, 900)] {
        let mut bench = bench("dns64", (OK, vec![soa(soa_ttl)]), (OK, vec![a(900)]));
        assert_eq!(answers(&bench.ask("a.test. AAAA")), [synthetic(expected)]);
    }
}

#[test]
fn aaaa_records_stay_unless_all_is_translated() {
    let mut keep = bench("dns64", (OK, vec![aaaa()]), (OK, vec![a(60)]));
    assert_eq!(answers(&keep.ask("a.test. AAAA")), [(Type::AAAA, 900, vec![1; 16])]);
    assert_eq!(keep.asked, 1);
    let all = "dns64 {\n translate_all\n}";
    let mut all = bench(all, (OK, vec![aaaa()]), (OK, vec![a(60)]));
    assert_eq!(answers(&all.ask("a.test. AAAA")), [synthetic(60)]);
}

#[test]
fn a_name_that_does_not_exist_is_not_looked_up_again() {
    let mut bench = bench("dns64", (Rcode::NXDOMAIN, vec![soa(60)]), (OK, vec![a(60)]));
    let answer = bench.ask("a.test. AAAA");
    assert_eq!((answer.flags.rcode(), answer.authority.len()), (Rcode::NXDOMAIN, 1));
    assert_eq!(bench.asked, 1);
}

#[test]
fn a_truncated_response_says_nothing_of_records() {
    for (directive, truncated) in [("dns64", true), ("dns64 {\n translate_all\n}", false)] {
        let mut bench = bench(directive, (OK, vec![]), (OK, vec![a(60)]));
        bench.upstream(|_, question| {
            let asked = &question.questions[0];
            let flags = question.flags.reply().with(Flags::TC, asked.qtype == Type::AAAA);
            let mut reply = Vec::new();
            let mut builder = Builder::new(&mut reply, question.id, flags);
            builder.question(asked.qname.view(), asked.qtype, asked.qclass);
            if asked.qtype == Type::A {
                let fields = (Type::A, Class::IN, 60);
                let address = [192, 0, 2, 33];
                builder.record(Section::Answer, asked.qname.view(), fields, &address).unwrap();
            }
            Reaction::Reply(reply)
        });
        let answer = bench.ask("a.test. AAAA");
        // The AAAA records may be in the rest. All addresses are translated whatever there is.
        assert_eq!((answer.flags.has(Flags::TC), answer.answer.is_empty()), (truncated, truncated));
    }
}

#[test]
fn errors_are_as_good_as_no_answer() {
    let mut fixed = bench("dns64", (Rcode::NOTIMP, vec![]), (OK, vec![a(60)]));
    assert_eq!(answers(&fixed.ask("a.test. AAAA")), [synthetic(60)]);
    let mut failed = bench("dns64", (OK, vec![]), (Rcode::REFUSED, vec![]));
    assert_eq!(failed.ask("a.test. AAAA").flags.rcode(), Rcode::REFUSED);
}

#[test]
fn other_types_and_clients_over_ipv4_pass() {
    let mut v4 = bench("dns64", (OK, vec![]), (OK, vec![a(60)]));
    v4.client.peer = "192.0.2.9:40000".parse().unwrap();
    assert!(v4.ask("a.test. AAAA").answer.is_empty());
    assert_eq!(answers(&v4.ask("b.test. A")), [(Type::A, 60, vec![192, 0, 2, 33])]);
    let mut allowed = bench("dns64 {\n allow_ipv4\n}", (OK, vec![]), (OK, vec![a(60)]));
    allowed.client.peer = "[::ffff:192.0.2.9]:40000".parse().unwrap();
    assert_eq!(answers(&allowed.ask("a.test. AAAA")), [synthetic(60)]);
}

/// The table of RFC 6052 section 2.4.
#[test]
fn addresses_are_embedded_as_rfc_6052_says() {
    for (prefix, octets, expected) in [
        ("2001:db8::", 4, "2001:db8:c000:221::"),
        ("2001:db8:100::", 5, "2001:db8:1c0:2:21::"),
        ("2001:db8:122::", 6, "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::", 7, "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::", 8, "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::", 12, "2001:db8:122:344::192.0.2.33"),
    ] {
        let network: Ipv6Addr = prefix.parse().unwrap();
        let prefix = Prefix { network: network.octets(), octets };
        let expected: Ipv6Addr = expected.parse().unwrap();
        assert_eq!(prefix.embed([192, 0, 2, 33]), expected);
    }
}

#[test]
fn what_coredns_refuses_is_refused_at_its_place() {
    for (directive, expected) in [
        ("dns64 64:ff9b::/97", "2:7: expected an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits"),
        ("dns64 1.2.3.0/24", "2:7: expected an IPv6 prefix"),
        ("dns64 64:ff9b::", "2:7: expected an IPv6 prefix"),
        ("dns64 a b", "2:9: Wrong argument count"),
        ("dns64 {\n prefix\n}", "3:2: Wrong argument count"),
        ("dns64 {\n prefix 64:ff9b::/32 x\n}", "3:22: Wrong argument count"),
        ("dns64 {\n translate_all yes\n}", "3:16: Wrong argument count"),
        ("dns64 {\n translate\n}", "3:2: unknown property 'translate'"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n{directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{expected}")), "{error}");
    }
}

#[test]
fn occurrences_add_up() {
    let twice = "dns64 {\n allow_ipv4\n}\ndns64 2001:db8::/32";
    let mut bench = bench(twice, (OK, vec![]), (OK, vec![a(60)]));
    bench.client.peer = "192.0.2.9:40000".parse().unwrap();
    assert!(!bench.ask("a.test. AAAA").answer.is_empty());
}
