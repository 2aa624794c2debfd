//! Places of open connections: whose client has shown its address takes one, if need be that of a
//! connection that is idle.

use super::books::Seat;
use super::connection::{Connection, Phase, code};
use super::server::QuicServer;
use super::site::Site;
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
        let seat = self.find_seat(site_key, client, cx);
        let Some(connection) = self.connections.get_mut(key) else { return false };
        connection.place = Some(place);
        connection.seat = seat;
        connection.seat.is_some()
    }

    /// Takes a place at a listener, if need be that of another connection.
    fn find_seat(&mut self, site: Key, client: IpAddr, cx: &mut Context<'_>) -> Option<Seat> {
        let seat = self.take_seat(site, client);
        if seat.is_some() {
            return seat;
        }
        let few = self.sites.get(site)?.few();
        // Who has more than a share has no room made by others.
        let of = few.is_greedy(client).then(|| Group::client(client));
        if self.evict(Some(site), of, cx) || self.displace(site, few.debtors(client), cx) {
            return self.take_seat(site, client);
        }
        self.ask_for_seat(site, client);
        None
    }

    fn take_seat(&self, site: Key, client: IpAddr) -> Option<Seat> {
        let site = self.sites.get(site)?;
        let seat = Seat::take(&site.counts, site.bounds.settings.connections_max, client)?;
        site.few().end_shortage();
        Some(seat)
    }

    /// Has other workers make room for a client; says whether any can.
    pub(super) fn ask_for_seat(&mut self, site: Key, client: IpAddr) -> bool {
        let Some(few) = self.sites.get(site).map(Site::few) else { return false };
        if few.debtors(client).is_empty() {
            return false;
        }
        few.note_shortage(client);
        self.presses = true;
        true
    }

    /// Whether a connection at a socket could make room for this client, or perhaps one of another worker.
    pub(super) fn may_have_room(&self, site: Key, client: IpAddr) -> bool {
        let Some(few) = self.sites.get(site).map(Site::few) else { return false };
        !few.debtors(client).is_empty() || self.has_idle(site)
    }

    /// Whether a connection at a socket could make room at once.
    pub(super) fn has_room(&self, site: Key, client: IpAddr) -> bool {
        let Some(few) = self.sites.get(site).map(Site::few) else { return false };
        let has_any = |group: &Group| self.latest(site, *group).is_some();
        self.has_idle(site) || few.debtors(client).iter().any(has_any)
    }

    fn has_idle(&self, site: Key) -> bool {
        self.connections.iter().any(|(_, own)| own.site == site && own.may_go())
    }

    /// Of the connections of a group at a socket, the one whose last query or answer is longest ago.
    fn latest(&self, site: Key, group: Group) -> Option<Key> {
        let is_of = |own: &Connection| {
            own.site == site && own.seat.is_some() && group.contains(own.peer.ip())
        };
        let own = self.connections.iter().filter(|(_, own)| is_of(own));
        own.min_by_key(|(_, own)| own.active_at).map(|(key, _)| key)
    }

    /// Closes a connection of the first of these groups that has any here; says whether there was one.
    fn displace(&mut self, site: Key, groups: Vec<Group>, cx: &mut Context<'_>) -> bool {
        let at = self.instant(cx.now);
        let Some(key) = groups.into_iter().find_map(|group| self.latest(site, group)) else {
            return false;
        };
        let Some(connection) = self.connections.get_mut(key) else { return false };
        cx.counters.add(cx.counters.evicted, 1);
        connection.close(code::EXCESSIVE_LOAD, "", at);
        self.discard(key, cx);
        true
    }

    /// Makes room where another worker asked for it, and closes connections that hold too much.
    pub(crate) fn relieve(&mut self, cx: &mut Context<'_>) {
        for site in self.sites.keys(|site| !site.retired && site.few().is_short()) {
            let Some(few) = self.sites.get(site).map(Site::few) else { continue };
            // One of the workers is enough.
            if few.end_shortage() && !self.displace(site, few.debtors_of_awaited(), cx) {
                few.renew_shortage();
            }
        }
        self.close_doomed(cx);
    }

    /// Closes the connection that has been idle for longest: of those at a socket, and of a group. Of the
    /// client that has most of them, if no group is named.
    fn evict(&mut self, site: Option<Key>, group: Option<Group>, cx: &mut Context<'_>) -> bool {
        let at = self.instant(cx.now);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let is_of = |own: &Connection| {
            own.phase == Phase::Open
                && site.is_none_or(|site| own.site == site)
                && group.is_none_or(|group| group.contains(own.peer.ip()))
        };
        for (_, own) in self.connections.iter().filter(|(_, own)| is_of(own)) {
            *counts.entry(own.peer.ip()).or_default() += 1;
        }
        let idle = self.connections.iter().filter(|(_, own)| is_of(own) && own.may_go());
        let rank = |own: &Connection| {
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
