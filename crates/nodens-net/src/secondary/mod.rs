//! Keeps zones of `secondary` up to date: asks primaries for serial numbers and transfers (RFC 5936,
//! RFC 1995), on a thread of its own.
//!
//! The thread builds new versions as well, message by message, many zones in turns. Workers only see
//! versions that are whole.

mod areas;
mod arrived;
mod begin;
mod catalogs;
mod down;
mod exchange;
mod keeper;
mod lanes;
mod link;
mod lock;
mod store;

use crate::fault::errno_text;
use crate::poll::Waker;
use keeper::Keeper;
use nodens_core::log::{Level, Sink};
use nodens_zone::secondary::SecondaryService;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

#[cfg(test)]
mod tests;

/// The directive that log lines name.
const ORIGIN: &str = "secondary";

/// The zones of one configuration are kept up to date until this is dropped.
pub struct Secondaries {
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
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
        let mut secondaries = Self { stopping, waker, thread: None };
        if services.is_empty() {
            return Ok(secondaries);
        }
        let (stopping, waker) = (secondaries.stopping.clone(), secondaries.waker.clone());
        let services = services.to_vec();
        let ends = stopping.clone();
        let run = move || match Keeper::new(&services, sink.clone(), waker, ends) {
            Ok(mut keeper) => {
                while !stopping.load(Ordering::Acquire) {
                    keeper.turn();
                }
            }
            Err(error) => {
                services.iter().for_each(|service| service.restoring.finish());
                let text = format!("cannot transfer zones from primaries: {}", errno_text(&error));
                sink.line(Level::Error, ORIGIN, text);
            }
        };
        let thread = std::thread::Builder::new().name("secondary".to_owned()).spawn(run)?;
        secondaries.thread = Some(thread);
        Ok(secondaries)
    }
}

impl Drop for Secondaries {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
}
