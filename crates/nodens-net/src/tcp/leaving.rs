//! Connections that go on in another process, each as soon as nothing is owed to its client.

use super::addresses::Addresses;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::server::{TcpServer, keep_buffer, mark};
use crate::context::Context;
use crate::handover::passes_connections;
use crate::listeners::ListenerAddress;
use crate::poll::Poll;
use crate::slots::Key;
use nodens_core::Now;
use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

/// A client connection that passes from one process to another. Nothing is owed to the client.
#[derive(Debug)]
pub struct HandedConnection {
    /// The connection.
    pub stream: OwnedFd,
    /// The listener that it came by.
    pub listener: ListenerAddress,
    /// Octets received that nobody has looked at: the beginning of a question, or whole ones.
    pub input: Vec<u8>,
    /// How many questions it has asked, for `timeouts`' bound on them.
    pub asked: u32,
}

/// What a server has to know that hands on its connections.
pub(crate) struct Leaving {
    /// Where they go.
    pub(crate) heir: Sender<HandedConnection>,
    /// The listeners that go on, by number.
    pub(crate) kept: HashMap<u32, ListenerAddress>,
}

/// The same, under way.
pub(super) struct Departures {
    leaving: Leaving,
    /// Connections that will be handed on, with octets nobody has looked at.
    input: HashMap<Key, Vec<u8>>,
}

impl TcpServer {
    /// Accepts no more connections and reads no more questions. Connections of the listeners that
    /// go on elsewhere are handed on, each once its questions are answered.
    pub(crate) fn leave(&mut self, leaving: Leaving, cx: &mut Context<'_>) {
        let kept = |endpoint: u32| leaving.kept.contains_key(&endpoint);
        self.close_listeners(|endpoint| !kept(endpoint), cx);
        for key in self.listeners.keys(|_| true) {
            self.listeners.remove(key);
        }
        let passes = |endpoint: &Endpoint| passes_connections(endpoint.kind);
        let mut input = HashMap::new();
        for key in self.connections.keys(|own| kept(own.endpoint)) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            // One that ends anyway, or may ask no more, ends here.
            let endpoint = self.endpoints.iter().find(|own| own.id == connection.endpoint);
            if connection.proxied {
                // Another process would take the proxy for the client.
                self.read_last(key, cx);
            } else if !connection.closing && endpoint.is_some_and(passes) {
                // The successor looks for a header anew.
                connection.pipe.wait_for(1);
                input.insert(key, std::mem::take(&mut connection.input));
            } else if !connection.closing {
                self.read_last(key, cx);
            }
            self.finish_questions(key);
        }
        self.departures = Some(Box::new(Departures { leaving, input }));
        self.ending = true;
    }

    /// Ends a connection to which nothing is owed: hands it on, or closes it.
    pub(super) fn end(&mut self, key: Key, now: Now, poll: &Poll) {
        let departures = self.departures.as_mut();
        let leaves = departures.and_then(|departures| {
            let input = departures.input.remove(&key)?;
            let endpoint = self.connections.get(key)?.endpoint;
            let listener = *departures.leaving.kept.get(&endpoint)?;
            Some((departures.leaving.heir.clone(), input, listener))
        });
        let Some((heir, input, listener)) = leaves else {
            return self.finish(key, now, poll);
        };
        let Some(connection) = self.take_out(key) else { return };
        let (asked, stream) = (connection.asked(), connection.pipe.release(poll));
        let Some(stream) = stream else { return };
        // An heir that is gone takes nothing: the connection closes.
        _ = heir.send(HandedConnection { stream, listener, input, asked });
    }

    pub(super) fn close(&mut self, key: Key) {
        let Some(connection) = self.take_out(key) else { return };
        keep_buffer(&mut self.spare, connection.input);
    }

    /// A connection that is of this server no more.
    pub(super) fn take_out(&mut self, key: Key) -> Option<Connection> {
        let connection = self.connections.remove(key)?;
        let connections = &self.connections;
        self.idle.tidy(connections.len(), |key| connections.get(key).is_some());
        self.quota.give_back(connection.addresses.peer().ip());
        if let Some(queue) = self.idle_by_listener.get_mut(&connection.endpoint) {
            queue.tidy_since(|key| connections.get(key).is_some());
        }
        self.tidy_deadlines();
        Some(connection)
    }

    /// Goes on with a connection of another process.
    pub(crate) fn adopt(&mut self, handed: HandedConnection, endpoint: u32, cx: &mut Context<'_>) {
        let stream = TcpStream::from(handed.stream);
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return };
        let addresses = Addresses::new(peer, local);
        let Ok(place) = self.quota.take(addresses.peer().ip()) else {
            self.presses = true;
            cx.counters.add(cx.counters.evicted, 1);
            return;
        };
        let Some(key) = self.keep(stream, addresses, endpoint, place, cx) else { return };
        if handed.asked == 0 && handed.input.is_empty() {
            self.expect_head(key);
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.has_asked(handed.asked);
        if handed.asked > 0 {
            // It may be idle, and need not ask at once as a new one has to.
            connection.refresh(cx.now);
        }
        if !handed.input.is_empty() {
            connection.began(cx.now);
        }
        connection.input = handed.input;
        connection.closing = self.ending;
        // Whole questions among them are taken at the end of the round.
        mark(&mut self.dirty, connection, key);
    }
}
