//! Room at listeners that may have few connections: an idle one makes room for a new one, or one of a client
//! that has more than a share of all.

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::few::{Entry, Few};
use super::pressure::idle_since;
use super::server::TcpServer;
use crate::context::Context;
use nodens_core::Group;
use std::net::IpAddr;

impl TcpServer {
    /// Takes a place for a client among the few connections of a listener, if need be that of another.
    pub(super) fn enter(
        &mut self,
        few: &Few,
        (endpoint, client): (u32, IpAddr),
        cx: &Context<'_>,
    ) -> Option<Entry> {
        let mut entry = few.enter(client);
        if entry.is_some() && few.is_short() {
            few.end_shortage();
        }
        if entry.is_none() {
            // Who has more than a share has no room made by others.
            let of = few.is_greedy(client).then(|| Group::client(client));
            if self.make_room_of((endpoint, of), cx)
                || self.displace(endpoint, few.debtors(client), cx)
            {
                entry = few.enter(client);
            }
        }
        if entry.is_none() {
            // Who can make room is with another worker; the next one gets that place.
            few.note_shortage(client);
            self.presses = true;
            cx.counters.add(cx.counters.evicted, 1);
        }
        entry
    }

    /// Closes the longest idle connection of a listener that may have few, of a group if one is given; says
    /// whether there was one.
    fn make_room_of(&mut self, (endpoint, of): (u32, Option<Group>), cx: &Context<'_>) -> bool {
        let connections = &self.connections;
        let idle_since = idle_since(connections, None, cx.now);
        let is_of = |key| match of {
            None => true,
            Some(group) => connections.get(key).is_some_and(|own| is_in(group, own)),
        };
        // Others are taken for busy: they stay in the queue.
        let since =
            |key| idle_since(key).map(|since| if is_of(key) { since } else { cx.now.mono_ns });
        let queue = self.idle_by_listener.get_mut(&endpoint);
        let longest = queue.and_then(|queue| queue.longest(cx.now.mono_ns, since));
        drop(idle_since);
        let Some(key) = longest else { return false };
        cx.counters.add(cx.counters.evicted, 1);
        self.evict(key, cx.now);
        true
    }

    /// Closes a connection of the first of these groups that has any here: the one whose last question or
    /// answer is longest ago. Says whether there was one.
    fn displace(&mut self, endpoint: u32, groups: Vec<Group>, cx: &Context<'_>) -> bool {
        let Some(queue) = self.idle_by_listener.get(&endpoint) else { return false };
        let longest = |group: Group| {
            let open = queue.keys().filter_map(|key| Some((key, self.connections.get(key)?)));
            let own = open.filter(|(_, own)| is_in(group, own));
            own.min_by_key(|(_, own)| own.active_at).map(|(key, _)| key)
        };
        let Some(key) = groups.into_iter().find_map(longest) else { return false };
        cx.counters.add(cx.counters.evicted, 1);
        self.evict(key, cx.now);
        true
    }

    /// Makes room at listeners that may have few connections, where another worker asked for it.
    pub(super) fn relieve_few(&mut self, cx: &Context<'_>) {
        let few = |endpoint: &Endpoint| {
            let few = endpoint.http.as_ref()?.few.as_ref()?;
            few.is_short().then_some((few.clone(), endpoint.id))
        };
        let short: Vec<_> = self.endpoints.iter().filter_map(few).collect();
        for (few, endpoint) in short {
            // One of the workers is enough.
            if few.end_shortage()
                && !self.make_room_of((endpoint, None), cx)
                && !self.displace(endpoint, few.debtors_of_awaited(), cx)
            {
                few.renew_shortage();
            }
        }
    }
}

fn is_in(group: Group, connection: &Connection) -> bool {
    group.contains(connection.addresses.peer().ip())
}
