//! One query and its response, for the few places that block: start, reload, and threads that check a server.
//!
//! What clients wait for goes through the workers' sockets instead, see [`crate::upstream`].

mod quic;

use crate::http::client::{Client, Failure, Speech};
use crate::limits::RESPONSE_LEN_MAX;
use crate::random::Random;
use nodens_core::ListenerKind;
use nodens_core::upstream::{Carrier, Peer, Upstream};
use nodens_tls::rustls::StreamOwned;
use nodens_wire::reader::Reader;
use nodens_wire::{Builder, Class, Flags, HEADER_LEN, Header, NameRef, Type, framing};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over UDP.
    Udp,
    /// Over TCP.
    Tcp,
    /// Within TLS, of the server that it has to be.
    Tls(Arc<Peer>),
    /// Over HTTPS, of the server that it has to be.
    Https(Arc<Peer>),
    /// Over QUIC, of the server that it has to be.
    Quic(Arc<Peer>),
}

impl Way {
    /// As `upstream` is asked over `carrier`.
    pub fn of(upstream: &Upstream, carrier: Carrier) -> Self {
        match (&upstream.key.tls, carrier) {
            (Some(peer), Carrier::Https) => Self::Https(peer.clone()),
            (Some(peer), Carrier::Quic) => Self::Quic(peer.clone()),
            (Some(peer), _) => Self::Tls(peer.clone()),
            (None, Carrier::Udp) => Self::Udp,
            (None, _) => Self::Tcp,
        }
    }

    /// The transport.
    pub fn carrier(&self) -> Carrier {
        match self {
            Self::Udp => Carrier::Udp,
            Self::Tcp => Carrier::Tcp,
            Self::Tls(_) => Carrier::Tls,
            Self::Https(_) => Carrier::Https,
            Self::Quic(_) => Carrier::Quic,
        }
    }
}

/// Sends `server` a query for `qname` and `qtype` and waits for the octets of the response for as long as `patience` says; over TCP
/// connecting may take as long before that, a handshake counts. Over UDP, messages that do not belong to the query are skipped (RFC 5452, section 9).
///
/// # Errors
/// What the system says, [`ErrorKind::TimedOut`], over TCP, TLS and QUIC [`ErrorKind::InvalidData`] for a message that is
/// not the response, or for a server that is not the one it has to be.
pub fn ask(
    server: SocketAddr,
    way: &Way,
    qname: NameRef<'_>,
    qtype: Type,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let query = Query { id: Random::new().u16(), qname, qtype };
    let response = match way {
        Way::Udp => query.over_udp(server, patience),
        Way::Tcp => query.over_stream(server, None, patience),
        Way::Tls(peer) => query.over_stream(server, Some(peer), patience),
        Way::Https(peer) => query.over_https(server, peer, patience),
        Way::Quic(peer) => query.over_quic(server, peer, patience),
    };
    response.map_err(|error| match error.kind() {
        // What a read says whose time is over, and what the system says of a connection, in the same words.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ErrorKind::TimedOut.into(),
        _ => error,
    })
}

#[derive(Clone, Copy)]
struct Query<'q> {
    id: u16,
    qname: NameRef<'q>,
    qtype: Type,
}

