//! Tells other servers that a zone has changed (NOTIFY, RFC 1996), on a thread of its own, which keeps catalogs of
//! zones up to date as well.

use crate::clock;
use crate::cpu;
use crate::fault::errno_text;
use crate::limits::{BATCH, NOTIFY_MESSAGE_LEN};
use crate::poll::{Interest, Poll, Waker};
use crate::random::Random;
use crate::slots::{Key, Kind};
use nodens_core::log::{Level, Sink};
use nodens_zone::catalog::{CatalogService, Listed, Producer};
use nodens_zone::counts::Notified;
use nodens_zone::notify::{Ended, Outgoing};
use nodens_zone::{Changes, Notifier, NotifyService, Outcome};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The directive that log lines name.
const ORIGIN: &str = "transfer";

/// Until the next look at catalogs that have to wait for the next second.
const CATALOG_PAUSE_NS: u64 = 200_000_000;

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
    /// Tells everybody of the versions there are now, and of later ones as they come. A table without
    /// zones is passed over, for good: directives fill theirs before a configuration is at work. From now on
    /// `catalogs` list what they have to.
    ///
    /// # Errors
    /// If there is no thread or descriptor to be had.
    pub fn start(
        services: &[NotifyService],
        catalogs: &[CatalogService],
        sink: Sink,
    ) -> io::Result<Self> {
        let (stopping, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::new()?));
        let mut notifications = Self { stopping, waker, thread: None };
        let has_zones = |service: &&NotifyService| !service.zones.load().is_empty();
        let services: Vec<_> = services.iter().filter(has_zones).cloned().collect();
        if services.is_empty() && catalogs.is_empty() {
            return Ok(notifications);
        }
        let catalogs = catalogs.to_vec();
        let (stopping, waker) = (notifications.stopping.clone(), notifications.waker.clone());
        let run = move || match Round::new((&services, &catalogs), sink.clone(), waker) {
            Ok(mut round) => {
                cpu::yield_to_workers();
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

/// What the thread does over and over.
struct Round {
    producer: Producer,
    notifier: Notifier,
    counts: Arc<Notified>,
    changes: Arc<Changes>,
    sockets: Sockets,
    poll: Poll,
    waker: Arc<Waker>,
    random: Random,
    sink: Sink,
}

impl Round {
    fn new(
        (services, catalogs): (&[NotifyService], &[CatalogService]),
        sink: Sink,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*waker, Kind::Wake, Key::ONLY, Interest::READ)?;
        let woken = waker.clone();
        let changes = Arc::new(Changes::new(move || woken.wake()));
        let awoken = waker.clone();
        let producer = Producer::new(catalogs, move || awoken.wake());
        let notifier = Notifier::new(services);
        notifier.listen(&changes);
        let (sockets, random) = (Sockets::default(), Random::new());
        let counts = services.iter().find_map(|service| service.rules.counts()).unwrap_or_default();
        Ok(Self { producer, notifier, counts, changes, sockets, poll, waker, random, sink })
    }

    fn turn(&mut self) {
        self.receive();
        // Before the others are told of changes.
        let waits = self.produce();
        self.notifier.take(&self.changes);
        let now = clock::now().mono_ns;
        let Self { notifier, counts, sockets, poll, random, sink, .. } = self;
        // What is not sent is sent again, as if it had been lost on the way.
        let send = |out: Outgoing<'_>| match sockets.send(poll, &out) {
            Ok(()) => {
                counts.messages.add(1);
                true
            }
            Err(unsent) => {
                unsent.say(&out, sink);
                false
            }
        };
        for Ended { zone, server, outcome } in notifier.poll(now, || random.u16(), send) {
            let reason = match outcome {
                Outcome::Accepted => continue,
                Outcome::GivenUp(None) => {
                    counts.given_up.add(1);
                    format!("was not accepted by \"{server}\": no answer")
                }
                Outcome::GivenUp(Some(rcode)) => {
                    counts.given_up.add(1);
                    format!("was not accepted by \"{server}\": rcode was {rcode}")
                }
                Outcome::Unsent => {
                    counts.unsent.add(1);
                    format!("could not be sent to \"{server}\"")
                }
            };
            let zone = zone.to_string();
            sink.line(Level::Warning, ORIGIN, format!("notify for zone {zone:?} {reason}"));
        }
        let now = clock::now().mono_ns;
        let due = self.notifier.next_deadline();
        let due = due.into_iter().chain(waits.then(|| now.saturating_add(CATALOG_PAUSE_NS))).min();
        self.poll.wait(due.map(|at| at.saturating_sub(now)));
        // Before the next look at what has changed, and at whether this is to stop.
        self.waker.reset();
    }

    /// Brings catalogs up to date; whether some have to wait.
    fn produce(&mut self) -> bool {
        let Self { producer, sink, .. } = self;
        producer.turn(clock::now().unix_s, |catalog, listed| match listed {
            Ok(Listed { serial, members, added, removed }) => {
                let text = format!(
                    "Catalog zone {catalog} lists {members} member zones: {added} added, {removed} \
                     removed, serial {}",
                    serial.0
                );
                sink.line(Level::Info, ORIGIN, text);
            }
            Err(delay) => {
                let text =
                    format!("Failed to change catalog zone {catalog}, trying again: {delay}");
                sink.line(Level::Error, ORIGIN, text);
            }
        })
    }

    fn receive(&mut self) {
        let mut buffer = [0; NOTIFY_MESSAGE_LEN];
        for socket in self.sockets.open.values() {
            for _ in 0..BATCH {
                // An error is about one message that was sent; that one is sent again.
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
                let message = buffer.get(..len).unwrap_or_default();
                if let Some(Outcome::Accepted) = self.notifier.receive(from, message) {
                    self.counts.accepted.add(1);
                }
            }
        }
    }
}

