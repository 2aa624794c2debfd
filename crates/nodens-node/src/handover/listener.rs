//! Authentication of successors: a process that connects has to show that it knows the secret, and has
//! little time and little room for it. Nothing here blocks.

use super::Error;
use super::channel::{self, Channel};
use super::limits::{ACCEPT_PAUSE, AUTHENTICATION_MAX, CANDIDATES_MAX, PROGRAM_LEN_MAX};
use super::message::{Greeting, Message, VERSION};
use super::secret::{Claim, Nonce, Secret, nonce};
use nodens_core::cache::Store;
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The socket of a name, and the processes that have connected and not authenticated yet.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    secret: Secret,
    candidates: VecDeque<Candidate>,
}

/// A process of which nothing is known yet.
#[derive(Debug)]
pub(crate) struct Candidate {
    channel: Channel,
    nonce: Nonce,
    until: Instant,
}

/// A process that has shown that it knows the secret.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) channel: Channel,
    pub(crate) greeting: Greeting,
    nonces: [Nonce; 2],
    secret: Secret,
}

impl Candidate {
    /// Asks who it is.
    pub(crate) fn challenge(channel: Channel) -> Result<Self, Error> {
        let peer = channel.check_peer();
        if let Err(error @ Error::Stranger(_)) = &peer {
            channel.send_at_once(&Message::Refused(error.to_string()));
        }
        peer?;
        let nonce = nonce()?;
        channel.send_at_once(&Message::Challenge { version: VERSION, nonce });
        Ok(Self { channel, nonce, until: Instant::now() + AUTHENTICATION_MAX })
    }

    /// What has come of it; nothing as long as it may still answer.
    fn look(&self, secret: &Secret) -> Option<Result<Peer, Error>> {
        match self.answer(secret) {
            Ok(None) if Instant::now() < self.until => None,
            answer => Some(answer.and_then(|peer| peer.ok_or(Error::Slow))),
        }
    }

    fn answer(&self, secret: &Secret) -> Result<Option<Peer>, Error> {
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
        Ok(Some(Peer { channel, greeting, nonces, secret }))
    }

    /// Waits for its answer.
    pub(crate) fn admit(&self, secret: &Secret) -> Result<Peer, Error> {
        loop {
            self.channel.has_word(self.until.saturating_duration_since(Instant::now()));
            if let Some(answer) = self.look(secret) {
                return answer;
            }
        }
    }
}

impl Peer {
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

impl Listener {
    pub(crate) fn new(socket: OwnedFd, secret: Secret) -> Self {
        Self { socket, secret, candidates: VecDeque::new() }
    }

    /// What there is to wait for, beside [`Listener::wait_max`].
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let candidates = self.candidates.iter().map(|candidate| candidate.channel.as_fd());
        std::iter::once(self.socket.as_fd()).chain(candidates)
    }

    /// How long may be waited, if not for ever.
    pub(crate) fn wait_max(&self) -> Option<Duration> {
        let until = self.candidates.iter().map(|candidate| candidate.until).min();
        until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Accepts connections. Gives a process that has shown that it knows the secret; tells
    /// `refused` why others are turned away.
    ///
    /// # Errors
    ///
    /// No process can connect any more.
    pub(crate) fn look(&mut self, refused: &mut dyn FnMut(&Error)) -> io::Result<Option<Peer>> {
        // No more at once than can wait here: those inside have their turn in between.
        for _ in 0..CANDIDATES_MAX {
            let channel = match channel::accept(&self.socket) {
                Ok(Some(channel)) => channel,
                Ok(None) => break,
                // Out of descriptors or memory, which passes; who waits is heard then.
                Err(error) => {
                    refused(&Error::Io(error));
                    std::thread::sleep(ACCEPT_PAUSE);
                    break;
                }
            };
            match Candidate::challenge(channel) {
                Ok(candidate) => self.candidates.push_back(candidate),
                Err(error) => refused(&error),
            }
        }
        let mut peer = None;
        let mut staying = VecDeque::new();
        for candidate in self.candidates.drain(..) {
            match candidate.look(&self.secret).filter(|_| peer.is_none()) {
                None => staying.push_back(candidate),
                Some(Ok(admitted)) => peer = Some(admitted),
                Some(Err(error)) => refused(&error),
            }
        }
        while staying.len() > CANDIDATES_MAX {
            _ = staying.pop_front();
            refused(&Error::Slow);
        }
        self.candidates = staying;
        Ok(peer)
    }

    /// Tells everybody who comes that there is no hand-over now.
    pub(crate) fn turn_away(&mut self, refused: &mut dyn FnMut(&Error)) {
        while let Ok(Some(peer)) = self.look(refused) {
            peer.turn_away();
        }
    }
}
