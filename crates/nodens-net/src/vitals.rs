//! Whether the workers live: each stamps every turn of its loop, and others may look.

use crate::clock;
use crate::limits::UNHEALTHY_AFTER;
use crate::listeners::{Assigned, Listening};
use crate::sys;
use nodens_core::{Now, Shared, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// What is known about the workers of a runtime.
pub struct Vitals {
    beats: Box<[Beat]>,
    /// How often a worker was found stuck.
    stalls: AtomicU64,
    lent: Mutex<Vec<Lent>>,
    /// Counts the changes of `lent`.
    lent_version: AtomicU64,
}

/// A line of memory that one worker alone writes while it is well.
#[repr(align(128))]
#[derive(Default)]
struct Beat {
    /// When the last turn began, monotonic nanoseconds.
    turn_ns: AtomicU64,
    /// When the last turn before it got stuck began; 0 while it is well. Of the supervisor.
    stalled_ns: AtomicU64,
    /// What it waits at.
    epoll: OnceLock<Weak<OwnedFd>>,
}

/// A socket of one worker for one listener. It closes with the worker's own reference.
#[derive(Clone)]
pub(crate) struct Lent {
    pub(crate) worker: usize,
    /// The listener's number for good.
    pub(crate) listener: u32,
    pub(crate) bound: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) socket: Weak<OwnedFd>,
}

impl Lent {
    /// One that `worker` is about to get.
    pub(crate) fn new(worker: usize, assigned: &Assigned) -> Self {
        let Assigned { listener, bound, socket: Listening { transport, socket } } = assigned;
        let socket = Arc::downgrade(socket);
        Self { worker, listener: *listener, bound: *bound, transport: *transport, socket }
    }

    /// The socket, for another worker that stands in; none if it is closed.
    pub(crate) fn socket(&self) -> Option<Assigned> {
        let socket = Listening { transport: self.transport, socket: self.socket.upgrade()? };
        Some(Assigned { listener: self.listener, bound: self.bound, socket })
    }
}

/// A worker that makes no turns although there is something for it to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// Which worker.
    pub worker: usize,
    /// Time since its last turn began.
    pub elapsed: Duration,
}

impl std::fmt::Debug for Vitals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vitals({} workers, stalled: {:?})", self.beats.len(), self.stalled())
    }
}

