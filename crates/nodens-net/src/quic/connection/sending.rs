//! Responses of many messages, each on its stream (RFC 9250 section 4.2): transfers. A message is made once those
//! before it are written, so that little of a zone waits in memory.

use super::{Connection, Phase};
use crate::limits::QUIC_SEND_WINDOW;
use crate::quic::code;
use nodens_core::Now;
use nodens_core::stream::{Next, Stream};
use nodens_wire::framing::push_message;
use quinn_proto::{StreamId, WriteError};

/// One of them.
pub(in crate::quic) struct Sending {
    pub(super) stream: StreamId,
    /// What follows.
    rest: Option<Box<Stream>>,
    /// Messages with their lengths that are not written.
    octets: Vec<u8>,
}

impl Sending {
    /// Octets of memory.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.octets.capacity()
    }

    /// When it has to have ended.
    pub(super) fn deadline(&self) -> u64 {
        self.rest.as_ref().map_or(u64::MAX, |rest| rest.deadline_ns())
    }
}

/// What came of a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::quic) struct Turn {
    /// Responses that are whole now.
    pub(in crate::quic) whole: usize,
    /// Those that could not be made whole.
    pub(in crate::quic) broken: usize,
}

impl Connection {
    /// Begins with the first message of a response.
    pub(in crate::quic) fn begin_sending(
        &mut self,
        stream: StreamId,
        (first, rest): (&[u8], Box<Stream>),
        now: Now,
    ) {
        if self.phase != Phase::Open {
            return;
        }
        self.progress_at = now.mono_ns;
        let mut octets = Vec::new();
        push_message(&mut octets, first);
        self.sending.push_back(Sending { stream, rest: Some(rest), octets });
    }

    /// Writes what there is room for, and makes one message more.
    pub(in crate::quic) fn go_on_sending(&mut self, now: Now, message: &mut Vec<u8>) -> Turn {
        let (mut turn, mut makes) = (Turn::default(), true);
        for _ in 0..self.sending.len() {
            let Some(mut own) = self.sending.pop_front() else { break };
            if !self.write_some(&mut own, now) {
                // The client does not want it.
                continue;
            }
            if own.octets.is_empty() && makes {
                makes = false;
                let made = own.rest.as_mut().map(|rest| rest.next_message(now, message));
                match made {
                    Some(Ok(Next::Nothing)) => {}
                    Some(Ok(next)) => {
                        push_message(&mut own.octets, message);
                        own.rest = own.rest.filter(|_| next == Next::Message);
                    }
                    Some(Err(_)) => {
                        // An error means that it has ended.
                        _ = self.quinn.send_stream(own.stream).reset(code::INTERNAL_ERROR);
                        turn.broken += 1;
                        continue;
                    }
                    None => {}
                }
                if !self.write_some(&mut own, now) {
                    continue;
                }
            }
            if own.rest.is_none() && own.octets.is_empty() {
                // An error means that the client does not want it any more.
                _ = self.quinn.send_stream(own.stream).finish();
                self.owed.insert(own.stream, 0);
                turn.whole += 1;
                continue;
            }
            self.sending.push_back(own);
        }
        turn
    }

    /// Writes what there is room for; whether the client still wants it.
    fn write_some(&mut self, own: &mut Sending, now: Now) -> bool {
        if own.octets.is_empty() {
            return true;
        }
        match self.quinn.send_stream(own.stream).write(&own.octets) {
            Ok(written) => {
                own.octets.drain(..written);
                self.progress_at = now.mono_ns;
                true
            }
            Err(WriteError::Blocked) => true,
            Err(_) => false,
        }
    }

    /// Whether there is something to do although nothing has come from the client.
    pub(in crate::quic) fn wants_turn(&self) -> bool {
        self.phase == Phase::Open && self.sending.iter().any(|own| own.octets.is_empty())
    }

    /// Octets of memory that these responses take, with what QUIC keeps until it is acknowledged.
    pub(super) fn sending_cost(&self) -> usize {
        if self.sending.is_empty() {
            return 0;
        }
        self.sending.iter().map(Sending::cost).sum::<usize>() + QUIC_SEND_WINDOW as usize
    }
}
