//! The side of the predecessor.

use super::channel::{self, Channel};
use super::folder::{Folder, Name};
use super::limits::{IN_TIME, LEAVE_MAX, PREPARE_MAX, ROUND, SILENT_ROUNDS, STATE_TIME};
use super::listener::{Candidate, Listener, Peer};
use super::message::{Item, Message};
use super::secret::Secret;
use super::sending::{pass_on, send_answers, send_state};
use super::{Error, HandoverState, Named};
use nodens_core::cache::Store;
use nodens_net::{HandedConnection, ListenerAddress};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The server that is to hand over.
pub trait Holder {
    /// What there is to pass on. The server answers meanwhile, and changes none of it until
    /// [`Holder::resume`] or [`Holder::leave`].
    fn state(&mut self) -> Result<HandoverState, String>;
    /// Shows `visit` every answer of the cache until it says false.
    fn answers(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool);
    /// Whether the server has something to do that does not wait until a successor is ready. Set by
    /// others, at any time.
    fn called_off(&self) -> Arc<AtomicBool>;
    /// Reads no more queries; connections stay. Gives the descriptors of the node's network.
    fn pause(&mut self) -> Result<Named, String>;
    /// The successor reads queries, and does from now on what both would do. This server must be able
    /// to [`Holder::resume`] for the time that this gives.
    fn retire(&mut self) -> Duration;
    /// Whether this server has to end now, and cannot stand by for all of that time.
    fn is_hurried(&self) -> bool;
    /// Serves as before, because `why`.
    fn resume(&mut self, why: &Error);
    /// A process was turned away before it was given or asked anything.
    fn refused(&mut self, why: &Error);
    /// Begins to end. What arrives at `kept` is for the successor; connections go to `successor`, until
    /// it is dropped.
    fn leave(&mut self, kept: Vec<ListenerAddress>, successor: Sender<HandedConnection>);
    /// Whether that is done. A part of the server that is stuck may keep `successor` for ever.
    fn has_left(&mut self) -> bool;
}

/// Who has taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// The child with this process ID.
    Child(u32),
    /// A process that was started by others.
    Other,
}

/// Where successors find this process: under a name, or as the parent that started them.
#[derive(Debug)]
pub struct Offer {
    named: Option<(Name, Listener)>,
    children: Receiver<(u32, OwnedFd)>,
    parent: Parent,
}

/// Gives successors that this process starts a connection to it.
#[derive(Clone, Debug)]
pub struct Parent {
    tell: Sender<(u32, OwnedFd)>,
    wake: Arc<OwnedFd>,
}

