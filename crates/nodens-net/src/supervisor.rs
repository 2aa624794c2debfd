//! Notices workers that are stuck, and has others answer at their sockets meanwhile.
//!
//! A worker is stuck if it makes no turn for some time although its epoll instance has something
//! for it: it spins, waits for a page or a lock, or its CPU is taken by others. A worker that sleeps
//! because there is nothing to do is well; from time to time it is woken to show it. What counts
//! are looks, not time: after a pause of the whole process nobody is taken for stuck.
//!
//! The sockets of a stuck worker stay in their groups and another worker reads them too. So what
//! waits in them is answered as well, and giving them back is no risk: both may read.
//!
//! It also gives the kernel back what workers have freed after a flood of queries.

use crate::event_loop::Command;
use crate::limits::UNHEALTHY_AFTER;
use crate::limits::{
    IDLE_LOOKS_MAX, LOOK_INTERVAL, RECOVERED_LOOKS, RETURN_LOOKS, SILENT_LOOKS_MAX,
};
use crate::memory;
use crate::poll::Waker;
use crate::vitals::{Lent, Vitals};
use nodens_core::Shared;
use nodens_core::log::Level;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

#[cfg(test)]
mod tests;

/// The thread that looks; it ends when this is dropped.
pub(crate) struct Supervisor {
    _stop: Sender<()>,
}

impl Supervisor {
    pub(crate) fn start(
        shared: Arc<Shared>,
        vitals: Arc<Vitals>,
        commands: Vec<Sender<Command>>,
        wakers: Arc<Vec<Waker>>,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let mut rounds = Rounds {
            watch: Watch::new(commands.len()),
            stand_ins: vec![StandIn::default(); commands.len()],
            returns: Returns::default(),
            shared,
            vitals,
            commands,
            wakers,
        };
        let run = move || {
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                rounds.look();
            }
        };
        std::thread::Builder::new().name("supervisor".to_owned()).spawn(run)?;
        Ok(Self { _stop: stop })
    }
}

/// What a look at a worker led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Stalled,
    Recovered,
}

/// What was seen of one worker.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    turn: u64,
    /// Looks in a row without a turn although there was something to do.
    silent: u32,
    /// Looks in a row without a turn and with nothing to do.
    idle: u32,
    /// Looks in a row with a turn.
    steady: u32,
    stalled: bool,
}

#[derive(Debug)]
struct Watch {
    seen: Vec<Seen>,
}

impl Watch {
    fn new(workers: usize) -> Self {
        Self { seen: vec![Seen::default(); workers] }
    }

    /// Takes in the last turn of a worker, and whether it has something to do. Says what changed,
    /// and whether the worker should be woken to show that it is well.
    fn look(
        &mut self,
        worker: usize,
        turn: u64,
        has_work: impl FnOnce() -> bool,
    ) -> (Option<Change>, bool) {
        let Some(seen) = self.seen.get_mut(worker) else { return (None, false) };
        if turn != seen.turn {
            (seen.turn, seen.silent, seen.idle) = (turn, 0, 0);
            seen.steady += 1;
            let recovered = seen.stalled && seen.steady >= RECOVERED_LOOKS;
            seen.stalled &= !recovered;
            return (recovered.then_some(Change::Recovered), seen.stalled);
        }
        seen.steady = 0;
        if seen.stalled {
            return (None, true);
        }
        if !has_work() {
            (seen.silent, seen.idle) = (0, seen.idle + 1);
            return (None, seen.idle.is_multiple_of(IDLE_LOOKS_MAX));
        }
        seen.silent += 1;
        seen.stalled = seen.silent >= SILENT_LOOKS_MAX;
        (seen.stalled.then_some(Change::Stalled), seen.stalled)
    }
}

/// Who answers at the sockets of a worker that is stuck.
#[derive(Clone, Copy, Debug, Default)]
struct StandIn {
    by: Option<usize>,
    /// The version of the sockets that it knows.
    version: Option<u64>,
    /// Whether it was said that the worker does not recover.
    unhealthy: bool,
}

struct Rounds {
    watch: Watch,
    stand_ins: Vec<StandIn>,
    returns: Returns,
    shared: Arc<Shared>,
    vitals: Arc<Vitals>,
    commands: Vec<Sender<Command>>,
    wakers: Arc<Vec<Waker>>,
}

/// When free memory goes back to the kernel.
#[derive(Debug, Default)]
struct Returns {
    is_wanted: bool,
    /// Looks until it may be done again.
    pause: u32,
}

