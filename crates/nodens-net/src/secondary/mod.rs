//! Keeps zones of `secondary` up to date: asks primaries for serial numbers and transfers (RFC 5936,
//! RFC 1995), on a thread of its own.
//!
//! The thread builds new versions as well, message by message, many zones in turns. Workers only see
//! versions that are whole.

mod ahead;
mod answers;
mod areas;
mod arrived;
mod begin;
mod catalogs;
mod down;
mod exchange;
mod files;
mod keeper;
mod lanes;
mod link;
mod lock;
mod pace;
mod said;
mod store;

use crate::cpu;
use crate::fault::errno_text;
use crate::limits::STORE_END;
use crate::poll::Waker;
use keeper::Keeper;
use nodens_core::log::{Level, Sink};
use nodens_zone::secondary::SecondaryService;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;

#[cfg(test)]
mod tests;

/// The directive that log lines name.
const ORIGIN: &str = "secondary";

/// The zones of one configuration are kept up to date until this is dropped.
pub struct Secondaries {
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<Running>,
    sink: Sink,
}

/// The thread of a configuration.
struct Running {
    thread: JoinHandle<()>,
    /// Closed once it has ended.
    ended: Receiver<()>,
    /// Set by the first of two: the thread once it ends in time, or a caller that does not wait for it any longer.
    is_decided: Arc<AtomicBool>,
}

impl std::fmt::Debug for Secondaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secondaries")
    }
}

impl Secondaries {
    /// Transfers the zones of `services`, and looks for later versions from then on. Without any, there is
    /// no thread.
    ///
    /// # Errors
    /// If there is no thread or descriptor to be had.
    pub fn start(services: &[SecondaryService], sink: Sink) -> io::Result<Self> {
        let (stopping, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::new()?));
        let mut secondaries = Self { stopping, waker, thread: None, sink: sink.clone() };
        if services.is_empty() {
            return Ok(secondaries);
        }
        let (stopping, waker) = (secondaries.stopping.clone(), secondaries.waker.clone());
        let services = services.to_vec();
        let ends = stopping.clone();
        let (running, ended) = std::sync::mpsc::channel::<()>();
        let is_decided = Arc::new(AtomicBool::new(false));
        let decided = is_decided.clone();
        let run = move || {
            let _running = running;
            match Keeper::new(&services, sink.clone(), waker, ends) {
                Ok(mut keeper) => {
                    // Before that, queries wait for what is on disk.
                    cpu::come_last();
                    while !stopping.load(Ordering::Acquire) {
                        keeper.turn();
                    }
                    // A later configuration that did not wait has begun with files of its own.
                    if decided.swap(true, Ordering::AcqRel) {
                        keeper.let_go_of_files();
                    }
                }
                Err(error) => {
                    services.iter().for_each(|service| service.restoring.finish());
                    let why = errno_text(&error);
                    let text = format!("cannot transfer zones from primaries: {why}");
                    sink.line(Level::Error, ORIGIN, text);
                }
            }
        };
        let thread = std::thread::Builder::new().name("secondary".to_owned()).spawn(run)?;
        secondaries.thread = Some(Running { thread, ended, is_decided });
        Ok(secondaries)
    }
}

impl Drop for Secondaries {
    /// Waits a limited time for the thread, which may be waiting for a disk. Its folders stay locked until it ends: no
    /// other thread or process writes there before.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        let Some(Running { thread, ended, is_decided }) = self.thread.take() else { return };
        let is_late = ended.recv_timeout(STORE_END) == Err(RecvTimeoutError::Timeout);
        if is_late && !is_decided.swap(true, Ordering::AcqRel) {
            let text = format!(
                "zones are still being read or written after {} s, their disk does not answer: nothing is stored until that has ended",
                STORE_END.as_secs()
            );
            return self.sink.line(Level::Error, ORIGIN, text);
        }
        // A thread that panicked has said so.
        _ = thread.join();
    }
}
