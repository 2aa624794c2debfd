//! What the loops over connections have in common: the listener, the clock, answers that wait.

use crate::queue::Queue;
use crate::udp::{Echo, Report};
use crate::{Injection, Injector, listen};
use lab_sys::poll::{Interest, Poller, Ready};
use socket2::{Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Nanoseconds that waking up may take: answers due sooner are waited for without sleeping.
const WAKE_UP: u64 = 80_000;
/// Answers that one thread holds back at most.
const WAITING_MAX: usize = 1 << 20;
/// The token of the listener.
const LISTENER: u64 = u64::MAX;

/// A thread's part of a server of connections; `H` is an answer that waits.
pub(crate) struct Front<H> {
    listener: Socket,
    pub(crate) poller: Poller,
    begin: Instant,
    pub(crate) injector: Injector,
    pub(crate) queue: Queue<H>,
    serials: u64,
}

/// A server of connections, driven by [`serve`].
pub(crate) trait Serve {
    /// An answer that waits.
    type Held;

    fn front(&mut self) -> &mut Front<Self::Held>;
    /// Writes what is due.
    fn release(&mut self);
    /// Takes a connection; it is closed if that fails.
    fn admit(&mut self, socket: Socket, serial: u64);
    /// Reads and writes for the connection `key`, whose socket is ready.
    fn turn(&mut self, key: usize);
}

/// Listens on `address` with so many threads, each of which serves what `make` makes of its front.
pub(crate) fn start<S: Serve>(
    address: SocketAddr,
    threads: usize,
    injection: Injection,
    make: impl Fn(Front<S::Held>) -> S + Clone + Send + 'static,
) -> io::Result<Echo> {
    let count = threads.max(1);
    let (address, listeners) = listen::on_one_port(address, Type::STREAM, count)?;
    for listener in &listeners {
        listener.listen(BACKLOG)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let injectors = Injector::for_threads(injection, count);
    let threads = listeners.into_iter().zip(injectors).map(|(listener, injector)| {
        let (stop, make) = (stop.clone(), make.clone());
        std::thread::spawn(move || serve(make(Front::new(listener, injector, begin)?), &stop))
    });
    let threads = threads.collect();
    Ok(Echo::of(address, stop, threads))
}

fn serve<S: Serve>(mut server: S, stop: &AtomicBool) -> io::Result<Report> {
    let mut ready: Vec<Ready> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        server.release();
        ready.clear();
        server.front().wait(&mut ready)?;
        for ready in &ready {
            if ready.token != LISTENER {
                server.turn(ready.token as usize);
                continue;
            }
            while let Some((socket, serial)) = server.front().accept() {
                server.admit(socket, serial);
            }
        }
    }
    let front = server.front();
    let mut truth = std::mem::take(&mut front.injector.truth);
    truth.unfinished += front.queue.len() as u64;
    Ok(Report { truth, arrivals: Vec::new() })
}

impl<H> Front<H> {
    fn new(listener: Socket, injector: Injector, begin: Instant) -> io::Result<Self> {
        let poller = Poller::new(1_024)?;
        poller.add(listener.as_fd(), LISTENER, Interest::Read)?;
        lab_sys::cpu::tighten_timers();
        let queue = Queue::new(WAITING_MAX);
        Ok(Self { listener, poller, begin, injector, queue, serials: 0 })
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits until a socket is ready or an answer is due.
    fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        let next = self.queue.next_due().unwrap_or(u64::MAX).saturating_sub(WAKE_UP);
        let sleep = Duration::from_nanos(next.saturating_sub(self.now())).min(SLEEP_MAX);
        ready.extend(self.poller.wait(sleep)?);
        Ok(())
    }

    /// The next connection that waits, with its number. Errors concern one of them, or pass: the poller
    /// reports the listener again.
    fn accept(&mut self) -> Option<(Socket, u64)> {
        while let Ok((socket, _)) = self.listener.accept() {
            let set_up = socket.set_nonblocking(true).and_then(|()| socket.set_tcp_nodelay(true));
            if set_up.is_ok() {
                self.serials += 1;
                return Some((socket, self.serials));
            }
        }
        None
    }
}
