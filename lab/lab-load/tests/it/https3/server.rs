//! A server of HTTP/3 that does as it is told.

use super::{MEDIA_TYPE, PATIENCE, any, identity};
use bytes::{Bytes, BytesMut};
use h3::error::Code;
use h3::server::RequestStream;
use http::Response;
use lab_echo::identity::Identity;
use lab_http3::{Quic, Shared, Slot, Stream};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, IdleTimeout, ServerConfig,
    StreamId, TransportConfig, VarInt,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the server does with a request: its number on its connection, from 1, and its body.
pub(super) type Way = fn(u64, Vec<u8>) -> Reply;

pub(super) enum Reply {
    /// As the message is, but for the bit that says that it is a response.
    Message(Vec<u8>),
    /// Status, type, body, another field.
    Response(u16, &'static str, Vec<u8>, Option<(&'static str, String)>),
    Reset(Code),
    Silence,
}

#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// When a connection without a sound is over.
    pub(super) idle: Duration,
    /// Streams that a client may have open.
    pub(super) streams: u32,
    /// Whether early data is refused.
    pub(super) forgets: bool,
    /// Whether it replies without reading the body.
    pub(super) is_rash: bool,
    /// Whether its control stream has one frame without end.
    pub(super) is_endless: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { idle: PATIENCE, streams: 100, forgets: false, is_rash: false, is_endless: false }
    }
}

/// A server of HTTP/3 on a thread of its own.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// Octets of endless frames that were accepted for sending.
    pub(super) flooded: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(settings: Settings, way: Way) -> Self {
        let socket = UdpSocket::bind(any()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (address, over) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let flooded = Arc::new(AtomicU64::new(0));
        let (stop, sent) = (over.clone(), flooded.clone());
        let thread = std::thread::spawn(move || serve(&socket, settings, way, &stop, &sent));
        Self { address, flooded, over, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

struct Client {
    connection: Shared,
    task: Pin<Box<dyn Future<Output = ()>>>,
    is_done: bool,
    /// The control stream with the endless frame.
    endless: Option<StreamId>,
}

fn server_config(identity: &Identity, settings: Settings) -> Arc<ServerConfig> {
    let tls = identity.quic_config("h3").unwrap();
    let tls = QuicServerConfig::try_from(tls).unwrap();
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::try_from(settings.idle).unwrap()));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(settings.streams));
    transport.enable_segmentation_offload(false);
    config.transport_config(Arc::new(transport));
    Arc::new(config)
}

fn serve(socket: &UdpSocket, settings: Settings, way: Way, over: &AtomicBool, flooded: &AtomicU64) {
    let identity = identity();
    let config = server_config(&identity, settings);
    let mut endpoint =
        Endpoint::new(Arc::new(EndpointConfig::default()), Some(config), false, None);
    let mut clients: HashMap<ConnectionHandle, Client> = HashMap::new();
    let mut buffer = vec![0; 65_535];
    while !over.load(Ordering::Relaxed) {
        if let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            let mut reply = Vec::new();
            let datagram = BytesMut::from(&buffer[..len]);
            match endpoint.handle(Instant::now(), peer, None, None, datagram, &mut reply) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    // Sessions belong to a configuration.
                    let own = settings.forgets.then(|| server_config(&identity, settings));
                    let accepted = endpoint.accept(incoming, Instant::now(), &mut reply, own);
                    let (handle, connection) = accepted.unwrap_or_else(|_| panic!("not accepted"));
                    let connection = Rc::new(RefCell::new(connection));
                    let quic = Quic::new(connection.clone(), Slot::default());
                    let task = Box::pin(converse(quic, settings, way));
                    let client =
                        Client { connection, task, is_done: settings.is_endless, endless: None };
                    clients.insert(handle, client);
                }
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(client) = clients.get(&handle) {
                        client.connection.borrow_mut().handle_event(event);
                    }
                }
                Some(DatagramEvent::Response(transmit)) => {
                    _ = socket.send_to(&reply[..transmit.size], transmit.destination);
                }
                None => {}
            }
        }
        clients.retain(|handle, client| {
            if settings.is_endless {
                flooded.fetch_add(client.flood(), Ordering::Relaxed);
            }
            client.drive(socket, &mut endpoint, *handle)
        });
    }
}

impl Client {
    /// Writes what fits of a SETTINGS frame of 2^30 octets; gives how many.
    fn flood(&mut self) -> u64 {
        let mut connection = self.connection.borrow_mut();
        if self.endless.is_none() {
            let Some(id) = connection.streams().open(Dir::Uni) else { return 0 };
            self.endless = Some(id);
            // A control stream, SETTINGS, and the length in eight octets (RFC 9114 sections 6.2.1 and 7.2.4).
            let begin = [0x00, 0x04, 0xc0, 0, 0, 0, 0x40, 0, 0, 0];
            _ = connection.send_stream(id).write(&begin);
        }
        let Some(id) = self.endless else { return 0 };
        let mut count = 0;
        while let Ok(len) = connection.send_stream(id).write(&[0; 16_384]) {
            count += len as u64;
        }
        count
    }

    /// False when it is over.
    fn drive(
        &mut self,
        socket: &UdpSocket,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
    ) -> bool {
        let now = Instant::now();
        let due = self.connection.borrow_mut().poll_timeout();
        if due.is_some_and(|due| due <= now) {
            self.connection.borrow_mut().handle_timeout(now);
        }
        while self.connection.borrow_mut().poll().is_some() {}
        if !self.is_done {
            let context = &mut Context::from_waker(Waker::noop());
            self.is_done = self.task.as_mut().poll(context).is_ready();
        }
        let mut connection = self.connection.borrow_mut();
        let mut datagram = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut datagram) {
            _ = socket.send_to(&datagram[..transmit.size], transmit.destination);
            datagram.clear();
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        !connection.is_drained()
    }
}

async fn converse(quic: Quic, settings: Settings, way: Way) {
    let Ok(mut http) = h3::server::builder().build(quic).await else { return };
    let (mut number, mut silent) = (0, Vec::new());
    while let Ok(Some(request)) = http.accept().await {
        number += 1;
        let Ok((_, mut stream)) = request.resolve_request().await else { continue };
        let mut body = Vec::new();
        if settings.is_rash {
            stream.stop_sending(Code::H3_NO_ERROR);
        } else {
            while let Ok(Some(data)) = stream.recv_data().await {
                body.extend_from_slice(bytes::Buf::chunk(&data));
            }
        }
        // Errors mean that the client has gone.
        match way(number, body) {
            Reply::Message(mut message) => {
                message[2] |= 0x80;
                _ = respond(stream, 200, MEDIA_TYPE, message, None).await;
            }
            Reply::Response(status, kind, body, field) => {
                _ = respond(stream, status, kind, body, field).await;
            }
            Reply::Reset(code) => stream.stop_stream(code),
            Reply::Silence => silent.push(stream),
        }
    }
}

async fn respond(
    mut stream: RequestStream<Stream, Bytes>,
    status: u16,
    kind: &str,
    body: Vec<u8>,
    field: Option<(&'static str, String)>,
) -> Option<()> {
    let mut response = Response::builder().status(status).header("content-type", kind);
    if let Some((name, value)) = field {
        response = response.header(name, value);
    }
    stream.send_response(response.body(()).unwrap()).await.ok()?;
    stream.send_data(body.into()).await.ok()?;
    stream.finish().await.ok()
}
