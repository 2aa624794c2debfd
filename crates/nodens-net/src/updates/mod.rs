//! Does updates of zones (RFC 2136), on threads of their own, which may wait for the disk: one for each database, so
//! that a disk that does not answer holds up its own zones alone.
//!
//! Updates that have come meanwhile make one version together, so that the disk is waited for once.

mod follow;
mod reading;
mod renewed;
mod store;
mod upkeep;

use crate::cpu;
use crate::fault::errno_text;
use crate::limits::{
    DATABASE_BATCH, DATABASE_END, DATABASE_LOOK, DATABASE_PAUSE, DATABASE_RETRY, DATABASE_WAIT,
    DATABASE_WRITERS_MAX,
};
use crate::poll::Waker;
use crate::runtime::Runtime;
use nodens_core::log::{Level, Sink};
use nodens_zone::data::Data;
use nodens_zone::dnssec::Signer;
use nodens_zone::dynamic::{Done, DynamicZone};
use nodens_zone::journal::Step;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::{Disk, Fault, Store, System};
use upkeep::{Save, Upkeep, now_s};

#[cfg(test)]
mod tests;

/// What signs some zones.
type Signers = [(Arc<DynamicZone>, Arc<Signer>)];

/// The directive that log lines name.
const ORIGIN: &str = "dynupdate";

/// The zones of one configuration are updated until this is dropped. It is the only one that writes to their
/// databases.
pub struct Updates {
    stopping: Arc<AtomicBool>,
    threads: Vec<Writing>,
    /// Gives nothing, and ends with the last of the threads.
    running: Receiver<()>,
    sink: Sink,
}

/// A thread, and the zones that it updates.
struct Writing {
    thread: JoinHandle<()>,
    zones: Vec<Arc<DynamicZone>>,
    /// Takes what is dropped once the thread has looked at its databases.
    asks: Sender<Sender<()>>,
}

impl std::fmt::Debug for Updates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Updates({} threads)", self.threads.len())
    }
}

impl Updates {
    /// Does what is asked of `zones` from now on, and has the workers of `runtime` answer; those with one of
    /// `signers` are kept signed. Without any, there is no thread.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        zones: &[Arc<DynamicZone>],
        signers: &[(Arc<DynamicZone>, Arc<Signer>)],
        runtime: &Runtime,
        sink: Sink,
    ) -> io::Result<Self> {
        Self::with_disk((zones, signers), runtime.wakers(), sink, Arc::new(System))
    }

    fn with_disk(
        (zones, signers): (&[Arc<DynamicZone>], &Signers),
        wakers: Arc<Vec<Waker>>,
        sink: Sink,
        disk: Arc<dyn Disk>,
    ) -> io::Result<Self> {
        let (ends, running) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let mut updates = Self { stopping, threads: Vec::new(), running, sink };
        // Where a thread cannot begin, it goes before the others are waited for.
        let ends = ends;
        for zones in shares(zones) {
            let keep = |zone: &Arc<DynamicZone>| {
                let signer = signers.iter().find(|(own, _)| Arc::ptr_eq(own, zone));
                let wanted = signer.map(|(_, signer)| signer.clone());
                Kept::new(zone.clone(), Upkeep::new(wanted, updates.stopping.clone()))
            };
            let (asks, asked) = channel();
            let keeper = Keeper {
                zones: zones.iter().map(keep).collect(),
                teller: Teller { wakers: wakers.clone(), sink: updates.sink.clone() },
                asked,
                since: Instant::now(),
                disk: disk.clone(),
                stopping: updates.stopping.clone(),
            };
            updates.begin(zones, keeper, (asks, ends.clone()))?;
        }
        Ok(updates)
    }

    /// Queries are taken from now on, which another process took before: what that one has confirmed is served when
    /// this ends, or soon, where a disk is slow. Updates wait for a database from now on.
    pub fn take_over(&self) {
        let (sender, looked) = channel::<()>();
        for own in &self.threads {
            // One that has ended has nothing to look at.
            _ = own.asks.send(sender.clone());
            own.thread.thread().unpark();
        }
        drop(sender);
        // All have let go of it then.
        _ = looked.recv_timeout(DATABASE_LOOK);
    }

    fn begin(
        &mut self,
        zones: Vec<Arc<DynamicZone>>,
        mut keeper: Keeper,
        (asks, ends): (Sender<Sender<()>>, Sender<()>),
    ) -> io::Result<()> {
        let run = move || {
            cpu::yield_to_workers();
            while !keeper.is_stopping() {
                keeper.turn();
            }
            // With its locks, before it is said to have ended.
            drop((keeper, ends));
        };
        let thread = thread::Builder::new().name("dynupdate".to_owned()).spawn(run)?;
        for zone in &zones {
            let own = thread.thread().clone();
            zone.on_update(move || own.unpark());
        }
        // For what has come before that.
        thread.thread().unpark();
        self.threads.push(Writing { thread, zones, asks });
        Ok(())
    }
}

