//! `nodens-lab echo`: answers every question with itself.

use crate::term;
use anyhow::{Context, Result};
use lab_sys::batch::Batch;
use lab_sys::poll::{Interest, Poller};
use nodens_wire::header::set_flags;
use nodens_wire::{Flags, Header, Rcode};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Datagrams per system call.
const BATCH: usize = 64;
/// Octets of a datagram that are answered.
const DATAGRAM_LEN_MAX: usize = 1_232;
/// The longest sleep, so that a stop is noticed.
const SLEEP: Duration = Duration::from_millis(50);

/// Arguments of `echo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on.
    #[arg(short, long, default_value = "127.0.0.1:5300")]
    listen: SocketAddr,
    /// Threads, each with a socket of its own on the same port.
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: usize,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    let mut sockets = Vec::new();
    let mut address = args.listen;
    for _ in 0..args.threads.max(1) {
        let socket = open(address).with_context(|| format!("cannot listen on {}", args.listen))?;
        address = socket.local_addr()?.as_socket().unwrap_or(address);
        sockets.push(socket);
    }
    term::out(&format!("echo on {address}/udp with {} threads, end with Ctrl-C", sockets.len()));
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| -> Result<()> {
        let handles: Vec<_> =
            sockets.iter().map(|socket| scope.spawn(|| serve(socket, stop, &answered))).collect();
        for handle in handles {
            handle.join().map_err(|_| anyhow::anyhow!("an echo thread panicked"))??;
        }
        Ok(())
    })?;
    term::out(&format!("{} questions answered", term::count(answered.into_inner())));
    Ok(ExitCode::SUCCESS)
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.set_recv_buffer_size(4 << 20)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn serve(socket: &Socket, stop: &AtomicBool, answered: &AtomicU64) -> io::Result<()> {
    let mut batch = Batch::with_peers(BATCH, DATAGRAM_LEN_MAX);
    let mut poller = Poller::new(1)?;
    poller.add(socket.as_fd(), 0, Interest::Read)?;
    while !stop.load(Ordering::Relaxed) {
        match batch.receive(socket.as_fd()) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                drop(poller.wait(SLEEP)?);
                continue;
            }
            Err(error) => return Err(error),
        }
        keep_questions(&mut batch);
        let mut first = 0;
        while first < batch.len() {
            match batch.send(socket.as_fd(), first) {
                Ok(count) => {
                    answered.fetch_add(count as u64, Ordering::Relaxed);
                    first += count;
                }
                // No room, or the client has gone: as on any network, this answer is lost.
                Err(_) => first += 1,
            }
        }
    }
    Ok(())
}

/// Turns questions into answers and drops everything else, so that two echoes never answer each
/// other for ever.
fn keep_questions(batch: &mut Batch) {
    let mut at = 0;
    while at < batch.len() {
        match Header::read(batch.get(at)) {
            Ok(header) if !header.flags.has(Flags::QR) => {
                let flags = header.flags.with(Flags::QR, true).with_rcode(Rcode::NOERROR);
                set_flags(batch.get_mut(at), flags);
                at += 1;
            }
            _ => batch.swap_remove(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_become_answers_and_the_rest_is_dropped() {
        let question = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let answer = [0, 7, 0x81, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let mut batch = Batch::connected(4, 64);
        assert!(batch.push(&answer) && batch.push(&[1]) && batch.push(&question));
        keep_questions(&mut batch);
        assert_eq!((batch.len(), batch.get(0)), (1, &answer[..]));
    }
}
