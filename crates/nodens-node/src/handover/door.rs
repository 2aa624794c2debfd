//! Where successors come in: who connects has to show that it knows the secret, and has little time
//! and little room for it. Nobody waits for anybody here.

use super::Error;
use super::channel::{self, Channel};
use super::limits::{ACCEPT_PAUSE, PROGRAM_LEN_MAX, VISIT_MAX, VISITORS_MAX};
use super::message::{Greeting, Message, VERSION};
use super::secret::{Claim, Nonce, Secret, nonce};
use nodens_core::cache::Store;
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The listener of a name.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: OwnedFd,
    secret: Secret,
    visitors: VecDeque<Visitor>,
}

/// A process of which nothing is known yet.
#[derive(Debug)]
pub(crate) struct Visitor {
    channel: Channel,
    nonce: Nonce,
    until: Instant,
}

/// A process that has shown that it knows the secret.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) channel: Channel,
    pub(crate) greeting: Greeting,
    nonces: [Nonce; 2],
    secret: Secret,
}

impl Visitor {
    /// Asks who it is.
    pub(crate) fn challenge(channel: Channel) -> Result<Self, Error> {
        let peer = channel.check_peer();
        if let Err(error @ Error::Stranger(_)) = &peer {
            channel.send_at_once(&Message::Refused(error.to_string()));
        }
        peer?;
        let nonce = nonce()?;
        channel.send_at_once(&Message::Challenge { version: VERSION, nonce });
        Ok(Self { channel, nonce, until: Instant::now() + VISIT_MAX })
    }

    /// What has come of it; nothing as long as it may still answer.
    fn look(&self, secret: &Secret) -> Option<Result<Guest, Error>> {
        match self.answer(secret) {
            Ok(None) if Instant::now() < self.until => None,
            answer => Some(answer.and_then(|guest| guest.ok_or(Error::Slow))),
        }
    }

    fn answer(&self, secret: &Secret) -> Result<Option<Guest>, Error> {
        let Some(message) = self.channel.receive_greeting(RecvFlags::DONTWAIT)? else {
            return Ok(None);
        };
        let Message::Hello(greeting, nonce, proof) = message else {
            return Err(Error::Protocol("no greeting"));
        };
        let nonces = [self.nonce, nonce];
        if !secret.accepts(Claim::Successor, &nonces, &proof) {
            return Err(Error::Secret);
        }
        let (channel, secret) = (self.channel.try_clone()?, secret.clone());
        Ok(Some(Guest { channel, greeting, nonces, secret }))
    }

    /// Waits for its answer.
    pub(crate) fn admit(&self, secret: &Secret) -> Result<Guest, Error> {
        loop {
            self.channel.has_word(self.until.saturating_duration_since(Instant::now()));
            if let Some(answer) = self.look(secret) {
                return answer;
            }
        }
    }
}

impl Guest {
    /// Shows that this process knows the secret too, and serves.
    pub(crate) fn welcome(&self, program: &str) -> Result<(), Error> {
        let proof = self.secret.prove(Claim::Predecessor, &self.nonces);
        self.channel.send(&Message::Welcome(greeting(program), proof), &[])
    }

    /// The same, but there is no hand-over now.
    pub(crate) fn turn_away(&self) {
        let proof = self.secret.prove(Claim::Busy, &self.nonces);
        self.channel.send_at_once(&Message::Busy(proof));
    }
}

/// Who this process is.
pub(crate) fn greeting(program: &str) -> Greeting {
    // invariant: a text cut at its characters is one.
    let program = program.chars().take(PROGRAM_LEN_MAX / 4).collect();
    Greeting { answers: Store::FORMAT, pid: std::process::id(), program }
}

impl Door {
    pub(crate) fn new(listener: OwnedFd, secret: Secret) -> Self {
        Self { listener, secret, visitors: VecDeque::new() }
    }

    /// What there is to wait for, beside [`Door::wait_max`].
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let visitors = self.visitors.iter().map(|visitor| visitor.channel.as_fd());
        std::iter::once(self.listener.as_fd()).chain(visitors)
    }

    /// How long may be waited, if not for ever.
    pub(crate) fn wait_max(&self) -> Option<Duration> {
        let until = self.visitors.iter().map(|visitor| visitor.until).min();
        until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Lets in who waits outside. Gives a process that has shown that it knows the secret; tells
    /// `refused` why others are turned away.
    ///
    /// # Errors
    ///
    /// Nobody can come in any more.
    pub(crate) fn look(&mut self, refused: &mut dyn FnMut(&Error)) -> io::Result<Option<Guest>> {
        // No more at once than can wait here: those inside have their turn in between.
        for _ in 0..VISITORS_MAX {
            let channel = match channel::accept(&self.listener) {
                Ok(Some(channel)) => channel,
                Ok(None) => break,
                // Out of descriptors or memory, which passes; who waits is heard then.
                Err(error) => {
                    refused(&Error::Io(error));
                    std::thread::sleep(ACCEPT_PAUSE);
                    break;
                }
            };
            match Visitor::challenge(channel) {
                Ok(visitor) => self.visitors.push_back(visitor),
                Err(error) => refused(&error),
            }
        }
        let mut guest = None;
        let mut staying = VecDeque::new();
        for visitor in self.visitors.drain(..) {
            match visitor.look(&self.secret).filter(|_| guest.is_none()) {
                None => staying.push_back(visitor),
                Some(Ok(admitted)) => guest = Some(admitted),
                Some(Err(error)) => refused(&error),
            }
        }
        while staying.len() > VISITORS_MAX {
            _ = staying.pop_front();
            refused(&Error::Slow);
        }
        self.visitors = staying;
        Ok(guest)
    }

    /// Tells everybody who comes that there is no hand-over now.
    pub(crate) fn turn_away(&mut self, refused: &mut dyn FnMut(&Error)) {
        while let Ok(Some(guest)) = self.look(refused) {
            guest.turn_away();
        }
    }
}
