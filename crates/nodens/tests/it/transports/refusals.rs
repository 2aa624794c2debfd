//! What is refused over one transport is refused over all of them.

use super::load::{Connection, Kind, Way};
use super::{ANSWERS, Authority, Ours, PATIENT};
use crate::fixture::{PATIENCE, ask_udp, framed, request};
use bytes::Bytes;
use nodens_wire::{Message, Rcode, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How long nothing has to come after a message for it to be silence: what is no response has one.
fn patience(message: &[u8]) -> Duration {
    if message[2] & 0x80 > 0 { Duration::from_millis(300) } else { PATIENCE }
}

/// What the server does with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Rcode(Rcode),
    Nothing,
    /// The status of HTTP, or the connection's or the call's code.
    Refused(u32),
}

/// A TSIG record of a key that nobody knows, with a signature of zeros.
fn tsig() -> Vec<u8> {
    let mut rdata = b"\x0bhmac-sha256\0".to_vec();
    rdata.extend([0, 0, 0x60, 0, 0, 0, 1, 44, 0, 32]);
    rdata.extend([0; 32]);
    rdata.extend([0; 6]);
    let mut record = b"\x07unknown\0\0\xfa\0\xff\0\0\0\0".to_vec();
    record.extend((rdata.len() as u16).to_be_bytes());
    record.extend(rdata);
    record
}

/// A query with a change.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = request("a.example.", Type::A);
    // As QUIC has it.
    nodens_wire::header::set_id(&mut message, 0);
    change(&mut message);
    message
}

/// Messages, and whether they are admitted.
fn messages() -> Vec<(&'static str, Vec<u8>, bool)> {
    vec![
        ("a query", changed(|_| {}), true),
        (
            "a signed query",
            changed(|message| {
                message[11] = 1;
                message.extend(tsig());
            }),
            true,
        ),
        (
            "a signature in front of another record",
            changed(|message| {
                message[11] = 2;
                message.extend(tsig());
                message.extend(b"\0\0\x29\x10\0\0\0\0\0\0\0");
            }),
            true,
        ),
        (
            "a signature that is cut",
            changed(|message| {
                message[11] = 1;
                let record = tsig();
                message.extend(&record[..record.len() - 9]);
            }),
            false,
        ),
        ("an UPDATE", changed(|message| message[2] |= 5 << 3), false),
        (
            "a signed UPDATE",
            changed(|message| {
                message[2] |= 5 << 3;
                message[11] = 1;
                message.extend(tsig());
            }),
            false,
        ),
        ("a STATUS", changed(|message| message[2] |= 2 << 3), false),
        ("an opcode without a meaning", changed(|message| message[2] |= 15 << 3), false),
        ("a response", changed(|message| message[2] |= 0x80), false),
        ("two questions", changed(|message| message[5] = 2), false),
        ("a message that is cut", changed(|message| message.truncate(20)), false),
    ]
}

fn over_udp(server: SocketAddr, message: &[u8]) -> Said {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(patience(message))).unwrap();
    socket.connect(server).unwrap();
    socket.send(message).unwrap();
    let mut answer = [0; 4096];
    match socket.recv(&mut answer) {
        Ok(len) => rcode(&answer[..len]),
        Err(_) => Said::Nothing,
    }
}

fn rcode(message: &[u8]) -> Said {
    Said::Rcode(Message::parse(message).unwrap().flags.rcode())
}

/// What comes of a message on a stream: a response, or nothing, or the end of the stream.
async fn over_stream(
    mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin,
    message: &[u8],
) -> Said {
    stream.write_all(&framed(message)).await.unwrap();
    stream.flush().await.unwrap();
    let mut len = [0; 2];
    let Ok(Ok(_)) = timeout(patience(message), stream.read_exact(&mut len)).await else {
        return Said::Nothing;
    };
    let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut answer).await.unwrap();
    rcode(&answer)
}

async fn over_http(connection: Connection, path: &str, body: Vec<u8>, around: usize) -> Said {
    let Connection::Https(requests, _) = connection else { panic!("no HTTP") };
    let media_type = if around > 0 { "application/grpc" } else { "application/dns-message" };
    let head = http::Request::post(format!("https://dns.example{path}"));
    let head = head.header("content-type", media_type).body(()).unwrap();
    let mut requests = requests.ready().await.unwrap();
    let (response, mut stream) = requests.send_request(head, false).unwrap();
    stream.send_data(Bytes::from(body), true).unwrap();
    let (head, mut stream) = response.await.unwrap().into_parts();
    if head.status != 200 {
        return Said::Refused(u32::from(head.status.as_u16()));
    }
    if let Some(status) = head.headers.get("grpc-status") {
        return Said::Refused(status.to_str().unwrap().parse().unwrap());
    }
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        body.extend_from_slice(&data.unwrap());
    }
    rcode(&body[around..])
}

