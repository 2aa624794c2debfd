//! The start of a run: the schedule begins when every thread is ready, its connections among that.

use crate::clock::Clock;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time between the moment at which all threads are ready and the start of the schedule.
const LEAD: Duration = Duration::from_millis(20);

/// Where threads wait for each other.
pub(crate) struct StartLine {
    threads: usize,
    wall: fn() -> SystemTime,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: usize,
    /// Threads that ended before the start.
    gone: usize,
    /// The clock of the run, once there is a start.
    clock: Option<Clock>,
}

impl StartLine {
    pub(crate) fn new(threads: usize, wall: fn() -> SystemTime) -> Self {
        Self { threads, wall, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for all other threads; the clock is one that starts when all of them know.
    pub(crate) fn wait(&self) -> Clock {
        let mut state = self.lock();
        state.ready += 1;
        self.begin_if_all(&mut state);
        loop {
            if let Some(clock) = state.clock {
                return clock;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The clock of the run, if it has started.
    pub(crate) fn clock(&self) -> Option<Clock> {
        self.lock().clock
    }

    /// Sees to it that a thread that ends without having been ready is not waited for.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_if_all(&self, state: &mut State) {
        if state.clock.is_none() && state.ready + state.gone >= self.threads {
            state.clock = Some(Clock::new(LEAD, self.wall));
            self.changed.notify_all();
        }
    }
}

/// Held by a thread as long as it runs.
pub(crate) struct Guard<'a>(&'a StartLine);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.clock.is_none() {
            state.gone += 1;
            self.0.begin_if_all(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thread_starts_the_clock_of_all_and_one_that_is_gone_is_not_waited_for() {
        let line = StartLine::new(3, SystemTime::now);
        std::thread::scope(|scope| {
            let waiting = [0, 1].map(|_| {
                scope.spawn(|| {
                    let _guard = line.guard();
                    line.wait().label()
                })
            });
            assert!(line.clock().is_none());
            drop(line.guard());
            let labels = waiting.map(|thread| thread.join().unwrap());
            assert_eq!(labels[0], labels[1]);
            assert_eq!(line.clock().unwrap().label(), labels[0]);
        });
    }
}
