//! What happens to connections when a time has come.

use super::connection::code;
use super::server::QuicServer;
use crate::context::Context;
use crate::slots::{Key, Slots};
use crate::tcp::NEVER;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines that have moved or are of closed connections, and are no reason to look for them.
const DEADLINES_FEW: usize = 64;

/// When connections have to be looked at, the next first.
pub(crate) type Deadlines = BinaryHeap<Reverse<(u64, Key)>>;

/// Drops deadlines that are not those of `queued` any more once they are the majority: clients that come
/// and go, and timers of QUIC that move, would else leave one each for as long as a connection may be
/// idle.
pub(crate) fn tidy<T>(deadlines: &mut Deadlines, all: &Slots<T>, queued: impl Fn(&T) -> u64) {
    let enough = 2 * all.len() + DEADLINES_FEW;
    if deadlines.len() > enough {
        let mut true_ones = std::mem::take(deadlines).into_vec();
        true_ones.retain(|Reverse((at, key))| all.get(*key).is_some_and(|one| queued(one) == *at));
        // One that another went before is queued again afterwards.
        true_ones.sort_unstable();
        true_ones.dedup();
        true_ones.shrink_to(enough);
        *deadlines = true_ones.into();
    }
}

impl QuicServer {
    /// When [`QuicServer::tick`] has something to look at.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let first = self.deadlines.peek().map_or(NEVER, |Reverse((at, _))| *at);
        Some(first.min(self.row_at)).filter(|at| *at != NEVER)
    }

    /// Looks after the connections whose deadline has passed.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        while let Some(Reverse((at, key))) = self.deadlines.peek().copied() {
            if at > cx.now.mono_ns {
                return;
            }
            self.deadlines.pop();
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.queued != at {
                continue;
            }
            connection.queued = NEVER;
            self.time_out(key, cx);
            self.mark(key);
        }
    }

    fn time_out(&mut self, key: Key, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.quinn.handle_timeout(at);
        if connection.partial_at <= cx.now.mono_ns {
            self.end_partial(key, cx);
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.deadline() > cx.now.mono_ns {
            return;
        }
        cx.counters.add(cx.counters.quic_timed_out, 1);
        let code = if connection.is_idle() { code::NO_ERROR } else { code::EXCESSIVE_LOAD };
        connection.close(code, "", at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_that_have_moved_leave_nothing() {
        let mut all: Slots<u64> = Slots::default();
        let mut deadlines = Deadlines::new();
        let stays = all.insert(7_000_000);
        deadlines.push(Reverse((7_000_000, stays)));
        for turn in 0..10_000_u64 {
            // It comes, its timer moves on, and it goes.
            let key = all.insert(9_000_000 - turn);
            deadlines.push(Reverse((9_000_000, key)));
            deadlines.push(Reverse((9_000_000 - turn, key)));
            tidy(&mut deadlines, &all, |queued| *queued);
            all.remove(key);
            assert!(deadlines.len() <= 4 + DEADLINES_FEW, "{}", deadlines.len());
        }
        let first = deadlines.pop();
        assert_eq!(first, Some(Reverse((7_000_000, stays))));
    }

    #[test]
    fn a_deadline_stands_once_however_often_it_comes_back() {
        let mut all: Slots<u64> = Slots::default();
        let mut deadlines = Deadlines::new();
        let key = all.insert(5);
        for _ in 0..10_000 {
            deadlines.push(Reverse((5, key)));
            tidy(&mut deadlines, &all, |queued| *queued);
            assert!(deadlines.len() <= 3 + DEADLINES_FEW, "{}", deadlines.len());
        }
    }
}
