//! TLS of one connection, of a client or to an upstream, between its octets and its socket.
//!
//! An idle connection has no buffer: octets are decrypted in the memory of whoever reads, and only a part of a
//! record that waits for its rest, or what the socket does not take yet, is kept.

mod session;

use super::Received;
use crate::limits::{RECORD_LEN_MAX, TLS_WAITING_MAX};
use nodens_tls::rustls::{Error, ProtocolVersion};
use session::Between;
pub(super) use session::Session;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// A connection within TLS, on a socket or on what a test has instead.
pub(super) struct Tls<S: Read + Write = TcpStream> {
    stream: S,
    session: Session,
    /// Octets that have arrived and are no whole record or message of the handshake.
    waiting: Vec<u8>,
    /// Octets of TLS that the socket has not taken.
    outgoing: Vec<u8>,
    /// Octets that are encrypted and not yet written as a whole. Whoever gave them still has them, and
    /// gives them again: they are neither reported as written nor encrypted once more before that.
    encrypted: usize,
    /// Octets of the handshake so far, or of the other side's certificates after it: TLS keeps them.
    kept: usize,
    /// The other side has said that it sends no more.
    has_ended: bool,
    /// Why nothing more can be read, for the read after the one that found it: what came before is whole.
    broken: Option<io::Error>,
}

/// Room for decrypted octets.
pub(super) struct Plain<'b> {
    room: &'b mut [u8],
    len: usize,
}

impl Plain<'_> {
    fn push(&mut self, octets: &[u8]) -> Result<(), Error> {
        let end = self.len + octets.len();
        let Some(room) = self.room.get_mut(self.len..end) else {
            // Decryption does not make octets more, and there is room for all that is read at once.
            return Err(Error::General("more octets than were read".to_owned()));
        };
        room.copy_from_slice(octets);
        self.len = end;
        Ok(())
    }

    /// Whether all of so many encrypted octets would fit.
    fn fits(&self, octets: usize) -> bool {
        self.len + octets <= self.room.len()
    }
}

impl<S: Read + Write> Tls<S> {
    /// A connection whose handshake has not begun.
    pub(super) fn new(session: Session, stream: S) -> io::Result<Self> {
        let mut tls = Self {
            stream,
            session,
            waiting: Vec::new(),
            outgoing: Vec::new(),
            encrypted: 0,
            kept: 0,
            has_ended: false,
            broken: None,
        };
        // A client speaks first.
        tls.take(&mut [], &mut Plain { room: &mut [], len: 0 })?;
        Ok(tls)
    }

    pub(super) fn socket(&self) -> &S {
        &self.stream
    }

    #[cfg(feature = "testing")]
    pub(super) fn socket_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Whether the keys are not agreed on yet: the next octets cost much more work than others.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// The name for ALPN that both sides have agreed on.
    pub(super) fn agreed(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    /// The version that both sides have agreed on.
    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.session.protocol_version()
    }

    /// What it keeps of the handshake, in octets.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Octets of memory beside the keys: of the handshake, of what waits and of what is not sent.
    pub(super) fn held(&self) -> usize {
        self.kept + self.waiting.capacity() + self.outgoing.capacity()
    }

    /// Whether nothing more can be read: the other side has said so, or what followed was no TLS.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended || self.broken.is_some()
    }

    /// Tells the other side that nothing follows what was sent, so that it can tell an end from a cut (RFC
    /// 8446 section 6.1).
    pub(super) fn say_goodbye(&mut self) {
        self.session.end(&mut self.waiting, &mut self.outgoing);
        _ = self.send();
    }

    /// Whether octets of TLS itself, or those encrypted, wait for the socket.
    pub(super) fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reads from the socket and decrypts into `buffer` until nothing is there or `enough` octets are. All
    /// that one read brings fits if `buffer` has room for two records beyond that. What was decrypted before
    /// an error is given first, and the error by the next read.
    pub(super) fn read(&mut self, buffer: &mut [u8], enough: usize) -> io::Result<Received> {
        // What arrives lies behind what it becomes.
        let (room, arrived) = buffer.split_at_mut(buffer.len() - buffer.len() / 4);
        let mut plain = Plain { room, len: 0 };
        while plain.len < enough && !self.has_ended() {
            if plain.len > 0 && !plain.fits(self.waiting.len() + arrived.len()) {
                break;
            }
            let was_handshaking = self.is_handshaking();
            let len = match self.stream.read(arrived) {
                // Without a farewell an attacker may have cut the rest off; what is whole is answered.
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broken = Some(error);
                    break;
                }
            };
            self.kept += if was_handshaking { len } else { 0 };
            self.broken =
                self.process(arrived.get_mut(..len).unwrap_or_default(), &mut plain).err();
            // Of a handshake one step at a time; a read that does not fill the room has found all there was.
            if was_handshaking || len < arrived.len() {
                break;
            }
        }
        match plain.len {
            0 => match self.broken.take() {
                Some(error) => Err(error),
                None if self.has_ended => Ok(Received::End),
                None => Ok(Received::Nothing),
            },
            len => Ok(Received::Octets(len)),
        }
    }

    /// Processes what was read, and says what TLS has to say: its part of the handshake, or the alert that
    /// tells what is wrong.
    fn process(&mut self, arrived: &mut [u8], plain: &mut Plain<'_>) -> io::Result<()> {
        let was_handshaking = self.is_handshaking();
        let taken = self.take(arrived, plain);
        let sent = self.send();
        taken?;
        sent?;
        if was_handshaking && !self.is_handshaking() {
            let chain = self.session.peer_certificates().unwrap_or_default();
            self.kept = chain.iter().map(|certificate| certificate.len()).sum();
        }
        Ok(())
    }

    /// Takes the whole records of what waits and what has `arrived` after it. Nothing is copied as long as
    /// records arrive whole.
    fn take(&mut self, arrived: &mut [u8], plain: &mut Plain<'_>) -> io::Result<()> {
        let Self { session, outgoing, has_ended, waiting, .. } = self;
        let mut between = Between { plain, outgoing, has_ended };
        if waiting.is_empty() {
            let done = session.take(arrived, &mut between).map_err(refused)?;
            waiting.extend_from_slice(arrived.get(done..).unwrap_or_default());
            return Ok(());
        }
        if waiting.len() + arrived.len() > TLS_WAITING_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "message buffer full"));
        }
        waiting.extend_from_slice(arrived);
        let done = session.take(waiting, &mut between).map_err(refused)?;
        match waiting.len().saturating_sub(done) {
            0 => *waiting = Vec::new(),
            _ => drop(waiting.drain(..done)),
        }
        Ok(())
    }

    /// Writes what waits, as far as the socket takes it; says whether that was all.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) if len < self.outgoing.len() => drop(self.outgoing.drain(..len)),
                Ok(_) => self.outgoing = Vec::new(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send_whole(&mut self) -> io::Result<usize> {
        if self.send()? {
            Ok(std::mem::take(&mut self.encrypted))
        } else {
            Err(ErrorKind::WouldBlock.into())
        }
    }
}

/// Takes octets once they are written as TLS, so that nothing is hidden in between: what is not written
/// stays with its owner, who counts it.
impl<S: Read + Write> Write for Tls<S> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.encrypted > 0 {
            return self.send_whole();
        }
        if self.is_handshaking() || !self.send()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let front = octets.get(..RECORD_LEN_MAX).unwrap_or(octets);
        self.session.encrypt(&mut self.waiting, front, &mut self.outgoing).map_err(refused)?;
        self.encrypted = front.len();
        self.send_whole()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Read + Write> Drop for Tls<S> {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}

fn refused(error: Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
