use crate::testing::Bench;
use nodens_wire::edns::OPT_LEN;
use nodens_wire::{Builder, Class, Flags, Message, Type};

/// A question whose OPT record announces `udp_size`.
fn request(udp_size: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + OPT_LEN);
    let qname: nodens_wire::Name = "example.org.".parse().unwrap();
    Builder::new(&mut out, 4711, Flags(0)).question(qname.view(), Type::A, Class::IN);
    let edns = nodens_wire::shape::ResponseEdns { udp_size, flags: 0, options: &[] };
    nodens_wire::shape::shape(&mut out, nodens_wire::Rcode::NOERROR, Some(edns), 512).unwrap();
    out
}

fn announced(directive: &str, udp_size: u16) -> u16 {
    let mut bench = Bench::new(&format!(".:53 {{\n {directive}\n whoami\n}}"));
    let answer = Message::parse(&bench.ask_bytes(&request(udp_size)).unwrap()).unwrap();
    answer.edns().unwrap().0.udp_size
}

#[test]
fn a_larger_size_is_lowered_and_a_smaller_one_kept() {
    assert_eq!(announced("bufsize 1100", 4096), 1100);
    assert_eq!(announced("bufsize 1100", 700), 700);
    assert_eq!(announced("bufsize", 4096), 1232);
    assert_eq!(announced("bufsize 4096\n bufsize 600", 4000), 4000);
    assert_eq!(announced("debug", 4096), 4096);
}

#[test]
fn sizes_outside_of_512_to_4096_and_second_arguments_are_refused() {
    for (directive, at) in [
        ("bufsize 511", "2:10: expected a number from 512 to 4096, found `511`"),
        ("bufsize 4097", "2:10: expected a number from 512 to 4096, found `4097`"),
        ("bufsize -1", "2:10: expected a number from 512 to 4096, found `-1`"),
        ("bufsize big", "2:10: expected a number from 512 to 4096, found `big`"),
        ("bufsize 600 700", "2:14: Wrong argument count after 'bufsize'"),
    ] {
        let error = Bench::try_new(&format!(".:53 {{\n {directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Corefile:{at}")), "{error}");
    }
}
