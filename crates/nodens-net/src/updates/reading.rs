//! Whose turn it is to read a database: a start or a reload with many of them has the octets of one at a time in memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Of this process.
pub(super) static READING: Reading = Reading::new();

/// The turns of those who read.
#[derive(Debug)]
pub(super) struct Reading {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// Somebody's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'r> {
    reading: &'r Reading,
    /// Whether it was waited for in vain.
    is_beside: bool,
}

impl Reading {
    const fn new() -> Self {
        Self { is_taken: Mutex::new(false), is_free: Condvar::new() }
    }

    /// Waits until no other thread reads a database, at most for `patience`, and returns in either case: a disk that does
    /// not answer must not delay databases on other disks.
    pub(super) fn turn(&self, patience: Duration) -> Turn<'_> {
        let waited = self.is_free.wait_timeout_while(self.lock(), patience, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_beside = std::mem::replace(&mut *is_taken, true);
        drop(is_taken);
        Turn { reading: self, is_beside }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_beside {
            *self.reading.lock() = false;
            self.reading.is_free.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn one_reads_at_a_time_but_none_waits_for_ever() {
        let reading = Reading::new();
        let first = reading.turn(PATIENCE);
        thread::scope(|scope| {
            let (sender, has_turn) = channel();
            let reading = &reading;
            scope.spawn(move || {
                let second = reading.turn(PATIENCE);
                sender.send(second.is_beside).unwrap();
            });
            assert!(has_turn.recv_timeout(Duration::from_millis(50)).is_err());
            // One whose patience ends does not end the turn of another.
            assert!(reading.turn(Duration::from_millis(1)).is_beside);
            assert!(has_turn.try_recv().is_err());
            drop(first);
            assert_eq!(has_turn.recv_timeout(PATIENCE), Ok(false));
        });
        assert!(!reading.turn(PATIENCE).is_beside);
    }
}