impl Vitals {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            beats: (0..workers).map(|_| Beat::default()).collect(),
            stalls: AtomicU64::new(0),
            lent: Mutex::default(),
            lent_version: AtomicU64::new(0),
        }
    }

    /// The workers that are stuck.
    pub fn stalled(&self) -> Vec<Stalled> {
        let now = clock::now();
        let since =
            |beat: &Beat| Some(beat.stalled_ns.load(Ordering::Relaxed)).filter(|at| *at > 0);
        let beats = self.beats.iter().enumerate();
        let stalled = |(worker, beat)| Some(Stalled { worker, elapsed: now.since(since(beat)?) });
        beats.filter_map(stalled).collect()
    }

    /// Why the process should be started anew, if it should: a worker has been stuck for so long
    /// that nothing suggests that it recovers.
    pub fn complaint(&self) -> Option<String> {
        // One that is slow makes turns now and then, and a restart would not make it faster.
        let now = clock::now();
        let silent = |Stalled { worker, .. }| (now.since(self.turn(worker)), worker);
        let (elapsed, worker) = self.stalled().into_iter().map(silent).max()?;
        let text = || format!("worker {worker} is stuck: no turn for {} s", elapsed.as_secs());
        (elapsed >= UNHEALTHY_AFTER).then(text)
    }

    /// Whether every worker is stuck, so that no question is answered.
    pub fn all_stalled(&self) -> bool {
        !self.beats.is_empty() && (0..self.beats.len()).all(|worker| self.is_stalled(worker))
    }

    pub(crate) fn is_stalled(&self, worker: usize) -> bool {
        let stalled = |beat: &Beat| beat.stalled_ns.load(Ordering::Relaxed) > 0;
        self.beats.get(worker).is_some_and(stalled)
    }

    pub(crate) fn set_stalled(&self, worker: usize, stalled: bool) {
        let Some(beat) = self.beats.get(worker) else { return };
        // A worker that never made a turn has been stuck since some time after 0.
        let since = if stalled { beat.turn_ns.load(Ordering::Relaxed).max(1) } else { 0 };
        beat.stalled_ns.store(since, Ordering::Relaxed);
        self.stalls.fetch_add(u64::from(stalled), Ordering::Relaxed);
    }

    /// A worker's turn begins; only the worker itself may say so.
    pub(crate) fn beat(&self, worker: usize, now: Now) {
        if let Some(beat) = self.beats.get(worker) {
            beat.turn_ns.store(now.mono_ns, Ordering::Relaxed);
        }
    }

    /// When the last turn of a worker began.
    pub fn turn(&self, worker: usize) -> u64 {
        self.beats.get(worker).map_or(0, |beat| beat.turn_ns.load(Ordering::Relaxed))
    }

    /// Says what a worker waits at.
    pub(crate) fn waits_at(&self, worker: usize, epoll: &Arc<OwnedFd>) {
        if let Some(beat) = self.beats.get(worker) {
            _ = beat.epoll.set(Arc::downgrade(epoll));
        }
    }

    /// Whether there is something that a worker has not taken up yet. The worker is not woken.
    pub(crate) fn has_work(&self, worker: usize) -> bool {
        let epoll = self.beats.get(worker).and_then(|beat| beat.epoll.get()?.upgrade());
        let Some(epoll) = epoll else { return false };
        let mut wanted = [PollFd::new(&epoll, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut wanted, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Notes sockets that workers have got, and forgets those that are closed.
    pub(crate) fn lend(&self, more: Vec<Lent>) {
        let mut lent = self.lock();
        lent.retain(|lent| lent.socket.strong_count() > 0);
        lent.extend(more);
        self.lent_version.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lent_version(&self) -> u64 {
        self.lent_version.load(Ordering::Relaxed)
    }

    /// The sockets of all workers, by worker.
    pub(crate) fn lent(&self) -> Vec<Lent> {
        self.lock().clone()
    }

    /// Closes the listeners of a worker that is stuck. It may be about to use them: it finds `dummy` in
    /// their places, which is no socket.
    ///
    /// # Errors
    ///
    /// The first reason why one of them is still open.
    pub(crate) fn close_listeners(&self, worker: usize, dummy: BorrowedFd<'_>) -> io::Result<()> {
        let epoll = self.beats.get(worker).and_then(|beat| beat.epoll.get()?.upgrade());
        let close = |socket: BorrowedFd<'_>| {
            // The sockets may live on in another process, and so would what epoll knows of them.
            _ = epoll.as_ref().map(|epoll| rustix::event::epoll::delete(epoll, socket));
            sys::replace(socket, dummy)
        };
        let mut outcome = Ok(());
        for lent in self.lent().iter().filter(|lent| lent.worker == worker) {
            // It may have been closed before.
            let socket = lent.socket.upgrade();
            outcome = outcome.and(socket.map_or(Ok(()), |socket| close(socket.as_fd())));
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(self: &Arc<Self>, shared: &Shared) {
        let (count, longest, stalls) = (self.clone(), self.clone(), self.clone());
        let registry = &shared.registry;
        registry.gauge(
            "nodens_workers_stalled",
            "Workers that make no turns although there is something for them to do.",
            &[],
            Arc::new(move || count.stalled().len() as f64),
        );
        registry.gauge(
            "nodens_worker_stalled_seconds",
            "Seconds since the last turn of the worker that has been stuck for longest; 0 if none is.",
            &[],
            Arc::new(move || {
                let elapsed = longest.stalled().into_iter().map(|stalled| stalled.elapsed);
                elapsed.max().unwrap_or_default().as_secs_f64()
            }),
        );
        registry.total(
            "nodens_worker_stalls_total",
            "Times a worker was found stuck.",
            Arc::new(move || stalls.stalls.load(Ordering::Relaxed) as f64),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Waker;
    use socket2::SockRef;
    use std::net::{TcpListener, UdpSocket};

    /// A turn that began so long ago.
    fn ago(time: Duration) -> Now {
        let now = clock::now();
        let mono_ns = now.mono_ns.saturating_sub(time.as_nanos() as u64);
        Now { mono_ns, ..now }
    }

    #[test]
    fn what_counts_for_health_is_the_last_turn_and_not_how_long_a_worker_has_been_slow() {
        let vitals = Vitals::new(2);
        let long = 2 * UNHEALTHY_AFTER;
        (0..2).for_each(|worker| vitals.beat(worker, ago(long)));
        assert_eq!(vitals.complaint(), None, "a worker that sleeps is well");
        vitals.set_stalled(1, true);
        let complaint = vitals.complaint().unwrap_or_default();
        assert!(complaint.starts_with("worker 1 is stuck: no turn for "), "{complaint}");
        // It makes a turn now and then: a restart would not make it faster.
        vitals.beat(1, ago(Duration::ZERO));
        assert!(vitals.stalled()[0].elapsed >= long);
        assert_eq!(vitals.complaint(), None);
        // The one that has been silent for longest is named.
        vitals.set_stalled(0, true);
        let complaint = vitals.complaint().unwrap_or_default();
        assert!(complaint.starts_with("worker 0 is stuck"), "{complaint}");
    }

    #[test]
    fn a_listener_of_a_stuck_worker_is_closed_although_the_other_of_its_pair_was_before() {
        let udp = || Arc::new(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let tcp = || Arc::new(OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap()));
        let (sockets, former) = ([udp(), tcp()], [udp(), tcp()]);
        let address = |fd: &Arc<OwnedFd>| {
            SockRef::from(fd).local_addr().map(|address| address.as_socket().unwrap())
        };
        let taken = [0, 1].map(|at| address(&sockets[at]).unwrap());
        let lent = |(transport, socket): (Transport, &Arc<OwnedFd>)| {
            let socket = Listening { transport, socket: socket.clone() };
            Lent::new(0, &Assigned { listener: 0, bound: taken[0], socket })
        };
        let vitals = Vitals::new(1);
        for pair in [[&sockets[0], &former[1]], [&former[0], &sockets[1]]] {
            vitals.lend([Transport::Udp, Transport::Tcp].into_iter().zip(pair).map(lent).collect());
        }
        drop(former);
        vitals.lend(Vec::new());
        assert_eq!(vitals.lent().len(), 2);
        let waker = Waker::new().unwrap();
        vitals.close_listeners(0, waker.as_fd()).unwrap();
        UdpSocket::bind(taken[0]).expect("nobody has the port");
        TcpListener::bind(taken[1]).expect("nobody has the port");
        assert!(sockets.iter().all(|socket| address(socket).is_err()), "no sockets");
    }
}
