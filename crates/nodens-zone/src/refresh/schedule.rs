//! The zones of a server in the order of their times.

use super::{Action, End, Refresh, State, nanoseconds};
use crate::limits::{PACED_BURST, PACED_INTERVAL, REFRESHES_AT_ONCE};
use crate::serial::Serial;
use foldhash::fast::RandomState;
use nodens_wire::SharedName;
use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeSet, HashMap};

/// Names one query or transfer of a [`Schedule`] for good, so that what comes of it does not count for
/// a later one: a zone may be removed and added again meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

/// The zones of a secondary. A zone costs nothing until its time.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Boxed, so that the table of a hundred thousand stays small.
    pub(super) zones: HashMap<SharedName, Box<Entry>, RandomState>,
    pub(super) orders: Orders,
    /// When the next of those in [`Orders::paced`] is asked for.
    paced_at: u64,
    /// Tokens given so far.
    tokens: u64,
}

/// What is to be done next.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Zones by the time when a primary is to be asked.
    pub(super) due: BTreeSet<(u64, SharedName)>,
    /// The same of those that were restored, or whose last attempt has failed and of which there is no version.
    pub(super) paced: BTreeSet<(u64, SharedName)>,
    /// Zones by the time when they expire.
    pub(super) expiring: BTreeSet<(u64, SharedName)>,
    /// Queries and transfers under way.
    pub(super) under_way: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    name: SharedName,
    pub(super) refresh: Refresh,
    /// Where it stands in [`Orders::due`] or [`Orders::paced`].
    due_at: Option<u64>,
    is_paced: bool,
    /// Where it stands in [`Orders::expiring`].
    expires_at: Option<u64>,
    under_way: bool,
    /// Whether what is under way waits for its turn.
    is_held: bool,
    /// Of the last query or transfer.
    token: Option<Token>,
}

impl Schedule {
    /// Adds a zone, in the place of the one of that name. Gives its [times](Schedule::times).
    pub fn insert(
        &mut self,
        zone: impl Into<SharedName>,
        refresh: Refresh,
    ) -> (Option<u64>, Option<u64>) {
        let name = zone.into();
        let entry = Entry {
            name: name.clone(),
            refresh,
            due_at: None,
            is_paced: false,
            expires_at: None,
            under_way: false,
            is_held: false,
            token: None,
        };
        let entry = match self.zones.entry(name) {
            Place::Occupied(place) => {
                let place = place.into_mut();
                self.orders.take(std::mem::replace(place, entry));
                place
            }
            Place::Vacant(place) => place.insert(Box::new(entry)),
        };
        self.orders.put(entry);
        (entry.due_at, entry.expires_at)
    }

    /// Makes room for so many more zones at once: it would be copied each time that it has doubled.
    pub fn reserve(&mut self, more: usize) {
        self.zones.reserve(more);
    }

    /// Forgets a zone.
    pub fn remove(&mut self, zone: &SharedName) {
        let entry = self.zones.remove(zone);
        entry.into_iter().for_each(|entry| self.orders.take(*entry));
    }

    /// See [`Refresh::next_deadline`].
    pub fn next_deadline(&self) -> Option<u64> {
        let due = self.orders.due.first().filter(|_| self.has_room()).map(|(at, _)| *at);
        let paced = self.orders.paced.first().filter(|_| self.has_room());
        let paced = paced.map(|(at, _)| self.paced_at.max(*at));
        let expires_at = self.orders.expiring.first().map(|(at, _)| *at);
        due.into_iter().chain(paced).chain(expires_at).min()
    }

    /// Whether another query or transfer may be under way.
    pub fn has_room(&self) -> bool {
        self.orders.under_way < REFRESHES_AT_ONCE
    }

