//! When queries come here: not before an upstream has answered, and not while none does.
//!
//! One thread for both: it waits for the first answer here, and sees to [`outage`]s
//! from then on.

use super::asked::Asked;
use super::errors::SetupErrors;
use super::outage;
use super::probe::ask_any;
use nodens_core::log::{Level, Sink};
use nodens_node::network::Network;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between the first two attempts; it doubles up to [`PAUSE_MAX`].
pub(super) const PAUSE: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often it is seen whether a predecessor brings queries to itself still.
const CLEAR_ROUND: Duration = Duration::from_millis(10);

/// What the gate is for.
#[derive(Clone)]
pub(crate) struct Setting {
    /// Where queries are let in.
    pub(crate) network: Arc<Network>,
    /// Whether an upstream has answered.
    pub(crate) answered: Arc<AtomicBool>,
    /// Whether no predecessor that serves brings queries to itself.
    pub(crate) clear: Arc<AtomicBool>,
    /// Whether queries have been brought here.
    pub(crate) open: Arc<AtomicBool>,
    /// Whether another process has our listeners and our network too.
    pub(crate) listeners_shared: Arc<AtomicBool>,
    /// The port of queries.
    pub(crate) dns_port: u16,
    pub(crate) counts: Arc<SetupErrors>,
    pub(crate) sink: Sink,
}

/// The thread that asks, attracts, and leaves queries to others.
pub(crate) struct Gate {
    asked: Arc<Mutex<Asked>>,
    /// Whether the thread may change the network still.
    holds: Arc<Mutex<bool>>,
    network: Arc<Network>,
    _stop: Sender<()>,
}

/// The thread's part.
pub(super) struct Keeper {
    asked: Arc<Mutex<Asked>>,
    holds: Arc<Mutex<bool>>,
    stopped: Receiver<()>,
    pub(super) setting: Setting,
}

impl Gate {
    /// Asks until an upstream answers, then lets queries come here and opens. If that is so already,
    /// a predecessor brought them here.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start(asked: Asked, setting: Setting) -> io::Result<Self> {
        let (asked, holds) = (Arc::new(Mutex::new(asked)), Arc::new(Mutex::new(true)));
        let (stop, stopped) = channel::<()>();
        let network = setting.network.clone();
        let gate = Self { asked: asked.clone(), holds: holds.clone(), network, _stop: stop };
        let keeper = Keeper { asked, holds, stopped, setting };
        std::thread::Builder::new().name("gate".to_owned()).spawn(move || keeper.run())?;
        Ok(gate)
    }

    /// Asks others from now on.
    pub(crate) fn set(&self, asked: Asked) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
    }
}

impl Drop for Gate {
    /// From here on nothing is changed. The thread may still wait for an answer; it is not joined.
    fn drop(&mut self) {
        // It may be about to change something, which can take a program that hangs.
        let _hurry = self.network.hurry();
        *self.holds.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Keeper {
    fn run(&self) {
        let open = &self.setting.open;
        if !open.load(Ordering::Acquire) && !self.wait() {
            return;
        }
        self.setting.answered.store(true, Ordering::Release);
        while !self.setting.clear.load(Ordering::Acquire) {
            if !self.pause(CLEAR_ROUND) {
                return;
            }
        }
        if self.change(Network::attract) {
            open.store(true, Ordering::Release);
            outage::watch(self);
        }
    }

    /// Whom to ask now.
    pub(super) fn asked(&self) -> Asked {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits; false if the gate is gone.
    pub(super) fn pause(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Changes the network; false if the gate is gone.
    pub(super) fn change(&self, change: impl FnOnce(&Network)) -> bool {
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        if *holds {
            change(&self.setting.network);
        }
        *holds
    }

    pub(super) fn say(&self, level: Level, text: String) {
        self.setting.sink.line(level, "", text);
    }

    /// Waits until an upstream answers; false if the gate is gone. Says once that it waits, and when
    /// the wait ends.
    fn wait(&self) -> bool {
        let begun = Instant::now();
        let mut time = PAUSE;
        let mut said = false;
        loop {
            let targets = self.asked().targets;
            if targets.is_empty() {
                return true;
            }
            match ask_any(&targets) {
                Ok(target) => {
                    let (network, address) = (target.way.carrier().proto(), target.address);
                    let took = begun.elapsed();
                    self.say(Level::Info, format!(
                        "upstream {address} answered over {network} after {took:.1?}: taking over this node's queries"
                    ));
                    return true;
                }
                Err(why) if !said => {
                    said = true;
                    self.say(Level::Warning, format!(
                        "waiting until an upstream answers, queries go to the central servers meanwhile: {why}"
                    ));
                }
                Err(_) => {}
            }
            if !self.pause(time) {
                return false;
            }
            time = (time * 2).min(PAUSE_MAX);
        }
    }
}
