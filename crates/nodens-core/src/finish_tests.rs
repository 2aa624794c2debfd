use crate::cookie::Secret;
use crate::job::Transport;
use crate::testing::{Bench, request};
use nodens_wire::edns::{code, push_option};
use nodens_wire::{Flags, Message, Rcode};

/// A request with an OPT record that has these options; `version` is that of EDNS.
fn with_options(version: u8, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut wire = request("Example.ORG A +edns");
    let mut rdata = Vec::new();
    for (option, data) in options {
        push_option(&mut rdata, *option, data);
    }
    let end = wire.len();
    wire[end - 5] = version;
    wire[end - 2..].copy_from_slice(&(rdata.len() as u16).to_be_bytes());
    wire.extend(rdata);
    wire
}

fn ask(bench: &mut Bench, version: u8, options: &[(u16, &[u8])]) -> Message {
    let answer = bench.ask_bytes(&with_options(version, options)).expect("an answer");
    Message::parse(&answer).unwrap()
}

fn options(message: &Message) -> Vec<(u16, Vec<u8>)> {
    let (_, options) = message.edns().expect("an OPT record");
    options.map(|(option, data)| (option, data.to_vec())).collect()
}

fn bench() -> Bench {
    let corefile = ".:53 {\n timeouts {\n  idle 7s\n }\n whoami\n}";
    let bench = Bench::new(corefile);
    bench.shared.cookies.set(Secret::new([1; 16])).unwrap();
    bench
}

#[test]
fn another_edns_version_is_answered_with_ours() {
    let mut bench = bench();
    let answer = ask(&mut bench, 1, &[]);
    let (edns, _) = answer.edns().unwrap();
    let rcode = u16::from(edns.extended_rcode) << 4 | answer.flags.rcode().0;
    assert_eq!((Rcode(rcode), edns.version), (Rcode::BADVERS, 0));
    assert_eq!(answer.questions[0].qname.to_string(), "Example.ORG.");
    assert!(answer.flags.has(Flags::QR) && answer.flags.has(Flags::RD));
    assert!(!answer.flags.has(Flags::AA) && answer.additional.len() == 1);
}

#[test]
fn an_extended_rcode_is_a_failure_for_clients_without_edns() {
    let rule =
        "template ANY ANY {\n rcode BADCOOKIE\n answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }";
    let mut bench = Bench::new(&format!(".:53 {{\n {rule}\n}}"));
    let answer = bench.ask("example.org A +edns");
    assert_eq!((answer.flags.rcode(), answer.edns().unwrap().0.extended_rcode), (Rcode(7), 1));
    assert_eq!(answer.answer.len(), 1);
    let answer = bench.ask("Example.org A");
    assert_eq!((answer.flags.rcode(), answer.answer.len()), (Rcode::SERVFAIL, 0));
    assert_eq!(answer.questions[0].qname.to_string(), "Example.org.");
    assert!(answer.flags.has(Flags::QR) && answer.additional.is_empty());
}

#[test]
fn a_cookie_is_answered_with_ours_and_ours_is_kept() {
    let mut bench = bench();
    let first = options(&ask(&mut bench, 0, &[(code::COOKIE, &[5; 8])]));
    assert_eq!((first[0].0, first[0].1.len(), &first[0].1[..8]), (code::COOKIE, 24, &[5; 8][..]));
    let second = options(&ask(&mut bench, 0, &[(code::COOKIE, &first[0].1)]));
    assert_eq!(first, second);
    let twice = [(code::COOKIE, &first[0].1[..]), (code::COOKIE, &[6; 8][..])];
    assert_eq!(options(&ask(&mut bench, 0, &twice)), first);
    assert_eq!(options(&ask(&mut bench, 0, &[])), []);
}

#[test]
fn a_cookie_of_a_length_none_has_is_refused_in_form() {
    let mut bench = bench();
    for len in [0, 7, 9, 15, 41] {
        let answer = ask(&mut bench, 0, &[(code::COOKIE, &vec![0; len])]);
        assert_eq!(answer.flags.rcode(), Rcode::FORMERR, "{len}");
        assert_eq!(answer.questions.len(), 1);
    }
}

#[test]
fn without_a_secret_no_cookie_is_given() {
    let mut bench = Bench::new(".:53 {\n whoami\n}");
    assert_eq!(options(&ask(&mut bench, 0, &[(code::COOKIE, &[5; 8])])), []);
}

#[test]
fn the_idle_time_is_told_over_tcp_only_and_only_if_asked_for() {
    let mut bench = bench();
    assert_eq!(options(&ask(&mut bench, 0, &[(code::TCP_KEEPALIVE, &[])])), []);
    bench.client.transport = Transport::Tcp;
    let told = options(&ask(&mut bench, 0, &[(code::TCP_KEEPALIVE, &[])]));
    assert_eq!(told, [(code::TCP_KEEPALIVE, 70u16.to_be_bytes().to_vec())]);
    assert_eq!(options(&ask(&mut bench, 0, &[])), []);
}

#[test]
fn the_client_gets_its_udp_size_back() {
    for udp_size in [0, 511, 512, 4096_u16] {
        let mut wire = request("example.org A +edns");
        let class = wire.len() - 8;
        wire[class..class + 2].copy_from_slice(&udp_size.to_be_bytes());
        let answer = Message::parse(&bench().ask_bytes(&wire).unwrap()).unwrap();
        assert_eq!(answer.edns().unwrap().0.udp_size, udp_size);
    }
}

#[test]
fn only_a_query_gets_rd_back() {
    let mut wire = request("example.org SOA");
    let notify = Flags(Flags::RD).with_opcode(nodens_wire::Opcode::NOTIFY);
    wire[2..4].copy_from_slice(&notify.0.to_be_bytes());
    let answer = Message::parse(&bench().ask_bytes(&wire).unwrap()).unwrap();
    assert!(!answer.flags.has(Flags::RD));
}

#[test]
fn responses_are_padded_over_tls_only_and_only_if_asked_for() {
    let mut bench = bench();
    let padding: &[(u16, &[u8])] = &[(code::PADDING, &[0; 9]), (code::TCP_KEEPALIVE, &[])];
    let len = |bench: &mut Bench, options| {
        bench.ask_bytes(&with_options(0, options)).expect("an answer").len()
    };
    let plain = len(&mut bench, padding);
    assert!(plain < 200);
    bench.client.transport = Transport::Tcp;
    assert!(len(&mut bench, padding) < 200);
    bench.client.transport = Transport::Tls;
    assert_eq!(len(&mut bench, padding), 468);
    assert!(len(&mut bench, &[]) < 200);
    let told = options(&ask(&mut bench, 0, padding));
    assert_eq!((told[0].0, told[1].0), (code::TCP_KEEPALIVE, code::PADDING));
    assert!(told[1].1.iter().all(|octet| *octet == 0));
}
