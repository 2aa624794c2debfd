//! What passes from one process to its successor: listening sockets with what waits in them.
//!
//! Both processes have the same sockets for a while, and each datagram and each connection goes to
//! one of them. So nothing is lost as long as one of the two takes what arrives, and whoever has
//! taken a question answers it.

use crate::event_loop::Command;
use crate::listeners::{InheritedListener, ListenerAddress};
use crate::poll::Waker;
use crate::runtime::{Left, Open, Runtime};
use crate::tcp::{HandedConnection, Leaving};
use crate::vitals::Lent;
use nodens_core::{ListenerKind, Transport};
use socket2::SockRef;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a worker may take to answer while no process takes queries. One that takes longer hangs,
/// and takes none in any case.
const PAUSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Workers that did not answer in time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {0} does not answer")]
pub struct Unresponsive(pub usize);

/// Whether connections to such a listener can go on in another process. Its sockets can in any case;
/// what a process knows of a connection beside the socket, such as keys, stays in it.
pub(crate) const fn passes_connections(kind: ListenerKind) -> bool {
    matches!(kind, ListenerKind::Dns)
}

/// The sockets of a listener, once more: one of each transport after the other, as far as `clone`
/// has descriptors for all of them. A listener of which some are missing is of more use to a
/// successor than one that lacks a transport.
fn exported(
    lent: &[Lent],
    (listener, kind): (u32, ListenerKind),
    mut clone: impl FnMut(&OwnedFd) -> io::Result<OwnedFd>,
) -> Vec<(Transport, OwnedFd)> {
    let transports = kind.transports();
    let columns: Vec<_> = transports.iter().map(|own| in_turn(lent, listener, *own)).collect();
    let rows = columns.iter().map(Vec::len).min().unwrap_or_default();
    let mut row = |number: usize| -> Option<Vec<_>> {
        let sockets = columns.iter().zip(transports);
        sockets.map(|(own, transport)| Some((*transport, clone(own.get(number)?).ok()?))).collect()
    };
    (0..rows).map_while(&mut row).flatten().collect()
}

/// The sockets of a listener for one transport: one of each worker in turn, so that the successor's
/// workers get those of their CPUs.
fn in_turn(lent: &[Lent], listener: u32, transport: Transport) -> Vec<Arc<OwnedFd>> {
    let own = lent.iter().filter(|lent| (lent.listener, lent.transport) == (listener, transport));
    let mut own: Vec<&Lent> = own.collect();
    let mut counts: HashMap<usize, usize> = HashMap::new();
    own.sort_by_cached_key(|lent| {
        let number = counts.entry(lent.worker).or_default();
        *number += 1;
        (*number, lent.worker)
    });
    own.into_iter().filter_map(|lent| lent.socket.upgrade()).collect()
}

impl Runtime {
    /// The sockets that listen, once more, for a successor; those of workers that hang too.
    pub fn export(&self) -> Vec<InheritedListener> {
        let lent = self.vitals.lent();
        let listener = |open: &Open| {
            let sockets = exported(&lent, (open.id, open.kind), OwnedFd::try_clone);
            InheritedListener { address: open.address, kind: open.kind, sockets }
        };
        self.listeners.iter().map(listener).collect()
    }

    /// Takes no more questions from listeners; what arrives stays in the sockets. Connections go
    /// on as before.
    ///
    /// # Errors
    ///
    /// A worker that hangs stops when it comes back, before it takes another question.
    pub fn pause(&self) -> Result<(), Unresponsive> {
        self.ask_all(|done| Command::Pause(true, done), PAUSE_TIMEOUT).map(drop)
    }

    /// Takes questions from listeners, again or for the first time.
    ///
    /// # Errors
    ///
    /// A worker that hangs takes its questions when it comes back.
    pub fn resume(&mut self) -> Result<(), Unresponsive> {
        self.ask_all(|done| Command::Pause(false, done), PAUSE_TIMEOUT).map(drop)
    }

    /// Opens the sockets that were not inherited, once nobody else will go on with those that
    /// were.
    pub fn settle(&mut self) {
        self.complete();
    }

    /// As [`Runtime::shutdown`], but leaves to a successor what arrives at the listeners that it
    /// has `kept`, as [`Runtime::bound_listeners`] names them. Connections to them go to
    /// `heir`, each once its questions are answered. Gives the workers that hang and are left behind,
    /// with the connections that they have.
    pub fn leave(
        self,
        kept: &[ListenerAddress],
        heir: &Sender<HandedConnection>,
        grace: Duration,
    ) -> Left {
        let kept = self.listeners.iter().filter(|open| kept.contains(&open.to_bound()));
        let kept: HashMap<u32, ListenerAddress> =
            kept.map(|open| (open.id, open.to_bound())).collect();
        self.end(grace, |at| Command::Leave(at, Leaving { heir: heir.clone(), kept: kept.clone() }))
    }

