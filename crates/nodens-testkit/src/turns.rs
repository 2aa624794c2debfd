//! Which tests of a process run beside each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tests that start several servers and mostly wait for them, at the same time.
const FEW: usize = 4;

#[derive(Default)]
struct State {
    running: usize,
    /// Tests that wait until nothing runs.
    lonely: usize,
    is_alone: bool,
}

struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

static TURNS: Turns = Turns {
    state: Mutex::new(State { running: 0, lonely: 0, is_alone: false }),
    changed: Condvar::new(),
};

/// The time in which a test runs. Another one gets its turn once this is dropped.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Turn(());

/// Held by tests that need the machine or the counters for themselves: none runs beside another one, nor beside those
/// that run [`among_few`].
pub fn alone() -> Turn {
    let mut state = TURNS.lock();
    state.lonely += 1;
    let mut state = TURNS.until(state, |state| state.running == 0);
    state.lonely -= 1;
    (state.running, state.is_alone) = (1, true);
    Turn(())
}

/// Held by tests that start several servers and mostly wait for them: only a few run beside each other.
pub fn among_few() -> Turn {
    // Those that wait to be alone go first: they would wait until the last.
    let may_start = |state: &State| !state.is_alone && state.lonely == 0 && state.running < FEW;
    let mut state = TURNS.until(TURNS.lock(), may_start);
    state.running += 1;
    Turn(())
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until<'s>(
        &self,
        state: MutexGuard<'s, State>,
        may_start: impl Fn(&State) -> bool,
    ) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_while(state, |state| !may_start(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = TURNS.lock();
        state.running -= 1;
        state.is_alone = false;
        drop(state);
        TURNS.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn some_run_beside_each_other_and_others_alone() {
        let (few, most, both) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let few_run = || {
            let _turn = among_few();
            most.fetch_max(few.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            few.fetch_sub(1, Ordering::SeqCst);
        };
        let alone_runs = || {
            let _turn = alone();
            std::thread::sleep(Duration::from_millis(5));
            both.fetch_max(few.load(Ordering::SeqCst), Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for number in 0..24 {
                if number % 6 == 5 {
                    scope.spawn(alone_runs);
                } else {
                    scope.spawn(few_run);
                }
            }
            // What panics leaves its turn to others.
            let panics = scope.spawn(|| {
                let _turn = alone();
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(panics.join().is_err());
        });
        assert_eq!((most.into_inner(), both.into_inner()), (FEW, 0));
    }
}
