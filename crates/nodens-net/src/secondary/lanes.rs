//! How many zones may ask one primary at the same time, and those that wait for their turn.

use super::exchange::nanoseconds;
use crate::limits::{PORTS_PAUSE, PORTS_PAUSES_MAX};
use nodens_wire::SharedName;
use nodens_zone::limits::{REFRESHES_AT_ONCE, REFRESHES_UNHEARD};
use nodens_zone::refresh::{Action, Token};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// What a schedule said is to be done.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The keeper's number of the directive.
    pub(super) area: usize,
    pub(super) zone: SharedName,
    pub(super) action: Action,
    pub(super) token: Token,
}

/// A directive and a primary.
pub(super) type Way = (usize, SocketAddr);

#[derive(Debug, Default)]
struct Lane {
    /// Exchanges under way.
    open: usize,
    /// The primary has said something since it last said nothing.
    heard: bool,
    waiting: VecDeque<Task>,
    /// No connection is begun before, as there was no port for one.
    paused_until: u64,
    /// How often that was so since the last connection.
    pauses: u32,
}

impl Lane {
    /// Whether another exchange may begin beside so many of the same directive. With one primary never more are under way
    /// than are left for others, and few until it has said something: primaries that say nothing would otherwise keep
    /// all of them for half a minute.
    fn has_room(&self, open_of_directive: usize) -> bool {
        let most = if self.heard { REFRESHES_AT_ONCE } else { REFRESHES_UNHEARD };
        self.open < most.min(REFRESHES_AT_ONCE.saturating_sub(open_of_directive))
    }
}

/// The exchanges of each directive with each primary. Times are monotonic nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<Way, Lane>,
    /// Exchanges under way by directive.
    open: HashMap<usize, usize>,
    /// Those that waited for a primary and need not any more.
    released: VecDeque<Task>,
}

impl Lanes {
    /// These are all exchanges that are under way, and whether the primary has said something in them.
    pub(super) fn count(&mut self, open: impl Iterator<Item = (Way, bool)>) {
        self.lanes.values_mut().for_each(|lane| lane.open = 0);
        self.open.clear();
        for (way, heard) in open {
            let lane = self.lanes.entry(way).or_default();
            lane.open += 1;
            lane.heard |= heard;
            *self.open.entry(way.0).or_default() += 1;
        }
        self.lanes.retain(|_, lane| lane.open > 0 || lane.pauses > 0 || !lane.waiting.is_empty());
    }

    /// Whether another exchange may begin, which counts from now on.
    pub(super) fn begin(&mut self, way: Way, now: u64) -> bool {
        let open = self.open.entry(way.0).or_default();
        let lane = self.lanes.entry(way).or_default();
        let may = lane.has_room(*open) && lane.paused_until <= now;
        lane.open += usize::from(may);
        *open += usize::from(may);
        may
    }

    /// The primary has said something.
    pub(super) fn heard(&mut self, way: Way) {
        self.lanes.entry(way).or_default().heard = true;
    }

    /// Whether an exchange that was to begin has a connection.
    pub(super) fn begun(&mut self, way: Way, has_connection: bool) {
        let lane = self.lanes.entry(way).or_default();
        match has_connection {
            true => lane.pauses = 0,
            false => {
                lane.open = lane.open.saturating_sub(1);
                let open = self.open.entry(way.0).or_default();
                *open = open.saturating_sub(1);
            }
        }
    }

    /// There is no port for another connection: none is begun for a while. False if that was so for too long.
    pub(super) fn pause(&mut self, way: Way, now: u64) -> bool {
        let lane = self.lanes.entry(way).or_default();
        if lane.pauses >= PORTS_PAUSES_MAX {
            return false;
        }
        lane.pauses += 1;
        lane.paused_until = now.saturating_add(nanoseconds(PORTS_PAUSE));
        true
    }

    /// This has to wait for others with the same primary.
    pub(super) fn wait(&mut self, way: Way, task: Task) {
        self.lanes.entry(way).or_default().waiting.push_back(task);
    }

    /// What waits for this primary is looked at again: it does not answer, and there may be others.
    pub(super) fn release(&mut self, address: SocketAddr) {
        let lanes = self.lanes.iter_mut().filter(|((_, own), _)| *own == address);
        for (_, lane) in lanes {
            lane.heard = false;
            self.released.append(&mut lane.waiting);
        }
    }

    /// What has waited for long enough, where the directive `has_room` for more.
    pub(super) fn next(&mut self, now: u64, has_room: impl Fn(usize) -> bool) -> Option<Task> {
        self.released.pop_front().or_else(|| {
            let mut ways = self.with_room(has_room);
            let way = ways.find(|(_, lane)| lane.paused_until <= now).map(|(way, _)| *way)?;
            drop(ways);
            self.lanes.get_mut(&way)?.waiting.pop_front()
        })
    }

    /// When there will be such, as far as that is known.
    pub(super) fn next_deadline(&self, has_room: impl Fn(usize) -> bool) -> Option<u64> {
        let soonest = self.with_room(has_room).map(|(_, lane)| lane.paused_until).min();
        if self.released.is_empty() { soonest } else { Some(0) }
    }

    /// Those where something waits that may begin, but for pauses.
    fn with_room(&self, has_room: impl Fn(usize) -> bool) -> impl Iterator<Item = (&Way, &Lane)> {
        self.lanes.iter().filter(move |((area, _), lane)| {
            let open = self.open.get(area).copied().unwrap_or(0);
            !lane.waiting.is_empty() && lane.has_room(open) && has_room(*area)
        })
    }
}
