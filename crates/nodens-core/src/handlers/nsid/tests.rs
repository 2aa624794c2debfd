use crate::testing::Bench;
use nodens_wire::edns::{Options, code, push_option};
use nodens_wire::{Builder, Class, Flags, Message, Type};

fn request(options: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let qname: nodens_wire::Name = "example.org.".parse().unwrap();
    Builder::new(&mut out, 4711, Flags(0)).question(qname.view(), Type::A, Class::IN);
    let edns = nodens_wire::shape::ResponseEdns { udp_size: 1232, flags: 0, options };
    nodens_wire::shape::shape(&mut out, nodens_wire::Rcode::NOERROR, Some(edns), 512).unwrap();
    out
}

fn identifier(corefile: &str, request: &[u8]) -> Option<String> {
    let answer = Message::parse(&Bench::new(corefile).ask_bytes(request).unwrap()).unwrap();
    let (_, mut options) = answer.edns()?;
    let (_, data) = options.find(|(option, _)| *option == code::NSID)?;
    Some(String::from_utf8(data.to_vec()).unwrap())
}

#[test]
fn the_identifier_is_sent_to_those_who_ask_for_it() {
    let mut option = Vec::new();
    push_option(&mut option, code::NSID, b"");
    let corefile = ".:53 {\n nsid Use The Force\n whoami\n}";
    assert_eq!(identifier(corefile, &request(&option)).as_deref(), Some("Use The Force"));
    assert_eq!(identifier(corefile, &request(&[])), None);
    // The hostname that BuildOptions gives by default.
    let corefile = ".:53 {\n nsid\n whoami\n}";
    assert_eq!(identifier(corefile, &request(&option)).as_deref(), Some("localhost"));
    // The server's own responses do not carry it.
    let corefile = "example.net.:53 {\n nsid\n whoami\n}";
    assert_eq!(identifier(corefile, &request(&option)), None);
}

#[test]
fn an_identifier_that_is_there_is_replaced() {
    let mut options = Vec::new();
    push_option(&mut options, code::NSID, b"upstream");
    push_option(&mut options, code::PADDING, b"\0\0");
    super::remove(&mut options);
    assert_eq!(Options::new(&options).collect::<Vec<_>>(), [(code::PADDING, &b"\0\0"[..])]);
}

#[test]
fn a_second_one_and_braces_are_refused() {
    for directive in ["nsid a\n nsid b", "nsid {\n a\n}"] {
        let error = Bench::try_new(&format!(".:53 {{\n {directive}\n}}")).unwrap_err().to_string();
        assert!(error.starts_with("Corefile:"), "{error}");
    }
}
