//! Does updates of zones (RFC 2136), on a thread of its own, which may wait for the disk.
//!
//! Updates that have come meanwhile make one version together, so that the disk is waited for once.

mod store;

use crate::fault::errno_text;
use crate::limits::{DATABASE_PAUSE, DATABASE_RETRY, DATABASE_WAIT};
use crate::poll::Waker;
use crate::runtime::Runtime;
use nodens_core::log::{Level, Sink};
use nodens_zone::dynamic::{Done, DynamicZone};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::Store;

#[cfg(test)]
mod tests;

/// The directive that log lines name.
const ORIGIN: &str = "dynupdate";

/// The zones of one configuration are updated until this is dropped. It is the only one that writes to their
/// databases.
pub struct Updates {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Updates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Updates")
    }
}

impl Updates {
    /// Does what is asked of `zones` from now on, and has the workers of `runtime` answer. Without any, there
    /// is no thread.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(zones: &[Arc<DynamicZone>], runtime: &Runtime, sink: Sink) -> io::Result<Self> {
        Self::with_wakers(zones, runtime.wakers(), sink)
    }

    fn with_wakers(
        zones: &[Arc<DynamicZone>],
        wakers: Arc<Vec<Waker>>,
        sink: Sink,
    ) -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut updates = Self { stopping: stopping.clone(), thread: None };
        if zones.is_empty() {
            return Ok(updates);
        }
        let mut keeper = Keeper {
            zones: zones.iter().cloned().map(Kept::new).collect(),
            wakers,
            sink,
            since: Instant::now(),
        };
        let run = move || {
            keeper.listen();
            while !stopping.load(Ordering::Acquire) {
                keeper.turn();
            }
        };
        updates.thread = Some(thread::Builder::new().name("dynupdate".to_owned()).spawn(run)?);
        Ok(updates)
    }
}

impl Drop for Updates {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
}

/// What the thread does over and over.
struct Keeper {
    zones: Vec<Kept>,
    wakers: Arc<Vec<Waker>>,
    sink: Sink,
    since: Instant,
}

/// A zone, and where it is kept.
struct Kept {
    zone: Arc<DynamicZone>,
    place: Place,
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
    fn new(zone: Arc<DynamicZone>) -> Self {
        let place = match zone.database() {
            Some(_) => Place::Elsewhere { is_said: false },
            None => Place::Memory,
        };
        Self { zone, place }
    }

    /// When the database is to be tried again, if it is not open.
    fn due(&self, now: Instant) -> Option<Duration> {
        match &self.place {
            Place::Memory | Place::Open(_) => None,
            Place::Elsewhere { .. } => Some(DATABASE_PAUSE),
            Place::Useless { again, .. } => Some(again.saturating_duration_since(now)),
        }
    }

    fn open(&mut self, is_late: bool, sink: &Sink) {
        let zone = &self.zone;
        match (&mut self.place, Store::open(zone)) {
            (_, Ok(Some(store))) => self.place = Place::Open(store),
            (Place::Elsewhere { is_said }, Ok(None)) => {
                if is_late && !*is_said {
                    *is_said = true;
                    let text = format!(
                        "database of zone {} is in use by another process: updates fail until it has ended",
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
    fn listen(&self) {
        for Kept { zone, .. } in &self.zones {
            let own = thread::current();
            zone.on_update(move || own.unpark());
        }
    }

    fn turn(&mut self) {
        let now = Instant::now();
        let is_late = now.saturating_duration_since(self.since) > DATABASE_WAIT;
        let (mut any, mut pause) = (false, None);
        for kept in &mut self.zones {
            if kept.due(now).is_some_and(|due| due.is_zero() || due == DATABASE_PAUSE) {
                kept.open(is_late, &self.sink);
            }
            let done = match &mut kept.place {
                Place::Elsewhere { .. } if !is_late => Done::default(),
                Place::Elsewhere { .. } | Place::Useless { .. } => Done::failed(kept.zone.take()),
                Place::Memory => kept.zone.perform(kept.zone.take(), |_, _| Ok(())),
                Place::Open(store) => kept.zone.perform(kept.zone.take(), |data, step| {
                    let failed = |error| format!("committing zone: {}", errno_text(&error));
                    store.save(data, step).map_err(failed)
                }),
            };
            for error in done.errors {
                self.sink.line(Level::Error, ORIGIN, error);
            }
            for worker in done.wake {
                self.wakers.get(worker).into_iter().for_each(Waker::wake);
            }
            any |= kept.zone.has_updates() && !matches!(kept.place, Place::Elsewhere { .. });
            pause = pause.into_iter().chain(kept.due(now)).min();
        }
        match pause {
            _ if any => {}
            Some(pause) => thread::park_timeout(pause),
            None => thread::park(),
        }
    }
}
