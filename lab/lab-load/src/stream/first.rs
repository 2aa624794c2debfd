//! Connections before queries: those of the start, opened before the schedule begins, so that their
//! handshakes neither delay queries nor cost the generator its schedule. What they took stays in the
//! times of connecting, and their events count in the first second.

use super::Engine;
use crate::run::RunError;
use crate::shard::{Used, await_start, begin};
use std::cmp::Reverse;
use std::io;
use std::time::Duration;

/// Connections of a thread that are being set up at once before the schedule: more would wait for each
/// other in this thread, and that would pass for the server's time.
const SETTING_UP_MAX: usize = 64;
/// How long a thread that waits for the others sleeps between two looks for the start: less than the
/// lead that the start has.
const LOOK_STEP: Duration = Duration::from_millis(5);

impl Engine<'_> {
    /// Opens a connection for each client, if that is wanted, and waits for the start. A connection
    /// that cannot be had is asked for again by the first query that needs it.
    pub(super) fn start(&mut self) -> Result<Used, RunError> {
        let used = if self.shard.config.streams.connects_first() {
            self.connect_all().and_then(|()| self.tend_until_start()).map_err(RunError::Thread)?;
            begin(self.shard, self.shard.line.wait())?
        } else {
            await_start(self.shard)?
        };
        self.clock = self.shard.clock.get();
        self.session.started_unix_s = self.shard.started_unix_s();
        self.began = self.shard.now();
        self.count_from_start();
        Ok(used)
    }

    /// Nothing is asked for any more once a connection may take no longer, so that all of this takes
    /// twice that at most, however many clients there are and whatever the server does.
    fn connect_all(&mut self) -> io::Result<()> {
        // Nothing is in flight, so nothing can time out.
        self.next_expire = u64::MAX;
        self.shard.opening.want(self.clients.len());
        let until = self.shard.now().saturating_add(self.set_up_timeout);
        let (mut next, mut opened) = (0, 0);
        loop {
            if self.shard.now() >= until && next < self.clients.len() {
                self.shard.opening.skip(self.clients.len() - next);
                next = self.clients.len();
            }
            let room = SETTING_UP_MAX.saturating_sub(self.setting_up());
            for client in (next..self.clients.len()).take(room) {
                _ = self.dial(client);
                next = client + 1;
            }
            let all = self.session.tally.connections.opened;
            self.shard.opening.opened(all - std::mem::replace(&mut opened, all));
            let is_over = next == self.clients.len() && self.setting_up() == 0;
            if is_over || self.shard.stopped() || self.hopeless.is_some() {
                return Ok(());
            }
            self.receive(None)?;
            self.look_at_timers(self.shard.now());
        }
    }

    /// Waits for the other threads, and meanwhile answers what connections need: one that is not looked
    /// at is closed by its server, or by its own idle limit.
    fn tend_until_start(&mut self) -> io::Result<()> {
        self.shard.line.ready();
        while self.shard.line.clock().is_none() {
            self.receive_within(LOOK_STEP)?;
            self.look_at_timers(self.shard.now());
        }
        Ok(())
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

    /// Continues with connections whose time has come.
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
