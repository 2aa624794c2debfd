//! What the main thread waits for: signals and files that change.

#![allow(clippy::print_stdout, reason = "a forced end does not wait for the log")]

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A burst of file events is one change; this long without a further one ends it.
const SETTLE: Duration = Duration::from_millis(100);
/// Where file events never pause, a change is looked at after this time.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// How often it is seen, while a signal is waited for, whether other work is done.
const ROUND: Duration = Duration::from_millis(5);
/// Exit code after a second SIGINT.
const EXIT_FORCED: i32 = 2;

/// What the main thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A signal.
    Signal(i32),
    /// A watched file may have changed.
    Look,
    /// A hand-over has something to be done.
    Handover,
}

/// Signals become events; a second SIGINT ends the process at once.
pub(crate) fn watch_signals(events: Sender<Event>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGHUP])?;
    let interrupted = AtomicBool::new(false);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && interrupted.swap(true, Ordering::Relaxed) {
                println!("[INFO] SIGINT: Force quit");
                std::process::exit(EXIT_FORCED);
            }
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Does `work` on a thread called `name`, and waits for it. Gives nothing if a signal to end comes
/// first: the thread may go on for as long as the process lives, and nobody hears what came of it.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn unless_ended<T: Send + 'static>(
    events: &Receiver<Event>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Option<T>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    while !thread.is_finished() {
        match events.recv_timeout(ROUND) {
            Ok(Event::Signal(SIGTERM | SIGINT | SIGQUIT)) | Err(RecvTimeoutError::Disconnected) => {
                return Ok(None);
            }
            // What else comes is about a configuration that is not at work yet.
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
    match thread.join() {
        Ok(done) => Ok(Some(done)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Swallows the rest of a burst of file events; gives a signal that came in between.
pub(crate) fn settle(events: &Receiver<Event>) -> Option<Event> {
    let until = Instant::now() + SETTLE_MAX;
    while Instant::now() < until {
        match events.recv_timeout(SETTLE) {
            Ok(Event::Look) => {}
            Ok(signal) => return Some(signal),
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_folder_that_never_rests_does_not_put_off_a_reload_for_ever() {
        let (sender, events) = channel();
        let busy = std::thread::spawn(move || {
            while sender.send(Event::Look).is_ok() {
                std::thread::sleep(SETTLE / 10);
            }
        });
        let (done, settled) = channel();
        std::thread::spawn(move || _ = done.send(settle(&events)));
        assert_eq!(settled.recv_timeout(10 * SETTLE_MAX), Ok(None));
        busy.join().unwrap();
    }

    #[test]
    fn a_signal_ends_a_burst_of_file_events_at_once() {
        let (sender, events) = channel();
        for event in [Event::Look, Event::Look, Event::Signal(SIGTERM), Event::Look] {
            sender.send(event).unwrap();
        }
        assert_eq!(settle(&events), Some(Event::Signal(SIGTERM)));
    }
}
