//! Asks both servers over everything but datagrams and plain queries over TCP: TLS, HTTP/2, gRPC, QUIC, HTTP/3; and
//! sends them what no client should. The libraries are not those of the server's own listeners where there is a choice:
//! what judges must not share its mistakes.

pub(crate) mod bad;
mod framed;
mod http;
mod quic;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep_until, timeout};

use self::bad::Bad;
use super::client::connect_both;
use super::transports::{Certificate, Transport};
use nodens_judge::answer::{Difference, Outcome};

/// How long a handshake may take. Generous, for a machine with other work.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// What a server did with a question, and what the answer was wrapped in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    /// Of HTTP: status, `content-type` and `cache-control`.
    pub(crate) wrapping: Wrapping,
}

impl Reply {
    fn bare(outcome: Outcome) -> Self {
        Reply { outcome, wrapping: Wrapping::default() }
    }
}

/// What HTTP adds to a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wrapping {
    /// As text, without the age.
    pub(crate) text: String,
    /// The seconds of `max-age`.
    pub(crate) max_age: Option<u32>,
}

impl Wrapping {
    /// The difference, if there is one. Ages may be a second apart, since the clock of a cache may tick in between.
    pub(crate) fn difference(coredns: &Self, nodens: &Self) -> Option<Difference> {
        let is_near = match (coredns.max_age, nodens.max_age) {
            (Some(theirs), Some(ours)) => theirs.abs_diff(ours) <= 1,
            (theirs, ours) => theirs == ours,
        };
        let show = |wrapping: &Self| {
            let age = wrapping.max_age.map_or(String::new(), |age| format!(" max-age={age}"));
            format!("{}{age}", wrapping.text)
        };
        let same = is_near && coredns.text == nodens.text;
        let [coredns, nodens] = [show(coredns), show(nodens)];
        (!same).then_some(Difference { field: "http", coredns, nodens })
    }
}

/// How long to wait for answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// While neither server has answered.
    pub(crate) silence: Duration,
    /// For the second once the first has answered.
    pub(crate) patience: Duration,
}

/// A connection to one server; what it takes to ask over it once more.
enum Connection {
    Framed(framed::Stream),
    Http(h2::client::SendRequest<bytes::Bytes>),
    Quic(quinn::Connection),
    Http3(quic::Http3),
}

/// The pair of a transport, from a client, to both servers.
type Pair = (Transport, IpAddr, [SocketAddr; 2]);

/// The connections of one case.
pub(crate) struct Streams {
    runtime: Runtime,
    certificate: Arc<Certificate>,
    open: HashMap<Pair, [Connection; 2]>,
    /// One socket for both servers, so that they see the client at the same port.
    endpoints: HashMap<IpAddr, quinn::Endpoint>,
}

impl Streams {
    pub(crate) fn new(certificate: Arc<Certificate>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Streams { runtime, certificate, open: HashMap::new(), endpoints: HashMap::new() })
    }

    /// Asks both servers the message `bytes`; the first reply is the first server's.
    pub(crate) fn ask(&mut self, pair: Pair, bytes: &[u8], waits: Waits) -> Result<[Reply; 2]> {
        let fresh = !self.open.contains_key(&pair);
        let mut connections = match self.open.remove(&pair) {
            Some(connections) => connections,
            None => match self.connect(pair)? {
                Ok(connections) => connections,
                Err(refused) => return Ok(refused),
            },
        };
        let mut replies = self.exchange(&mut connections, pair.0, bytes, waits);
        // An idle connection may have been closed since: that is no answer to this question.
        let closed = |reply: &Reply| reply.outcome == Outcome::Closed;
        if !fresh && replies.iter().any(closed) {
            connections = match self.connect(pair)? {
                Ok(connections) => connections,
                Err(refused) => return Ok(refused),
            };
            replies = self.exchange(&mut connections, pair.0, bytes, waits);
        }
        if replies.iter().all(|reply| matches!(reply.outcome, Outcome::Answer(_))) {
            self.open.insert(pair, connections);
        }
        Ok(replies)
    }

    /// Sends both something bad, on connections of its own, with a good query behind it where that can be; `bytes` is
    /// the query that it is made of.
    pub(crate) fn send_bad(
        &mut self,
        pair: Pair,
        bad: &Bad,
        bytes: &[u8],
        waits: Waits,
    ) -> Result<[Reply; 2]> {
        let mut connections = match self.connect(pair)? {
            Ok(connections) => connections,
            Err(refused) => return Ok(refused),
        };
        let [first, second] = &mut connections;
        let replies = self.runtime.block_on(both(
            bad::send(first, bad, bytes),
            bad::send(second, bad, bytes),
            waits,
        ));
        Ok(replies.map(|reply| reply.unwrap_or(Reply::bare(Outcome::Silent))))
    }

    fn exchange(
        &self,
        [first, second]: &mut [Connection; 2],
        transport: Transport,
        bytes: &[u8],
        waits: Waits,
    ) -> [Reply; 2] {
        let asked = both(ask(first, transport, bytes), ask(second, transport, bytes), waits);
        let replies = self.runtime.block_on(asked);
        replies.map(|reply| reply.unwrap_or(Reply::bare(Outcome::Silent)))
    }

    /// Connections to both; or what either said instead, in the place of a reply.
    fn connect(
        &mut self,
        (transport, client, targets): Pair,
    ) -> Result<Result<[Connection; 2], [Reply; 2]>> {
        let attempts = match transport {
            Transport::Quic | Transport::Https3 => {
                let _inside = self.runtime.enter();
                let endpoint = match self.endpoints.entry(client) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => entry.insert(quic::endpoint(client)?),
                };
                let config = quic::config(client_config(&self.certificate, transport)?)?;
                self.runtime.block_on(async {
                    tokio::join!(
                        quic::connect(endpoint, config.clone(), targets[0], transport),
                        quic::connect(endpoint, config.clone(), targets[1], transport),
                    )
                })
            }
            _ => {
                let config = Arc::new(client_config(&self.certificate, transport)?);
                let [first, second] = connect_both(client, targets)?;
                self.runtime.block_on(async {
                    tokio::join!(
                        framed::connect(first, transport, config.clone()),
                        framed::connect(second, transport, config.clone()),
                    )
                })
            }
        };
        Ok(match attempts {
            (Ok(first), Ok(second)) => Ok([first, second]),
            (first, second) => Err([first, second].map(|attempt| {
                let text = attempt.err().map_or("connected".to_owned(), |error| error.to_string());
                Reply::bare(Outcome::Refused(format!("connect: {text}")))
            })),
        })
    }
}

