//! What the main thread waits for: signals and files that change.

use crate::flags::{Flags, LogFormat};
use crate::logger;
use nodens_core::log::Level;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A burst of file events is one change; this long without a further one ends it.
const SETTLE: Duration = Duration::from_millis(100);
/// Where file events never pause, a change is looked at after this time.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// How often it is seen, while a signal is waited for, whether other work is done.
const ROUND: Duration = Duration::from_millis(5);
/// How long a forced end waits for its line to be written: whoever reads it may stand still.
const LAST_WORD: Duration = Duration::from_millis(200);
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

/// What came while something else was waited for: each once, what ends the process first.
#[derive(Debug, Default)]
pub(crate) struct Deferred(VecDeque<Event>);

impl Deferred {
    /// For a start. The node role takes long enough for files to change meanwhile.
    pub(crate) fn at_start(flags: &Flags) -> Self {
        Self(flags.node.iter().map(|_| Event::Look).collect())
    }

    /// Keeps `event`.
    pub(crate) fn push(&mut self, event: Event) {
        if self.0.contains(&event) {
            return;
        }
        match event {
            Event::Signal(SIGTERM | SIGINT | SIGQUIT) => self.0.push_front(event),
            _ => self.0.push_back(event),
        }
    }

    /// Gives what comes next.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

/// Signals become events; a second SIGINT ends the process at once.
pub(crate) fn watch_signals(events: Sender<Event>, format: LogFormat) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGHUP])?;
    let interrupted = AtomicBool::new(false);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && interrupted.swap(true, Ordering::Relaxed) {
                say_last(logger::line(format, Level::Info, "", "SIGINT: Force quit"));
                std::process::exit(EXIT_FORCED);
            }
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Writes a line past the log's queue, if it can be written at once.
fn say_last(line: String) {
    let (done, written) = channel();
    let write = move || {
        let mut out = std::io::stdout().lock();
        _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        _ = done.send(());
    };
    if std::thread::Builder::new().name("last-word".to_owned()).spawn(write).is_ok() {
        _ = written.recv_timeout(LAST_WORD);
    }
}

/// Does `work` on a thread called `name`, and waits for it. Gives nothing if a signal to end comes
/// first: the thread may go on for as long as the process lives, and nobody hears what came of it.
/// All else that comes meanwhile is for `deferred`.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn unless_ended<T: Send + 'static>(
    events: &Receiver<Event>,
    deferred: &mut Deferred,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Option<T>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    while !thread.is_finished() {
        match events.recv_timeout(ROUND) {
            Ok(Event::Signal(SIGTERM | SIGINT | SIGQUIT)) | Err(RecvTimeoutError::Disconnected) => {
                return Ok(None);
            }
            Ok(event) => deferred.push(event),
            Err(RecvTimeoutError::Timeout) => {}
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
    fn what_is_put_off_is_not_lost_and_an_end_comes_first() {
        let mut deferred = Deferred::default();
        for signal in [SIGUSR1, SIGUSR2, SIGUSR1, SIGTERM] {
            deferred.push(Event::Signal(signal));
        }
        deferred.push(Event::Look);
        let all: Vec<_> = std::iter::from_fn(|| deferred.next()).collect();
        let signals = [SIGTERM, SIGUSR1, SIGUSR2].map(Event::Signal);
        assert_eq!(all, [&signals[..], &[Event::Look]].concat());
    }

    #[test]
    fn what_comes_while_a_thread_works_is_not_lost() {
        let (sender, events) = channel();
        let reload = Event::Signal(SIGUSR1);
        sender.send(reload).unwrap();
        let mut deferred = Deferred::default();
        let work = || std::thread::sleep(20 * ROUND);
        assert_eq!(unless_ended(&events, &mut deferred, "work", work).unwrap(), Some(()));
        // It may not have been looked at yet.
        assert_eq!(deferred.next().or(events.try_recv().ok()), Some(reload));
        sender.send(Event::Signal(SIGTERM)).unwrap();
        let work = || std::thread::sleep(SETTLE_MAX);
        assert_eq!(unless_ended(&events, &mut deferred, "work", work).unwrap(), None);
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