    /// A way for connections of another process into this one.
    pub fn adopter(&self) -> Adopter {
        let commands = self.workers.iter().map(|thread| thread.commands.clone()).collect();
        let listeners = self.listeners.iter().map(|open| (open.to_bound(), open.id)).collect();
        let cpus = self.opener.cpus.clone().unwrap_or_default();
        Adopter { commands, wakers: self.wakers(), listeners, cpus, next: 0 }
    }

    fn ask_all<T>(
        &self,
        command: impl Fn(SyncSender<T>) -> Command,
        patience: Duration,
    ) -> Result<Vec<T>, Unresponsive> {
        let ask = |worker: usize| -> Receiver<T> {
            let (reply, replies) = sync_channel(1);
            if let Some(thread) = self.workers.get(worker) {
                // A worker that is gone drops its end, which is noticed at once.
                _ = thread.commands.send(command(reply));
                self.wake(worker);
            }
            replies
        };
        // One that is stuck takes nothing up until it recovers, and then this first.
        let asked: Vec<_> = (0..self.workers.len()).map(ask).collect();
        let until = Instant::now() + patience;
        let answer = |(worker, replies): (usize, Receiver<T>)| {
            let left = until.saturating_duration_since(Instant::now());
            replies.recv_timeout(left).map_err(|_| Unresponsive(worker))
        };
        let asked = asked.into_iter().enumerate();
        asked.filter(|(worker, _)| !self.vitals.is_stalled(*worker)).map(answer).collect()
    }
}

/// Takes connections of another process, as long as the listeners are those of its beginning.
pub struct Adopter {
    commands: Vec<Sender<Command>>,
    wakers: Arc<Vec<Waker>>,
    listeners: HashMap<ListenerAddress, u32>,
    cpus: Vec<usize>,
    next: usize,
}

impl std::fmt::Debug for Adopter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Adopter({:?})", self.listeners)
    }
}

impl Adopter {
    /// Gives a connection to the worker on whose CPU its packets arrive. One whose listener is
    /// not ours closes.
    pub fn adopt(&mut self, connection: HandedConnection) {
        let Some(endpoint) = self.listeners.get(&connection.listener).copied() else { return };
        let cpu = SockRef::from(&connection.stream).cpu_affinity().ok();
        let near = self.cpus.iter().position(|own| Some(*own) == cpu);
        self.next = (self.next + 1) % self.commands.len().max(1);
        let worker = near.unwrap_or(self.next);
        if let (Some(commands), Some(waker)) = (self.commands.get(worker), self.wakers.get(worker))
        {
            _ = commands.send(Command::Adopt(connection, endpoint));
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::Weak;

    #[test]
    fn whole_rows_of_sockets_are_passed_on_when_descriptors_run_out() {
        let kind = ListenerKind::Dns;
        let bound = SocketAddr::from(([127, 0, 0, 1], 53));
        let file = || Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let workers = 0..3;
        let sockets: Vec<_> = workers
            .flat_map(|worker| kind.transports().iter().map(move |own| (worker, *own)))
            .map(|(worker, transport)| (worker, transport, file()))
            .collect();
        let lent = |(worker, transport, socket): &(usize, Transport, Arc<OwnedFd>)| Lent {
            worker: *worker,
            listener: 1,
            bound,
            transport: *transport,
            socket: Arc::downgrade(socket),
        };
        let mut lent: Vec<Lent> = sockets.iter().map(lent).collect();
        let passed = |lent: &[Lent], mut free: usize| {
            let clone = |fd: &OwnedFd| {
                free = free.checked_sub(1).ok_or(io::ErrorKind::OutOfMemory)?;
                fd.try_clone()
            };
            let passed = exported(lent, (1, kind), clone);
            let of = |wanted| passed.iter().filter(|(own, _)| *own == wanted).count();
            [Transport::Udp, Transport::Tcp].map(of)
        };
        assert_eq!(passed(&lent, 6), [3, 3]);
        assert_eq!(passed(&lent, 5), [2, 2]);
        assert_eq!(passed(&lent, 3), [1, 1]);
        assert_eq!(passed(&lent, 1), [0, 0]);
        // One that is closed.
        lent[5].socket = Weak::new();
        assert_eq!(passed(&lent, 6), [2, 2]);
    }
}
