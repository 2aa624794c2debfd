//! Tells other servers that a zone has changed (NOTIFY, RFC 1996), on a thread of its own.

use crate::clock;
use crate::fault::errno_text;
use crate::limits::{BATCH, NOTIFY_MESSAGE_LEN, NOTIFY_ROUND};
use crate::poll::{Interest, Poll, Waker};
use crate::random::Random;
use crate::slots::{Key, Kind};
use nodens_core::config::NotifyService;
use nodens_core::log::{Level, Sink};
use nodens_zone::{Notifier, Outcome};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The directive that log lines name.
const ORIGIN: &str = "transfer";

/// The telling of one configuration; it ends when this is dropped.
pub struct Notifications {
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Notifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifications")
    }
}

impl Notifications {
    /// Tells everybody of the versions there are now, and of later ones as they come.
    ///
    /// # Errors
    /// If there is no thread or descriptor to be had.
    pub fn start(services: &[NotifyService], sink: Sink) -> io::Result<Self> {
        let (stopping, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::new()?));
        let mut notifications = Self { stopping, waker, thread: None };
        if services.is_empty() {
            return Ok(notifications);
        }
        let (stopping, waker) = (notifications.stopping.clone(), notifications.waker.clone());
        let services = services.to_vec();
        let run = move || match Round::new(&services, sink.clone(), &waker) {
            Ok(mut round) => {
                while !stopping.load(Ordering::Acquire) {
                    round.turn();
                }
            }
            Err(error) => {
                let text = format!("cannot notify secondaries of changes: {}", errno_text(&error));
                sink.line(Level::Error, ORIGIN, text);
            }
        };
        let thread = std::thread::Builder::new().name("notify".to_owned()).spawn(run)?;
        notifications.thread = Some(thread);
        Ok(notifications)
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
}

/// One zone and who is told of it.
struct Telling {
    service: NotifyService,
    notifier: Notifier,
    /// One for each address family that is needed.
    sockets: Vec<UdpSocket>,
}

impl Telling {
    fn new(service: &NotifyService, poll: &Poll) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
            if !service.servers.iter().any(|server| server.is_ipv4() == any.is_ipv4()) {
                continue;
            }
            let from = service.from.filter(|from| from.is_ipv4() == any.is_ipv4()).unwrap_or(any);
            let socket = UdpSocket::bind((from, 0))?;
            socket.set_nonblocking(true)?;
            poll.add(&socket, Kind::UdpServer, Key::ONLY, Interest::READ)?;
            sockets.push(socket);
        }
        let notifier = Notifier::new(service.zone.clone(), &service.servers);
        Ok(Self { service: service.clone(), notifier, sockets })
    }

    fn send(sockets: &[UdpSocket], to: SocketAddr, message: &[u8]) -> io::Result<()> {
        let same_family = |socket: &&UdpSocket| {
            socket.local_addr().is_ok_and(|local| local.is_ipv4() == to.is_ipv4())
        };
        match sockets.iter().find(same_family) {
            Some(socket) => socket.send_to(message, to).map(drop),
            None => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// Sends what is due, and says who is not told any more.
    fn tell(&mut self, random: &mut Random, sink: &Sink) {
        let Self { service, notifier, sockets } = self;
        let (soa, now) = (service.version.soa(), clock::now());
        let send = |to: SocketAddr, message: &[u8]| {
            // It is sent again, as if it had been lost on the way.
            if let Err(error) = Self::send(sockets, to, message) {
                let reason = errno_text(&error);
                let text =
                    format!("notify for zone {:?} to {to}: {reason}", service.zone.to_string());
                sink.line(Level::Debug, ORIGIN, text);
            }
        };
        for (to, outcome) in notifier.poll(now.mono_ns, soa.as_ref(), || random.u16(), send) {
            let reason = match outcome {
                Outcome::Accepted => continue,
                Outcome::GivenUp(None) => "no answer".to_owned(),
                Outcome::GivenUp(Some(rcode)) => format!("rcode was {rcode}"),
            };
            let zone = service.zone.to_string();
            let text = format!("notify for zone {zone:?} was not accepted by \"{to}\": {reason}");
            sink.line(Level::Warning, ORIGIN, text);
        }
    }

    fn receive(&mut self) {
        let mut buffer = [0; NOTIFY_MESSAGE_LEN];
        for socket in &self.sockets {
            for _ in 0..BATCH {
                // An error is about one message that was sent; that one is sent again.
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
                self.notifier.receive(from, buffer.get(..len).unwrap_or_default());
            }
        }
    }
}

/// What the thread does over and over.
struct Round {
    tellings: Vec<Telling>,
    poll: Poll,
    random: Random,
    sink: Sink,
}

impl Round {
    fn new(services: &[NotifyService], sink: Sink, waker: &Waker) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(waker, Kind::Wake, Key::ONLY, Interest::READ)?;
        let tellings = services.iter().filter_map(|service| match Telling::new(service, &poll) {
            Ok(telling) => Some(telling),
            Err(error) => {
                let (zone, reason) = (service.zone.to_string(), errno_text(&error));
                let text =
                    format!("cannot notify secondaries of changes to zone {zone:?}: {reason}");
                sink.line(Level::Error, ORIGIN, text);
                None
            }
        });
        let tellings = tellings.collect();
        Ok(Self { tellings, poll, random: Random::new(), sink })
    }

    fn turn(&mut self) {
        for telling in &mut self.tellings {
            telling.receive();
            telling.tell(&mut self.random, &self.sink);
        }
        // Zones say nothing when they change: they are looked at every so often.
        let now = clock::now().mono_ns;
        let round = u64::try_from(NOTIFY_ROUND.as_nanos()).unwrap_or(u64::MAX);
        let due = self.tellings.iter().filter_map(|telling| telling.notifier.next_deadline()).min();
        let wait = due.map_or(round, |at| at.saturating_sub(now)).min(round);
        self.poll.wait(Some(wait));
    }
}
