//! Clients of both versions of HTTP.

use crate::client::PATIENCE;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request};
use nodens_wire::Message;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderMap,
}

impl Reply {
    /// A field that there is.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("{name} in {self:?}")).to_str().unwrap()
    }

    pub(super) fn message(&self) -> Message {
        assert_eq!(self.status, 200, "{self:?}");
        Message::parse(&self.body).unwrap()
    }
}

/// A connection of HTTP/1.1.
pub(super) struct One {
    stream: TcpStream,
    /// What is read and not looked at.
    kept: Vec<u8>,
}

impl One {
    pub(super) fn connect(server: SocketAddr) -> Self {
        Self::of(TcpStream::connect(server).unwrap())
    }

    /// From this address.
    pub(super) fn connect_from(client: [u8; 4], server: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((client, 0)).into()).unwrap();
        socket.connect(&server.into()).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, kept: Vec::new() }
    }

    pub(super) fn send(&mut self, method: &str, target: &str, body: &[u8]) {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: dns.example\r\n");
        let length = format!("Content-Length: {}\r\n\r\n", body.len());
        let request = [head.as_bytes(), length.as_bytes(), body].concat();
        self.stream.write_all(&request).unwrap();
    }

    pub(super) fn send_get(&mut self, message: &[u8]) {
        let target = format!("/dns-query?dns={}", URL_SAFE_NO_PAD.encode(message));
        self.send("GET", &target, b"");
    }

    pub(super) fn request(&mut self, method: &str, target: &str, body: &[u8]) -> Reply {
        self.send(method, target, body);
        self.receive()
    }

    pub(super) fn get(&mut self, message: &[u8]) -> Reply {
        self.send_get(message);
        self.receive()
    }

    pub(super) fn post(&mut self, message: &[u8]) -> Reply {
        self.request("POST", "/dns-query", message)
    }

    /// The next response.
    pub(super) fn receive(&mut self) -> Reply {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; 16];
            let mut response = httparse::Response::new(&mut fields);
            if let httparse::Status::Complete(len) = response.parse(&self.kept).unwrap() {
                let own = response.headers.iter();
                let own =
                    own.map(|field| (field.name.parse().unwrap(), field.value.try_into().unwrap()));
                let (fields, status): (HeaderMap, _) = (own.collect(), response.code.unwrap());
                let body_len: usize = fields["content-length"].to_str().unwrap().parse().unwrap();
                if self.kept.len() >= len + body_len {
                    let body = self.kept[len..len + body_len].to_vec();
                    self.kept.drain(..len + body_len);
                    return Reply { status, fields, body, trailers: HeaderMap::new() };
                }
            }
            let mut buffer = [0; 65_535];
            let len = self.stream.read(&mut buffer).expect("a response");
            assert!(len > 0, "the connection was closed");
            self.kept.extend_from_slice(&buffer[..len]);
        }
    }

    /// Whether the server takes these octets; waits a moment then.
    pub(super) fn sends_slowly(&mut self, octets: &[u8]) -> bool {
        let is_taken = self.stream.write_all(octets).is_ok();
        std::thread::sleep(Duration::from_millis(5));
        is_taken
    }

    /// Whether a query is answered, and the connection is not closed instead.
    pub(super) fn tries(&mut self, message: &[u8]) -> bool {
        let head = format!(
            "POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            message.len()
        );
        let request = [head.as_bytes(), message].concat();
        self.stream.write_all(&request).is_ok()
            && matches!(self.stream.read(&mut [0; 4096]), Ok(1..))
    }

    /// Sends so many octets, and those behind them one by one; whether the connection ends before they are
    /// all sent, and without more than a response being read.
    pub(super) fn drips_behind(&mut self, octets: &[u8], at_once: usize) -> bool {
        let (front, octets) = octets.split_at(at_once);
        self.stream.write_all(front).unwrap();
        self.stream.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
        for octet in octets {
            if self.stream.write_all(&[*octet]).is_err() {
                return true;
            }
            match self.stream.read(&mut [0; 1]) {
                Ok(0) => return true,
                Ok(_) => return false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return true,
            }
        }
        false
    }

    /// Whether the connection ends, whatever comes before that.
    pub(super) fn ends(&mut self) -> bool {
        let mut rest = Vec::new();
        !matches!(self.stream.read_to_end(&mut rest), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether the server has not closed, and nothing waits to be read.
    pub(super) fn is_open(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    pub(super) fn is_closed(&mut self) -> bool {
        self.kept.is_empty() && matches!(self.stream.read(&mut [0; 1]), Ok(0))
    }
}

/// A connection of HTTP/2.
pub(super) struct Two {
    runtime: Runtime,
    client: Client,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// The same to send requests with.
#[derive(Clone)]
pub(super) struct Client(SendRequest<Bytes>);

impl Two {
    pub(super) fn connect(server: SocketAddr) -> Self {
        Self::with(server, &h2::client::Builder::new())
    }

    pub(super) fn with(server: SocketAddr, builder: &h2::client::Builder) -> Self {
        // The connection goes on while nobody waits for a response.
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads.worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(server).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (client, connection) = builder.handshake(stream).await.unwrap();
            (Client(client), tokio::spawn(connection))
        });
        Self { runtime, client, connection }
    }

    pub(super) fn block_on<T>(&mut self, act: impl AsyncFnOnce(&mut Client) -> T) -> T {
        let act = async { tokio::time::timeout(PATIENCE, act(&mut self.client)).await };
        self.runtime.block_on(act).expect("responses in time")
    }

    pub(super) fn get(&mut self, message: &[u8]) -> Reply {
        let target = format!("/dns-query?dns={}", URL_SAFE_NO_PAD.encode(message));
        self.block_on(async |client| client.send("GET", &target, &[]).await)
    }

    pub(super) fn post(&mut self, message: &[u8]) -> Reply {
        self.block_on(async |client| client.send_post(message).await)
    }

    /// Whether the connection ends without an error of HTTP.
    pub(super) fn is_ended(&mut self) -> bool {
        let connection = &mut self.connection;
        let end = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, connection).await });
        // The kernel resets the connection if this client says something between GOAWAY and its own end.
        end.expect("an end in time").unwrap().map_or_else(|error| error.is_io(), |()| true)
    }
}

