//! What a worker wants done.

use crate::job::Client;
use crate::stream::Stream;
use crate::ticket::Ticket;
use crate::upstream::Ask;

/// What the owner of the sockets has to do.
#[derive(Debug)]
pub enum Action {
    /// Ask an upstream; the message is [`Worker::ask_message`](crate::Worker::ask_message).
    Ask(Ask),
    /// The attempt takes too long: stop waiting for its answer and report
    /// [`crate::upstream::Fault::Timeout`] with [`Worker::failed`](crate::Worker::failed).
    GiveUp {
        /// The job that asked.
        ticket: Ticket,
        /// The attempt.
        attempt: u32,
    },
    /// The query of this attempt is over: its response is not needed any more.
    Forget {
        /// The job that asked.
        ticket: Ticket,
        /// The attempt.
        attempt: u32,
    },
    /// Send a response to a client that waited.
    Send {
        /// Where it goes.
        client: Client,
        /// The whole message.
        wire: Vec<u8>,
    },
    /// Send a response of several messages to a client that waited.
    Stream {
        /// Where it goes.
        client: Client,
        /// The first message.
        wire: Vec<u8>,
        /// The others.
        rest: Box<Stream>,
    },
    /// A client that waited gets no response (`acl drop`, shutdown): its place is free.
    Silence(Client),
    /// Another worker has mail: wake it.
    Wake(usize),
}
