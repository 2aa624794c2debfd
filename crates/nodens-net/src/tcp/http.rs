//! Connections that speak HTTP: from octets to queries, and back.

use super::connection::{Connection, NEVER};
use super::endpoint::Endpoint;
use super::few::Entry;
use super::opening::Head;
use super::server::TcpServer;
use super::unsent::{Fixed, Unsent};
use crate::context::Context;
use crate::http::Session;
use crate::limits::{HTTP2_COST, SEND_EARLY};
use crate::slots::Key;
use nodens_core::config::HttpResponses;
use nodens_core::{Client, Now, Transport, Verdict};
use std::net::IpAddr;
use std::sync::Arc;

/// What a connection that speaks HTTP needs.
pub(super) struct Http {
    session: Session,
    transport: Transport,
    responses: Option<HttpResponses>,
    /// Its place among those of its listener, which is given back with it.
    entry: Option<Entry>,
    /// What it takes of the memory of all connections by being open.
    fixed: Option<Fixed>,
    /// The last words are said.
    has_parted: bool,
}

impl Http {
    /// For a connection to a listener, if HTTP is spoken there.
    pub(super) fn new(endpoint: &Endpoint, entry: Option<Entry>) -> Option<Box<Self>> {
        let http = endpoint.http.as_ref()?;
        Some(Box::new(Self {
            session: Session::new(http.rules),
            transport: http.transport,
            responses: http.responses,
            entry,
            fixed: None,
            has_parted: false,
        }))
    }
}

impl Connection {
    pub(super) fn speaks_http(&self) -> bool {
        self.http().is_some()
    }

    fn http(&self) -> Option<&Http> {
        self.rare.as_ref()?.http.as_deref()
    }

    fn http_mut(&mut self) -> Option<&mut Http> {
        self.rare.as_mut()?.http.as_deref_mut()
    }

    fn session(&self) -> Option<&Session> {
        self.http().map(|http| &http.session)
    }

    /// Whether nothing that its client sends is of any use.
    pub(super) fn is_deaf(&self) -> bool {
        match self.session() {
            Some(session) => !session.listens() || (self.closing && self.is_idle()),
            None => self.closing,
        }
    }

    /// Whether what arrives next has to wait for a response of HTTP.
    pub(super) fn awaits_response(&self) -> bool {
        self.session().is_some_and(Session::is_full)
    }

    /// Whether requests that have arrived can be taken now.
    pub(super) fn has_more_requests(&self) -> bool {
        self.session().is_some_and(Session::has_more)
    }

    /// Octets of responses that its client has no room for, as HTTP/2 has it.
    pub(super) fn held(&self) -> usize {
        self.session().map_or(0, Session::held)
    }

    /// Octets of memory that its session has and that are its own: what every connection of HTTP/2 has is
    /// among them only where too many have it.
    pub(super) fn http_cost(&mut self, budget: &Arc<Unsent>) -> usize {
        let Some(http) = self.http_mut() else { return 0 };
        let is_taken = http.fixed.is_some() || !http.session.is_two();
        if !is_taken {
            http.fixed = budget.take_fixed(HTTP2_COST);
        }
        let fixed = if is_taken || http.fixed.is_some() { 0 } else { HTTP2_COST };
        http.session.cost() + fixed
    }

    /// It is one of this client from now on.
    pub(super) fn pass_entry(&mut self, client: IpAddr) {
        if let Some(entry) = self.http_mut().and_then(|http| http.entry.as_mut()) {
            entry.pass(client);
        }
    }

    /// When [`Connection::expire_requests`] has something to do.
    pub(super) fn http_deadline(&self) -> u64 {
        self.session().and_then(Session::deadline).unwrap_or(NEVER)
    }

    /// Gives up requests and responses whose time is over; says whether there were any.
    pub(super) fn expire_requests(&mut self, now: Now) -> bool {
        // Bodies may have arrived in time, and wait in the kernel.
        let is_read = !self.is_full();
        self.http_mut().is_some_and(|http| http.session.expire(is_read, now))
    }

    /// Whether a response was made since the last call; any octets that were sent count where no HTTP is
    /// spoken.
    pub(super) fn has_responded(&mut self, has_sent: bool) -> bool {
        self.http_mut().map_or(has_sent, |http| http.session.has_responded())
    }

    /// Its client sends no more.
    pub(super) fn end_input(&mut self) {
        (self.closing, self.ended) = (true, true);
        if let Some(http) = self.http_mut() {
            http.session.end();
        }
    }

    /// Whether there were last words, which its client has yet to take.
    pub(super) fn has_said_goodbye(&self) -> bool {
        self.http().is_some_and(|http| http.has_parted && http.session.is_two())
    }