impl Client {
    /// The head of a request alone.
    pub(super) fn begin(
        &mut self,
        method: &str,
        target: &str,
    ) -> (SendStream<Bytes>, ResponseFuture) {
        self.begin_with(method, target, "application/dns-message")
    }

    /// The head of a request, if the connection takes any.
    pub(super) fn try_begin(&mut self) -> Result<(SendStream<Bytes>, ResponseFuture), h2::Error> {
        let request = Request::builder().method("POST").uri("http://dns.example/dns-query");
        let (response, body) = self.0.send_request(request.body(()).unwrap(), false)?;
        Ok((body, response))
    }

    pub(super) fn begin_with(
        &mut self,
        method: &str,
        target: &str,
        media_type: &str,
    ) -> (SendStream<Bytes>, ResponseFuture) {
        let request = Request::builder().method(method).uri(format!("http://dns.example{target}"));
        let request = request.header("content-type", media_type).body(()).unwrap();
        let (response, body) = self.0.send_request(request, false).unwrap();
        (body, response)
    }

    pub(super) fn send(
        &mut self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> impl Future<Output = Reply> + use<> {
        let (mut stream, response) = self.begin(method, target);
        // The server may have answered, and want no more of it.
        _ = stream.send_data(Bytes::copy_from_slice(body), true);
        async move {
            let reply = receive(response).await.unwrap();
            drop(stream);
            reply
        }
    }

    pub(super) fn send_post(&mut self, message: &[u8]) -> impl Future<Output = Reply> + use<> {
        self.send("POST", "/dns-query", message)
    }
}

/// The whole of a response.
pub(super) async fn receive(response: ResponseFuture) -> Result<Reply, h2::Error> {
    let (head, mut stream) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    Ok(Reply { status: head.status.as_u16(), fields: head.headers, body, trailers })
}
