//! Packets of connections, as the system takes and gives them.

use super::connection::Connection;
use crate::limits::BATCH;
use crate::sys::{Outgoing, REPLIES, Replies, Sender};
use std::io::{self, ErrorKind};
use std::time::Instant;

/// Room for packets of one worker.
pub(super) struct Packets {
    replies: Replies,
    sender: Sender,
    queue: Vec<Outgoing>,
    spare: Vec<Vec<u8>>,
    reply: Vec<u8>,
}

impl Packets {
    pub(super) fn new() -> Self {
        Self {
            replies: Replies::new(),
            sender: Sender::new(),
            queue: Vec::new(),
            spare: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Takes the packets that have arrived for a connection, at most a batch: the rest is seen again, behind what
    /// others have sent. Says whether some of them wait for their turn.
    pub(super) fn receive(&mut self, connection: &mut Connection, at: Instant) -> bool {
        let count = match self.replies.receive(&connection.socket) {
            Ok(count) => count.min(REPLIES),
            Err(error) => {
                note(connection, error);
                0
            }
        };
        let mut waits = false;
        for index in 0..count {
            waits |= connection.take(self.replies.get(index), at, &mut self.reply);
        }
        waits
    }

    /// Sends what a connection has to send now.
    pub(super) fn send(&mut self, connection: &mut Connection, at: Instant) {
        loop {
            let mut wire = self.spare.pop().unwrap_or_default();
            wire.clear();
            let is_last = !connection.packet(at, &mut wire);
            if is_last {
                self.spare.push(wire);
            } else {
                self.queue.push(Outgoing { wire, peer: None, source: None });
            }
            if is_last || self.queue.len() >= BATCH {
                let mut refused = None;
                let refuse = |_, error| refused = Some(error);
                self.sender.send_all(&connection.socket, &self.queue, false, refuse);
                self.spare.extend(self.queue.drain(..).map(|packet| packet.wire));
                if let Some(error) = refused {
                    note(connection, error);
                }
            }
            if is_last {
                break;
            }
        }
        self.spare.truncate(BATCH);
        connection.renew_ids();
    }
}

/// Keeps an error that says more than that a packet is lost, which QUIC finds out by itself.
fn note(connection: &mut Connection, error: io::Error) {
    let is_lost = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        || error.raw_os_error() == Some(libc::ENOBUFS);
    if !is_lost {
        connection.refusal = Some(error);
    }
}
