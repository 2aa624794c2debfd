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
/// How long a worker that counts as stuck has to show that it is not.
const TURN_PATIENCE: Duration = Duration::from_secs(3);

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
        let (mut hanging, well): (Vec<usize>, Vec<usize>) =
            (0..self.workers.len()).partition(|worker| self.vitals.is_stalled(*worker));
        well.into_iter().for_each(|worker| self.tell_to_end(worker, command(at)));
        let until = Instant::now() + grace + SHUTDOWN_MARGIN;
        // One that stays stuck keeps what it has. To be told would make a successor wait until it
        // has heard, and might make it disturb sockets that are the successor's by then.
        for worker in self.that_make_turns(&hanging, grace.min(TURN_PATIENCE)) {
            hanging.retain(|own| *own != worker);
            self.tell_to_end(worker, command(at));
        }
        let mut left = Left::default();
        for (index, worker) in self.workers.into_iter().enumerate() {
            let hangs = hanging.contains(&index);
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

    fn tell_to_end(&self, worker: usize, command: Command) {
        // A worker that is gone needs no telling.
        _ = self.workers.get(worker).map(|thread| thread.commands.send(command));
        self.wake(worker);
    }

    /// Those of the workers that make a turn within `patience`. A worker that was without a CPU for
    /// a moment counts as stuck for another half second, and its clients would lose their
    /// connections.
    fn that_make_turns(&self, workers: &[usize], patience: Duration) -> Vec<usize> {
        let before: Vec<u64> = workers.iter().map(|worker| self.vitals.turn(*worker)).collect();
        workers.iter().for_each(|worker| self.wake(*worker));
        let until = Instant::now() + patience;
        let mut turned = Vec::new();
        while turned.len() < workers.len() && Instant::now() < until {
            std::thread::sleep(SHUTDOWN_ROUND);
            let pairs = workers.iter().zip(&before);
            let have = pairs.filter(|(worker, turn)| self.vitals.turn(**worker) != **turn);
            turned = have.map(|(worker, _)| *worker).collect();
        }
        turned
    }
}

#[cfg(test)]
mod tests;
