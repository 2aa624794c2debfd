//! The side of the successor.

use super::channel::Channel;
use super::message::{Greeting, Item, Message, VERSION};
use super::{Error, Estate};
use nodens_core::handlers::cache::Store;
use nodens_net::{HandedConnection, InheritedListener};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long the predecessor may take for anything but its first word.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the predecessor passes on, while it goes on.
#[derive(Debug)]
pub struct Inheritance {
    channel: Channel,
    predecessor: Greeting,
    /// The descriptors.
    pub estate: Estate,
}

/// The moment in which nobody takes questions, until [`Trial::stay`]: the predecessor still goes on
/// if this process is gone.
#[derive(Debug)]
pub struct Trial {
    channel: Channel,
}

impl Inheritance {
    /// Asks the process that listens under `name`; `None` if there is none. Waits for up to
    /// `patience` while it serves another successor. `program` is our version, for people.
    ///
    /// # Errors
    ///
    /// There is such a process, but it does not hand over.
    pub fn claim(name: &str, program: &str, patience: Duration) -> Result<Option<Self>, Error> {
        let Some(channel) = Channel::connect(name)? else { return Ok(None) };
        channel.check_peer()?;
        channel.set_patience(Some(patience))?;
        let (pid, answers) = (std::process::id(), Store::FORMAT);
        let program = program.to_owned();
        channel.send(&Message::Hello(Greeting { version: VERSION, answers, pid, program }), &[])?;
        let predecessor = match channel.receive()?.0 {
            Message::Welcome(greeting) if greeting.version == VERSION => greeting,
            Message::Welcome(Greeting { version, .. }) => return Err(Error::Version(version)),
            Message::Refused(why) => return Err(Error::Refused(why)),
            _ => return Err(Error::Protocol("no greeting")),
        };
        channel.set_patience(Some(PATIENCE))?;
        let mut estate = Estate::default();
        loop {
            match channel.receive()? {
                (Message::Descriptors(items), fds) => add(&mut estate, items, fds)?,
                (Message::Whole, _) => break,
                (Message::Refused(why), _) => return Err(Error::Refused(why)),
                _ => return Err(Error::Protocol("no descriptors")),
            }
        }
        Ok(Some(Self { channel, predecessor, estate }))
    }

    /// Who it was: its process ID, in its own namespace, and its version.
    pub fn predecessor(&self) -> (u32, &str) {
        (self.predecessor.pid, &self.predecessor.program)
    }

    /// Shows `take` every answer that the predecessor has in its cache. Once, and before
    /// [`Inheritance::commit`].
    ///
    /// # Errors
    ///
    /// The predecessor is gone. What came so far is good.
    pub fn answers(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        loop {
            match self.channel.receive()?.0 {
                Message::Answers(answers) => answers.iter().for_each(|answer| take(answer)),
                Message::Warm => return Ok(()),
                _ => return Err(Error::Protocol("no answers")),
            }
        }
    }

    /// Waits for `trial`, in which the predecessor answers and would go on if this process were
    /// gone; less long if the predecessor goes.
    ///
    /// # Errors
    ///
    /// The predecessor is gone.
    pub fn rehearse(&self, trial: Duration) -> Result<(), Error> {
        if trial.is_zero() {
            return Ok(());
        }
        self.channel.set_patience(Some(trial))?;
        match self.channel.receive() {
            Err(Error::Slow) => self.channel.set_patience(Some(PATIENCE)),
            Err(error) => Err(error),
            Ok(_) => Err(Error::Protocol("a word that nobody waited for")),
        }
    }

    /// Says that this process is ready to take questions, at the listeners `kept` of those
    /// inherited, and returns when the predecessor takes none any more: they wait in the sockets.
    ///
    /// # Errors
    ///
    /// The predecessor is gone, or does not stop.
    pub fn commit(self, kept: &[SocketAddr]) -> Result<Trial, Error> {
        self.channel.send(&Message::Commit(kept.to_vec()), &[])?;
        match self.channel.receive()?.0 {
            Message::Paused => Ok(Trial { channel: self.channel }),
            Message::Refused(why) => Err(Error::Refused(why)),
            _ => Err(Error::Protocol("no pause")),
        }
    }
}

/// A last word to the predecessor.
#[derive(Debug)]
pub struct Goodbye(Channel);

impl Goodbye {
    /// Says that this process ends on purpose, so that the predecessor does not take it for a crash.
    pub fn say(&self) {
        // A predecessor that is gone need not know.
        _ = self.0.send(&Message::Farewell, &[]);
    }
}

impl Trial {
    /// What is to be said if this process ends on purpose while [`Trial::stay`] waits.
    ///
    /// # Errors
    ///
    /// No descriptor is free.
    pub fn goodbye(&self) -> Result<Goodbye, Error> {
        Ok(Goodbye(self.channel.try_clone()?))
    }

    /// Lets the predecessor go; gives `adopt` its connections, until it is gone.
    ///
    /// # Errors
    ///
    /// The predecessor ended in another way than it should have.
    pub fn stay(self, adopt: impl FnMut(HandedConnection)) -> Result<(), Error> {
        let outcome = self.receive(adopt);
        if outcome.is_err() {
            // That the connection closes must not be taken for the end of this process.
            _ = self.channel.send(&Message::Farewell, &[]);
        }
        outcome
    }

    fn receive(&self, mut adopt: impl FnMut(HandedConnection)) -> Result<(), Error> {
        // It ends when its last question is answered, which it bounds itself.
        self.channel.set_patience(None)?;
        self.channel.send(&Message::Stay, &[])?;
        loop {
            match self.channel.receive()? {
                (Message::Connection { listener, asked, input }, mut fds) => {
                    let Some(stream) = fds.pop_front() else {
                        return Err(Error::Protocol("a connection without its descriptor"));
                    };
                    adopt(HandedConnection { stream, listener, input, asked });
                }
                (Message::Bye, _) => return Ok(()),
                _ => return Err(Error::Protocol("no connections")),
            }
        }
    }
}

fn add(estate: &mut Estate, items: Vec<Item>, mut fds: VecDeque<OwnedFd>) -> Result<(), Error> {
    if items.iter().map(Item::count).sum::<usize>() != fds.len() {
        return Err(Error::Protocol("other descriptors than announced"));
    }
    let mut next = || fds.pop_front().ok_or(Error::Protocol("a descriptor is missing"));
    for item in items {
        match item {
            Item::Named(name) => estate.others.push((name, next()?)),
            Item::Pair(address) => {
                let pair = (next()?, next()?);
                match estate.listeners.last_mut() {
                    Some(last) if last.address == address => last.pairs.push(pair),
                    _ => estate.listeners.push(InheritedListener { address, pairs: vec![pair] }),
                }
            }
        }
    }
    Ok(())
}
