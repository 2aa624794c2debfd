//! `sign`: zones are signed on a thread of their own, where they may take long.

use nodens_core::log::{Level, Sink};
use nodens_core::zone_signer::{SignFailure, ZoneSigner};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks at the files of zones.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// From a failure until the next attempt, unless the zone's files change meanwhile.
const RETRY_AFTER: Duration = Duration::from_secs(5 * 3600);

/// The same, where it is not the zone that is wrong.
const RETRY_SOON_AFTER: Duration = Duration::from_secs(5 * 60);

/// Signs the zones of one configuration; dropping it ends that, and what is under way.
#[derive(Default)]
pub(crate) struct Signing {
    running: Option<Running>,
}

struct Running {
    /// Dropped to wake the thread.
    stop: Option<Sender<()>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Signing {
    /// Signs these zones from now on, and no others. Without any, no thread is needed.
    pub(crate) fn replace(&mut self, signers: &[Arc<ZoneSigner>], sink: &Sink) {
        // One at a time: both would write the same files.
        self.running = None;
        if signers.is_empty() {
            return;
        }
        let (stop, words) = channel();
        let stopped = Arc::<AtomicBool>::default();
        let mut zones: Vec<Zone> = signers.iter().cloned().map(Zone::new).collect();
        let (lines, flag) = (sink.clone(), stopped.clone());
        let run = move || run(&mut zones, &lines, &words, &flag);
        match std::thread::Builder::new().name("sign".to_owned()).spawn(run) {
            Ok(thread) => {
                let (stop, thread) = (Some(stop), Some(thread));
                self.running = Some(Running { stop, stopped, thread });
            }
            Err(error) => {
                let text = format!("signing failed: no thread: {error}; no zone is signed");
                sink.line(Level::Error, "sign", text);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.stop = None;
        _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(zones: &mut [Zone], sink: &Sink, words: &Receiver<()>, stopped: &AtomicBool) {
    let mut is_first = true;
    loop {
        for zone in &mut *zones {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            zone.look(sink, stopped, is_first);
        }
        is_first = false;
        match words.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A zone, and its last failure.
struct Zone {
    signer: Arc<ZoneSigner>,
    failed: Option<Failed>,
}

#[derive(Clone, Copy)]
struct Failed {
    at: Instant,
    /// Until the next attempt.
    wait: Duration,
}

impl Zone {
    fn new(signer: Arc<ZoneSigner>) -> Self {
        Self { signer, failed: None }
    }

    /// Signs the zone if it is due.
    fn look(&mut self, sink: &Sink, stopped: &AtomicBool, is_first: bool) {
        let waits =
            |Failed { at, wait }: &Failed| at.elapsed() < *wait && !self.signer.has_changed();
        if self.failed.as_ref().is_some_and(waits) {
            return;
        }
        let (now_s, signer) = (unix_s(), &*self.signer);
        let last = self.failed.filter(|_| !signer.has_changed()).map(|failed| failed.wait);
        let (origin, path) = (signer.origin(), signer.signed_file());
        let path = path.display();
        let Some(reason) = signer.reason(now_s) else {
            if is_first {
                let text = format!(
                    "Skipping signing zone \"{origin}\" in \"{path}\": signatures are valid"
                );
                sink.line(Level::Info, "sign", text);
            }
            return;
        };
        sink.line(Level::Info, "sign", format!("Signing \"{origin}\" because {reason}"));
        let (begin, tags) = (Instant::now(), signer.key_tags());
        let result = signer.sign(now_s, &|| !stopped.load(Ordering::Relaxed));
        let elapsed = begin.elapsed().as_secs_f64();
        // What takes long before it fails does not keep the disk busy.
        let failed = |error| Failed { at: Instant::now(), wait: wait_after(error, last) };
        self.failed = result.as_ref().err().map(failed);
        let line = match result {
            Ok(signed) => {
                let serial = signed.serial.0;
                if signed.is_behind() {
                    let text = format!(
                        "Serial {} in the file of zone \"{origin}\" is greater than {serial} in \"{path}\": secondaries that have it do not take the signed zone",
                        signed.source_serial.0
                    );
                    sink.line(Level::Warning, "sign", text);
                }
                (
                    Level::Info,
                    format!(
                        "Successfully signed zone \"{origin}\" in \"{path}\" with key tags \"{tags}\" and {serial} SOA serial, elapsed {elapsed:.6}"
                    ),
                )
            }
            Err(error) if error.is_stop() => return,
            Err(error) => (
                Level::Warning,
                format!(
                    "Error signing \"{origin}\" with key tags \"{tags}\" in {elapsed:.6} s: {error}: it failed, and is tried again in {} or when its files change",
                    told(wait_after(&error, last))
                ),
            ),
        };
        sink.line(line.0, "sign", line.1);
    }
}

/// How long to wait after a failure: twice as long as after the `last` one with the same files, as what may pass
/// does not always.
fn wait_after(error: &SignFailure, last: Option<Duration>) -> Duration {
    let longer = |last: Duration| (2 * last).min(RETRY_AFTER);
    if error.may_pass() { last.map_or(RETRY_SOON_AFTER, longer) } else { RETRY_AFTER }
}

fn told(time: Duration) -> String {
    match time.as_secs() / 60 {
        minutes if minutes.is_multiple_of(60) => format!("{} hours", minutes / 60),
        minutes => format!("{minutes} minutes"),
    }
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_may_pass_and_does_not_is_tried_less_and_less_often() {
        let full = SignFailure::Write(std::io::ErrorKind::StorageFull.into());
        let mut last = None;
        let waits = [(); 8].map(|()| {
            let wait = wait_after(&full, last);
            last = Some(wait);
            told(wait)
        });
        let minutes = ["5", "10", "20", "40", "80", "160"].map(|count| format!("{count} minutes"));
        assert_eq!(
            (&waits[..6], &waits[6..]),
            (&minutes[..], &["5 hours", "5 hours"].map(String::from)[..])
        );
        let wrong = SignFailure::File("no zone".to_owned());
        assert_eq!(told(wait_after(&wrong, None)), "5 hours");
    }
}
