//! Answers under a name before there is anything to take over.

use super::folder::Name;
use super::limits::ROUND;
use super::offer::{Offer, Parent};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Tells who asks under a name that there is nothing to take over yet, and that it is worth waiting: the
/// process that has the name is starting.
#[derive(Debug)]
pub struct BusyResponder {
    stop: Arc<AtomicBool>,
    wake: Parent,
    thread: JoinHandle<Offer>,
}

impl BusyResponder {
    /// Begins to, with `name`.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn start(name: Name) -> io::Result<Self> {
        Self::of(Offer::new(Some(name))?)
    }

    /// Begins to, with a predecessor's name.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn of(mut offer: Offer) -> io::Result<Self> {
        let (stop, wake) = (Arc::new(AtomicBool::new(false)), offer.parent());
        let stopped = stop.clone();
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                offer.wait(None, ROUND * 20);
                offer.turn_away(&mut |_| {});
            }
            offer
        };
        let thread = std::thread::Builder::new().name("door".to_owned()).spawn(run)?;
        Ok(Self { stop, wake, thread })
    }

    /// Ends, so that there is something to take over from now on.
    ///
    /// # Errors
    ///
    /// The thread has panicked.
    pub fn finish(self) -> io::Result<Offer> {
        self.stop.store(true, Ordering::Release);
        self.wake.wake();
        self.thread.join().map_err(|_| io::Error::other("the thread `door` has panicked"))
    }
}
