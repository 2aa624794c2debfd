//! Single queries and requests, from whatever namespace the calling thread is in.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nodens_wire::{Message, Name, Rcode, Type};

/// A name that exists in the cluster.
pub(crate) const INSIDE: &str = "api.default.svc.cluster.local";

/// How long one answer is waited for.
const TIMEOUT: Duration = Duration::from_millis(500);
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// A query with the ID `id`.
pub(crate) fn question(id: u16, name: &str, qtype: Type) -> Result<Vec<u8>> {
    let mut message = Vec::from(id.to_be_bytes());
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend(Name::parse(name).with_context(|| name.to_owned())?.view().as_wire());
    message.extend(qtype.0.to_be_bytes());
    message.extend([0, 1]);
    Ok(message)
}

/// A UDP socket with a port of its own that only hears `server`.
pub(crate) fn socket(server: SocketAddr) -> Result<UdpSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).context("cannot open a socket")?;
    socket.connect(server)?;
    Ok(socket)
}

/// Asks once over UDP.
pub(crate) fn ask(server: IpAddr, name: &str, qtype: Type) -> Result<Message> {
    exchange(server, &question(4711, name, qtype)?)
}

/// As [`ask`], with EDNS (RFC 6891), so that the answer can say more.
pub(crate) fn ask_with_options(server: IpAddr, name: &str, qtype: Type) -> Result<Message> {
    let mut message = question(4711, name, qtype)?;
    message[11] = 1;
    message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    exchange(server, &message)
}

fn exchange(server: IpAddr, question: &[u8]) -> Result<Message> {
    let socket = socket((server, 53).into())?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(question)?;
    let mut octets = [0; 4096];
    let size = socket.recv(&mut octets)?;
    Message::parse(octets.get(..size).unwrap_or_default()).context("the response cannot be parsed")
}

/// Whether a server has the addresses of a name of the cluster.
pub(crate) fn answers(server: IpAddr) -> bool {
    let answer = ask(server, INSIDE, Type::A);
    let good =
        answer.is_ok_and(|message| rcode(&message) == Rcode::NOERROR && !message.answer.is_empty());
    if !good {
        // Who asks again and again leaves others time.
        std::thread::sleep(Duration::from_millis(20));
    }
    good
}

/// The RCODE of a message.
pub(crate) fn rcode(message: &Message) -> Rcode {
    Rcode(message.flags.rcode().0)
}

/// The body of `path` over HTTP.
pub(crate) fn http(server: SocketAddr, path: &str) -> Result<String> {
    http_within(HTTP_TIMEOUT, server, path)
}

/// As [`http()`]; connecting may take so long, and so may the answer.
pub(crate) fn http_within(limit: Duration, server: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, limit)?;
    stream.set_read_timeout(Some(limit))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("{path}: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
