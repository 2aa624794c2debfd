//! What happens to connections when a time has come.

use super::connections::Connections;
use super::outcome::dial_timeout;
use crate::context::Context;
use crate::limits::CONNECT_TIMEOUT;
use crate::quic::code;
use crate::slots::Key;
use crate::tcp::NEVER;
use crate::upstream::Places;
use crate::upstream::pool;
use nodens_core::upstream::Fault;
use std::cmp::Reverse;

impl Connections {
    pub(in crate::upstream) fn is_empty(&self) -> bool {
        self.open.len() == 0
    }

    /// When [`Connections::tick`] has something to look at.
    pub(in crate::upstream) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    /// Looks after the timers of QUIC that have run out.
    pub(in crate::upstream) fn tick(&mut self, cx: &Context<'_>) {
        let at = self.clock.instant(cx.now);
        while let Some(Reverse((due, key))) = self.deadlines.peek().copied() {
            if due > cx.now.mono_ns {
                return;
            }
            self.deadlines.pop();
            let Some(connection) = self.open.get_mut(key) else { continue };
            if connection.queued == due {
                connection.queued = NEVER;
                connection.time_out(at);
                self.mark(key);
            }
        }
    }

    /// Closes connections that were not made in time, are idle, or have had their time.
    pub(in crate::upstream) fn sweep(&mut self, places: &mut Places, cx: &mut Context<'_>) {
        let now = cx.now;
        let is_late = |own: &super::connection::Connection| {
            !own.record.connected && now.since(own.record.opened_at) >= CONNECT_TIMEOUT
        };
        for key in self.open.keys(is_late) {
            if let Some(text) = self.open.get(key).map(dial_timeout) {
                self.fail_closed(key, &Fault::Connect(text), places, cx);
            }
        }
        for key in pool::over(&self.open, now) {
            self.close(key, places, cx);
        }
        self.manners.sweep(now);
        let surplus = self.by_upstream.values().flat_map(|keys| pool::surplus(&self.open, keys));
        for key in surplus.collect::<Vec<_>>() {
            self.close(key, places, cx);
        }
        self.by_upstream.retain(|_, keys| !keys.is_empty());
    }

    /// Closes all connections.
    pub(in crate::upstream) fn close_all(&mut self, places: &mut Places, cx: &mut Context<'_>) {
        for key in self.open.keys(|_| true) {
            self.close(key, places, cx);
        }
    }

    fn close(&mut self, key: Key, places: &mut Places, cx: &mut Context<'_>) {
        let fault = Fault::Broken("use of closed network connection".to_owned());
        self.fail(key, &fault, (code::NO_ERROR, ""), places, cx);
    }
}
