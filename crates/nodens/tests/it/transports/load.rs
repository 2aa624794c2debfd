//! Clients over TLS, HTTPS and QUIC, on connections that they keep and on new ones. Each query is answered, or is on
//! a connection that the server has closed by the rules; anything else fails the test.

use super::{ADDRESS, Authority, NAME, Ports};
use crate::fixture::{PATIENCE, framed, request};
use bytes::Bytes;
use h2::client::SendRequest;
use nodens_wire::{Message, Rcode, Type};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectionError, Endpoint, ReadError, ReadToEndError, TransportErrorCode, WriteError};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Queries in flight on a connection.
const AT_ONCE: usize = 4;
/// The most octets of a response and its length.
const STREAM_MAX: usize = 2 + 65_535;

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Tls,
    Https,
    Quic,
    Grpc,
}

/// What clients need to connect.
#[derive(Clone)]
pub(super) struct Way {
    ports: Ports,
    endpoint: Endpoint,
    /// With sessions that are resumed, and without.
    configs: [ClientConfig; 2],
}

/// What has happened so far.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    /// Connections that the server has closed.
    closed: AtomicUsize,
    /// Connections that were closed before they were open.
    turned_away: AtomicUsize,
    unanswered: Mutex<Vec<Unanswered>>,
}

/// What it came to.
pub(super) struct Outcome {
    pub(super) answered: usize,
    pub(super) closed: usize,
    pub(super) turned_away: usize,
    pub(super) unanswered: Vec<Unanswered>,
}

/// A query on a connection that was closed then.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) name: String,
    /// How it was closed, for whoever reads that a test failed.
    _why: String,
}

impl Unanswered {
    fn new(name: &str, why: impl std::fmt::Debug) -> Self {
        Self { name: name.to_owned(), _why: format!("{why:?}") }
    }
}

/// Clients that ask until they are told to stop.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
    runtime: Runtime,
    clients: Vec<JoinHandle<()>>,
    pub(super) way: Way,
}

impl Load {
    pub(super) fn start(ports: Ports, authority: &Authority) -> Self {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads.worker_threads(1).enable_all().build().unwrap();
        let inside = runtime.enter();
        let way = Way::new(ports, authority);
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let clients = [Kind::Tls, Kind::Https, Kind::Quic].into_iter().flat_map(|kind| {
            let client = |is_kept: bool, resumes: bool| {
                let (way, stop, seen) = (way.clone(), stop.clone(), seen.clone());
                tokio::spawn(run((kind, is_kept, resumes), way, stop, seen))
            };
            [client(true, true), client(false, true), client(false, false)]
        });
        let clients = clients.collect();
        drop(inside);
        Self { stop, seen, runtime, clients, way }
    }

    /// Waits until some queries more have been answered.
    pub(super) fn goes_on(&self) {
        let before = self.seen.answered.load(Ordering::Relaxed);
        crate::fixture::eventually("more answers", || {
            assert!(!self.clients.iter().any(JoinHandle::is_finished), "a client has failed");
            self.seen.answered.load(Ordering::Relaxed) > before + 100
        });
    }

    /// The certificates that new connections get, one for each transport.
    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        let each = [Kind::Tls, Kind::Https, Kind::Quic].into_iter().map(|kind| {
            let way = self.way.clone();
            let connected = self.runtime.block_on(way.connect(kind, false));
            connected.unwrap_or_else(|error| panic!("{kind:?}: {error}")).1
        });
        each.collect()
    }

    pub(super) fn stop(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            self.runtime.block_on(client).unwrap();
        }
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Outcome {
            answered: get(&self.seen.answered),
            closed: get(&self.seen.closed),
            turned_away: get(&self.seen.turned_away),
            unanswered: std::mem::take(&mut self.seen.unanswered.lock().unwrap()),
        }
    }
}