/// What clients of a transport have of TLS.
fn client_config(certificate: &Certificate, transport: Transport) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = transport.protocol().into_iter().map(<[u8]>::to_vec).collect();
    Ok(config)
}

async fn ask(connection: &mut Connection, transport: Transport, bytes: &[u8]) -> Reply {
    match connection {
        Connection::Framed(stream) => Reply::bare(stream.ask(bytes).await),
        Connection::Http(requests) if transport == Transport::Grpc => {
            http::call(requests, http::grpc_frame(bytes)).await
        }
        Connection::Http(requests) => http::ask(requests, transport, bytes).await,
        Connection::Quic(connection) => Reply::bare(quic::ask(connection, bytes).await),
        Connection::Http3(http3) => http3.ask(bytes).await,
    }
}

/// What both come to, `None` for one that takes too long.
async fn both<T>(
    first: impl Future<Output = T>,
    second: impl Future<Output = T>,
    waits: Waits,
) -> [Option<T>; 2] {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut outcomes = [None, None];
    let start = Instant::now();
    loop {
        let limit = match &outcomes {
            [Some(_), Some(_)] => return outcomes,
            [None, None] => waits.silence,
            _ => waits.patience,
        };
        tokio::select! {
            outcome = &mut first, if outcomes[0].is_none() => outcomes[0] = Some(outcome),
            outcome = &mut second, if outcomes[1].is_none() => outcomes[1] = Some(outcome),
            () = sleep_until(start + limit) => return outcomes,
        }
    }
}

/// `attempt`, unless it takes too long.
async fn in_time<T>(attempt: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(HANDSHAKE_MAX, attempt).await {
        Ok(result) => result,
        Err(_) => anyhow::bail!("timed out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_may_be_a_second_apart() {
        let of = |text: &str, max_age| Wrapping { text: text.to_owned(), max_age };
        let differs = |a: &Wrapping, b: &Wrapping| Wrapping::difference(a, b).is_some();
        assert!(!differs(&of("200", Some(30)), &of("200", Some(29))));
        assert!(differs(&of("200", Some(30)), &of("200", Some(28))));
        assert!(differs(&of("200", Some(30)), &of("200", None)));
        assert!(differs(&of("200", None), &of("400", None)));
    }

    #[test]
    fn the_second_is_waited_for_longer_than_both() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let waits =
            Waits { silence: Duration::from_millis(20), patience: Duration::from_millis(500) };
        let after = |millis| async move { tokio::time::sleep(Duration::from_millis(millis)).await };
        let run = |a, b| runtime.block_on(both(after(a), after(b), waits)).map(|one| one.is_some());
        assert_eq!(run(0, 100), [true, true]);
        assert_eq!(run(10_000, 10_000), [false, false]);
        assert_eq!(run(10_000, 0), [false, true]);
    }
}
