use super::*;
use nodens_wire::{Builder, Flags, Rcode, Section};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket as StdUdpSocket};
use std::thread;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A response to `query` with these records; truncated if asked for.
fn answer(query: &[u8], records: &[(&str, Type, Vec<u8>)], truncated: bool) -> Vec<u8> {
    let asked = Message::parse(query).unwrap();
    let question = &asked.questions[0];
    let mut out = Vec::new();
    let flags = Flags(Flags::QR | if truncated { Flags::TC } else { 0 });
    let mut builder = Builder::new(&mut out, asked.id, flags);
    builder.question(question.qname.view(), question.qtype, question.qclass);
    for (owner, rtype, rdata) in records {
        let fields = (*rtype, Class::IN, 60);
        builder.record(Section::Answer, name(owner).view(), fields, rdata).unwrap();
    }
    out
}

fn found(server: SocketAddr, host: &str) -> io::Result<Vec<IpAddr>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(addresses(&server.to_string(), host))
}

#[test]
fn addresses_are_found_through_aliases_and_strange_datagrams_are_passed_over() {
    let socket = StdUdpSocket::bind("127.0.0.1:0").unwrap();
    let server = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let query = &buffer[..length];
            let qtype = Message::parse(query).unwrap().questions[0].qtype;
            let alias = name("other.example.").as_wire().to_vec();
            let records = match qtype {
                Type::A => vec![
                    ("ca.example.", Type::CNAME, alias),
                    ("other.example.", Type::A, vec![192, 0, 2, 7]),
                    ("stranger.example.", Type::A, vec![192, 0, 2, 8]),
                ],
                _ => Vec::new(),
            };
            let good = answer(query, &records, false);
            let mut forged = answer(query, &[("ca.example.", Type::A, vec![192, 0, 2, 9])], false);
            forged[0] ^= 1;
            for message in [&b"no message"[..], query, &forged, &good] {
                socket.send_to(message, client).unwrap();
            }
        }
    });
    assert_eq!(found(server, "ca.example").unwrap(), [IpAddr::from([192, 0, 2, 7])]);
    let error = found(server, "none.example").unwrap_err().to_string();
    assert_eq!(error, format!("{server} knows no address of none.example"));
}

#[test]
fn what_does_not_fit_a_datagram_is_asked_for_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let socket = StdUdpSocket::bind(server).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            socket.send_to(&answer(&buffer[..length], &[], true), client).unwrap();
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut query).unwrap();
            let is_v4 = Message::parse(&query).unwrap().questions[0].qtype == Type::A;
            let record = ("ca.example.", Type::A, vec![192, 0, 2, 7]);
            let records = if is_v4 { vec![record] } else { Vec::new() };
            let message = answer(&query, &records, false);
            stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
            stream.write_all(&message).unwrap();
        }
    });
    assert_eq!(found(server, "ca.example").unwrap(), [IpAddr::from([192, 0, 2, 7])]);
}

#[test]
fn a_loop_of_aliases_ends() {
    let records = [("a.example.", "b.example."), ("b.example.", "a.example.")];
    let records =
        records.map(|(owner, target)| (owner, Type::CNAME, name(target).as_wire().to_vec()));
    let query = query(&name("a.example."), Type::A);
    let message = Message::parse(&answer(&query, &records, false)).unwrap();
    assert_eq!(message.flags.rcode(), Rcode::NOERROR);
    assert!(addresses_in(&message, &name("a.example."), Type::A).is_empty());
}
