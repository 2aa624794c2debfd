//! Answers of many messages: each is made when the client has taken most of those before it, and
//! connections take turns, so that neither one large answer nor many of them hold up the rest.

use super::server::{TcpServer, mark};
use crate::context::Context;
use crate::limits::STREAM_MESSAGES_IN_A_ROW;
use crate::slots::Key;
use nodens_core::stream::{Next, Stream};
use nodens_core::{Client, Now};

impl TcpServer {
    /// Whether [`TcpServer::take_turns`] has something to do now.
    pub(crate) fn has_turns(&self) -> bool {
        self.eases || !self.turns.is_empty() || !self.handshakes.is_empty()
    }

    /// Takes an answer of several messages that had to be waited for.
    pub(crate) fn begin_stream(
        &mut self,
        client: &Client,
        (first, rest): (&[u8], Box<Stream>),
        now: Now,
    ) {
        let key = Key::from_bits(client.connection);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.speaks_http() {
            // One message is all that a request gets.
            return self.forget(client, now);
        }
        connection.pipe.output.push(first, &mut self.spare);
        // A second one on the same connection has to wait for the first, and would wait for long.
        if connection.rest.is_some() {
            self.close(key);
            return;
        }
        connection.rest = Some(rest);
        mark(&mut self.dirty, connection, key);
    }

    /// Whether handshakes wait for their turn.
    pub(crate) fn has_handshakes(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// Makes a few messages, for the connections whose turn it is, and goes on with handshakes if it is
    /// theirs.
    pub(crate) fn take_turns(&mut self, of_handshakes: bool, cx: &mut Context<'_>) {
        if of_handshakes {
            self.take_handshakes(cx);
        }
        if self.eases {
            self.ease(cx);
        }
        for _ in 0..STREAM_MESSAGES_IN_A_ROW {
            let Some(key) = self.turns.pop_front() else { return };
            self.take_turn(key, cx);
        }
    }

    fn take_turn(&mut self, key: Key, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.in_turn = false;
        let Some(rest) = &mut connection.rest else { return };
        match rest.next_message(cx.now, &mut self.answer) {
            Ok(Next::Nothing) => {}
            Ok(Next::Message) => connection.pipe.output.push(&self.answer, &mut self.spare),
            Ok(Next::Last) => {
                connection.pipe.output.push(&self.answer, &mut self.spare);
                connection.rest = None;
                connection.in_flight = connection.in_flight.saturating_sub(1);
            }
            Err(_) => {
                cx.counters.add(cx.counters.broken, 1);
                self.close(key);
                return;
            }
        }
        mark(&mut self.dirty, connection, key);
    }
}
