//! New connections. A packet that begins one costs nothing that stays but its place in a short queue;
//! handshakes take turns, because each step costs as much as hundreds of hits, which go first.

use super::connection::{Connection, Phase, code};
use super::server::QuicServer;
use crate::context::Context;
use crate::limits::{
    HANDSHAKES_IN_A_ROW, QUIC_COST, QUIC_INCOMING_MAX, QUIC_RETRY_FROM, QUIC_RETRY_SHARE,
    QUIC_STREAM_COST, QUIC_TURNED_AWAY_MAX,
};
use crate::slots::Key;
use crate::tcp::{Holding, Place};
use nodens_tls::Untrusted;
use quinn_proto::{ConnectionError, Incoming};
use std::net::SocketAddr;

impl QuicServer {
    /// Decides what becomes of the beginning of a connection: it waits for its turn, its client has to
    /// show that it receives at its address (a Retry packet, RFC 9000 section 8.1.2), or it is refused.
    pub(super) fn consider(&mut self, key: Key, incoming: Incoming, cx: &mut Context<'_>) {
        let Some(site) = self.sites.get_mut(key) else { return };
        if site.retired && !self.ending {
            // Another socket of the address may have it when the client sends it again: this one closes
            // in a moment.
            return site.endpoint.ignore(incoming);
        }
        let is_full = site.few().is_full();
        let streams_max = site.bounds.settings.streams_max;
        let is_known = incoming.remote_address_validated();
        let client = incoming.remote_address().ip();
        let has_no_seat = is_full && !self.may_have_room(key, client);
        if self.ending || has_no_seat || self.unsent.is_overdrawn(false) {
            return self.refuse(key, incoming, cx);
        }
        if !is_known && (is_full || self.has_to_ask_back(streams_max)) && incoming.may_retry() {
            return self.ask_back(key, incoming, cx);
        }
        if is_full && !self.has_room(key, client) {
            // There is a place once the handshake is over.
            self.ask_for_seat(key, client);
        }
        let place = self.books.half_open.take(client);
        match place.ok().filter(|_| self.incoming.len() < QUIC_INCOMING_MAX) {
            Some(place) => self.incoming.push_back((key, incoming, place)),
            // The client sends it again.
            None => self.ignore(key, incoming, cx),
        }
    }

    /// Whether clients have to show their address by now. Forged packets take as little of the memory of all
    /// as of the places.
    fn has_to_ask_back(&self, streams_max: u32) -> bool {
        let each = QUIC_COST + streams_max as usize * QUIC_STREAM_COST;
        let enough = QUIC_RETRY_FROM.min(self.unsent.max() / QUIC_RETRY_SHARE / each);
        self.books.half_open.open() >= enough || self.unsent.is_tight()
    }

    /// Has a client show its address.
    fn ask_back(&mut self, key: Key, incoming: Incoming, cx: &mut Context<'_>) {
        if self.turned_away >= QUIC_TURNED_AWAY_MAX {
            return self.ignore(key, incoming, cx);
        }
        self.turned_away += 1;
        cx.counters.add(cx.counters.quic_retries, 1);
        let mut reply = Vec::new();
        let Some(site) = self.sites.get_mut(key) else { return };
        if let Ok(transmit) = site.endpoint.retry(incoming, &mut reply) {
            self.queue(key, &transmit, reply, cx);
        }
    }

    /// Says that there is no room for a connection.
    fn refuse(&mut self, key: Key, incoming: Incoming, cx: &mut Context<'_>) {
        if self.turned_away >= QUIC_TURNED_AWAY_MAX {
            return self.ignore(key, incoming, cx);
        }
        self.turned_away += 1;
        cx.counters.add(cx.counters.quic_refused, 1);
        let mut reply = Vec::new();
        let Some(site) = self.sites.get_mut(key) else { return };
        let transmit = site.endpoint.refuse(incoming, &mut reply);
        self.queue(key, &transmit, reply, cx);
    }