/// One client.
async fn run(
    (kind, is_kept, resumes): (Kind, bool, bool),
    way: Way,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
) {
    let what = format!("{kind:?}-{is_kept}-{resumes}").to_lowercase();
    let mut kept: Option<Connection> = None;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => way.connect(kind, resumes).await.map(|(connection, _)| connection),
        };
        let Ok(mut connection) = connection else {
            seen.turned_away.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let names = (0..if is_kept { AT_ONCE } else { 1 }).map(|_| {
            number += 1;
            format!("n{number}.{what}.example.")
        });
        let names: Vec<String> = names.collect();
        let unanswered = in_time(&what, connection.ask(&names)).await;
        seen.answered.fetch_add(names.len() - unanswered.len(), Ordering::Relaxed);
        if !unanswered.is_empty() {
            seen.closed.fetch_add(1, Ordering::Relaxed);
            seen.unanswered.lock().unwrap().extend(unanswered);
        } else if is_kept {
            kept = Some(connection);
        } else {
            connection.close().await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn in_time<T>(what: &str, act: impl Future<Output = T>) -> T {
    timeout(PATIENCE, act).await.unwrap_or_else(|_| panic!("{what}: no answer in time"))
}

/// A connection.
pub(super) enum Connection {
    Tls(Box<TlsStream<TcpStream>>),
    Https(SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>),
    Quic(quinn::Connection),
}

impl Way {
    /// Within a runtime.
    pub(super) fn new(ports: Ports, authority: &Authority) -> Self {
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.0.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let resumes = config.with_root_certificates(roots).with_no_client_auth();
        let mut forgets = resumes.clone();
        forgets.resumption = Resumption::disabled();
        Self { ports, endpoint, configs: [resumes, forgets] }
    }

    /// A new connection and the certificate of the server, or why the server closed it before it was open.
    pub(super) async fn connect(
        &self,
        kind: Kind,
        resumes: bool,
    ) -> Result<(Connection, CertificateDer<'static>), String> {
        let [first, second] = &self.configs;
        let mut config = if resumes { first.clone() } else { second.clone() };
        let (protocol, port) = match kind {
            Kind::Tls => ("dot", self.ports.tls),
            Kind::Https => ("h2", self.ports.https),
            Kind::Quic => ("doq", self.ports.quic),
            Kind::Grpc => ("h2", self.ports.grpc),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let server = SocketAddr::from(([127, 0, 0, 1], port));
        let what = format!("{kind:?}: a handshake");
        if matches!(kind, Kind::Quic) {
            let config = QuicClientConfig::try_from(config).unwrap();
            let config = quinn::ClientConfig::new(Arc::new(config));
            let connecting = self.endpoint.connect_with(config, server, NAME).unwrap();
            let connection = match in_time(&what, connecting).await {
                Ok(connection) => connection,
                Err(
                    error @ (ConnectionError::ApplicationClosed(_)
                    | ConnectionError::ConnectionClosed(_)),
                ) => {
                    return Err(error.to_string());
                }
                Err(error) => panic!("{what}: {error}"),
            };
            let chain = connection.peer_identity().unwrap();
            let chain = chain.downcast::<Vec<CertificateDer<'static>>>().unwrap();
            return Ok((Connection::Quic(connection), chain[0].clone()));
        }
        // The listener is always there.
        let stream = TcpStream::connect(server).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = match in_time(&what, connecting).await {
            Ok(stream) => stream,
            // A certificate that is not believed, for one, is no such error. No query has been sent.
            Err(error)
                if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset]
                    .contains(&error.kind()) =>
            {
                return Err(error.to_string());
            }
            Err(error) => panic!("{what}: {error}"),
        };
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        if matches!(kind, Kind::Tls) {
            return Ok((Connection::Tls(Box::new(stream)), certificate));
        }
        let (requests, connection) =
            h2::client::handshake(stream).await.map_err(|error| error.to_string())?;
        Ok((Connection::Https(requests, tokio::spawn(connection)), certificate))
    }
}

impl Connection {
    /// Asks for all names at once. Gives those without an answer, if the server has closed the connection.
    async fn ask(&mut self, names: &[String]) -> Vec<Unanswered> {
        match self {
            Self::Tls(stream) => over_tls(stream, names).await,
            Self::Https(requests, connection) => over_https(requests, connection, names).await,
            Self::Quic(connection) => over_quic(connection, names).await,
        }
    }

    async fn close(self) {
        match self {
            Self::Tls(mut stream) => _ = stream.shutdown().await,
            Self::Https(requests, connection) => {
                drop(requests);
                let end = connection.await.unwrap();
                assert!(end.as_ref().err().is_none_or(is_clean), "{end:?}");
            }
            Self::Quic(connection) => connection.close(0u32.into(), b""),
        }
    }
}

/// The query for a name, with an ID.
fn query(name: &str, id: u16) -> Vec<u8> {
    let mut query = request(name, Type::A);
    nodens_wire::header::set_id(&mut query, id);
    query
}

/// Fails unless it is the answer.
fn check(octets: &[u8], name: &str) {
    let message = Message::parse(octets).unwrap();
    assert_eq!(message.flags.rcode(), Rcode::NOERROR, "{name}");
    assert_eq!(message.questions[0].qname.to_string(), name);
    assert_eq!(message.answer[0].rdata, ADDRESS.parse::<std::net::Ipv4Addr>().unwrap().octets());
}

async fn over_tls(stream: &mut TlsStream<TcpStream>, names: &[String]) -> Vec<Unanswered> {
    let mut octets = Vec::new();
    for (id, name) in (0..).zip(names) {
        octets.extend(framed(&query(name, id)));
    }
    // If the server has closed the connection, that shows when reading.
    _ = stream.write_all(&octets).await;
    _ = stream.flush().await;
    let mut waiting: Vec<Option<&String>> = names.iter().map(Some).collect();
    while waiting.iter().any(Option::is_some) {
        let mut len = [0; 2];
        // Zero octets are the end that close_notify announces; without it there is an error.
        if stream.read(&mut len[..1]).await.expect("close_notify in front of the end") == 0 {
            break;
        }
        stream.read_exact(&mut len[1..]).await.expect("a whole response");
        let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut message).await.expect("a whole response");
        let id = usize::from(u16::from_be_bytes([message[0], message[1]]));
        check(&message, waiting[id].take().expect("one response each"));
    }
    waiting.into_iter().flatten().map(|name| Unanswered::new(name, "close_notify")).collect()
}

/// Whether the server has said that it has not looked at the request.
fn is_refused(error: &h2::Error) -> bool {
    error.reason() == Some(h2::Reason::REFUSED_STREAM)
        || (error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR))
}