    /// What is to be done now, for which zone. At most [`REFRESHES_AT_ONCE`] queries and transfers are
    /// under way; what is due meanwhile waits for the end of one, but no zone is served for longer. Zones that were
    /// [restored](Refresh::restore), and those of which there is no version after an attempt, are asked for
    /// [`PACED_INTERVAL`] apart, unless a primary has sent NOTIFY.
    /// [`Schedule::ended`] wants the token; [`Action::Expire`] does not end.
    pub fn poll(&mut self, now_ns: u64) -> Option<(SharedName, Action, Token)> {
        loop {
            let due = self.orders.due.first().filter(|_| self.has_room());
            let may_pace = self.has_room() && self.paced_at <= now_ns;
            let paced = self.orders.paced.first().filter(|_| may_pace);
            let mut next = self.orders.expiring.first().into_iter().chain(due).chain(paced);
            let (_, zone) = next.find(|(at, _)| *at <= now_ns)?.clone();
            if self.zones.get(&zone).is_some_and(|entry| entry.is_paced) {
                let from = self.paced_at.max(now_ns.saturating_sub(nanoseconds(PACED_BURST)));
                self.paced_at = from.saturating_add(nanoseconds(PACED_INTERVAL));
            }
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

    /// Puts a query or transfer that [`Schedule::poll`] gave on hold (`waits`), or takes it off hold. On hold it does not
    /// count against [`REFRESHES_AT_ONCE`], and [`Schedule::poll`] gives no other one for the zone. Gives false, and changes
    /// nothing, if `token` is not that of the zone's last query or transfer.
    pub fn hold(&mut self, zone: &SharedName, token: Token, waits: bool) -> bool {
        let entry = self.zones.get_mut(zone).filter(|entry| entry.token == Some(token));
        let Some(entry) = entry else { return false };
        entry.is_held = waits;
        self.change(zone, |_| ());
        true
    }

    /// When a primary of the zone is asked next, and when the zone expires.
    pub fn times(&self, zone: &SharedName) -> (Option<u64>, Option<u64>) {
        let entry = self.zones.get(zone);
        entry.map_or((None, None), |entry| (entry.due_at, entry.expires_at))
    }

    /// Whether the token is that of the zone's last query or transfer.
    pub fn is_current(&self, zone: &SharedName, token: Token) -> bool {
        self.zones.get(zone).is_some_and(|entry| entry.token == Some(token))
    }

    /// See [`Refresh::ended`]. Nothing comes of a token that is not that of the zone's last query or
    /// transfer.
    pub fn ended(&mut self, zone: &SharedName, token: Token, now_ns: u64, end: End, random: u32) {
        if self.is_current(zone, token) {
            self.change(zone, |refresh| refresh.ended(now_ns, end, random));
        }
    }

    /// See [`Refresh::notified`].
    pub fn notified(&mut self, zone: &SharedName, primary: usize, serial: Option<Serial>) {
        self.change(zone, |refresh| refresh.notified(primary, serial));
    }

    /// Changes a zone's state, and its place in the order.
    fn change<T>(
        &mut self,
        zone: &SharedName,
        change: impl FnOnce(&mut Refresh) -> T,
    ) -> Option<T> {
        let entry = self.zones.get_mut(zone)?;
        let result = change(&mut entry.refresh);
        self.orders.put(entry);
        Some(result)
    }
}

impl Orders {
    /// Puts a zone where its state wants it.
    fn put(&mut self, entry: &mut Entry) {
        let Entry { name, refresh, due_at, is_paced, expires_at, .. } = entry;
        let (mut from, mut to) = (&mut self.due, &mut self.paced);
        if *is_paced {
            std::mem::swap(&mut from, &mut to);
        }
        if refresh.is_patient() == *is_paced {
            put(from, due_at, name, refresh.next_request());
        } else {
            put(from, due_at, name, None);
            put(to, due_at, name, refresh.next_request());
            *is_paced = !*is_paced;
        }
        put(&mut self.expiring, expires_at, name, refresh.expires_at);
        let under_way = matches!(entry.refresh.state, State::UnderWay(_)) && !entry.is_held;
        self.under_way += usize::from(under_way);
        self.under_way -= usize::from(std::mem::replace(&mut entry.under_way, under_way));
    }

    /// Takes a zone out.
    fn take(&mut self, entry: Entry) {
        let Entry { name, mut due_at, is_paced, mut expires_at, under_way, .. } = entry;
        let order = if is_paced { &mut self.paced } else { &mut self.due };
        put(order, &mut due_at, &name, None);
        put(&mut self.expiring, &mut expires_at, &name, None);
        self.under_way -= usize::from(under_way);
    }
}

/// Moves a zone from where it stands in `order` to `at`.
fn put(
    order: &mut BTreeSet<(u64, SharedName)>,
    stands: &mut Option<u64>,
    zone: &SharedName,
    at: Option<u64>,
) {
    if *stands != at {
        stands.iter().for_each(|at| _ = order.remove(&(*at, zone.clone())));
        order.extend(at.map(|at| (at, zone.clone())));
        *stands = at;
    }
}
