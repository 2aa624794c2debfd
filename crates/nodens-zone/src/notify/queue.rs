//! Who is told next: each server at a bounded rate, of changes before what it hears at the beginning.

use super::nanoseconds;
use crate::limits::{NOTIFY_BURST, NOTIFY_PAUSE};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A target: the number of its notice, and its index there.
pub(super) type Place = (u32, usize);

/// How much a notice matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rank {
    /// The zone has changed, or come.
    #[default]
    Change,
    /// It was there at the beginning. The server has probably heard of that version before.
    Initial,
}

/// Where a target stands: when there is something to do, monotonic nanoseconds.
pub(super) type Due = (Rank, u64);

/// Targets with something to do, by server.
#[derive(Debug, Default)]
pub(super) struct Queue(BTreeMap<SocketAddr, Server>);

#[derive(Debug, Default)]
struct Server {
    /// By time, for each [`Rank`].
    due: [BTreeSet<(u64, Place)>; 2],
    /// Messages that may be sent until `burst_until`.
    burst: u32,
    burst_until: u64,
}

impl Server {
    fn of(&mut self, rank: Rank) -> &mut BTreeSet<(u64, Place)> {
        let [changes, initial] = &mut self.due;
        match rank {
            Rank::Change => changes,
            Rank::Initial => initial,
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let first = |due: &BTreeSet<(u64, Place)>| due.first().map(|(at, _)| *at);
        let at = self.due.iter().filter_map(first).min()?;
        Some(if self.burst == 0 { self.burst_until.max(at) } else { at })
    }
}

impl Queue {
    /// Moves a target of the server `to` from where it stands to `due`.
    pub(super) fn put(
        &mut self,
        to: SocketAddr,
        stands: &mut Option<Due>,
        place: Place,
        due: Option<Due>,
    ) {
        if *stands == due {
            return;
        }
        let server =
            self.0.entry(to).or_insert_with(|| Server { burst: NOTIFY_BURST, ..Server::default() });
        if let Some((rank, at)) = std::mem::replace(stands, due) {
            server.of(rank).remove(&(at, place));
        }
        if let Some((rank, at)) = due {
            server.of(rank).insert((at, place));
        }
    }

    /// Allows the servers their messages whose pause is over; gives all that wait for any.
    pub(super) fn begin(&mut self, now_ns: u64) -> Vec<SocketAddr> {
        self.0.retain(|_, server| {
            let has_rested = now_ns >= server.burst_until;
            if has_rested {
                server.burst = NOTIFY_BURST;
                server.burst_until = now_ns.saturating_add(nanoseconds(NOTIFY_PAUSE));
            }
            !has_rested || server.due.iter().any(|due| !due.is_empty())
        });
        self.0.keys().copied().collect()
    }

    /// Takes what is to be done next for a server, if it may be sent a message.
    pub(super) fn pop(&mut self, to: SocketAddr, now_ns: u64) -> Option<Place> {
        let server = self.0.get_mut(&to).filter(|server| server.burst > 0)?;
        let is_due =
            |due: &&mut BTreeSet<(u64, Place)>| due.first().is_some_and(|(at, _)| *at <= now_ns);
        server.due.iter_mut().find(is_due)?.pop_first().map(|(_, place)| place)
    }

    /// A message is sent.
    pub(super) fn count(&mut self, to: SocketAddr) {
        if let Some(server) = self.0.get_mut(&to) {
            server.burst = server.burst.saturating_sub(1);
        }
    }

    /// When there is something to be done.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.0.values().filter_map(Server::next_deadline).min()
    }
}
