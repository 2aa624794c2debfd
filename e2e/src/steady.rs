//! `nodens-e2e steady`: clients that send queries without a pause, and the outcome.
//!
//! Three kinds, because an update of the servers is different for each: stub resolvers of programs ask every query from
//! a new port; caches and pools of resolvers keep theirs, so that kube-proxy continues sending them to the same pod; and
//! connections end with the server.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as Arguments;
use nodens_wire::framing::framed;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// How long a stub resolver waits before it asks again: glibc's and musl's five seconds.
const STUB_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a cache waits for an upstream before it asks again.
const POOL_TIMEOUT: Duration = Duration::from_secs(2);
/// Between queries of one client.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Arguments)]
pub(crate) struct Args {
    /// Whom to ask.
    #[arg(long)]
    server: SocketAddr,
    /// Names whose addresses are asked for, in turn.
    #[arg(long, value_delimiter = ',', required = true)]
    names: Vec<String>,
    /// End after this many seconds; without it, never.
    #[arg(long)]
    seconds: Option<u64>,
    /// Clients of each kind but TCP; each sends 10 QPS.
    #[arg(long, default_value_t = 20)]
    clients: usize,
    /// Clients with a connection.
    #[arg(long, default_value_t = 5)]
    connections: usize,
}

/// What became of the queries of one kind of clients.
#[derive(Debug, Default)]
struct Count {
    asked: AtomicU64,
    /// No answer the first time.
    again: AtomicU64,
    /// No answer the second time, or a wrong one.
    failed: AtomicU64,
    /// The longest wait for an answer, in microseconds.
    longest: AtomicU64,
}

impl Count {
    fn report(&self) -> Value {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "asked": get(&self.asked), "again": get(&self.again), "failed": get(&self.failed),
            "longest_ms": get(&self.longest) as f64 / 1e3,
        })
    }
}

/// A way to send one query; fails if no response came in time or the connection has ended.
trait Way: Send {
    fn ask(&mut self, message: &[u8]) -> impl Future<Output = Result<Vec<u8>>> + Send;
}

/// A new port for each query.
struct Fresh(SocketAddr);
/// The same port for all.
struct Kept(SocketAddr, Option<UdpSocket>);
/// A connection that is opened anew when it has ended.
struct Connected(SocketAddr, Option<TcpStream>);

impl Way for Fresh {
    async fn ask(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        exchange(&socket(self.0).await?, message, STUB_TIMEOUT).await
    }
}

impl Way for Kept {
    async fn ask(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let socket = match self.1.take() {
            Some(socket) => socket,
            None => socket(self.0).await?,
        };
        let answer = exchange(&socket, message, POOL_TIMEOUT).await;
        self.1 = Some(socket);
        answer
    }
}

impl Way for Connected {
    async fn ask(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let whole = async {
            let mut stream = match self.1.take() {
                Some(stream) => stream,
                None => TcpStream::connect(self.0).await?,
            };
            stream.set_nodelay(true)?;
            stream.write_all(&framed(message)).await?;
            let mut answer = vec![0; usize::from(stream.read_u16().await?)];
            stream.read_exact(&mut answer).await?;
            Ok::<_, anyhow::Error>((stream, answer))
        };
        let (stream, answer) = tokio::time::timeout(STUB_TIMEOUT, whole).await??;
        self.1 = Some(stream);
        Ok(answer)
    }
}

async fn socket(server: SocketAddr) -> Result<UdpSocket> {
    let any: SocketAddr = if server.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    Ok(socket)
}

async fn exchange(socket: &UdpSocket, message: &[u8], limit: Duration) -> Result<Vec<u8>> {
    socket.send(message).await?;
    let mut buffer = [0; 4096];
    let answer = async {
        loop {
            // A late answer to an earlier query has another ID.
            let size = socket.recv(&mut buffer).await?;
            if buffer.get(..2) == message.get(..2) {
                return Ok(buffer[..size].to_vec());
            }
        }
    };
    tokio::time::timeout(limit, answer).await?
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let counts: [Arc<Count>; 3] = Default::default();
    let messages: Vec<Vec<u8>> =
        args.names.iter().map(|name| question(name)).collect::<Result<_>>()?;
    let messages = Arc::new(messages);
    let [fresh, kept, connected] = counts.each_ref();
    for number in 0..args.clients {
        tokio::spawn(client(Fresh(args.server), number, messages.clone(), fresh.clone()));
        tokio::spawn(client(Kept(args.server, None), number, messages.clone(), kept.clone()));
    }
    for number in 0..args.connections {
        let way = Connected(args.server, None);
        tokio::spawn(client(way, number, messages.clone(), connected.clone()));
    }
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let [fresh, kept, connected] = counts.each_ref().map(|count| count.report());
        println!("{}", json!({"fresh": fresh, "kept": kept, "connected": connected}));
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

async fn client(mut way: impl Way, number: usize, messages: Arc<Vec<Vec<u8>>>, count: Arc<Count>) {
    // Clients do not ask in step.
    tokio::time::sleep(PAUSE * u32::try_from(number % 16).unwrap_or(0) / 16).await;
    let mut id = u16::try_from(number).unwrap_or(0);
    loop {
        for message in messages.iter() {
            id = id.wrapping_add(7919);
            let message = [&id.to_be_bytes(), &message[2..]].concat();
            count.asked.fetch_add(1, Ordering::Relaxed);
            let start = Instant::now();
            let mut answer = way.ask(&message).await;
            if answer.is_err() {
                count.again.fetch_add(1, Ordering::Relaxed);
                answer = way.ask(&message).await;
            }
            let wait = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            count.longest.fetch_max(wait, Ordering::Relaxed);
            if let Err(error) = answer.and_then(|answer| is_good(&answer)) {
                count.failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("{error:#}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A query for the address of `name`, with the ID 0.
fn question(name: &str) -> Result<Vec<u8>> {
    let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        message.push(u8::try_from(label.len()).context(label.to_owned())?);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    Ok(message)
}

/// NOERROR with at least one record.
fn is_good(answer: &[u8]) -> Result<()> {
    let [_, _, _, flags, _, _, high, low, ..] = answer else { bail!("cut answer") };
    if flags & 15 != 0 {
        bail!("RCODE {}", flags & 15);
    }
    if (*high, *low) == (0, 0) {
        bail!("no records");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_good_when_it_has_records_and_no_error() {
        let mut message = question("a.example").unwrap();
        assert_eq!(message[12..], *b"\x01a\x07example\x00\x00\x01\x00\x01");
        assert!(is_good(&message).is_err());
        message[7] = 1;
        assert!(is_good(&message).is_ok());
        message[3] = 2;
        assert_eq!(is_good(&message).unwrap_err().to_string(), "RCODE 2");
        assert!(is_good(&message[..7]).is_err());
    }
}
