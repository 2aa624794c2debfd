//! The end of the workers.

use super::Runtime;
use crate::clock;
use crate::event_loop::Command;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long [`Runtime::shutdown`] waits for workers beyond the time they were given, and how often
/// it looks.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(2);
const SHUTDOWN_ROUND: Duration = Duration::from_millis(2);

/// What is left of a runtime that has ended.
#[derive(Debug, Default)]
pub struct Left {
    /// The workers that hang, with the connections that they have.
    pub stuck: Vec<usize>,
    /// Why listeners of theirs are still open, if any are.
    pub unclosed: Option<io::Error>,
}

impl Runtime {
    /// Ends after a start that failed. What another process opened is still its own: to stop would
    /// take it from that process, too.
    pub(super) fn give_up(self) {
        if !self.paused {
            return self.shutdown(Duration::ZERO);
        }
        let kept = self.bound_listeners();
        let (heir, _) = channel();
        _ = self.leave(&kept, &heir, Duration::ZERO);
    }

    /// Tells every worker to end, by a command that is given the time, and waits for them. Gives those
    /// that are left behind: they hang. Their listeners are closed all the same.
    pub(crate) fn end(mut self, grace: Duration, command: impl Fn(u64) -> Command) -> Left {
        self.supervisor = None;
        let at = clock::now().plus(grace);
        // One that is stuck keeps what it has. To be told would make a successor wait until it has
        // heard, and might make it disturb sockets that are the successor's by then.
        let stalled: Vec<bool> =
            (0..self.workers.len()).map(|worker| self.vitals.is_stalled(worker)).collect();
        let is_stalled = |worker: usize| stalled.get(worker).is_some_and(|stalled| *stalled);
        let workers = self.workers.iter().enumerate();
        for (worker, thread) in workers.filter(|(worker, _)| !is_stalled(*worker)) {
            // A worker that is gone needs no telling.
            _ = thread.commands.send(command(at));
            self.wake(worker);
        }
        let until = Instant::now() + grace + SHUTDOWN_MARGIN;
        let mut left = Left::default();
        for (index, worker) in self.workers.into_iter().enumerate() {
            let hangs = is_stalled(index);
            while !worker.thread.is_finished() && !hangs && Instant::now() < until {
                std::thread::sleep(SHUTDOWN_ROUND);
            }
            if worker.thread.is_finished() {
                _ = worker.thread.join();
            } else {
                left.stuck.push(index);
            }
        }
        // Not before the others have ended: one of them may have stood in and wait at these sockets, of
        // which its epoll would go on to tell it.
        for worker in &left.stuck {
            // They share their address with the sockets of the process that serves: as long as they
            // are open, the kernel gives them a part of its queries.
            let Some(waker) = self.wakers.get(*worker) else { continue };
            let closed = self.vitals.close_listeners(*worker, waker.as_fd());
            left.unclosed = left.unclosed.or(closed.err());
        }
        left
    }
}

#[cfg(test)]
mod tests;
