//! The writers of `dnstap`: messages to frame streams on a socket, each on a thread of its own.

mod encode;
mod stream;
mod tls;

use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_core::tap::{Message, Messages, Spec, Tap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stream::Stream;

/// How long written messages may wait for others before they are sent.
const FLUSH: Duration = Duration::from_millis(200);
/// How often a reader that is not there is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often losses are told.
const TELL: Duration = Duration::from_secs(10);

/// The writers of one configuration; they end when this is dropped and they have written what waits.
#[derive(Default)]
pub(crate) struct Taps {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Taps {
    /// A writer for each of `taps`.
    pub(crate) fn start(taps: &[Arc<Tap>], shared: &Arc<Shared>) -> Self {
        let mut started = Self::default();
        for tap in taps {
            let Some(messages) = tap.take_messages() else { continue };
            let mut writer = Writer {
                spec: tap.spec.clone(),
                shared: shared.clone(),
                stop: started.stop.clone(),
                stream: None,
                retry_at: Instant::now(),
                told_at: Instant::now(),
                complained: false,
                lost: 0,
                scratch: Vec::new(),
            };
            let run = move || {
                nodens_net::cpu::yield_to_workers();
                writer.run(&messages);
            };
            let thread = std::thread::Builder::new().name("dnstap".to_owned()).spawn(run);
            started.threads.extend(thread.ok());
        }
        started
    }
}

impl Taps {
    /// Ends the writers, and waits until they have written what waits.
    pub(crate) fn finish(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

impl Drop for Taps {
    /// A reload does not wait for readers.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Writer {
    spec: Spec,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    stream: Option<Stream>,
    retry_at: Instant,
    told_at: Instant,
    /// Whether it was said that there is no connection.
    complained: bool,
    /// Messages that were not written.
    lost: u64,
    scratch: Vec<u8>,
}

impl Writer {
    fn run(&mut self, messages: &Messages) {
        let mut wall = Wall::now();
        loop {
            self.connect();
            match messages.next_within(FLUSH) {
                Ok(message) => {
                    self.write(&message, wall);
                    // As many as there are, then one look at the clock.
                    messages.now().take(1000).for_each(|message| self.write(&message, wall));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            wall = Wall::now();
            if self.stream.as_mut().is_some_and(|stream| stream.flush().is_err()) {
                self.disconnect();
            }
            self.tell(messages);
            if self.stop.load(Ordering::Relaxed) {
                messages.now().for_each(|message| self.write(&message, wall));
                break;
            }
        }
        if let Some(stream) = self.stream.take() {
            stream.finish();
        }
    }

    fn connect(&mut self) {
        if self.stream.is_some() || Instant::now() < self.retry_at {
            return;
        }
        match Stream::connect(&self.spec) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.complained = false;
            }
            Err(error) => {
                self.retry_at = Instant::now() + RETRY;
                if !std::mem::replace(&mut self.complained, true) {
                    let text = format!("No connection to dnstap endpoint: {error}");
                    self.shared.sink.line(Level::Error, "dnstap", text);
                }
            }
        }
    }

    fn write(&mut self, message: &Message, wall: Wall) {
        let Some(stream) = &mut self.stream else {
            self.lost += 1;
            return;
        };
        self.scratch.clear();
        encode::message(message, &self.spec, |mono_ns| wall.at(mono_ns), &mut self.scratch);
        if stream.frame(&self.scratch).is_err() {
            self.lost += 1;
            self.disconnect();
        }
    }

    fn disconnect(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.abandon();
        }
    }

    fn tell(&mut self, messages: &Messages) {
        if self.told_at.elapsed() < TELL {
            return;
        }
        self.told_at = Instant::now();
        let lost = std::mem::take(&mut self.lost) + messages.take_dropped();
        if lost > 0 {
            let text = format!("Dropped dnstap messages: {lost}");
            self.shared.sink.line(Level::Warning, "dnstap", text);
        }
    }
}

/// What the clock on the wall said at a monotonic time.
#[derive(Clone, Copy)]
struct Wall {
    mono_ns: u64,
    since_1970: Duration,
}

impl Wall {
    fn now() -> Self {
        let mono_ns = nodens_net::clock::now().mono_ns;
        Self {
            mono_ns,
            since_1970: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    fn at(self, mono_ns: u64) -> Duration {
        let before = Duration::from_nanos(self.mono_ns.saturating_sub(mono_ns));
        let after = Duration::from_nanos(mono_ns.saturating_sub(self.mono_ns));
        self.since_1970.saturating_sub(before) + after
    }
}