impl Query<'_> {
    fn message(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(64);
        let mut builder = Builder::new(&mut message, self.id, Flags(Flags::RD));
        builder.question(self.qname, self.qtype, Class::IN);
        message
    }

    /// Whether these octets begin as the response does: ID, QR and question, which a server may leave out. What
    /// follows may be cut off, or not be understood here: that the server answers is known all the same.
    fn is_answered_by(&self, octets: &[u8]) -> bool {
        Header::read(octets).is_ok_and(|header| header.id == self.id) && self.is_in_response(octets)
    }

    /// The same whatever the ID is.
    fn is_in_response(&self, octets: &[u8]) -> bool {
        let Ok(Header { flags, counts: [questions, ..], .. }) = Header::read(octets) else {
            return false;
        };
        let is_same = || {
            let (mut reader, mut name) = (Reader::new(octets, HEADER_LEN), Vec::new());
            reader.name(&mut name).is_ok()
                && name.eq_ignore_ascii_case(self.qname.as_wire())
                && reader.u16("QTYPE") == Ok(self.qtype.0)
        };
        flags.has(Flags::QR) && (questions == 0 || is_same())
    }

    fn over_udp(&self, server: SocketAddr, patience: Duration) -> io::Result<Vec<u8>> {
        let local: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((local, 0))?;
        socket.connect(server)?;
        socket.send(&self.message())?;
        let until = Instant::now() + patience;
        let mut octets = [0; RESPONSE_LEN_MAX];
        loop {
            socket.set_read_timeout(Some(left(until)?))?;
            let len = match socket.recv(&mut octets) {
                // A signal: no system call with a time limit is continued after one.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                received => received?,
            };
            let received = octets.get(..len).unwrap_or_default();
            if self.is_answered_by(received) {
                return Ok(received.to_vec());
            }
        }
    }

    fn over_stream(
        &self,
        server: SocketAddr,
        peer: Option<&Peer>,
        patience: Duration,
    ) -> io::Result<Vec<u8>> {
        let stream = until(server, patience)?;
        let octets = match peer {
            None => self.exchange(stream)?,
            Some(peer) => {
                let session = peer.connect().map_err(io::Error::other)?;
                self.exchange(StreamOwned::new(session, stream)).map_err(in_words_of_go)?
            }
        };
        self.check(octets)
    }

    /// The response, if it is one.
    fn check(&self, octets: Vec<u8>) -> io::Result<Vec<u8>> {
        if !self.is_answered_by(&octets) {
            return Err(io::Error::new(ErrorKind::InvalidData, "its response is malformed"));
        }
        Ok(octets)
    }

    fn over_https(
        &self,
        server: SocketAddr,
        peer: &Peer,
        patience: Duration,
    ) -> io::Result<Vec<u8>> {
        let stream = until(server, patience)?;
        let session = peer.connect().map_err(io::Error::other)?;
        let invalid = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
        let speech = Speech::of(ListenerKind::Https, server, Some(peer));
        let mut client = Client::new(speech.ok_or_else(|| invalid("it has no name"))?);
        let message = Query { id: 0, ..*self }.message();
        if !client.ask(0, &message, false) {
            return Err(invalid("it takes no query"));
        }
        let mut stream = StreamOwned::new(session, stream);
        let mut octets = [0; RESPONSE_LEN_MAX];
        loop {
            stream.write_all(&client.take_output()).map_err(in_words_of_go)?;
            let len = stream.read(&mut octets).map_err(in_words_of_go)?;
            if len == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            client.receive(octets.get(..len).unwrap_or_default());
            match client.next().map(|done| done.result) {
                Some(Ok(octets)) if self.is_in_response(&octets) => return Ok(octets),
                Some(Ok(_)) => return Err(invalid("its response is malformed")),
                Some(Err(Failure::Unseen(why) | Failure::Refused(why))) => {
                    return Err(invalid(&why));
                }
                None => {}
            }
            if let Some(why) = client.end() {
                return Err(invalid(why));
            }
        }
    }

    fn over_quic(
        &self,
        server: SocketAddr,
        peer: &Peer,
        patience: Duration,
    ) -> io::Result<Vec<u8>> {
        // RFC 9250 section 4.2.1.
        let query = Query { id: 0, ..*self };
        query.check(quic::exchange(server, peer, &query.message(), patience)?)
    }

    fn exchange(&self, mut stream: impl Read + Write) -> io::Result<Vec<u8>> {
        stream.write_all(&framing::framed(&self.message()))?;
        framing::read_message(&mut stream)
    }
}

/// A connection to `server`, which has so long to be made and then to be used.
fn until(server: SocketAddr, patience: Duration) -> io::Result<Until> {
    let stream = TcpStream::connect_timeout(&server, patience)?;
    let until = Instant::now() + patience;
    stream.set_write_timeout(Some(patience))?;
    Ok(Until { stream, until })
}

/// What TLS does not like, as operators know it.
fn in_words_of_go(error: io::Error) -> io::Error {
    match crate::fault::of_tls(&error) {
        Some(text) => io::Error::new(ErrorKind::InvalidData, text),
        None => error,
    }
}

/// Reads until a point in time, however few octets come at once.
struct Until {
    stream: TcpStream,
    until: Instant,
}

impl Read for Until {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        self.stream.read(octets)
    }
}

impl Write for Until {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.stream.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time that is left; an error if there is none.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Message, Name, Rcode};
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_millis(300);

    fn ask_here(server: SocketAddr, way: &Way) -> io::Result<Vec<u8>> {
        let qname: Name = "www.example.".parse().unwrap();
        ask(server, way, qname.view(), Type::A, PATIENCE)
    }

    #[test]
    fn forged_responses_are_skipped() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut octets = [0; 512];
            let (len, client) = socket.recv_from(&mut octets).unwrap();
            let query = Message::parse(&octets[..len]).unwrap();
            let send = |change: fn(&mut Message)| {
                let mut reply = query.clone();
                reply.flags = reply.flags.reply().with_rcode(Rcode::NXDOMAIN);
                change(&mut reply);
                let mut out = Vec::new();
                reply.write(&mut out).unwrap();
                // What comes behind a message belongs to none.
                out.push(7);
                socket.send_to(&out, client).unwrap();
            };
            send(|reply| reply.id ^= 1);
            send(|reply| reply.flags = Flags(0));
            send(|reply| reply.questions[0].qname = "other.example.".parse().unwrap());
            send(|reply| {
                reply.questions.clear();
                reply.flags = reply.flags.with_rcode(Rcode::REFUSED);
            });
        });
        let response = ask_here(server, &Way::Udp).unwrap();
        assert_eq!(nodens_wire::header::flags(&response).rcode(), Rcode::REFUSED);
        answering.join().unwrap();
    }

    #[test]
    fn octets_that_come_one_by_one_do_not_prolong_the_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let talking = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&[1, 0]).unwrap();
            while stream.write_all(&[0]).is_ok() {
                std::thread::sleep(PATIENCE / 5);
            }
        });
        let error = ask_here(server, &Way::Tcp).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        talking.join().unwrap();
        assert_eq!(ask_here(server, &Way::Tcp).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
