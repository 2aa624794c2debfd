//! Places of open connections: whose client has shown its address takes one, if need be that of a
//! connection that is idle.

use super::books::Seat;
use super::connection::{Phase, code};
use super::server::QuicServer;
use crate::context::Context;
use crate::slots::Key;
use crate::tcp::Full;
use nodens_core::Group;
use std::collections::HashMap;
use std::net::IpAddr;

impl QuicServer {
    /// Gives a connection its places; says whether there were any.
    pub(super) fn seat(&mut self, key: Key, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.connections.get(key) else { return false };
        let (site_key, client) = (connection.site, connection.peer.ip());
        let mut place = self.books.clients.take(client);
        if let Err(full) = &place {
            let wanted = match full {
                Full::Group(group) => Some(*group),
                Full::All => None,
            };
            if self.evict(None, wanted, cx) {
                place = self.books.clients.take(client);
            }
        }
        let Ok(place) = place else { return false };
        let mut seat = self.take_seat(site_key);
        if seat.is_none() && self.evict(Some(site_key), None, cx) {
            seat = self.take_seat(site_key);
        }
        let Some(connection) = self.connections.get_mut(key) else { return false };
        connection.place = Some(place);
        connection.seat = seat;
        connection.seat.is_some()
    }

    fn take_seat(&self, site: Key) -> Option<Seat> {
        let site = self.sites.get(site)?;
        Seat::take(&site.counts, site.bounds.settings.connections_max)
    }

    /// Whether a connection at this socket could make room.
    pub(super) fn has_idle(&self, site: Key) -> bool {
        self.connections.iter().any(|(_, own)| own.site == site && own.may_go())
    }

    /// Closes the connection that has been idle for longest: of those at a socket, and of a group. Of the
    /// client that has most of them, if no group is named.
    fn evict(&mut self, site: Option<Key>, group: Option<Group>, cx: &mut Context<'_>) -> bool {
        let at = self.instant(cx.now);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let is_of = |own: &super::connection::Connection| {
            own.phase == Phase::Open
                && site.is_none_or(|site| own.site == site)
                && group.is_none_or(|group| group.contains(own.peer.ip()))
        };
        for (_, own) in self.connections.iter().filter(|(_, own)| is_of(own)) {
            *counts.entry(own.peer.ip()).or_default() += 1;
        }
        let idle = self.connections.iter().filter(|(_, own)| is_of(own) && own.may_go());
        let rank = |own: &super::connection::Connection| {
            let count = counts.get(&own.peer.ip()).copied().unwrap_or_default();
            (std::cmp::Reverse(count), own.active_at)
        };
        let Some((key, _)) = idle.min_by_key(|(_, own)| rank(own)) else { return false };
        let Some(connection) = self.connections.get_mut(key) else { return false };
        cx.counters.add(cx.counters.evicted, 1);
        connection.close(code::NO_ERROR, "", at);
        self.discard(key, cx);
        true
    }
}
