//! What a worker wants done, handed out in pieces that memory has room for.

use super::{Action, Worker};
use crate::limits::{ANSWERS_AT_ONCE, SPARE_BUFFER_LEN, SPARE_BUFFERS_MAX};
use crate::time::Now;

impl Worker {
    /// What the sockets have to do since the last call. When it is done, [`Worker::go_on`].
    pub fn take_actions(&mut self, into: &mut Vec<Action>) {
        self.state.outgoing = 0;
        into.append(&mut self.state.actions);
    }

    /// Whether so many octets of responses are to be sent that it should be done before anything
    /// else.
    pub fn has_much_to_send(&self) -> bool {
        self.state.outgoing >= ANSWERS_AT_ONCE
    }

    /// Makes the responses that were left until others are sent.
    pub fn go_on(&mut self, now: Now) {
        self.settle(now);
    }

    /// Whether [`Worker::take_actions`] has something to give.
    pub fn has_actions(&self) -> bool {
        !self.state.actions.is_empty() || !self.state.local_mail.is_empty()
    }

    /// Takes back the buffer of an [`Action::Send`], so that the next one need not be allocated.
    pub fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < SPARE_BUFFERS_MAX && buffer.capacity() <= SPARE_BUFFER_LEN {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}
