//! When questions come here: not before an upstream has answered.

use super::probe::{Target, ask_any};
use nodens_core::log::{Level, Sink};
use nodens_node::network::Network;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between the first two attempts; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Whom to ask before questions come here; without anybody, nobody has to answer.
type Targets = Arc<Mutex<Vec<Target>>>;

/// The thread that asks, and then attracts.
pub(crate) struct Gate {
    targets: Targets,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    /// Asks `targets` until one of them answers, then lets questions come here and sets `open`. If
    /// that is set already, a predecessor brought them here.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start(
        targets: Vec<Target>,
        open: Arc<AtomicBool>,
        network: Arc<Network>,
        sink: Sink,
    ) -> io::Result<Self> {
        let targets = Arc::new(Mutex::new(targets));
        let (stop, stopped) = channel::<()>();
        let asked = targets.clone();
        let run = move || {
            let pause = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if open.load(Ordering::Acquire) || wait(&asked, &sink, pause) {
                network.attract();
                open.store(true, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new().name("gate".to_owned()).spawn(run)?;
        Ok(Self { targets, stop: Some(stop), thread: Some(thread) })
    }

    /// Asks others from now on.
    pub(crate) fn set_targets(&self, targets: Vec<Target>) {
        *self.targets.lock().unwrap_or_else(PoisonError::into_inner) = targets;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Waits until somebody answers; false if `pause` says that the wait is over. Says once that it
/// waits, and when the wait ends.
fn wait(targets: &Targets, sink: &Sink, pause: impl Fn(Duration) -> bool) -> bool {
    let begun = Instant::now();
    let mut time = PAUSE;
    let mut said = false;
    loop {
        let asked = targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if asked.is_empty() {
            return true;
        }
        match ask_any(&asked) {
            Ok(target) => {
                let (network, address) = (target.carrier.name(), target.address);
                let took = begun.elapsed();
                let text = format!(
                    "upstream {address} answered over {network} after {took:.1?}: this node's questions come here now"
                );
                sink.line(Level::Info, "", text);
                return true;
            }
            Err(why) if !said => {
                said = true;
                let text = format!(
                    "waiting until an upstream answers, questions go to the central servers meanwhile: {why}"
                );
                sink.line(Level::Warning, "", text);
            }
            Err(_) => {}
        }
        if !pause(time) {
            return false;
        }
        time = (time * 2).min(PAUSE_MAX);
    }
}
