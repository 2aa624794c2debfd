//! The start of a run: the schedule begins when every thread is ready, its connections among that.

use crate::clock::Clock;
use crate::host::Counters;
use crate::progress::Observer;
use crate::run::RunError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time between the moment at which all threads are ready and the start of the schedule.
const LEAD: Duration = Duration::from_millis(20);

/// How often an observer is told of connections that are opened before the schedule.
const OPENING_STEP: Duration = Duration::from_secs(1);

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

    /// A thread is ready.
    pub(crate) fn ready(&self) {
        self.lock().ready += 1;
        self.changed.notify_all();
    }

    /// Waits for the start; the clock is one that starts when all of the threads know.
    pub(crate) fn wait(&self) -> Clock {
        let mut state = self.lock();
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

    /// Whether all threads are ready or gone, which is waited for no longer than `patience`.
    pub(crate) fn all_within(&self, patience: Duration) -> bool {
        let state = self.lock();
        let some_are_missing = |state: &mut State| state.ready + state.gone < self.threads;
        let waited = self.changed.wait_timeout_while(state, patience, some_are_missing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Starts the clock of all threads when it is dropped, so that they never wait forever.
    pub(crate) fn starter(&self) -> Starter<'_> {
        Starter { line: self, clock: None }
    }

    /// Sees to it that a thread that ends without having been ready is not waited for.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the thread that starts the schedule.
pub(crate) struct Starter<'a> {
    line: &'a StartLine,
    /// Starts when it was agreed on, and shortly if it was not.
    clock: Option<Clock>,
}

impl Drop for Starter<'_> {
    fn drop(&mut self) {
        let clock = self.clock.unwrap_or_else(|| Clock::new(LEAD, self.line.wall));
        self.line.lock().clock = Some(clock);
        self.line.changed.notify_all();
    }
}

/// Held by a thread as long as it runs.
pub(crate) struct Guard<'a>(&'a StartLine);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.clock.is_none() {
            state.gone += 1;
            self.0.changed.notify_all();
        }
    }
}

/// Connections that are opened before the schedule begins, of all threads.
#[derive(Default)]
pub(crate) struct Opening {
    all: AtomicU64,
    opened: AtomicU64,
    skipped: AtomicU64,
}

impl Opening {
    /// A thread wants so many.
    pub(crate) fn want(&self, connections: usize) {
        self.all.fetch_add(connections as u64, Ordering::Relaxed);
    }

    /// So many more were set up.
    pub(crate) fn opened(&self, connections: u64) {
        self.opened.fetch_add(connections, Ordering::Relaxed);
    }

    /// There was no time to ask for so many.
    pub(crate) fn skip(&self, connections: usize) {
        self.skipped.fetch_add(connections as u64, Ordering::Relaxed);
    }

    /// How many are there, and how many are wanted.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.opened.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }

    /// That there was no time for all of them.
    pub(crate) fn note(&self, patience: Duration) -> Option<String> {
        let (skipped, (_, all)) = (self.skipped.load(Ordering::Relaxed), self.so_far());
        (skipped > 0).then(|| {
            format!(
                "{skipped} of {all} connections were not attempted before the schedule began: opening them timed out after {patience:?}"
            )
        })
    }
}

/// Waits until all threads are ready, reads what the machine has counted up to then, and lets them start.
/// Without an agreement on the start they are made to end at once (`abort`).
pub(crate) fn await_threads(
    mut starter: Starter<'_>,
    opening: &Opening,
    abort: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<Counters, RunError> {
    let line = starter.line;
    while !line.all_within(OPENING_STEP) {
        let (opened, all) = opening.so_far();
        if all > 0 {
            observer.opening(opened, all);
        }
    }
    observer.ready();
    // Dropped with the error, the starter lets the threads go: they must know by then.
    starter.clock = agreed(line, observer).inspect_err(|_| abort.store(true, Ordering::Relaxed))?;
    let counted = Counters::read();
    drop(starter);
    Ok(counted)
}

/// The clock of a start that the observer has agreed on.
fn agreed(line: &StartLine, observer: &mut impl Observer) -> Result<Option<Clock>, RunError> {
    let missed = |late| {
        RunError::Start(format!("the common start was {late:?} ago when this worker was ready"))
    };
    let start = observer.start().map_err(RunError::Start)?;
    start.map(|start| Clock::at(start, line.wall).map_err(missed)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_start_on_one_clock_when_they_are_ready_and_one_that_is_gone_is_not_waited_for() {
        let line = StartLine::new(3, SystemTime::now);
        std::thread::scope(|scope| {
            let starter = line.starter();
            let waiting = [0, 1].map(|_| {
                scope.spawn(|| {
                    let _guard = line.guard();
                    line.ready();
                    line.wait().label()
                })
            });
            assert!(!line.all_within(Duration::from_millis(1)));
            drop(line.guard());
            assert!(line.all_within(Duration::MAX) && line.clock().is_none());
            drop(starter);
            let labels = waiting.map(|thread| thread.join().unwrap());
            assert_eq!(labels[0], labels[1]);
            assert_eq!(line.clock().unwrap().label(), labels[0]);
        });
    }
}
