//! Asks both servers one question at the same time, from the same address and port, with the same ID, so that
//! answers that tell the client about itself are equal too.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};

use super::adapt::Adapted;
use super::streams::bad::Bad;
use super::streams::{Reply, Streams, Waits, Wrapping};
use super::transports::{Certificate, Transport};
use nodens_judge::answer::Outcome;
use nodens_judge::question::Question;
use nodens_judge::signature::Signing;

/// How long to wait when neither server has answered. An answer never takes this long unless the case says so.
const SILENCE: Duration = Duration::from_millis(500);
/// How long to wait for the second server once the first has answered.
const PATIENCE: Duration = Duration::from_millis(3000);
/// The same once a server has been silent several times in one case: it probably stays so.
const SHORT_PATIENCE: Duration = Duration::from_millis(400);
const MANY_SILENCES: usize = 3;
/// IXFR and AXFR.
const TRANSFERS: [u16; 2] = [251, 252];

/// The sockets of one case.
pub(crate) struct Client<'a> {
    servers: [&'a Adapted; 2],
    udp: HashMap<IpAddr, UdpSocket>,
    tcp: HashMap<(IpAddr, [SocketAddr; 2]), [TcpStream; 2]>,
    streams: Streams,
    silence: Duration,
    one_sided: usize,
    id: u16,
    /// How the question at work is signed.
    signing: Option<Signing>,
    /// Whether it asks for a transfer, which may be many messages.
    transfers: bool,
}

/// A query, and what is known of the response.
struct Expected<'q> {
    query: &'q [u8],
    signing: Option<&'q Signing>,
    /// Whether it may be many messages.
    transfers: bool,
}

impl<'a> Client<'a> {
    /// `silence` replaces the time after which no answer from either server counts as their answer.
    pub(crate) fn new(
        servers: [&'a Adapted; 2],
        silence: Option<Duration>,
        certificate: Arc<Certificate>,
    ) -> Result<Self> {
        Ok(Client {
            servers,
            udp: HashMap::new(),
            tcp: HashMap::new(),
            streams: Streams::new(certificate)?,
            silence: silence.unwrap_or(SILENCE),
            one_sided: 0,
            id: 1,
            signing: None,
            transfers: false,
        })
    }

    /// Asks both; the first reply is the first server's.
    pub(crate) fn ask(&mut self, question: &Question, transport: Transport) -> Result<[Reply; 2]> {
        let bytes = self.message(question);
        self.signing.clone_from(&question.signing);
        self.transfers = TRANSFERS.contains(&question.qtype);
        let (client, targets) = (question.client, self.targets(question, transport));
        let bare = |outcome| Reply { outcome, wrapping: Wrapping::default() };
        let replies = match transport {
            Transport::Udp => self.ask_udp(client, targets, &bytes)?.map(bare),
            Transport::Tcp => self.ask_tcp(client, targets, &bytes)?.map(bare),
            _ => {
                let waits = self.waits();
                self.streams.ask((transport, client, targets), &bytes, waits)?
            }
        };
        if replies.iter().filter(|reply| reply.outcome == Outcome::Silent).count() == 1 {
            self.one_sided += 1;
        }
        Ok(replies)
    }

    /// Sends both what is wrong around the message of `question`.
    pub(crate) fn send_bad(
        &mut self,
        question: &Question,
        transport: Transport,
        bad: &Bad,
    ) -> Result<[Reply; 2]> {
        let bytes = self.message(question);
        let pair = (transport, question.client, self.targets(question, transport));
        let waits = self.waits();
        self.streams.send_bad(pair, bad, &bytes, waits)
    }

    fn message(&mut self, question: &Question) -> Vec<u8> {
        self.id = self.id.wrapping_add(257);
        question.to_bytes(self.id)
    }

    fn targets(&self, question: &Question, transport: Transport) -> [SocketAddr; 2] {
        let scheme = transport.scheme();
        self.servers.map(|server| server.target(question.client, scheme, question.port))
    }

    fn waits(&self) -> Waits {
        Waits { silence: self.silence, patience: self.patience() }
    }

    fn patience(&self) -> Duration {
        let patience = if self.one_sided < MANY_SILENCES { PATIENCE } else { SHORT_PATIENCE };
        patience.max(self.silence)
    }

    fn ask_udp(
        &mut self,
        client: IpAddr,
        targets: [SocketAddr; 2],
        bytes: &[u8],
    ) -> Result<[Outcome; 2]> {
        let patience = self.patience();
        let socket = match self.udp.entry(client) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => entry
                .insert(UdpSocket::bind((client, 0)).with_context(|| format!("bind {client}"))?),
        };
        for target in targets {
            // A server that has gone shows as an ICMP error here; its silence is the outcome.
            let _ = socket.send_to(bytes, target);
        }
        let start = Instant::now();
        let mut outcomes = [Outcome::Silent, Outcome::Silent];
        let mut buffer = vec![0; 65_535];
        loop {
            let missing = outcomes.iter().filter(|outcome| **outcome == Outcome::Silent).count();
            let limit = match missing {
                0 => break,
                1 => patience,
                _ => self.silence,
            };
            let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            else {
                break;
            };
            socket.set_read_timeout(Some(left))?;
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            let message = &buffer[..length];
            // The first answer counts: a server that answers twice has answered with the first.
            if let Some(index) = targets.iter().position(|target| *target == from)
                && same_id(message, bytes)
                && outcomes[index] == Outcome::Silent
            {
                outcomes[index] = Outcome::read_signed(message, bytes, self.signing.as_ref());
            }
        }
        Ok(outcomes)
    }

