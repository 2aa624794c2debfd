//! The side of the successor.

use super::channel::Channel;
use super::folder::Folder;
use super::limits::{
    GREETING_MAX, PREPARE_MAX, ROUND, SILENCE_MAX, STATE_DESCRIPTORS_MAX, UNHEARD_MAX,
};
use super::listener::greeting;
use super::message::{Greeting, Item, Message, VERSION};
use super::secret::{Claim, Secret, nonce};
use super::{Error, HandoverState, Named};
use nodens_core::Transport;
use nodens_net::{HandedConnection, InheritedListener, ListenerAddress};
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long the predecessor may take to gather its descriptors: its main thread may be busy.
const STATE_PATIENCE: Duration = Duration::from_secs(30);
/// How long a message of ours may wait to be taken.
const SEND_PATIENCE: Duration = Duration::from_secs(1);

/// What the process said that has the name.
#[derive(Debug)]
pub enum Claimed {
    /// There is none.
    Nobody,
    /// It serves, or is about to, and cannot hand over now.
    Busy,
    /// It hands over.
    Successor(Box<Takeover>),
}

/// What the predecessor passes on, while it serves.
#[derive(Debug)]
pub struct Takeover {
    pub(super) channel: Channel,
    pub(super) predecessor: Greeting,
    /// The descriptors.
    pub state: HandoverState,
}

/// The moment in which nobody takes queries, until [`Trial::stay`]: the predecessor resumes if this
/// process is gone.
#[derive(Debug)]
pub struct Trial {
    pub(super) channel: Channel,
}

impl Takeover {
    /// Asks the process that listens under `name`. `program` is our version, for people.
    ///
    /// # Errors
    ///
    /// There is such a process, but it does not hand over, or does not say within three seconds who it
    /// is.
    pub fn claim(folder: &Folder, name: &str, program: &str) -> Result<Claimed, Error> {
        let Some(channel) = Channel::connect(&folder.address(name)?, GREETING_MAX)? else {
            return Ok(Claimed::Nobody);
        };
        Self::of(channel, &folder.secret, program)
    }

    /// Asks the process that started this one with `end` of a connection between the two.
    ///
    /// # Errors
    ///
    /// It does not hand over.
    pub fn from_parent(end: OwnedFd, program: &str) -> Result<Claimed, Error> {
        let channel = Channel::of(end);
        channel.set_deadline(Some(GREETING_MAX));
        Self::of(channel, &Secret::INHERITED, program)
    }

    fn of(channel: Channel, secret: &Secret, program: &str) -> Result<Claimed, Error> {
        channel.check_peer()?;
        let Some(predecessor) = greet(&channel, secret, program)? else {
            return Ok(Claimed::Busy);
        };
        channel.set_deadline(Some(STATE_PATIENCE));
        let mut state = HandoverState::default();
        let mut count = 0;
        loop {
            match channel.receive()? {
                (Message::Descriptors(items), fds) => {
                    count += fds.len();
                    if count > STATE_DESCRIPTORS_MAX {
                        return Err(Error::Protocol("too many descriptors"));
                    }
                    add(&mut state, items, fds)?;
                }
                (Message::Whole(lacks), _) => {
                    state.lacks = lacks;
                    break;
                }
                (Message::Refused(why), _) => return Err(Error::Refused(why)),
                _ => return Err(Error::Protocol("no descriptors")),
            }
        }
        channel.set_deadline(Some(PREPARE_MAX));
        Ok(Claimed::Successor(Box::new(Self { channel, predecessor, state })))
    }

    /// Who it was: its process ID, in its own namespace, and its version.
    pub fn predecessor(&self) -> (u32, &str) {
        (self.predecessor.pid, &self.predecessor.program)
    }

    /// Shows `take` every answer that the predecessor has in its cache. Once, and before
    /// [`Takeover::commit`].
    ///
    /// # Errors
    ///
    /// The predecessor is gone, or resumes. What came so far is good.
    pub fn answers(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        loop {
            match self.channel.receive()?.0 {
                Message::Answers(answers) => answers.iter().for_each(|answer| take(answer)),
                Message::Warm => return Ok(()),
                Message::Refused(why) => return Err(Error::Refused(why)),
                _ => return Err(Error::Protocol("no answers")),
            }
        }
    }