    /// Puts the last words among the octets to be sent, once; says whether there are any.
    pub(super) fn say_goodbye(&mut self, now: Now) -> bool {
        let Some(http) = self.http_mut() else { return false };
        if std::mem::replace(&mut http.has_parted, true) {
            return false;
        }
        http.session.say_goodbye(now);
        let octets = http.session.take_output(now);
        self.pipe.output.append(octets);
        !self.pipe.output.is_empty()
    }
}

impl TcpServer {
    /// Takes octets, and asks the queries that are whole.
    pub(super) fn take_requests(&mut self, key: Key, octets: &[u8], cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.id == connection.endpoint);
        let listener = endpoint.map(|endpoint| endpoint.listener);
        let (peer, local) = (connection.addresses.peer(), connection.addresses.local());
        let tlvs = connection.tlvs().cloned();
        let old_tls = connection.pipe.is_old_tls();
        let Some(http) = connection.http_mut() else { return };
        http.session.receive(octets);
        let client = Client {
            peer,
            local,
            transport: http.transport,
            // Without one nothing is asked.
            listener: listener.unwrap_or_default(),
            connection: key.bits(),
            stream: 0,
            old_tls,
        };
        let has_tlvs = tlvs.is_some();
        if has_tlvs {
            cx.worker.announce(tlvs.as_ref());
        }
        self.ask_all(key, (client, listener.is_some()), cx);
        if has_tlvs {
            cx.worker.announce(None);
        }
        self.collect_output(key, cx);
    }

    /// The same where nothing new has arrived. Before the octets of HTTP begin there is nothing to say, and
    /// what is to be sent could not be.
    pub(super) fn go_on_with_requests(&mut self, key: Key, cx: &mut Context<'_>) {
        let has_begun = |own: &Connection| own.head == Head::Past && !own.pipe.is_handshaking();
        if self.connections.get(key).is_some_and(|own| own.speaks_http() && has_begun(own)) {
            self.take_requests(key, &[], cx);
        }
    }

    /// Asks the queries that are whole, as far as the connection may.
    fn ask_all(&mut self, key: Key, (client, is_served): (Client, bool), cx: &mut Context<'_>) {
        let (mut heard, mut answered) = (false, 0);
        loop {
            if answered >= SEND_EARLY {
                answered = 0;
                self.collect_output(key, cx);
            }
            let Some(connection) = self.connections.get_mut(key) else { return };
            let (is_spent, is_closing) = (connection.is_spent(), connection.closing);
            let is_full = connection.is_full();
            let Some(http) = connection.http_mut() else { return };
            if is_spent || !is_served {
                // The configuration at work has nothing to answer them with, or they are too many.
                http.session.refuse();
                break;
            }
            if is_closing {
                // It may have requests that nobody looks at any more.
                http.session.leave();
            }
            if is_full {
                http.session.pause();
                break;
            }
            let Some(query) = http.session.next(cx.now) else { break };
            let client = Client { stream: query.stream, ..client };
            let verdict = cx.worker.receive(cx.now, client, &query.message, &mut self.answer);
            heard |= verdict != Verdict::Silent;
            answered += self.answer.len();
            connection.count_question();
            let is_spent = connection.is_spent();
            let Some(http) = connection.http_mut() else { return };
            if is_spent {
                // The client hears with the response that it is the last one.
                http.session.refuse();
            }
            match verdict {
                Verdict::Answered => http.session.answer(query.stream, &self.answer, cx.now),
                // It may not come: one message is all that a request gets.
                Verdict::Streaming => {
                    drop(cx.worker.take_stream());
                    http.session.pass_over(query.stream, cx.now);
                }
                Verdict::Pending => connection.in_flight += 1,
                Verdict::Silent => http.session.pass_over(query.stream, cx.now),
            }
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if heard {
            connection.refresh(cx.now);
        }
        if connection.session().is_some_and(Session::has_begun) {
            connection.began(cx.now);
        }
    }

    /// Moves what the session has to say to the octets to be sent.
    fn collect_output(&mut self, key: Key, cx: &Context<'_>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(http) = connection.http_mut() else { return };
        let octets = http.session.take_output(cx.now);
        if let Some(responses) = http.responses {
            for (status, count) in http.session.take_counted().each() {
                cx.worker.cells().add(responses.of(status), count);
            }
        }
        let is_over = http.session.is_over();
        connection.pipe.output.append(octets);
        if is_over && !connection.closing {
            // Nobody waits for what is under way.
            (connection.closing, connection.in_flight) = (true, 0);
        }
    }

    /// Sends the response to a query that had to be waited for, or says that there is none. It goes out
    /// at the end of the round.
    pub(super) fn respond(&mut self, client: &Client, message: Option<&[u8]>, now: Now) {
        let key = Key::from_bits(client.connection);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(http) = connection.http_mut() else { return };
        match message {
            Some(message) => http.session.answer(client.stream, message, now),
            None => http.session.pass_over(client.stream, now),
        }
    }
}
