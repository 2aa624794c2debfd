//! TLS of one client connection, between its octets and its socket.

use super::Received;
use crate::limits::RECORD_LEN_MAX;
use nodens_tls::rustls::{self, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A connection within TLS.
pub(super) struct Tls {
    stream: TcpStream,
    session: ServerConnection,
    /// Octets that are encrypted and not yet written as a whole. Whoever gave them still has them, and
    /// gives them again: they are neither reported as written nor encrypted once more before that.
    encrypted: usize,
}

impl Tls {
    /// The server's side of a connection that was just accepted.
    pub(super) fn new(config: Arc<ServerConfig>, stream: TcpStream) -> Result<Self, rustls::Error> {
        Ok(Self { stream, session: ServerConnection::new(config)?, encrypted: 0 })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the keys are not agreed on yet: the next octets cost much more work than others.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether octets of TLS itself, or those encrypted, wait for the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Reads once from the socket and decrypts what has come whole into `buffer`, which takes all of
    /// that if it has room for two records.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        match self.session.read_tls(&mut self.stream) {
            // Without a farewell an attacker may have cut the rest off; what is whole is still answered.
            Ok(0) => return Ok(Received::End),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(Received::Nothing),
                _ => return Err(error),
            },
        }
        let processed = self.session.process_new_packets();
        // What it has to say now: its part of the handshake, or the alert that tells what is wrong.
        let sent = self.send();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        sent?;
        self.decrypted(buffer)
    }

    fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut len = 0;
        while let Some(room) = buffer.get_mut(len..).filter(|room| !room.is_empty()) {
            match self.session.reader().read(room) {
                Ok(0) if len == 0 => return Ok(Received::End),
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(if len == 0 { Received::Nothing } else { Received::Octets(len) })
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
impl Write for Tls {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.encrypted > 0 {
            return self.send_whole();
        }
        if self.session.is_handshaking() {
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

/// The client can tell an end from a cut (RFC 8446 section 6.1).
impl Drop for Tls {
    fn drop(&mut self) {
        self.session.send_close_notify();
        _ = self.send();
    }
}