/// Zones by the thread that they have: each database one, as long as there are not too many; those in memory one
/// together.
fn shares(zones: &[Arc<DynamicZone>]) -> Vec<Vec<Arc<DynamicZone>>> {
    let (kept, in_memory): (Vec<_>, Vec<_>) =
        zones.iter().cloned().partition(|zone| zone.database().is_some());
    let mut shares = vec![Vec::new(); kept.len().min(DATABASE_WRITERS_MAX)];
    for (at, zone) in kept.into_iter().enumerate() {
        if let Some(share) = shares.get_mut(at % DATABASE_WRITERS_MAX) {
            share.push(zone);
        }
    }
    shares.push(in_memory);
    shares.retain(|share| !share.is_empty());
    shares
}

impl Drop for Updates {
    /// Waits a limited time for writes under way. A database stays locked until its write has ended, so that
    /// no other writer begins before.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.threads.iter().for_each(|own| own.thread.thread().unpark());
        let have_ended = self.running.recv_timeout(DATABASE_END) != Err(RecvTimeoutError::Timeout);
        for Writing { thread, zones, .. } in self.threads.drain(..) {
            if have_ended || thread.is_finished() {
                // A thread that panicked has said so.
                _ = thread.join();
                continue;
            }
            for zone in zones {
                let text = format!(
                    "database of zone {} is still being written after {} s, its disk does not answer: updates fail until that has ended",
                    zone.origin(),
                    DATABASE_END.as_secs()
                );
                self.sink.line(Level::Error, ORIGIN, text);
            }
        }
    }
}

/// What a thread does over and over.
struct Keeper {
    zones: Vec<Kept>,
    teller: Teller,
    asked: Receiver<Sender<()>>,
    /// When updates began to wait for databases that another process has.
    since: Instant,
    disk: Arc<dyn Disk>,
    stopping: Arc<AtomicBool>,
}

/// Tells the log and the workers what came of updates.
struct Teller {
    wakers: Arc<Vec<Waker>>,
    sink: Sink,
}

impl Teller {
    fn tell(&self, done: Done) {
        for error in done.errors {
            self.sink.line(Level::Error, ORIGIN, error);
        }
        for worker in done.wake {
            self.wakers.get(worker).into_iter().for_each(Waker::wake);
        }
    }
}

/// A zone, and where it is kept.
struct Kept {
    zone: Arc<DynamicZone>,
    place: Place,
    upkeep: Upkeep,
}

/// Where a zone is kept.
enum Place {
    /// In the memory alone.
    Memory,
    /// In a database that this process has.
    Open(Store),
    /// In a database that another process has, still.
    Elsewhere { is_said: bool },
    /// In one that cannot be used, which is tried again then.
    Useless { again: Instant, reason: String },
}

impl Kept {
    fn new(zone: Arc<DynamicZone>, upkeep: Upkeep) -> Self {
        let place = match zone.database() {
            Some(_) => Place::Elsewhere { is_said: false },
            None => Place::Memory,
        };
        Self { zone, place, upkeep }
    }

    /// When the database is to be tried again if it is not open, and when signatures are to be looked at if it is.
    fn due(&self, now: Instant) -> Option<Duration> {
        match &self.place {
            Place::Memory | Place::Open(_) => self.upkeep.pause(&self.zone, now),
            Place::Elsewhere { .. } => Some(DATABASE_PAUSE),
            Place::Useless { again, .. } => Some(again.saturating_duration_since(now)),
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.place, Place::Elsewhere { .. } | Place::Useless { .. })
    }

    /// Whether updates need not wait for something.
    fn takes_updates(&self) -> bool {
        !matches!(self.place, Place::Elsewhere { .. }) && !self.zone.lacks_signer()
    }

