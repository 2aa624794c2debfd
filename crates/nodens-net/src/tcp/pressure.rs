//! What is idle may stay for less time while few places are left.

use super::connection::{Connection, NEVER};
use super::server::TcpServer;
use crate::counters::Counters;
use crate::limits::{CLOSES_IN_A_ROW, PRESSURE_SWEEP_NS, SPARED_MAX};
use crate::slots::{Key, Slots};
use nodens_core::Group;
use nodens_core::Now;

/// Says since when a connection is idle, or nothing if it is closed, or not of `group` if one is given;
/// a busy one, or one whose client still takes a long
/// response, is idle since now.
pub(super) fn idle_since(
    connections: &Slots<Connection>,
    group: Option<Group>,
    now: Now,
) -> impl Fn(Key) -> Option<u64> + '_ {
    move |key| {
        let connection = connections.get(key)?;
        // It may have been passed on to the client that a proxy named.
        let is_own = group.is_none_or(|group| group.contains(connection.addresses.peer().ip()));
        let is_idle = connection.is_idle() && !connection.is_taking(now);
        is_own.then_some(if is_idle { connection.active_at } else { now.mono_ns })
    }
}

impl TcpServer {
    /// Begins to look over idle connections if few places are left; says whether it is news, so that
    /// the other workers do so too.
    pub(super) fn begin_sweeps(&mut self, now: Now) -> bool {
        let is_pressed = self.quota.has_pressure();
        let begins = self.sweep_at == NEVER && (is_pressed || !self.idle_by_group.is_empty());
        if begins {
            self.sweep_at = now.mono_ns;
        }
        begins && is_pressed
    }

    /// Closes connections that have been idle for longer than few places allow. Those that have been
    /// idle for longest are found first; a few at a time, so that queries do not wait.
    pub(super) fn sweep(&mut self, now: Now, counters: &Counters) {
        self.tidy_groups();
        if !self.quota.has_pressure() && self.idle_by_group.is_empty() {
            self.sweep_at = NEVER;
            return;
        }
        self.sweep_at = now.mono_ns.saturating_add(PRESSURE_SWEEP_NS);
        let mut spared = Vec::new();
        let mut closed = 0;
        while closed < CLOSES_IN_A_ROW && spared.len() < SPARED_MAX && self.quota.has_pressure() {
            let longest = self.idle.longest(now.mono_ns, idle_since(&self.connections, None, now));
            let Some(key) = longest else { break };
            let Some(connection) = self.connections.get(key) else { continue };
            let divisor = self.quota.idle_divisor(connection.addresses.peer().ip());
            if connection.may_idle_until(divisor) > now.mono_ns {
                // Others may have less time, or be of a network with fewer places.
                spared.push((key, connection.active_at));
                continue;
            }
            counters.add(counters.pressed, 1);
            self.evict(key, now);
            closed += 1;
        }
        if closed == CLOSES_IN_A_ROW {
            self.sweep_at = now.mono_ns;
        }
        spared.into_iter().for_each(|(key, active_at)| self.idle.enter(key, active_at));
    }

    /// Forgets what is known of clients that have few connections by now.
    fn tidy_groups(&mut self) {
        let (quota, connections) = (&self.quota, &self.connections);
        let size = |group| Some(quota.open_of(group)).filter(|open| *open > quota.small(group));
        self.idle_by_group.tidy(size, |key| connections.get(key).is_some());
    }
}
