//! `nodens-lab hold`: opens connections over TCP and keeps them, to see what each costs the server
//! and whether it is still answered afterwards.

use crate::child;
use crate::server::Server;
use crate::term::{self, Table};
use anyhow::{Context, Result, bail};
use lab_histogram::Histogram;
use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Name, Type};
use socket2::{Domain, Socket, Type as SocketType};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between looks at whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// Connections opened before memory is looked at first: a server takes some for the first ones that
/// it keeps for all.
const FIRST: usize = 64;

/// Pairs of queries on each connection.
pub(crate) const PAIRS: usize = 8;

/// Arguments of `hold`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Server, with its port or without.
    #[arg(short, long, default_value = "127.0.0.1")]
    server: Server,
    /// Port of the server, if --server has none.
    #[arg(short, long, default_value_t = 53, value_parser = crate::server::port)]
    port: u16,
    /// Connections to keep open. Each is asked one query when it is open.
    #[arg(short = 'n', long, default_value_t = 1_000)]
    connections: usize,
    /// Addresses that connections come from, in turn: 127.0.0.2-127.0.0.9, 10.0.0.0/28, lists of
    /// them.
    #[arg(long, value_name = "ADDRESSES")]
    source: Option<String>,
    /// Name that is asked for.
    #[arg(long, default_value = "example.org")]
    name: String,
    /// The server's process, to tell its memory for each connection.
    #[arg(long)]
    pid: Option<u32>,
    /// How long to keep them idle before each is asked again, as 5s.
    #[arg(long = "for", value_name = "TIME", default_value = "0", value_parser = lab_units::seconds)]
    hold: u64,
}

/// Connections that are open.
pub(crate) struct Held {
    query: Vec<u8>,
    streams: Vec<TcpStream>,
    /// Connections that were not made, or on which the first query had no answer.
    pub(crate) refused: usize,
    /// From asking for a connection to the answer on it.
    pub(crate) opening: Histogram,
}

/// Who opens connections, and what is asked on them.
pub(crate) struct Clients<'a> {
    pub(crate) server: SocketAddr,
    pub(crate) sources: &'a [IpAddr],
    pub(crate) name: &'a Name,
}

impl Clients<'_> {
    fn query(&self) -> Vec<u8> {
        let mut workload = lab_load::Workload::new(1);
        workload.push(self.name.view(), Type::A, None);
        let mut query = Vec::new();
        workload.append(0, 0x4e6f, &mut query);
        framed(&query)
    }

    /// A connection of the client with this number.
    fn connect(&self, number: usize) -> Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.server), SocketType::STREAM, None);
        let socket =
            socket.context("no socket: the limit of descriptors (ulimit -n) is reached")?;
        let source = number.checked_rem(self.sources.len());
        if let Some(source) = source.and_then(|at| self.sources.get(at)) {
            // Ports are of a source and a destination, and not of a source alone.
            socket.set_reuse_address(true)?;
            let bound = socket.bind(&SocketAddr::new(*source, 0).into());
            bound.with_context(|| format!("cannot send from {source}"))?;
        }
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_tcp_nodelay(true)?;
        socket.connect_timeout(&self.server.into(), PATIENCE)?;
        Ok(socket.into())
    }

    /// Opens so many more connections into `held`, one after the other.
    fn open_more(&self, held: &mut Held, count: usize, stop: &AtomicBool) -> Result<()> {
        for _ in 0..count {
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let begin = Instant::now();
            let mut stream = match self.connect(held.streams.len() + held.refused) {
                Ok(stream) => stream,
                // Ours, and not the server's.
                Err(error) if is_exhausted(&error) => return Err(error),
                Err(_) => {
                    held.refused += 1;
                    continue;
                }
            };
            if ask(&mut stream, &held.query) {
                held.opening.record(begin.elapsed().as_nanos() as u64);
                held.streams.push(stream);
            } else {
                held.refused += 1;
            }
        }
        Ok(())
    }

    /// Nothing yet.
    fn none(&self) -> Held {
        let (query, opening) = (self.query(), Histogram::default());
        Held { query, streams: Vec::new(), refused: 0, opening }
    }

    /// Opens so many connections. `memory` tells the octets of the server: what each connection took
    /// of them comes back beside the connections.
    pub(crate) fn open(
        &self,
        count: usize,
        memory: impl Fn() -> Option<u64>,
        stop: &AtomicBool,
    ) -> Result<(Held, Option<f64>)> {
        let mut held = self.none();
        let first = FIRST.min(count);
        self.open_more(&mut held, first, stop)?;
        let before = memory();
        self.open_more(&mut held, count - first, stop)?;
        let added = (held.streams.len() as f64 - first as f64).max(1.0);
        let slope = before.zip(memory()).map(|(old, new)| (new as f64 - old as f64) / added);
        Ok((held, slope))
    }

    /// Sends two queries in one write, [`PAIRS`] times on each of `count` fresh connections, one after
    /// the other; gives the times from the write to the second answer, and how many had none.
    ///
    /// A client acknowledges the first segments of a connection at once. Later a server that holds a
    /// second small answer back until the first is acknowledged waits for 40 ms.
    pub(crate) fn pairs(&self, count: usize, stop: &AtomicBool) -> Result<(Histogram, usize)> {
        let (query, mut times, mut failed) = (self.query(), Histogram::default(), 0);
        let both = [query.clone(), query].concat();
        for number in 0..count {
            let mut stream = self.connect(number)?;
            for _ in 0..PAIRS {
                if stop.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
                let begin = Instant::now();
                let answers = stream.write_all(&both).and_then(|()| {
                    read_message(&mut stream)?;
                    read_message(&mut stream)
                });
                match answers {
                    Ok(_) => times.record(begin.elapsed().as_nanos() as u64),
                    Err(_) => failed += 1,
                }
            }
        }
        Ok((times, failed))
    }
}