/// One socket for each address that messages come from: two for all zones without `source`. Each is
/// opened when it is needed for the first time.
#[derive(Default)]
struct Sockets {
    open: HashMap<IpAddr, UdpSocket>,
    /// Addresses for which no socket could be opened.
    failed: HashSet<IpAddr>,
}

/// Why a message was not sent.
enum Unsent {
    /// No socket of that address can be opened, which is about every zone that is told of from there;
    /// and whether that was so before.
    Socket(IpAddr, bool, io::Error),
    /// The system does not send it.
    Message(io::Error),
}

impl Unsent {
    fn say(&self, out: &Outgoing<'_>, sink: &Sink) {
        let (level, text) = match self {
            Self::Socket(from, is_known, error) => {
                let (reason, from) =
                    (errno_text(error), Some(from).filter(|ip| !ip.is_unspecified()));
                let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
                let level = if *is_known { Level::Debug } else { Level::Error };
                (level, format!("cannot notify secondaries of changes{from}: {reason}"))
            }
            Self::Message(error) => {
                let (zone, to, reason) = (out.zone.to_string(), out.to, errno_text(error));
                (Level::Debug, format!("notify for zone {zone:?} to {to}: {reason}"))
            }
        };
        sink.line(level, ORIGIN, text);
    }
}

impl Sockets {
    fn send(&mut self, poll: &Poll, out: &Outgoing<'_>) -> Result<(), Unsent> {
        let any: IpAddr = match out.to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let from = out.from.unwrap_or(any);
        let socket = match self.open.entry(from) {
            Entry::Occupied(socket) => socket.into_mut(),
            Entry::Vacant(place) => match open(from, poll) {
                Ok(socket) => {
                    self.failed.remove(&from);
                    place.insert(socket)
                }
                Err(error) => {
                    let is_known = !self.failed.insert(from);
                    return Err(Unsent::Socket(from, is_known, error));
                }
            },
        };
        let sent = socket.send_to(out.message, out.to);
        sent.map(drop).map_err(Unsent::Message)
    }
}

fn open(from: IpAddr, poll: &Poll) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.set_nonblocking(true)?;
    poll.add(&socket, Kind::UdpServer, Key::ONLY, Interest::READ)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::NameRef;
    use nodens_zone::{NotifyRules, Secondaries};

    #[derive(Debug)]
    struct Nobody;

    impl NotifyRules for Nobody {
        fn secondaries(&self, _zone: NameRef<'_>) -> Option<Arc<Secondaries>> {
            None
        }
    }

    #[test]
    fn without_zones_there_is_no_thread() {
        let (sender, _log) = std::sync::mpsc::sync_channel(1);
        let service = NotifyService { zones: Arc::default(), rules: Arc::new(Nobody) };
        let notifications = Notifications::start(&[service], &[], Sink::new(sender)).unwrap();
        assert!(notifications.thread.is_none());
    }
}
