//! The address of the ACME server: from the system, or from one DNS server.

use crate::limits::{ALIASES_MAX, RESOLVE_ATTEMPTS, RESOLVE_TIMEOUT};
use hyper_util::client::legacy::connect::dns::Name as HostName;
use nodens_wire::{Class, Message, Name, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::time::timeout;
use tower::Service;

/// Finds addresses by asking `server`, host and port; without one as the system does.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    server: Option<Arc<str>>,
}

impl Resolver {
    pub(crate) fn new(server: Option<String>) -> Self {
        Self { server: server.map(Into::into) }
    }
}

impl Service<HostName> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, host: HostName) -> Self::Future {
        let server = self.server.clone();
        Box::pin(async move {
            // The port is that of the URL, which the caller puts in.
            let found: Vec<_> = match server {
                None => lookup_host((host.as_str(), 0)).await?.collect(),
                Some(server) => {
                    let found = addresses(&server, host.as_str()).await?;
                    found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect()
                }
            };
            Ok(found.into_iter())
        })
    }
}

/// The addresses of `host`, IPv4 first, from the DNS server `server`.
async fn addresses(server: &str, host: &str) -> io::Result<Vec<IpAddr>> {
    let name = Name::parse(host).map_err(|error| io::Error::other(error.to_string()))?;
    let server = lookup_host(server).await?.next();
    let server = server.ok_or_else(|| io::Error::other("the resolver has no address"))?;
    let (mut found, mut failed) = (Vec::new(), None);
    for qtype in [Type::A, Type::AAAA] {
        match ask(server, &name, qtype).await {
            Ok(response) => found.extend(addresses_in(&response, &name, qtype)),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        _ if !found.is_empty() => Ok(found),
        Some(error) => Err(error),
        None => Err(io::Error::other(format!("{server} knows no address of {host}"))),
    }
}

/// Follows CNAME records from `name` to addresses.
fn addresses_in(response: &Message, name: &Name, qtype: Type) -> Vec<IpAddr> {
    let mut name = name.clone();
    for _ in 0..ALIASES_MAX {
        let mut own = response.answer.iter().filter(|record| record.owner == name);
        let alias = own.find(|record| record.rtype == Type::CNAME);
        let Some(alias) = alias else { break };
        let Ok(target) = Name::from_wire(&alias.rdata) else { break };
        name = target;
    }
    let of = response.answer.iter().filter(|record| record.owner == name && record.rtype == qtype);
    of.filter_map(|record| address(&record.rdata)).collect()
}

fn address(rdata: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(rdata).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = || <[u8; 16]>::try_from(rdata).map(|octets| Ipv6Addr::from(octets).into());
    v4.or_else(|_| v6()).ok()
}

/// Asks over UDP, and over TCP what did not fit.
async fn ask(server: SocketAddr, name: &Name, qtype: Type) -> io::Result<Message> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..RESOLVE_ATTEMPTS {
        let query = query(name, qtype);
        let asked = timeout(RESOLVE_TIMEOUT, over_udp(server, &query)).await;
        match asked {
            Ok(Ok(response)) if response.flags.has(nodens_wire::Flags::TC) => {
                return timeout(RESOLVE_TIMEOUT, over_tcp(server, &query)).await?;
            }
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::other(format!("resolver {server} timed out")),
        }
    }
    Err(last)
}

fn query(name: &Name, qtype: Type) -> Vec<u8> {
    let mut query = fastrand::u16(..).to_be_bytes().to_vec();
    // RD, one question.
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend(name.as_wire());
    query.extend(qtype.0.to_be_bytes());
    query.extend(Class::IN.0.to_be_bytes());
    query
}

/// `message` if it is a response to `query`.
fn response(query: &[u8], message: &[u8]) -> Option<Message> {
    let asked = Message::parse(query).ok()?;
    let response = Message::parse(message).ok()?;
    let is_response = response.flags.has(nodens_wire::Flags::QR) && response.id == asked.id;
    (is_response && response.questions == asked.questions).then_some(response)
}

async fn over_udp(server: SocketAddr, query: &[u8]) -> io::Result<Message> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Anything else may come from somebody else.
        if let Some(response) = response(query, buffer.get(..length).unwrap_or_default()) {
            return Ok(response);
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes()[..], query].concat();
    stream.write_all(&framed).await?;
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    let wrong = || io::Error::other(format!("resolver {server} answered something else"));
    response(query, &message).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