    fn ask_tcp(
        &mut self,
        client: IpAddr,
        targets: [SocketAddr; 2],
        bytes: &[u8],
    ) -> Result<[Outcome; 2]> {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let framed = [&length.to_be_bytes()[..], bytes].concat();
        let fresh = !self.tcp.contains_key(&(client, targets));
        let mut streams = match self.tcp.remove(&(client, targets)) {
            Some(streams) => streams,
            None => connect_both(client, targets)?,
        };
        let mut outcomes = self.exchange(&mut streams, &framed, bytes)?;
        // An idle connection may have been closed since: that is no answer to this question.
        if !fresh && outcomes.contains(&Outcome::Closed) {
            streams = connect_both(client, targets)?;
            outcomes = self.exchange(&mut streams, &framed, bytes)?;
        }
        if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Answer(_))) {
            self.tcp.insert((client, targets), streams);
        }
        Ok(outcomes)
    }

    fn exchange(
        &self,
        streams: &mut [TcpStream; 2],
        framed: &[u8],
        bytes: &[u8],
    ) -> Result<[Outcome; 2]> {
        for stream in streams.iter_mut() {
            // A connection that the server has closed shows when reading.
            let _ = stream.write_all(framed);
        }
        let start = Instant::now();
        let [first, second] = streams;
        let (silence, signing) = (self.silence, self.signing.as_ref());
        let expected = Expected { query: bytes, signing, transfers: self.transfers };
        let mut first_outcome = read_until(first, start + silence, &expected)?;
        let patience =
            if matches!(first_outcome, Outcome::Answer(_)) { self.patience() } else { silence };
        let second_outcome = read_until(second, start + patience, &expected)?;
        if first_outcome == Outcome::Silent && matches!(second_outcome, Outcome::Answer(_)) {
            first_outcome = read_until(first, start + self.patience(), &expected)?;
        }
        Ok([first_outcome, second_outcome])
    }
}

fn same_id(message: &[u8], query: &[u8]) -> bool {
    message.get(..2) == query.get(..2)
}

/// Two connections from the same address and port.
pub(super) fn connect_both(client: IpAddr, targets: [SocketAddr; 2]) -> Result<[TcpStream; 2]> {
    let mut last = None;
    // The port that the kernel gave the first may be in use towards the second.
    for _ in 0..20 {
        let attempt = connect(SocketAddr::new(client, 0), targets[0]).and_then(|first| {
            let second = connect(first.local_addr()?, targets[1])?;
            Ok([first, second])
        });
        match attempt {
            Ok(streams) => return Ok(streams),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => Err(error).with_context(|| format!("connect from {client} to {targets:?}")),
        None => anyhow::bail!("not tried"),
    }
}

fn connect(from: SocketAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // A reset instead of TIME_WAIT, so that tens of thousands of connections do not use up the ports.
    socket.set_linger(Some(Duration::ZERO))?;
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads one message of the wanted ID, skipping others; of a transfer, all of its messages.
fn read_until(
    stream: &mut TcpStream,
    deadline: Instant,
    expected: &Expected<'_>,
) -> Result<Outcome> {
    let Expected { query, signing, transfers } = *expected;
    let mut whole: Option<Outcome> = None;
    loop {
        let mut length = [0; 2];
        let message = match read_exact(stream, &mut length, deadline)? {
            Some(outcome) => return Ok(outcome),
            None => {
                let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                match read_exact(stream, &mut message, deadline)? {
                    Some(outcome) => return Ok(outcome),
                    None => message,
                }
            }
        };
        if same_id(&message, query) {
            let part = Outcome::read_signed(&message, query, signing);
            let outcome = match whole.take() {
                None => part,
                Some(mut outcome) => {
                    outcome.join(part);
                    outcome
                }
            };
            if !transfers || !outcome.goes_on() {
                return Ok(outcome);
            }
            whole = Some(outcome);
        }
    }
}

/// Fills `buffer`; `Some` when the deadline or the end of the connection comes first.
fn read_exact(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    deadline: Instant,
) -> Result<Option<Outcome>> {
    let mut filled = 0;
    while filled < buffer.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(Some(Outcome::Closed)),
            Ok(count) => filled += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if Instant::now() >= deadline {
                    return Ok(Some(Outcome::Silent));
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Ok(Some(Outcome::Closed)),
        }
    }
    Ok(None)
}
