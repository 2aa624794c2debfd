//! The side of the predecessor.

use super::channel::{self, Channel, DESCRIPTORS_MAX};
use super::message::{Greeting, Item, MESSAGE_LEN_MAX, Message, VERSION};
use super::{Error, Estate};
use nodens_core::handlers::cache::Store;
use nodens_net::{HandedConnection, Peer};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// How long a successor may take for a message that needs no work.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a successor may take from `Commit` to `Stay`.
const TRIAL_MAX: Duration = Duration::from_secs(60);
/// How often it is seen, while the successor is watched, whether there is time for that.
const WATCH_ROUND: Duration = Duration::from_millis(20);
/// Octets of answers that go into one message.
const ANSWERS_LEN: usize = MESSAGE_LEN_MAX / 2;

/// The server that is to hand over.
pub trait Holder {
    /// What there is to pass on. The server goes on meanwhile, and changes none of it until
    /// [`Holder::resume`] or [`Holder::leave`].
    fn estate(&mut self) -> Result<Estate, String>;
    /// Shows `visit` every answer of the cache until it says false.
    fn answers(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool);
    /// Takes no more questions. Connections go on.
    fn pause(&mut self) -> Result<(), String>;
    /// The successor takes questions. Whatever both would do is up to it from here on, but this
    /// server must still be able to [`Holder::resume`]. Gives for how long.
    fn retire(&mut self) -> Duration;
    /// Whether this server has to end now, and cannot wait for as long as it gave.
    fn is_hurried(&self) -> bool;
    /// Goes on as if nothing had been, because `why`.
    fn resume(&mut self, why: &Error);
    /// Begins to end. What arrives at `kept` is for the successor; connections go to `heir`, until
    /// it is dropped.
    fn leave(&mut self, kept: Vec<SocketAddr>, heir: Sender<HandedConnection>);
}

/// A name that nobody else has. Who asks for it finds nobody yet.
#[derive(Debug)]
pub struct Name {
    socket: OwnedFd,
}

impl Name {
    /// Takes `name` in this network namespace, if nobody has it.
    ///
    /// # Errors
    ///
    /// Another process has it (`EADDRINUSE`).
    pub fn take(name: &str) -> io::Result<Self> {
        Ok(Self { socket: channel::bind(name)? })
    }

    /// Offers under it.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn offer(self) -> io::Result<Offer> {
        channel::listen(&self.socket)?;
        Ok(Offer { listener: self.socket })
    }
}

/// A name under which a successor finds this process.
#[derive(Debug)]
pub struct Offer {
    listener: OwnedFd,
}

impl Offer {
    /// Offers under `name` in this network namespace.
    ///
    /// # Errors
    ///
    /// Another process does so (`EADDRINUSE`).
    pub fn bind(name: &str) -> io::Result<Self> {
        Name::take(name)?.offer()
    }

    /// Goes on offering with the predecessor's descriptor, at which others may wait already.
    pub fn inherited(listener: OwnedFd) -> Self {
        Self { listener }
    }

    /// The descriptor, for a successor.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.listener.try_clone()
    }

    /// Serves successors, one after the other, until one of them has taken over; gives its process
    /// ID, or 0 if that is not in our namespace.
    ///
    /// # Errors
    ///
    /// Nobody can ask any more.
    pub fn serve(&self, holder: &mut dyn Holder, program: &str) -> io::Result<u32> {
        loop {
            let channel = channel::accept(&self.listener)?;
            match serve(&channel, holder, program) {
                Ok(pid) => return Ok(pid),
                Err(error) => holder.resume(&error),
            }
        }
    }
}

/// One hand-over. On an error the holder has to go on.
fn serve(channel: &Channel, holder: &mut dyn Holder, program: &str) -> Result<u32, Error> {
    channel.set_patience(Some(PATIENCE))?;
    let (successor, peer) = greet(channel, program)?;
    let prepared = prepare(channel, holder, successor.answers);
    refuse_on_error(channel, prepared)?;
    // It may have to wait for a cluster's API server, or for an upstream, for as long as it takes.
    let Message::Commit(kept) = channel.receive()?.0 else {
        return Err(Error::Protocol("no commit"));
    };
    channel.set_patience(Some(TRIAL_MAX))?;
    let paused = holder.pause().map_err(Error::Holder);
    refuse_on_error(channel, paused)?;
    channel.send(&Message::Paused, &[])?;
    let Message::Stay = channel.receive()?.0 else {
        return Err(Error::Protocol("no word that it stays"));
    };
    watch(channel, holder)?;
    let (sender, connections) = std::sync::mpsc::channel();
    holder.leave(kept, sender);
    pass_on(channel, &connections);
    Ok(peer.pid)
}

