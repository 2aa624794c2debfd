//! TLS of one connection, of a client or to an upstream, between its octets and its socket.

use super::Received;
use crate::limits::RECORD_LEN_MAX;
use nodens_tls::rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// A connection within TLS, on a socket or on what a test has instead.
pub(super) struct Tls<S: Read + Write = TcpStream> {
    stream: S,
    session: Connection,
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

impl<S: Read + Write> Tls<S> {
    /// A connection whose handshake has not begun.
    pub(super) fn new(session: Connection, stream: S) -> Self {
        Self { stream, session, encrypted: 0, kept: 0, has_ended: false, broken: None }
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

    /// What it keeps of the handshake, in octets.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Whether nothing more can be read: the other side has said so, or what followed was no TLS.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended || self.broken.is_some()
    }

    /// Tells the other side that nothing follows what was sent, so that it can tell an end from a cut (RFC
    /// 8446 section 6.1).
    pub(super) fn say_goodbye(&mut self) {
        self.session.send_close_notify();
        _ = self.send();
    }

    /// Whether octets of TLS itself, or those encrypted, wait for the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Reads from the socket and decrypts into `buffer` until nothing is there or `enough` octets are. All
    /// that one read brings fits if `buffer` has room for two records beyond that. What was decrypted before
    /// an error is given first, and the error by the next read.
    pub(super) fn read(&mut self, buffer: &mut [u8], enough: usize) -> io::Result<Received> {
        let mut len = self.decrypted(buffer)?;
        while len < enough && !self.has_ended() {
            let was_handshaking = self.session.is_handshaking();
            match self.session.read_tls(&mut self.stream) {
                // Without a farewell an attacker may have cut the rest off; what is whole is answered.
                Ok(0) => self.has_ended = true,
                Ok(octets) => self.kept += if was_handshaking { octets } else { 0 },
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broken = Some(error);
                    break;
                }
            }
            self.broken = self.process().err();
            // Records that are whole come before the one that is at fault.
            len += self.decrypted(buffer.get_mut(len..).unwrap_or_default())?;
            if was_handshaking {
                // One step at a time.
                break;
            }
        }
        match len {
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
    fn process(&mut self) -> io::Result<()> {
        let was_handshaking = self.session.is_handshaking();
        let processed = self.session.process_new_packets();
        let sent = self.send();
        let state = processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        sent?;
        self.has_ended |= state.peer_has_closed();
        if was_handshaking && !self.session.is_handshaking() {
            let chain = self.session.peer_certificates().unwrap_or_default();
            self.kept = chain.iter().map(|certificate| certificate.len()).sum();
        }
        Ok(())
    }

    /// Moves decrypted octets into `buffer`; gives how many.
    fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while let Some(room) = buffer.get_mut(len..).filter(|room| !room.is_empty()) {
            match self.session.reader().read(room) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::UnexpectedEof => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(len)
    }

    /// Writes what waits, as far as the socket takes it; says whether that was all.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
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
        if self.session.is_handshaking() || !self.send()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let front = octets.get(..RECORD_LEN_MAX).unwrap_or(octets);
        self.encrypted = self.session.writer().write(front)?;
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