/// Whether a connection ended by the rules: with close_notify, unless the client wrote to it before it read that.
fn is_clean(error: &h2::Error) -> bool {
    let kind = error.get_io().map(io::Error::kind);
    is_refused(error) || kind == Some(ErrorKind::BrokenPipe)
}

async fn over_https(
    requests: &mut SendRequest<Bytes>,
    connection: &mut JoinHandle<Result<(), h2::Error>>,
    names: &[String],
) -> Vec<Unanswered> {
    let mut responses = Vec::new();
    let mut unanswered = Vec::new();
    for name in names {
        let head = http::Request::post(format!("https://{NAME}/dns-query"));
        let head = head.header("content-type", "application/dns-message").body(()).unwrap();
        // A connection that ends takes no more.
        let sent = match requests.clone().ready().await {
            Ok(mut requests) => requests.send_request(head, false),
            Err(error) => Err(error),
        };
        match sent {
            Ok((response, mut body)) => {
                _ = body.send_data(Bytes::from(query(name, 0)), true);
                responses.push((name, response, body));
            }
            Err(error) => unanswered.push(Unanswered::new(name, error)),
        }
    }
    for (name, response, _body) in responses {
        let whole = async {
            let (head, mut stream) = response.await?.into_parts();
            let mut body = Vec::new();
            while let Some(data) = stream.data().await {
                let data = data?;
                stream.flow_control().release_capacity(data.len())?;
                body.extend_from_slice(&data);
            }
            Ok((head.status, body))
        };
        match whole.await {
            Ok((status, body)) => {
                assert_eq!(status, 200, "{name}");
                check(&body, name);
            }
            Err(error) if is_refused(&error) => unanswered.push(Unanswered::new(name, error)),
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
    if !unanswered.is_empty() {
        let end = connection.await.unwrap();
        assert!(end.as_ref().err().is_none_or(is_clean), "{end:?}");
    }
    unanswered
}

async fn over_quic(connection: &quinn::Connection, names: &[String]) -> Vec<Unanswered> {
    let mut waiting = Vec::new();
    let mut unanswered = Vec::new();
    let is_clean = |error: &ConnectionError| match error {
        ConnectionError::ApplicationClosed(close) => close.error_code == 0u32.into(),
        // To the client the handshake is over, not to the server yet (RFC 9000 section 10.2.3): it cannot have
        // read anything.
        ConnectionError::ConnectionClosed(close) => {
            close.error_code == TransportErrorCode::APPLICATION_ERROR
        }
        _ => false,
    };
    for name in names {
        let sent = async {
            let (mut sending, receiving) =
                connection.open_bi().await.map_err(WriteError::ConnectionLost)?;
            sending.write_all(&framed(&query(name, 0))).await?;
            _ = sending.finish();
            Ok(receiving)
        };
        match sent.await {
            Ok(receiving) => waiting.push((name, receiving)),
            Err(WriteError::ConnectionLost(error)) if is_clean(&error) => {
                unanswered.push(Unanswered::new(name, error))
            }
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
    for (name, mut receiving) in waiting {
        match receiving.read_to_end(STREAM_MAX).await {
            Ok(octets) => check(&octets[2..], name),
            Err(ReadToEndError::Read(ReadError::ConnectionLost(error))) if is_clean(&error) => {
                unanswered.push(Unanswered::new(name, error));
            }
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
    unanswered
}