    /// Does the updates that wait, and then a part of what keeps the zone signed. What came of each version is told
    /// before more is done, which may wait for the disk.
    fn turn(&mut self, is_late: bool, teller: &Teller) {
        let Self { zone, place, upkeep } = self;
        let mut in_memory = |_: &Data, _: &Arc<Step>| Ok(());
        let mut on_disk;
        let save: Save<'_> = match place {
            Place::Elsewhere { .. } if !is_late => return,
            Place::Elsewhere { .. } | Place::Useless { .. } => {
                return teller.tell(Done::failed(zone.take()));
            }
            Place::Memory => &mut in_memory,
            Place::Open(store) => {
                on_disk = |data: &Data, step: &Arc<Step>| {
                    let failed = |error| format!("committing zone: {}", errno_text(&error));
                    store.save(data, step).map_err(failed)
                };
                &mut on_disk
            }
        };
        // What would be changed could not be signed.
        let mut updates = if zone.lacks_signer() { VecDeque::new() } else { zone.take() };
        while !updates.is_empty() {
            let began = Instant::now();
            let takes_more = || began.elapsed() < DATABASE_BATCH;
            teller.tell(zone.perform(&mut updates, now_s(), takes_more, &mut *save));
        }
        teller.tell(upkeep.turn(zone, save, &teller.sink));
        self.see_fault(&teller.sink);
    }

    /// Says what others have done to the files, and gets the database again where another process may have it.
    fn see_fault(&mut self, sink: &Sink) {
        let Place::Open(store) = &mut self.place else { return };
        let Some(fault) = store.take_fault() else { return };
        let what = match fault {
            Fault::Changed => {
                "was changed or removed by another program: it is written anew with what is served"
            }
            Fault::Unlocked => "lost its lock, which was removed: it is opened again",
        };
        let text = format!("database of zone {} {what}", self.zone.origin());
        sink.line(Level::Warning, ORIGIN, text);
        if fault == Fault::Unlocked {
            self.place = Place::Elsewhere { is_said: false };
        }
    }

    /// Gets the database, or serves what another process writes to it.
    fn look(&mut self, is_late: bool, disk: &Arc<dyn Disk>, sink: &Sink) {
        self.open(is_late, disk, sink);
        let is_others = matches!(self.place, Place::Elsewhere { .. });
        if is_others && !self.zone.file().is_written() {
            // What is wrong with it is said when this process has it.
            _ = follow::follow(&self.zone, &**disk);
        }
    }

    fn open(&mut self, is_late: bool, disk: &Arc<dyn Disk>, sink: &Sink) {
        let zone = &self.zone;
        match (&mut self.place, Store::open(zone, disk)) {
            (_, Ok(Some(store))) => self.place = Place::Open(store),
            (Place::Elsewhere { is_said }, Ok(None)) => {
                if is_late && !*is_said {
                    *is_said = true;
                    let text = format!(
                        "database of zone {} is in use by another process, or still being written by this one: updates fail until that has ended",
                        zone.origin()
                    );
                    sink.line(Level::Error, ORIGIN, text);
                }
            }
            (place, Ok(None)) => *place = Place::Elsewhere { is_said: false },
            (place, Err(error)) => {
                let (reason, again) = (errno_text(&error), Instant::now() + DATABASE_RETRY);
                let is_known =
                    matches!(place, Place::Useless { reason: known, .. } if *known == reason);
                if !is_known {
                    let text = format!(
                        "database of zone {} cannot be used, updates fail: {reason}",
                        zone.origin()
                    );
                    sink.line(Level::Error, ORIGIN, text);
                }
                *place = Place::Useless { again, reason };
            }
        }
    }
}

impl Keeper {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn turn(&mut self) {
        let now = Instant::now();
        let asked: Vec<_> = self.asked.try_iter().collect();
        if !asked.is_empty() {
            self.since = now;
        }
        let is_late = now.saturating_duration_since(self.since) > DATABASE_WAIT;
        let is_near = |due: Duration| due.is_zero() || due == DATABASE_PAUSE;
        for kept in &mut self.zones {
            if kept.is_closed() && kept.due(now).is_some_and(is_near) {
                kept.look(is_late, &self.disk, &self.teller.sink);
            }
        }
        drop(asked);
        for kept in &mut self.zones {
            kept.turn(is_late, &self.teller);
        }
        // What waits for the disk, or for room in the log, may have had the sign that there is more to do.
        let has_updates = |kept: &Kept| kept.zone.has_updates() && kept.takes_updates();
        match self.zones.iter().filter_map(|kept| kept.due(now)).min() {
            _ if self.zones.iter().any(has_updates) || self.is_stopping() => {}
            Some(pause) => thread::park_timeout(pause),
            None => thread::park(),
        }
    }
}
