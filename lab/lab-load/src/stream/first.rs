//! Connections before questions: those of the start, opened before the schedule begins, so that their
//! handshakes neither delay questions nor cost the generator its schedule. What they took stays in the
//! times of connecting, and their events count in the first second.

use super::Engine;
use crate::run::RunError;
use crate::shard::{Used, await_start};
use std::cmp::Reverse;
use std::io;

/// Connections of a thread that are being set up at once before the schedule: more would wait for each
/// other in this thread, and that would pass for the server's time.
const SETTING_UP_MAX: usize = 64;

impl Engine<'_> {
    /// Opens a connection for each client, if that is wanted, and waits for the start. A connection
    /// that cannot be had is asked for again by the first question that needs it.
    pub(super) fn start(&mut self) -> Result<Used, RunError> {
        if self.shard.config.streams.connects_first() {
            self.connect_all().map_err(RunError::Thread)?;
        }
        let used = await_start(self.shard)?;
        self.clock = self.shard.clock.get();
        self.session.started_unix_s = self.shard.started_unix_s();
        self.began = self.shard.now();
        self.count_from_start();
        Ok(used)
    }

    fn connect_all(&mut self) -> io::Result<()> {
        // Nothing is in flight, so nothing can time out.
        self.next_expire = u64::MAX;
        let mut next = 0;
        loop {
            let room = SETTING_UP_MAX.saturating_sub(self.setting_up());
            for client in (next..self.clients.len()).take(room) {
                _ = self.dial(client);
                next = client + 1;
            }
            let is_over = next == self.clients.len() && self.setting_up() == 0;
            if is_over || self.shard.stopped() || self.hopeless.is_some() {
                return Ok(());
            }
            self.receive(None)?;
            self.look_at_timers(self.shard.now());
        }
    }

    /// How many connections are neither set up nor given up.
    fn setting_up(&self) -> usize {
        self.connections.iter().filter(|(_, c)| c.status.opened.is_none()).count()
    }

    /// Time counts from the start of the schedule now: what was before it is at its beginning.
    fn count_from_start(&mut self) {
        (self.next_expire, self.last_answer) = (0, 0);
        self.timers.clear();
        self.clients.iter_mut().for_each(|client| client.rests_until = 0);
        self.session.tally.connections.count_in_first_second();
        let before = std::mem::take(&mut self.session.tally.cohorts);
        if let Some(first) = self.session.tally.cohort(0) {
            before.iter().for_each(|second| first.connect.merge(&second.connect));
        }
        let mut keys = Vec::with_capacity(self.connections.len());
        for (key, connection) in &mut self.connections {
            let status = &mut connection.status;
            (status.began, status.active) = (0, 0);
            status.connected = status.connected.map(|_| 0);
            status.opened = status.opened.map(|_| 0);
            connection.timer = u64::MAX;
            keys.push(key);
        }
        keys.into_iter().for_each(|key| self.arm(key));
    }

    /// Without that, clients that keep their connections ask for them as the schedule begins.
    pub(super) fn connect_at_start(&mut self) {
        let streams = &self.shard.config.streams;
        if streams.life.is_endless() && !streams.connects_first() {
            (0..self.clients.len()).for_each(|client| _ = self.dial(client));
        }
    }

    /// Goes on with connections whose time has come.
    pub(super) fn look_at_timers(&mut self, now: u64) {
        while let Some(Reverse((_, key, serial))) =
            self.timers.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.timers.pop();
            if self.connections.get(key).is_some_and(|c| c.serial == serial) {
                self.on_timer(key, now);
            }
        }
    }
}
