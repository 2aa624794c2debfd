//! The zones of a server in the order of their times.

use super::{Action, End, Refresh, State, nanoseconds};
use crate::limits::{REFRESHES_AT_ONCE, RESTORED_INTERVAL};
use crate::serial::Serial;
use foldhash::fast::RandomState;
use nodens_wire::Name;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Names one query or transfer of a [`Schedule`] for good, so that what comes of it does not count for
/// a later one: a zone may be removed and added again meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

/// The zones of a secondary. A zone costs nothing until its time.
#[derive(Debug, Default)]
pub struct Schedule {
    pub(super) zones: HashMap<Arc<Name>, Entry, RandomState>,
    /// Zones by the time when a primary is to be asked.
    pub(super) due: BTreeSet<(u64, Arc<Name>)>,
    /// Zones by the time when they expire.
    pub(super) expiring: BTreeSet<(u64, Arc<Name>)>,
    /// Queries and transfers under way.
    pub(super) under_way: usize,
    /// When the next zone that was restored is asked for.
    restored_at: u64,
    /// Tokens given so far.
    tokens: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    name: Arc<Name>,
    pub(super) refresh: Refresh,
    /// Where it stands in [`Schedule::due`].
    due_at: Option<u64>,
    /// Where it stands in [`Schedule::expiring`].
    expires_at: Option<u64>,
    under_way: bool,
    /// Whether what is under way waits for its turn.
    is_held: bool,
    /// Of the last query or transfer.
    token: Option<Token>,
}

impl Schedule {
    /// Adds a zone, in the place of the one of that name. Those that were [restored](Refresh::restore) are asked for one
    /// after the other, [`RESTORED_INTERVAL`] apart; NOTIFY has one asked for at once.
    pub fn insert(&mut self, zone: impl Into<Arc<Name>>, mut refresh: Refresh) {
        let zone = zone.into();
        self.remove(&zone);
        if refresh.postpone(self.restored_at) {
            let at = refresh.next_request().unwrap_or_default();
            self.restored_at = at.saturating_add(nanoseconds(RESTORED_INTERVAL));
        }
        let (due_at, expires_at, under_way, is_held, token) = (None, None, false, false, None);
        let name = zone.clone();
        let entry = Entry { name, refresh, due_at, expires_at, under_way, is_held, token };
        self.zones.insert(zone.clone(), entry);
        self.change(&zone, |_| ());
    }

    /// Forgets a zone.
    pub fn remove(&mut self, zone: &Name) {
        let Some(entry) = self.zones.remove(zone) else { return };
        let Entry { name, mut due_at, mut expires_at, under_way, .. } = entry;
        put(&mut self.due, &mut due_at, &name, None);
        put(&mut self.expiring, &mut expires_at, &name, None);
        self.under_way -= usize::from(under_way);
    }

    /// See [`Refresh::next_deadline`].
    pub fn next_deadline(&self) -> Option<u64> {
        let due = self.due.first().filter(|_| self.has_room());
        due.into_iter().chain(self.expiring.first()).map(|(at, _)| *at).min()
    }

    /// Whether another query or transfer may be under way.
    pub fn has_room(&self) -> bool {
        self.under_way < REFRESHES_AT_ONCE
    }

    /// What is to be done now, for which zone. At most [`REFRESHES_AT_ONCE`] queries and transfers are
    /// under way; what is due meanwhile waits for the end of one, but no zone is served for longer.
    /// [`Schedule::ended`] wants the token; [`Action::Expire`] does not end.
    pub fn poll(&mut self, now_ns: u64) -> Option<(Arc<Name>, Action, Token)> {
        loop {
            let due = self.due.first().filter(|_| self.has_room());
            let mut next = self.expiring.first().into_iter().chain(due);
            let (_, zone) = next.find(|(at, _)| *at <= now_ns)?.clone();
            let Some(action) = self.change(&zone, |refresh| refresh.poll(now_ns)).flatten() else {
                continue;
            };
            self.tokens += 1;
            let token = Token(self.tokens);
            let entry = self.zones.get_mut(&zone).filter(|_| action != Action::Expire);
            entry.into_iter().for_each(|entry| entry.token = Some(token));
            return Some((zone, action, token));
        }
    }

    /// What [`Schedule::poll`] gave has to wait, or not any more. Meanwhile it is none of those under way, and nothing else
    /// is to be done for the zone. False if the token is not that of the zone's last query or transfer.
    pub fn hold(&mut self, zone: &Name, token: Token, waits: bool) -> bool {
        let entry = self.zones.get_mut(zone).filter(|entry| entry.token == Some(token));
        let Some(entry) = entry else { return false };
        entry.is_held = waits;
        self.change(zone, |_| ());
        true
    }

    /// When a primary of the zone is asked next, and when the zone expires.
    pub fn times(&self, zone: &Name) -> (Option<u64>, Option<u64>) {
        let entry = self.zones.get(zone);
        entry.map_or((None, None), |entry| (entry.due_at, entry.expires_at))
    }

    /// Whether the token is that of the zone's last query or transfer.
    pub fn is_current(&self, zone: &Name, token: Token) -> bool {
        self.zones.get(zone).is_some_and(|entry| entry.token == Some(token))
    }

    /// See [`Refresh::ended`]. Nothing comes of a token that is not that of the zone's last query or
    /// transfer.
    pub fn ended(&mut self, zone: &Name, token: Token, now_ns: u64, end: End, random: u32) {
        if self.is_current(zone, token) {
            self.change(zone, |refresh| refresh.ended(now_ns, end, random));
        }
    }

    /// See [`Refresh::notified`].
    pub fn notified(&mut self, zone: &Name, primary: usize, serial: Option<Serial>) {
        self.change(zone, |refresh| refresh.notified(primary, serial));
    }

    /// Changes a zone's state, and its place in the order.
    fn change<T>(&mut self, zone: &Name, change: impl FnOnce(&mut Refresh) -> T) -> Option<T> {
        let entry = self.zones.get_mut(zone)?;
        let result = change(&mut entry.refresh);
        let Entry { name, refresh, due_at, expires_at, .. } = entry;
        put(&mut self.due, due_at, name, refresh.next_request());
        put(&mut self.expiring, expires_at, name, refresh.expires_at);
        let under_way = matches!(entry.refresh.state, State::UnderWay(_)) && !entry.is_held;
        self.under_way += usize::from(under_way);
        self.under_way -= usize::from(std::mem::replace(&mut entry.under_way, under_way));
        Some(result)
    }
}

/// Moves a zone from where it stands in `order` to `at`.
fn put(
    order: &mut BTreeSet<(u64, Arc<Name>)>,
    stands: &mut Option<u64>,
    zone: &Arc<Name>,
    at: Option<u64>,
) {
    if *stands != at {
        stands.iter().for_each(|at| _ = order.remove(&(*at, zone.clone())));
        order.extend(at.map(|at| (at, zone.clone())));
        *stands = at;
    }
}