    /// Says nothing to a client, which sends it again.
    fn ignore(&mut self, key: Key, incoming: Incoming, cx: &mut Context<'_>) {
        cx.counters.add(cx.counters.quic_refused, 1);
        if let Some(site) = self.sites.get_mut(key) {
            site.endpoint.ignore(incoming);
        }
    }

    /// Whether [`QuicServer::take_turns`] has something to do now.
    pub(crate) fn has_turns(&self) -> bool {
        !self.handshakes.is_empty() || !self.incoming.is_empty()
    }

    /// Goes on with a few handshakes. Those that have begun go first: their work would else be in vain
    /// once there are more than can be done in time.
    pub(crate) fn take_turns(&mut self, cx: &mut Context<'_>) {
        for _ in 0..HANDSHAKES_IN_A_ROW {
            if let Some(key) = self.handshakes.pop_front() {
                self.go_on(key);
            } else if let Some((site, incoming, place)) = self.incoming.pop_front() {
                self.open(site, (incoming, place), cx);
            } else {
                return;
            }
        }
    }

    /// Closes the connection that has been idle for longest, or forgets one that is closed, so that the
    /// new one is not the first to go when memory is short.
    fn make_room(&mut self, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        let idle = self.connections.iter().filter(|(_, own)| match own.phase {
            Phase::Handshake => false,
            Phase::Open => own.is_idle(),
            Phase::Closed => true,
        });
        let longest = idle.min_by_key(|(_, own)| (own.phase == Phase::Open, own.active_at));
        let Some((key, _)) = longest else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        cx.counters.add(cx.counters.evicted, u64::from(connection.phase == Phase::Open));
        connection.close(code::NO_ERROR, "", at);
        self.discard(key, cx);
    }

    fn go_on(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.in_turn = false;
        for (event, len) in std::mem::take(&mut connection.events) {
            connection.hear(event, len);
        }
        self.mark(key);
    }

    fn open(
        &mut self,
        site_key: Key,
        (incoming, half_open): (Incoming, Place),
        cx: &mut Context<'_>,
    ) {
        let at = self.instant(cx.now);
        let mut reply = Vec::new();
        // Nobody closes others' connections with forged packets.
        if self.unsent.is_tight() && incoming.remote_address_validated() {
            self.make_room(cx);
        }
        let (unsent, place) = (self.unsent.clone(), self.place);
        let Some(site) = self.sites.get_mut(site_key) else { return };
        let (peer, local) = (incoming.remote_address(), site.local(incoming.local_ip()));
        let config = site.config();
        match site.endpoint.accept(incoming, at, &mut reply, Some(config)) {
            Ok((handle, quinn)) => {
                let bounds = (*site.listener.times, site.bounds.settings.streams_max);
                let http3 = site.speaks_http().then(Box::default);
                let connections = &mut self.connections;
                let key = connections.insert_with(|key| {
                    let holding = Holding::new(unsent, peer.ip(), place, key);
                    let addresses = (peer, local);
                    let quinn = (quinn, handle);
                    Connection::new(
                        quinn,
                        site_key,
                        addresses,
                        bounds,
                        (holding, half_open),
                        http3,
                        cx.now,
                    )
                });
                site.connections.insert(handle, key);
                cx.counters.add(cx.counters.quic_accepted, 1);
                self.mark(key);
            }
            Err(refused) => {
                if let Some(transmit) = refused.response {
                    self.queue(site_key, &transmit, reply, cx);
                }
            }
        }
    }
}

/// Counts and logs that a connection ended for its client's certificate, if it did.
pub(super) fn note_untrusted(peer: SocketAddr, reason: &ConnectionError, cx: &mut Context<'_>) {
    let ConnectionError::TransportError(error) = reason else { return };
    // Alerts of TLS have the codes 0x100 to 0x1ff (RFC 9001 section 4.8).
    let alert = u64::from(error.code).checked_sub(0x100).and_then(|alert| u8::try_from(alert).ok());
    let untrusted = alert.and_then(|alert| Untrusted::of_alert(alert, &error.reason));
    if let Some(untrusted) = untrusted {
        cx.counters.add(cx.counters.quic_untrusted, 1);
        cx.worker.note_untrusted(cx.now, peer, &untrusted);
    }
}
