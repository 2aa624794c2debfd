use crate::testing::Bench;
use nodens_wire::{Message, Rcode, Type};
use std::fmt::Write;

const COREFILE: &str = ".:53 {
 ddr Dns.example.net {
  tls
  https 8443 /resolve
  quic 8853
  address 192.0.2.1 2001:db8::1 192.0.2.2
  ttl 60
 }
 whoami
}";

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        _ = write!(text, "{octet:02x}");
        text
    })
}

fn services(answer: &Message) -> Vec<String> {
    assert_eq!(answer.flags.rcode(), Rcode::NOERROR);
    let of_type = answer.answer.iter().filter(|record| record.rtype == Type::SVCB);
    of_type.map(|record| hex(&record.rdata)).collect()
}

#[test]
fn who_has_an_address_or_the_name_is_told_the_services() {
    let mut bench = Bench::new(COREFILE);
    let answer = bench.ask("_DNS.resolver.arpa SVCB");
    let told = services(&answer);
    // Priority, target, alpn, port, ipv4hint, ipv6hint and, for HTTPS, dohpath.
    let target = "03446e73076578616d706c65036e657400";
    let hints = "00040008c0000201c00002020006001020010db8000000000000000000000001";
    assert_eq!(told[0], format!("0001{target}0001000403646f74000300020355{hints}"));
    let path = format!("0007000e{}", hex(b"/resolve{?dns}"));
    assert_eq!(told[1], format!("0002{target}0001000302683200030002{:04x}{hints}{path}", 8443));
    assert_eq!(told[2], format!("0003{target}0001000403646f7100030002{:04x}{hints}", 8853));
    assert_eq!((told.len(), answer.answer[0].ttl), (3, 60));
    assert_eq!(answer.answer[0].owner.to_string(), "_DNS.resolver.arpa.");
    let types: Vec<Type> = answer.additional.iter().map(|record| record.rtype).collect();
    assert_eq!(types, [Type::A, Type::AAAA, Type::A]);
    assert_eq!(answer.additional[0].owner.to_string(), "Dns.example.net.");
    assert_eq!(services(&bench.ask("_dns.dns.EXAMPLE.net SVCB")), told);
}

#[test]
fn the_zone_of_resolvers_goes_to_nobody_else() {
    let mut bench = Bench::new(COREFILE);
    let cases = [
        ("_dns.resolver.arpa A", Rcode::NOERROR),
        ("resolver.arpa NS", Rcode::NOERROR),
        ("other.Resolver.arpa A", Rcode::NXDOMAIN),
        ("a._dns.resolver.arpa SVCB", Rcode::NXDOMAIN),
    ];
    for (question, rcode) in cases {
        let answer = bench.ask(question);
        assert_eq!((answer.flags.rcode(), answer.answer.len()), (rcode, 0), "{question}");
        let soa = &answer.authority[0];
        let owner = soa.owner.to_string();
        assert!(soa.rtype == Type::SOA && owner.eq_ignore_ascii_case("resolver.arpa."), "{owner}");
    }
    assert_eq!(bench.ask("resolver.arpa SOA").answer.len(), 1);
}

#[test]
fn other_names_pass_and_other_types_of_its_name() {
    let mut bench = Bench::new(COREFILE);
    for question in ["_dns.dns.example.net A", "dns.example.net SVCB", "arpa SOA", "resolver.arpa.x A"] {
        // `whoami` answers with the client's address.
        let answer = bench.ask(question);
        assert!(answer.answer.is_empty() && !answer.additional.is_empty(), "{question}");
    }
}

#[test]
fn what_says_nothing_is_refused() {
    let cases = [
        ("ddr", "Wrong argument count"),
        ("ddr . {\n tls\n }", "the name in the certificate"),
        ("ddr a.example", "at least one of tls, https, quic and https3"),
        ("ddr a.example {\n tls 0\n }", "1"),
        ("ddr a.example {\n tls 853 /x\n }", "argument"),
        ("ddr a.example {\n https 443 dns-query\n }", "a path such as /dns-query"),
        ("ddr a.example {\n https 443 /a{x}\n }", "a path such as /dns-query"),
        ("ddr a.example {\n tls\n address here\n }", "here"),
        ("ddr a.example {\n tls\n ttl 0\n }", "86400"),
        ("ddr a.example {\n grpc\n }", "unknown property 'grpc'"),
        ("ddr a.example {\n tls\n }\n ddr b.example {\n tls\n }", "once per Server Block"),
    ];
    for (text, expected) in cases {
        let error = Bench::try_new(&format!(".:53 {{\n {text}\n}}")).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