    /// Whether the predecessor has said something after [`Takeover::answers`], or is gone: it is not
    /// worth it to get ready first.
    pub fn is_over(&self) -> bool {
        self.channel.has_word(Duration::ZERO)
    }

    /// Whether the predecessor is gone or has called the hand-over off, at any time: what it passed on is
    /// of no use any more, and nobody but this process has it.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Which of the two it is: [`Error::Refused`] if it goes on.
    pub fn last_word(&self) -> Error {
        last_word(&self.channel, Error::Gone)
    }

    /// Waits for `trial`, in which the predecessor answers and would resume if this process were
    /// gone; less long if the predecessor goes.
    ///
    /// # Errors
    ///
    /// The predecessor is gone, or resumes.
    pub fn rehearse(&self, trial: Duration) -> Result<(), Error> {
        let until = Instant::now() + trial;
        while !self.channel.has_word(until.saturating_duration_since(Instant::now())) {
            if Instant::now() >= until {
                return Ok(());
            }
        }
        self.channel.set_deadline(Some(SEND_PATIENCE));
        match self.channel.receive()?.0 {
            Message::Refused(why) => Err(Error::Refused(why)),
            _ => Err(Error::Protocol("an unexpected message")),
        }
    }

    /// Says that this process is ready to take queries, at the listeners `kept` of those inherited.
    ///
    /// # Errors
    ///
    /// The predecessor is gone.
    pub fn commit(self, kept: &[ListenerAddress]) -> Result<Trial, Error> {
        self.channel.set_deadline(Some(SEND_PATIENCE));
        let said = self.channel.send(&Message::Commit(kept.to_vec()), &[]);
        said.map_err(|error| last_word(&self.channel, error))?;
        Ok(Trial { channel: self.channel })
    }
}

/// Shows each other who they are; nothing if the other one is busy.
fn greet(channel: &Channel, secret: &Secret, program: &str) -> Result<Option<Greeting>, Error> {
    let receive = || channel.receive_greeting(RecvFlags::empty())?.ok_or(Error::Slow);
    let theirs = match receive()? {
        Message::Challenge { version, nonce } if version == VERSION => nonce,
        Message::Challenge { version, .. } => return Err(Error::Version(version)),
        Message::Refused(why) => return Err(Error::Refused(why)),
        _ => return Err(Error::Protocol("no greeting")),
    };
    let nonces = [theirs, nonce()?];
    let proof = secret.prove(Claim::Successor, &nonces);
    channel.send(&Message::Hello(greeting(program), nonces[1], proof), &[])?;
    match receive()? {
        Message::Welcome(greeting, proof)
            if secret.accepts(Claim::Predecessor, &nonces, &proof) =>
        {
            Ok(Some(greeting))
        }
        Message::Busy(proof) if secret.accepts(Claim::Busy, &nonces, &proof) => Ok(None),
        Message::Welcome(..) | Message::Busy(_) => Err(Error::Secret),
        Message::Refused(why) => Err(Error::Refused(why)),
        _ => Err(Error::Protocol("no greeting")),
    }
}

/// Tells the predecessor that this process ends.
#[derive(Debug)]
pub struct EndNotice(Channel);

impl EndNotice {
    /// Says that this process ends on purpose, so that the predecessor does not take it for a crash.
    pub fn send(&self) {
        self.0.send_at_once(&Message::Ending);
    }
}

