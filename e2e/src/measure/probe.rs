//! Queries, one at a time, and what came back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nodens_wire::edns::code;
use nodens_wire::{Message, Name, Rcode, Type};
use tokio::net::UdpSocket;

/// How long one answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(2);

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) rcode: Rcode,
    /// Addresses of A and AAAA records, sorted.
    pub(crate) addresses: Vec<IpAddr>,
    /// Codes of extended errors (RFC 8914).
    pub(crate) extended_errors: Vec<u16>,
}

impl Answer {
    /// Whether it is NOERROR with exactly these addresses.
    pub(crate) fn is(&self, addresses: &[IpAddr]) -> bool {
        let mut wanted = addresses.to_vec();
        wanted.sort();
        self.rcode == Rcode::NOERROR && self.addresses == wanted
    }

    fn read(message: &Message) -> Self {
        let mut addresses: Vec<_> = message
            .answer
            .iter()
            .filter_map(|record| match record.rtype {
                Type::A => <[u8; 4]>::try_from(&record.rdata[..]).ok().map(IpAddr::from),
                Type::AAAA => <[u8; 16]>::try_from(&record.rdata[..]).ok().map(IpAddr::from),
                _ => None,
            })
            .collect();
        addresses.sort();
        let options = message.edns().into_iter().flat_map(|(_, options)| options);
        let extended_errors = options
            .filter(|(option, _)| *option == code::EXTENDED_ERROR)
            .filter_map(|(_, data)| data.first_chunk().map(|octets| u16::from_be_bytes(*octets)))
            .collect();
        Answer { rcode: Rcode(message.flags.rcode().0), addresses, extended_errors }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.rcode, self.addresses)?;
        match &self.extended_errors[..] {
            [] => Ok(()),
            errors => write!(f, " with extended errors {errors:?}"),
        }
    }
}

/// Asks one server over UDP from a port of its own.
#[derive(Debug)]
pub(crate) struct Probe {
    socket: UdpSocket,
    id: u16,
}

impl Probe {
    pub(crate) async fn new(server: SocketAddr) -> Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await.context("cannot open a socket")?;
        socket.connect(server).await?;
        Ok(Probe { socket, id: 0 })
    }

    /// The answer for a name and a type, with EDNS; nothing if none came in time.
    pub(crate) async fn ask(&mut self, name: &str, qtype: Type) -> Result<Option<Answer>> {
        self.id = self.id.wrapping_add(1);
        let mut query = Vec::with_capacity(64);
        query.extend(self.id.to_be_bytes());
        // RD; one question, one additional record.
        query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        query.extend(Name::parse(name).with_context(|| name.to_owned())?.view().as_wire());
        query.extend(qtype.0.to_be_bytes());
        // IN, and an OPT record (RFC 6891 section 6.1.2) that takes 1,232 octets.
        query.extend([0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        let deadline = Instant::now() + TIMEOUT;
        // Nobody listening is no answer either.
        if self.socket.send(&query).await.is_err() {
            return Ok(None);
        }
        let mut octets = vec![0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let len = match tokio::time::timeout(left, self.socket.recv(&mut octets)).await {
                Ok(Ok(len)) => len,
                Ok(Err(_)) | Err(_) => return Ok(None),
            };
            let message =
                Message::parse(&octets[..len]).context("the response cannot be parsed")?;
            if message.id == self.id {
                return Ok(Some(Answer::read(&message)));
            }
        }
    }

    /// Asks until the answer is as wanted; how long that took. The error shows the last answer.
    pub(crate) async fn until(
        &mut self,
        (name, qtype): (&str, Type),
        limit: Duration,
        wanted: impl Fn(&Answer) -> bool,
    ) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let answer = self.ask(name, qtype).await?;
            if answer.as_ref().is_some_and(&wanted) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > limit {
                let last = answer.map_or("none".to_owned(), |answer| answer.to_string());
                bail!("{name} {qtype}: after {limit:?} the last answer was {last}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