impl Held {
    /// Connections that were opened.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Asks each of them once more; gives the number that are answered.
    pub(crate) fn ask_all(&mut self) -> usize {
        let query = &self.query;
        self.streams.iter_mut().map(|stream| usize::from(ask(stream, query))).sum()
    }
}

fn ask(stream: &mut TcpStream, query: &[u8]) -> bool {
    let answer = stream.write_all(query).and_then(|()| read_message(stream));
    answer.is_ok_and(|message| message.get(..2) == query.get(2..4))
}

/// Whether this process has no descriptor left, or no port, or cannot send from there.
fn is_exhausted(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| {
        matches!(cause.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse)
            || matches!(cause.raw_os_error(), Some(23 | 24))
    })
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let server = args.server.find_and_tell(args.port)?;
    let sources = args.source.as_deref().map(lab_load::sources::parse).transpose()?;
    let name = Name::parse(&args.name)?;
    let clients = Clients { server, sources: &sources.unwrap_or_default(), name: &name };
    let memory = || args.pid.and_then(child::anonymous);
    let (mut held, slope) = clients.open(args.connections, memory, stop)?;
    let end = Instant::now() + Duration::from_nanos(args.hold);
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    let open = held.len();
    let answered = held.ask_all();
    let mut table = Table::new(&["connections", ""]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    row("opened and answered", open.to_string());
    row("refused or not answered", held.refused.to_string());
    row("answered again", answered.to_string());
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
        row(
            &format!("from connect to answer, {name}"),
            term::quantile(held.opening.quantile(part)),
        );
    }
    if let Some(slope) = slope {
        row("octets of the server's memory for each", format!("{slope:.0}"));
    }
    term::out(&table.framed());
    Ok(if answered == open { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_echo::stream::{self, Options};

    fn with_echo(options: Options, test: impl Fn(&Clients<'_>, &AtomicBool)) {
        let echo = stream::start(SocketAddr::from(([127, 0, 0, 1], 0)), options).unwrap();
        let name = Name::parse("example.org").unwrap();
        let sources = lab_load::sources::parse("127.0.0.2-127.0.0.3").unwrap();
        let clients = Clients { server: echo.address, sources: &sources, name: &name };
        test(&clients, &AtomicBool::new(false));
        echo.stop().unwrap();
    }

    #[test]
    fn what_is_held_is_answered_again_and_what_the_server_closed_is_not() {
        with_echo(Options::default(), |clients, stop| {
            let memory = std::cell::Cell::new(0);
            let grows = || Some(memory.replace(memory.get() + 3_600));
            let (mut held, slope) = clients.open(FIRST + 36, grows, stop).unwrap();
            assert_eq!((held.len(), held.refused, held.ask_all()), (FIRST + 36, 0, FIRST + 36));
            assert_eq!((slope, held.opening.recorded()), (Some(100.0), held.len() as u64));
        });
        with_echo(Options { close_after: Some(1), ..Options::default() }, |clients, stop| {
            let (mut held, slope) = clients.open(10, || None, stop).unwrap();
            assert_eq!((held.len(), held.ask_all(), slope), (10, 0, None));
        });
    }

    #[test]
    fn a_pair_counts_once_both_answers_are_there() {
        with_echo(Options::default(), |clients, stop| {
            let (times, failed) = clients.pairs(3, stop).unwrap();
            assert_eq!((times.recorded(), failed), (3 * PAIRS as u64, 0));
        });
        with_echo(Options { close_after: Some(1), ..Options::default() }, |clients, stop| {
            let (times, failed) = clients.pairs(2, stop).unwrap();
            assert_eq!((times.recorded(), failed), (0, 2 * PAIRS));
        });
    }

    #[test]
    fn nobody_who_answers_is_told_apart_from_no_port_of_ours() {
        let name = Name::parse("example.org").unwrap();
        // Of the network for documentation (RFC 5737).
        let elsewhere = ["192.0.2.1".parse().unwrap()];
        let server = SocketAddr::from(([127, 0, 0, 1], 1));
        let stop = AtomicBool::new(false);
        let mut clients = Clients { server, sources: &[], name: &name };
        let (held, _) = clients.open(2, || None, &stop).unwrap();
        assert_eq!((held.len(), held.refused), (0, 2));
        clients.sources = &elsewhere;
        let error = clients.open(1, || None, &stop).err().unwrap();
        assert!(error.to_string().contains("cannot send from 192.0.2.1"), "{error:#}");
    }
}