impl Returns {
    /// Whether it is time for it.
    fn look(&mut self, freed: bool) -> bool {
        self.is_wanted |= freed;
        self.pause = self.pause.saturating_sub(1);
        let is_due = self.is_wanted && self.pause == 0;
        if is_due {
            (self.is_wanted, self.pause) = (false, RETURN_LOOKS);
        }
        is_due
    }
}

impl Rounds {
    fn look(&mut self) {
        if self.returns.look(self.shared.take_freed()) {
            // A worker that is stuck may have a lock of the allocator, which must not stop this thread.
            let thread = std::thread::Builder::new().name("give-back".to_owned());
            // Without the thread it is free for this process all the same.
            _ = thread.spawn(memory::give_back);
        }
        let mut changes = Vec::new();
        for worker in 0..self.commands.len() {
            let has_work = || self.vitals.has_work(worker);
            let (change, wake) = self.watch.look(worker, self.vitals.turn(worker), has_work);
            if let Some(change) = change {
                changes.push((worker, change));
                self.vitals.set_stalled(worker, change == Change::Stalled);
            }
            if wake {
                self.wake(worker);
            }
        }
        // What is said and done about one worker depends on which of the others are well.
        for (worker, change) in changes {
            match change {
                Change::Stalled => self.forsake(worker),
                Change::Recovered => self.give_back(worker),
            }
        }
        for stalled in self.vitals.stalled() {
            self.find_stand_in(stalled.worker);
            let Some(own) = self.stand_ins.get_mut(stalled.worker) else { continue };
            if stalled.elapsed >= UNHEALTHY_AFTER && !std::mem::replace(&mut own.unhealthy, true) {
                let text = format!(
                    "worker {} has been stuck for {:.1?} and has not recovered: health fails",
                    stalled.worker, stalled.elapsed
                );
                self.shared.sink.line(Level::Error, "", text);
            }
        }
    }

    /// Those who wait for what a stuck worker has asked must not wait with it.
    fn forsake(&self, worker: usize) {
        for (other, mail) in self.shared.in_flight.take_over_from(worker) {
            if self.shared.post(other, mail) {
                self.wake(other);
            }
        }
    }

    /// Sees to it that a worker that is well answers at the sockets of `worker`, all of them.
    fn find_stand_in(&mut self, worker: usize) {
        let Some(own) = self.stand_ins.get(worker).copied() else { return };
        let version = self.vitals.lent_version();
        let by = own.by.filter(|by| !self.vitals.is_stalled(*by));
        if by.is_some() && own.version == Some(version) {
            return;
        }
        let workers = self.commands.len();
        let others = (1..workers).map(|step| (worker + step) % workers);
        let next = by.or_else(|| others.into_iter().find(|by| !self.vitals.is_stalled(*by)));
        if by.is_none() {
            if let Some(former) = own.by {
                self.tell(former, Command::StandDown(worker));
            }
            if next != own.by || own.version.is_none() {
                self.say_stalled(worker, next);
            }
        }
        if let Some(next) = next {
            let lent = self.vitals.lent();
            let borrowed = lent.iter().filter(|lent| lent.worker == worker);
            let borrowed = borrowed.filter_map(Lent::socket).collect();
            self.tell(next, Command::StandIn(worker, borrowed));
        }
        if let Some(own) = self.stand_ins.get_mut(worker) {
            (own.by, own.version) = (next, Some(version));
        }
    }

    fn say_stalled(&self, worker: usize, by: Option<usize>) {
        let stalled = self.vitals.stalled().into_iter().find(|stalled| stalled.worker == worker);
        let elapsed = stalled.map(|stalled| stalled.elapsed).unwrap_or_default();
        let what = match by {
            Some(by) => format!("worker {by} is taking over its sockets until it has recovered"),
            None => "no worker is left to take over its sockets".to_owned(),
        };
        let text = format!("worker {worker} is stuck: no turn for {elapsed:.1?}; {what}");
        self.shared.sink.line(Level::Warning, "", text);
    }

    fn give_back(&mut self, worker: usize) {
        let Some(own) = self.stand_ins.get_mut(worker) else { return };
        let StandIn { by, .. } = std::mem::take(own);
        if let Some(by) = by {
            self.tell(by, Command::StandDown(worker));
        }
        let text = format!("worker {worker} has recovered and answers at its sockets again");
        self.shared.sink.line(Level::Warning, "", text);
    }

    fn tell(&self, worker: usize, command: Command) {
        if let Some(commands) = self.commands.get(worker) {
            // A worker that is gone needs no telling.
            _ = commands.send(command);
            self.wake(worker);
        }
    }

    fn wake(&self, worker: usize) {
        if let Some(waker) = self.wakers.get(worker) {
            waker.wake();
        }
    }
}