impl Trial {
    /// What is to be said if this process ends on purpose while [`Trial::stay`] waits.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn end_notice(&self) -> Result<EndNotice, Error> {
        Ok(EndNotice(self.channel.try_clone()?))
    }

    /// Waits until the predecessor takes no more queries: they wait in the sockets. Gives what brings
    /// them here, or nothing if the predecessor has not said anything for `patience`.
    ///
    /// # Errors
    ///
    /// The predecessor is gone, or resumes.
    pub fn paused(&self, patience: Duration) -> Result<Option<Named>, Error> {
        self.channel.set_deadline(Some(patience));
        match self.channel.receive() {
            Ok((Message::Paused(items), fds)) => {
                let mut state = HandoverState::default();
                add(&mut state, items, fds)?;
                Ok(Some(state.others))
            }
            Ok((Message::Refused(why), _)) => Err(Error::Refused(why)),
            Ok(_) => Err(Error::Protocol("no pause")),
            Err(Error::Slow) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets the predecessor go; gives `adopt` its connections, until it is gone.
    ///
    /// # Errors
    ///
    /// The predecessor ended in another way than it should have, or resumes ([`Error::Refused`]).
    pub fn stay(self, adopt: impl FnMut(HandedConnection)) -> Result<(), Error> {
        let outcome = self.receive(adopt, SILENCE_MAX);
        if !matches!(outcome, Ok(()) | Err(Error::Refused(_))) {
            // That the connection closes must not be taken for the end of this process.
            self.channel.send_at_once(&Message::Ending);
        }
        outcome
    }

    /// Takes a predecessor for gone that says nothing for `silence`.
    pub(super) fn receive(
        &self,
        mut adopt: impl FnMut(HandedConnection),
        silence: Duration,
    ) -> Result<(), Error> {
        self.channel.set_deadline(Some(SEND_PATIENCE));
        let said = self.channel.send(&Message::Stay, &[]);
        said.map_err(|error| last_word(&self.channel, error))?;
        let (mut heard, mut unheard) = (Instant::now(), 0);
        loop {
            if !self.channel.has_word(ROUND) {
                if heard.elapsed() > silence {
                    return Err(Error::Slow);
                }
                if unheard < UNHEARD_MAX {
                    unheard += 1;
                    self.channel.send_at_once(&Message::Alive);
                }
                continue;
            }
            (heard, unheard) = (Instant::now(), 0);
            self.channel.set_deadline(Some(SEND_PATIENCE));
            match self.channel.receive()? {
                (Message::Alive, _) => self.channel.send_at_once(&Message::Alive),
                (Message::Connection { listener, asked, input }, mut fds) => {
                    let Some(stream) = fds.pop_front() else {
                        return Err(Error::Protocol("a connection without its descriptor"));
                    };
                    adopt(HandedConnection { stream, listener, input, asked });
                }
                (Message::Left, _) => return Ok(()),
                (Message::Refused(why), _) => return Err(Error::Refused(why)),
                _ => return Err(Error::Protocol("no connections")),
            }
        }
    }
}

/// What a predecessor that takes nothing any more has said before: maybe that it resumes.
fn last_word(channel: &Channel, error: Error) -> Error {
    // The time for what was waited for before may be over, and the word is there already.
    channel.set_deadline(Some(SEND_PATIENCE));
    while channel.has_word(Duration::ZERO) {
        match channel.receive() {
            Ok((Message::Refused(why), _)) => return Error::Refused(why),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    error
}

fn add(
    state: &mut HandoverState,
    items: Vec<Item>,
    mut fds: VecDeque<OwnedFd>,
) -> Result<(), Error> {
    if items.iter().map(Item::count).sum::<usize>() != fds.len() {
        return Err(Error::Protocol("other descriptors than announced"));
    }
    let mut next = || fds.pop_front().ok_or(Error::Protocol("a descriptor is missing"));
    for item in items {
        match item {
            Item::Named(name) => state.others.push((name, next()?)),
            Item::Listener(ListenerAddress { kind, address }) => {
                let own = |transport: &Transport| Ok::<_, Error>((*transport, next()?));
                let row: Vec<_> = kind.transports().iter().map(own).collect::<Result<_, _>>()?;
                match state.listeners.last_mut() {
                    Some(last) if (last.kind, last.address) == (kind, address) => {
                        last.sockets.extend(row);
                    }
                    _ => state.listeners.push(InheritedListener { address, kind, sockets: row }),
                }
            }
        }
    }
    Ok(())
}