async fn over_quic(connection: &quinn::Connection, message: &[u8]) -> Said {
    let (mut sending, mut receiving) = connection.open_bi().await.unwrap();
    sending.write_all(&framed(message)).await.unwrap();
    _ = sending.finish();
    match timeout(PATIENCE, receiving.read_to_end(65_537)).await.unwrap() {
        Ok(octets) => rcode(&octets[2..]),
        Err(_) => match connection.closed().await {
            quinn::ConnectionError::ApplicationClosed(close) => {
                Said::Refused(u32::try_from(close.error_code.into_inner()).unwrap())
            }
            error => panic!("{error}"),
        },
    }
}

/// What the server does with a message over each transport with TLS in it: TLS, HTTPS, gRPC, QUIC.
async fn over_all(way: &Way, message: &[u8]) -> [Said; 4] {
    let connect = async |kind| way.connect(kind, true).await.unwrap().0;
    let Connection::Tls(stream) = connect(Kind::Tls).await else { panic!("no TLS") };
    let tls = over_stream(stream, message).await;
    let https = over_http(connect(Kind::Https).await, "/dns-query", message.to_vec(), 0).await;
    let len = message.len() as u8;
    let call = [&[0, 0, 0, 0, len + 2, 0x0a, len], message].concat();
    let path = "/coredns.dns.DnsService/Query";
    let grpc = over_http(connect(Kind::Grpc).await, path, call, 7).await;
    let Connection::Quic(connection) = connect(Kind::Quic).await else { panic!("no QUIC") };
    [tls, https, grpc, over_quic(&connection, message).await]
}

/// Sends all messages over all transports; gives what the queries got over UDP.
fn compare(ours: &Ours, authority: &Authority) -> Vec<(&'static str, Said)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let way = runtime.block_on(async { Way::new(ours.ports, authority) });
    let address = ours.server.address;
    let mut answered = Vec::new();
    for (what, message, is_admitted) in messages() {
        let udp = over_udp(address, &message);
        let tcp = runtime.block_on(async {
            over_stream(tokio::net::TcpStream::connect(address).await.unwrap(), &message).await
        });
        let [tls, https, grpc, quic] = runtime.block_on(over_all(&way, &message));
        assert_eq!([&tcp, &tls], [&udp, &udp], "{what}");
        if is_admitted {
            assert_eq!([&https, &grpc, &quic], [&udp; 3], "{what}");
            answered.push((what, udp));
        } else {
            assert!(!matches!(udp, Said::Rcode(Rcode::NOERROR)), "{what}");
            // Bad Request, and DOQ_PROTOCOL_ERROR; gRPC has what UDP has, or a status where that is silent.
            assert_eq!([&https, &quic], [&Said::Refused(400), &Said::Refused(2)], "{what}");
            assert!(grpc == udp || matches!(grpc, Said::Refused(_)), "{what}: {grpc:?}");
        }
        assert!(ask_udp(address, "after.example.", Type::A).is_some(), "{what}");
    }
    answered
}

#[test]
fn what_is_no_query_is_refused_alike_over_all_transports() {
    let authority = Authority::new();
    let ours = Ours::start_by("refusals", &authority, &format!("{PATIENT}\n {ANSWERS}"), &[]);
    for (what, said) in compare(&ours, &authority) {
        // Without the directive `tsig` nobody looks at signatures.
        assert_eq!(said, Said::Rcode(Rcode::NOERROR), "{what}");
    }
    // Neither plain DNS nor HTTP nor noise is TLS: an alert at most.
    let plain = framed(&request("a.example.", Type::A));
    for port in [ours.ports.tls, ours.ports.https, ours.ports.grpc] {
        let garbage: [&[u8]; 4] = [
            &plain,
            b"GET /dns-query HTTP/1.1\r\n\r\n",
            &[0xff; 600],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ];
        for octets in garbage {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(octets).unwrap();
            let mut rest = Vec::new();
            _ = stream.read_to_end(&mut rest);
            assert!(rest.len() <= 7, "{octets:?}: {rest:?}");
        }
    }
    ours.end();
}

#[test]
fn signatures_are_asked_for_alike_over_all_transports() {
    let authority = Authority::new();
    let secret =
        "tsig {\n  secret known. NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=\n  require all\n }";
    let ours =
        Ours::start_by("tsig", &authority, &format!("{PATIENT}\n {secret}\n {ANSWERS}"), &[]);
    let answered = compare(&ours, &authority);
    for (what, said) in &answered {
        assert_ne!(said, &Said::Rcode(Rcode::NOERROR), "{what}");
    }
    assert_eq!(answered[0].1, Said::Rcode(Rcode::REFUSED));
    ours.end();
}
