//! A client's connection of TLS without its socket, for fuzz targets: from the octets that arrive to messages.

use super::tls::Tls;
use super::{Received, take_front};
use crate::limits::{RECORD_LEN_MAX, STREAM_READ_LEN};
use crate::tcp::{Frame, first_frame};
use nodens_tls::rustls::server::UnbufferedServerConnection;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

/// What came of the octets of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A message.
    Message(Vec<u8>),
    /// A message that is longer than any query. Nothing is taken after it.
    TooLong,
}

/// The server's side of a connection.
pub struct Reader {
    tls: Tls<Pieces>,
    buffer: Vec<u8>,
    kept: Vec<u8>,
    taken: Vec<Taken>,
}

impl Reader {
    /// A connection whose handshake has not begun.
    ///
    /// # Errors
    /// Those of TLS.
    pub fn new(session: UnbufferedServerConnection) -> io::Result<Self> {
        Ok(Self {
            tls: Tls::new(session.into(), Pieces::default())?,
            buffer: vec![0; STREAM_READ_LEN + 2 * RECORD_LEN_MAX],
            kept: Vec::new(),
            taken: Vec::new(),
        })
    }

    /// Lets each piece arrive, as what one read of the socket gives, and reads until nothing is there. An
    /// empty piece is the end of the socket's stream. Gives whether the client has ended its own.
    ///
    /// # Errors
    /// Those of TLS, after which nothing more is read.
    pub fn arrive<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]>) -> io::Result<bool> {
        for piece in pieces {
            self.tls.socket_mut().arriving.push_back(piece.to_vec());
        }
        while !self.has_refused() {
            match self.tls.read(&mut self.buffer, STREAM_READ_LEN)? {
                Received::Octets(len) => self.take(len),
                Received::Nothing if self.tls.socket().arriving.is_empty() => return Ok(false),
                Received::Nothing => {}
                Received::End => return Ok(true),
            }
        }
        Ok(false)
    }

    fn has_refused(&self) -> bool {
        self.taken.last() == Some(&Taken::TooLong)
    }

    fn take(&mut self, len: usize) {
        let (buffer, messages) = (&self.buffer, &mut self.taken);
        let octets = buffer.get(..len).unwrap_or_default();
        self.kept = take_front(std::mem::take(&mut self.kept), octets, |all| {
            let mut taken = 0;
            while let Some(frame) = all.get(taken..).and_then(first_frame) {
                match frame {
                    Frame::Message(message, len) => {
                        messages.push(Taken::Message(message.to_vec()));
                        taken += len;
                    }
                    Frame::TooLong(_) => {
                        messages.push(Taken::TooLong);
                        return all.len();
                    }
                }
            }
            taken
        });
    }

    /// What TLS has to say to the client since the last call.
    pub fn sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tls.socket_mut().sent)
    }

    /// What came of the octets so far.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// Octets of memory that TLS has for this connection beside its keys.
    pub fn held(&self) -> usize {
        self.tls.held()
    }

    /// Octets that are no whole message yet.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }
}

/// In the place of a socket: a read gives one piece, or what there is room for.
#[derive(Default)]
struct Pieces {
    arriving: VecDeque<Vec<u8>>,
    sent: Vec<u8>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.arriving.front_mut() else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let len = piece.len().min(buffer.len());
        let front: Vec<u8> = piece.drain(..len).collect();
        if piece.is_empty() {
            self.arriving.pop_front();
        }
        buffer.get_mut(..len).unwrap_or_default().copy_from_slice(&front);
        Ok(len)
    }
}

impl Write for Pieces {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.sent.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
