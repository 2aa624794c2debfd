//! What comes in front of a connection's own octets: the PROXY protocol header of a proxy.
//!
//! It is looked at while it is in the kernel, and taken out of it once it is whole. So it takes no
//! memory here, and whoever reads the connection afterwards, such as TLS, does not know of it.

use super::addresses::Addresses;
use super::connection::Connection;
use super::quota::Full;
use super::server::TcpServer;
use crate::context::Context;
use crate::pipe::Received;
use crate::slots::Key;
use nodens_core::proxy::{Opening, Proxied, ProxyPolicy, ProxyRefusal};
use nodens_wire::proxy::PROXY_HEADER_MAX;

/// What is known of the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// Its own octets come, or have come.
    Past,
    /// There may be a header, of which so many octets were there at the last look.
    Expected(u16),
}

impl TcpServer {
    /// Notes of a new connection whether to look for a header.
    pub(super) fn expect_head(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.id == connection.endpoint);
        let rules = endpoint.and_then(|endpoint| endpoint.proxy.as_ref());
        let policy = rules.map(|rules| rules.policy(connection.addresses.peer().ip()));
        if policy.is_some_and(|policy| policy != ProxyPolicy::Skip) {
            connection.head = Head::Expected(0);
        }
    }

    /// Takes the header off; says whether the connection's own octets are next.
    pub(super) fn open(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let Head::Expected(seen) = connection.head else { return true };
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.id == connection.endpoint);
        let Some(rules) = endpoint.and_then(|endpoint| endpoint.proxy.as_ref()) else {
            return pass(connection);
        };
        let buffer = self.scratch.get_mut(..PROXY_HEADER_MAX).unwrap_or_default();
        let octets = match connection.pipe.peek(buffer) {
            Ok(Received::Octets(len)) => buffer.get(..len).unwrap_or_default(),
            Ok(Received::Nothing) => return false,
            Ok(Received::End) => {
                connection.closing = true;
                return false;
            }
            Err(_) => {
                self.close(key);
                return false;
            }
        };
        match rules.open(connection.addresses.peer().ip(), octets) {
            Ok(Opening::Bare) => pass(connection),
            Ok(Opening::Wait(_)) if octets.len() <= usize::from(seen) => {
                // The kernel was to tell of more, or of the end. Short of memory it tells of what
                // was there already: then the time to read ends the wait.
                connection.pipe.is_ended() && self.refuse_head(key, ProxyRefusal::Cut, cx)
            }
            Ok(Opening::Wait(wanted)) => {
                connection.head = Head::Expected(octets.len().try_into().unwrap_or(u16::MAX));
                connection.pipe.wait_for(wanted);
                false
            }
            Ok(Opening::Headed(len, proxied)) => {
                let header = buffer.get_mut(..len).unwrap_or_default();
                if connection.pipe.discard(header).is_err() {
                    self.close(key);
                    return false;
                }
                pass(connection);
                self.introduce(key, proxied, cx)
            }
            Err(refusal) => self.refuse_head(key, refusal, cx),
        }
    }

    fn refuse_head(&mut self, key: Key, refusal: ProxyRefusal, cx: &mut Context<'_>) -> bool {
        cx.counters.add(cx.counters.misproxied, 1);
        if let Some(connection) = self.connections.get(key) {
            cx.worker.note_refusal(cx.now, connection.addresses.peer(), refusal);
        }
        self.close(key);
        false
    }

    /// Makes a connection that of the client which its header names.
    fn introduce(&mut self, key: Key, proxied: Proxied, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if proxied.tlvs.is_some() {
            connection.rare_mut().tlvs = proxied.tlvs;
        }
        match proxied.addresses {
            Some((client, asked)) => self.pass_to(key, Addresses::new(client, asked), cx),
            None => true,
        }
    }

    /// Counts a connection as one of `client` instead of one of its proxy, which may have as many as
    /// its clients have. Closes it and says `false` if that client can have no more.
    fn pass_to(&mut self, key: Key, named: Addresses, cx: &mut Context<'_>) -> bool {
        let client = named.peer().ip();
        let Some(connection) = self.connections.get_mut(key) else { return false };
        // It is not idle: it would else be the first to make room for itself.
        connection.active_at = cx.now.mono_ns;
        let proxy = connection.addresses.peer().ip();
        let mut passed = self.quota.pass(proxy, client);
        if let Err(Full::Group(group)) = passed
            && self.make_room(Some(group), cx)
        {
            passed = self.quota.pass(proxy, client);
        }
        if passed.is_err() {
            self.presses = true;
            cx.counters.add(cx.counters.evicted, 1);
            self.close(key);
            return false;
        }
        let Some(connection) = self.connections.get_mut(key) else { return false };
        connection.addresses = named;
        connection.proxied = true;
        connection.pass_entry(client);
        connection.rare_mut().holding = None;
        connection.tidy_rare();
        self.idle_by_group.enter(client, key, cx.now.mono_ns);
        for group in self.quota.clone().crowded_of(client) {
            self.presses |= !self.make_room(Some(group), cx);
        }
        self.connections.get(key).is_some()
    }
}

/// The connection's own octets are next.
fn pass(connection: &mut Connection) -> bool {
    if connection.head != Head::Expected(0) {
        connection.pipe.wait_for(1);
    }
    connection.head = Head::Past;
    true
}