impl Parent {
    /// Both ends of a connection: ours, and that which a child is to find as its standard input.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn connection(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (ours, theirs) = Channel::pair()?;
        Ok((ours.into(), theirs))
    }

    /// The child `pid` has the other end of `ours`.
    pub fn expect(&self, pid: u32, ours: OwnedFd) {
        _ = self.tell.send((pid, ours));
        self.wake();
    }

    /// Ends a wait for others.
    pub(crate) fn wake(&self) {
        _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Offer {
    /// Offers under `name`, or only to children without one.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn new(name: Option<Name>) -> io::Result<Self> {
        let listener = |name: Name| {
            let listener = Listener::new(name.listen()?, name.folder.secret.clone());
            io::Result::Ok((name, listener))
        };
        Self::of(name.map(listener).transpose()?)
    }

    fn of(named: Option<(Name, Listener)>) -> io::Result<Self> {
        let (tell, children) = channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { named, children, parent: Parent { tell, wake: Arc::new(wake) } })
    }

    /// Offers with the predecessor's [`Offer::descriptors`], at which others may wait already.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn inherited(folder: Folder, name: &str, [lock, socket]: [OwnedFd; 2]) -> io::Result<Self> {
        let listener = Listener::new(socket, folder.secret.clone());
        Self::of(Some((Name { folder, name: name.to_owned(), lock }, listener)))
    }

    /// Of the name, for a successor; none without one.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn descriptors(&self) -> io::Result<Option<[OwnedFd; 2]>> {
        let both = |(name, listener): &(Name, Listener)| {
            io::Result::Ok([name.lock.try_clone()?, listener.socket.try_clone()?])
        };
        self.named.as_ref().map(both).transpose()
    }

    /// For children that are to succeed.
    pub fn parent(&self) -> Parent {
        self.parent.clone()
    }

    /// Serves successors, one after the other, until one of them has taken over. Those that come
    /// meanwhile are told to wait.
    ///
    /// # Errors
    ///
    /// No process can connect any more.
    pub fn serve(&mut self, holder: &mut dyn Holder, program: &str) -> io::Result<Successor> {
        loop {
            let (peer, successor) = self.next(holder)?;
            let channel = &peer.channel;
            match self.hand_over(&peer, holder, program) {
                Ok(()) => return Ok(successor),
                Err(error) => {
                    // A connection that just closes would mean that this process is gone.
                    channel.send_at_once(&Message::Refused(error.to_string()));
                    holder.resume(&error);
                }
            }
        }
    }

    /// Waits for the next process that may succeed.
    fn next(&mut self, holder: &mut dyn Holder) -> io::Result<(Peer, Successor)> {
        loop {
            if let Ok((pid, ours)) = self.children.try_recv() {
                let peer = Candidate::challenge(Channel::of(ours))
                    .and_then(|child| child.admit(&Secret::INHERITED));
                match peer {
                    Ok(peer) => return Ok((peer, Successor::Child(pid))),
                    Err(error) => holder.refused(&error),
                }
                continue;
            }
            let mut refused = |error: &Error| holder.refused(error);
            let peer = self.named.as_mut().map(|(_, listener)| listener.look(&mut refused));
            if let Some(peer) = peer.transpose()?.flatten() {
                return Ok((peer, Successor::Other));
            }
            let time = self.named.as_ref().and_then(|(_, listener)| listener.wait_max());
            self.wait(None, time.unwrap_or(Duration::from_secs(3600)));
            _ = rustix::io::read(&*self.parent.wake, &mut [0; 8]);
        }
    }

    /// Waits until somebody has something to say, or `channel` is ready.
    pub(crate) fn wait(&self, channel: Option<(&Channel, PollFlags)>, time: Duration) {
        let listener = self.named.iter().flat_map(|(_, listener)| listener.fds());
        let own = channel.iter().map(|(channel, flags)| (channel.as_fd(), *flags));
        // Children are not served meanwhile.
        let wake = channel.is_none().then_some((self.parent.wake.as_fd(), PollFlags::IN));
        channel::wait(listener.map(|fd| (fd, PollFlags::IN)).chain(own).chain(wake), time);
    }

    /// Tells others that come to wait.
    pub(crate) fn turn_away(&mut self, refused: &mut dyn FnMut(&Error)) {
        if let Some((_, listener)) = &mut self.named {
            listener.turn_away(refused);
        }
    }

    /// One hand-over. On an error the holder has to resume.
    fn hand_over(
        &mut self,
        peer: &Peer,
        holder: &mut dyn Holder,
        program: &str,
    ) -> Result<(), Error> {
        let channel = &peer.channel;
        channel.set_deadline(Some(STATE_TIME));
        peer.welcome(program)?;
        let state = holder.state().map_err(Error::Holder)?;
        send_state(channel, &state)?;
        // The successor has them now. Here they would stay open until the hand-over is over.
        drop(state);
        channel.set_deadline(Some(PREPARE_MAX));
        let called_off = holder.called_off();
        let until = Instant::now() + PREPARE_MAX;
        if peer.greeting.answers == Store::FORMAT {
            // It takes the answers once it has read its configuration, which may have to be waited for.
            send_answers(channel, holder, &mut || {
                self.attend(channel, PollFlags::OUT, &called_off, until, &mut |_| {})
            })?;
        }
        channel.send(&Message::Warm, &[])?;
        // It may have to wait for a cluster's API server, or for an upstream.
        self.attend(channel, PollFlags::IN, &called_off, until, &mut |e| holder.refused(e))?;
        let Message::Commit(kept) = channel.receive()?.0 else {
            return Err(Error::Protocol("no commit"));
        };
        self.give_up_queries(channel, holder)?;
        self.watch(channel, holder)?;
        let (sender, connections) = std::sync::mpsc::channel();
        holder.leave(kept, sender);
        channel.set_deadline(Some(LEAVE_MAX));
        pass_on(channel, &connections, holder);
        Ok(())
    }

    /// Waits until `channel` is ready for `flags`, unless that takes too long or is called off.
    fn attend(
        &mut self,
        channel: &Channel,
        flags: PollFlags,
        called_off: &AtomicBool,
        until: Instant,
        refused: &mut dyn FnMut(&Error),
    ) -> Result<(), Error> {
        loop {
            if channel.is_ready(flags) {
                return Ok(());
            }
            if called_off.load(Ordering::Relaxed) {
                return Err(Error::CalledOff);
            }
            if Instant::now() >= until {
                return Err(Error::Slow);
            }
            self.wait(Some((channel, flags)), ROUND);
            self.turn_away(refused);
        }
    }

    /// Takes no more queries, until the successor does. What brings them passes now, and not before.
    fn give_up_queries(&mut self, channel: &Channel, holder: &mut dyn Holder) -> Result<(), Error> {
        channel.set_deadline(Some(STATE_TIME));
        let network = holder.pause().map_err(Error::Holder)?;
        let items = network.iter().map(|(name, _)| Item::Named(name.clone())).collect();
        let fds: Vec<_> = network.iter().map(|(_, fd)| fd.as_fd()).collect();
        channel.send(&Message::Paused(items), &fds)?;
        drop(fds);
        drop(network);
        let mut silence = Silence::new();
        loop {
            if channel.has_word(ROUND) {
                return match channel.receive()?.0 {
                    Message::Stay => Ok(()),
                    _ => Err(Error::Protocol("no word that it stays")),
                };
            }
            silence.check()?;
        }
    }

    /// Watches the successor for as long as the holder could resume in its place.
    ///
    /// # Errors
    ///
    /// It is gone without a word ([`Error::Gone`]), or stopped ([`Error::Slow`]), and nothing else:
    /// whatever it may say, it takes queries.
    fn watch(&mut self, channel: &Channel, holder: &mut dyn Holder) -> Result<(), Error> {
        let until = Instant::now() + holder.retire();
        let mut silence = Silence::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || holder.is_hurried() {
                return Ok(());
            }
            channel.send_at_once(&Message::Alive);
            self.turn_away(&mut |error| holder.refused(error));
            if !channel.has_word(left.min(ROUND)) {
                silence.check()?;
                continue;
            }
            match channel.receive() {
                Ok((Message::Alive, _)) => silence = Silence::new(),
                Err(Error::Gone) => return Err(Error::Gone),
                Ok(_) | Err(_) => return Ok(()),
            }
            // It speaks as often as we do.
            std::thread::sleep(left.min(ROUND / 2));
        }
    }
}

/// How long nothing has been heard.
struct Silence {
    rounds: u32,
    looked: Instant,
}

impl Silence {
    fn new() -> Self {
        Self { rounds: 0, looked: Instant::now() }
    }

    /// One more round without a word.
    fn check(&mut self) -> Result<(), Error> {
        let took = self.looked.elapsed();
        self.looked = Instant::now();
        self.rounds += u32::from(took <= IN_TIME);
        if self.rounds >= SILENT_ROUNDS { Err(Error::Slow) } else { Ok(()) }
    }
}
