//! Calls of gRPC.

use super::clients::{Client, Reply, Two, receive};
use crate::client::{assert_answered, question};
use crate::server::Server;
use bytes::Bytes;
use nodens_wire::Message;

const COREFILE: &str = "grpc://.:0 {\n bind 127.0.0.1\n whoami\n}";
const PATH: &str = "/coredns.dns.DnsService/Query";

/// A message as Protocol Buffers and gRPC have it.
fn call(message: &[u8]) -> Vec<u8> {
    assert!(message.len() < 128);
    let len = message.len() as u8;
    [&[0, 0, 0, 0, len + 2, 0x0a, len][..], message].concat()
}

async fn send(client: &mut Client, path: &str, body: Vec<u8>) -> Reply {
    let (mut stream, response) = client.begin_with("POST", path, "application/grpc");
    stream.send_data(Bytes::from(body), true).unwrap();
    receive(response).await.unwrap()
}

#[test]
fn calls_are_answered() {
    let server = Server::start(COREFILE);
    let mut two = Two::connect(server.address());
    for id in 1..50 {
        let reply = two.block_on(async |client| {
            send(client, PATH, call(&question(id, "example.org A"))).await
        });
        assert_eq!((reply.status, reply.field("content-type")), (200, "application/grpc"));
        assert_eq!(reply.trailers["grpc-status"], "0");
        let [0, 0, 0, _, len, 0x0a, field_len, message @ ..] = &reply.body[..] else {
            panic!("{reply:?}");
        };
        assert_eq!(
            (usize::from(*len), usize::from(*field_len)),
            (message.len() + 2, message.len())
        );
        let answer = Message::parse(message).unwrap();
        assert_eq!(answer.id, id);
        assert_answered(&answer);
    }
    server.stop();
}

#[test]
fn failures_have_their_codes() {
    let drops = " acl {\n  drop type TXT\n }\n whoami";
    let server = Server::start(&COREFILE.replace(" whoami", drops));
    let mut two = Two::connect(server.address());
    let good = || call(&question(1, "example.org A"));
    let mut long = vec![0, 0, 0, 0x20, 0];
    long.resize(8 << 10, 0);
    let cases = [
        (PATH, call(b"abc"), "2"),
        (PATH, call(&question(1, "example.org TXT")), "2"),
        (PATH, long, "8"),
        ("/coredns.dns.DnsService/Ask", good(), "12"),
        (PATH, Vec::new(), "13"),
        (PATH, good()[..9].to_vec(), "13"),
    ];
    for (path, body, wanted) in cases {
        let reply = two.block_on(async |client| send(client, path, body).await);
        assert_eq!((reply.status, reply.field("grpc-status")), (200, wanted), "{reply:?}");
    }
    let reply = two.block_on(async |client| client.send("POST", PATH, &good()).await);
    assert_eq!((reply.status, reply.field("grpc-status")), (415, "3"));
    // What speaks no HTTP/2 is closed.
    let mut one = super::One::connect(server.address());
    one.send("GET", PATH, b"");
    assert!(one.ends());
    server.stop();
}