/// Watches the successor for as long as the holder could go on in its place.
///
/// # Errors
///
/// It is gone without a word ([`Error::Gone`]), and nothing else: whatever it may say, it takes
/// questions.
fn watch(channel: &Channel, holder: &mut dyn Holder) -> Result<(), Error> {
    let until = Instant::now() + holder.retire();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || holder.is_hurried() {
            break;
        }
        if channel.set_patience(Some(left.min(WATCH_ROUND))).is_err() {
            break;
        }
        match channel.receive() {
            Err(Error::Slow) => {}
            Err(Error::Gone) => return Err(Error::Gone),
            Ok(_) | Err(_) => break,
        }
    }
    // Only how long connections may take to be taken hangs on it.
    _ = channel.set_patience(Some(TRIAL_MAX));
    Ok(())
}

fn greet(channel: &Channel, program: &str) -> Result<(Greeting, Peer), Error> {
    let peer = channel.check_peer();
    let peer = refuse_on_error(channel, peer)?;
    let Message::Hello(successor) = channel.receive()?.0 else {
        return Err(Error::Protocol("no greeting"));
    };
    let (pid, answers, version) = (std::process::id(), Store::FORMAT, VERSION);
    let own = Greeting { version, answers, pid, program: program.to_owned() };
    // It sees from this which version would do.
    channel.send(&Message::Welcome(own), &[])?;
    if successor.version != VERSION {
        return Err(Error::Version(successor.version));
    }
    Ok((successor, peer))
}

/// Tells the other side what went wrong on this one.
fn refuse_on_error<T>(channel: &Channel, result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error @ (Error::Holder(_) | Error::Stranger(_))) = &result {
        // It learns of it in any case, because the channel closes.
        _ = channel.send(&Message::Refused(error.to_string()), &[]);
    }
    result
}

fn prepare(channel: &Channel, holder: &mut dyn Holder, answers: u16) -> Result<(), Error> {
    let estate = holder.estate().map_err(Error::Holder)?;
    send_estate(channel, &estate)?;
    // It has them, or nobody: here they would stay open for as long as the hand-over takes.
    drop(estate);
    // It takes the answers once it has read its configuration, which may have to be waited for.
    channel.set_patience(None)?;
    if answers == Store::FORMAT {
        send_answers(channel, holder)?;
    }
    channel.send(&Message::Warm, &[])
}

fn send_estate(channel: &Channel, estate: &Estate) -> Result<(), Error> {
    let pairs = estate.listeners.iter().flat_map(|listener| {
        listener
            .pairs
            .iter()
            .map(|(udp, tcp)| (Item::Pair(listener.address), vec![udp.as_fd(), tcp.as_fd()]))
    });
    let others =
        estate.others.iter().map(|(name, fd)| (Item::Named(name.clone()), vec![fd.as_fd()]));
    let (mut items, mut fds): (Vec<Item>, Vec<BorrowedFd<'_>>) = (Vec::new(), Vec::new());
    for (item, own) in pairs.chain(others) {
        if fds.len() + own.len() > DESCRIPTORS_MAX {
            channel.send(&Message::Descriptors(std::mem::take(&mut items)), &fds)?;
            fds.clear();
        }
        items.push(item);
        fds.extend(own);
    }
    channel.send(&Message::Descriptors(items), &fds)?;
    channel.send(&Message::Whole, &[])
}

fn send_answers(channel: &Channel, holder: &mut dyn Holder) -> Result<(), Error> {
    let (mut answers, mut len, mut result) = (Vec::new(), 0, Ok(()));
    holder.answers(&mut |answer| {
        if len + answer.len() > ANSWERS_LEN && !answers.is_empty() {
            result = channel.send(&Message::Answers(std::mem::take(&mut answers)), &[]);
            len = 0;
        }
        len += answer.len();
        answers.push(answer.to_vec());
        result.is_ok()
    });
    result?;
    channel.send(&Message::Answers(answers), &[])
}

/// Passes on connections until there are none any more. A successor that goes now takes them with
/// it: whoever asks connects anew.
fn pass_on(channel: &Channel, connections: &Receiver<HandedConnection>) {
    for connection in connections {
        let HandedConnection { stream, listener, input, asked } = connection;
        let message = Message::Connection { listener, asked, input };
        if channel.send(&message, &[stream.as_fd()]).is_err() {
            return;
        }
    }
    _ = channel.send(&Message::Bye, &[]);
}
