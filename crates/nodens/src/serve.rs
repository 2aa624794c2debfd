//! Start, events, shutdown.

#![allow(clippy::print_stdout, reason = "the banner is the program's output")]

use crate::endpoints::{Endpoints, Facts};
use crate::flags::Flags;
use crate::load::{self, Loaded};
use crate::logger::Logger;
use crate::reload::Reloads;
use crate::tasks::Tasks;
use crate::{clusters, face, probe, process};
use nodens_core::config::Services;
use nodens_core::limits::{PENDING_MEMORY_MAX, PENDING_MEMORY_SHARE};
use nodens_core::log::Level;
use nodens_core::{Config, Shared};
use nodens_kube::Watches;
use nodens_net::{Notifications, Options, Runtime, cpu, memory};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long shutdown waits for questions under way, as CoreDNS does.
const GRACE: Duration = Duration::from_secs(5);
/// A burst of file events is one change; this long without a further one ends it.
const SETTLE: Duration = Duration::from_millis(100);
/// Where file events never pause, a change is looked at after this time.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// Exit code after a second SIGINT.
const EXIT_FORCED: i32 = 2;

/// What the main thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A signal.
    Signal(i32),
    /// A watched file may have changed.
    Look,
}

/// The running server.
struct Server {
    flags: Flags,
    shared: Arc<Shared>,
    facts: Arc<Facts>,
    runtime: Option<Runtime>,
    config: Arc<Config>,
    endpoints: Endpoints,
    tasks: Tasks,
    watches: Watches,
    notifications: Option<Notifications>,
    reloads: Reloads,
    lameduck: Duration,
    /// What came while something else was waited for.
    put_off: Option<Event>,
}

/// Serves until a signal ends it.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    let (sender, events) = channel();
    // First of all: a signal must never meet its default action, which ends the process.
    if let Err(error) = watch_signals(sender.clone()) {
        eprintln!("signals: {error}");
        return ExitCode::FAILURE;
    }
    let logger = Logger::start(flags.log_format, std::io::stdout());
    let code = match Server::start(flags.clone(), &logger, sender, &events) {
        Ok(Some(mut server)) => {
            server.greet();
            server.live(&events)
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    };
    if let Some(path) = &flags.pidfile {
        _ = std::fs::remove_file(path);
    }
    logger.stop();
    code
}

/// Signals become events; a second SIGINT ends the process at once.
fn watch_signals(events: Sender<Event>) -> std::io::Result<()> {
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

/// What questions that wait may take, in octets.
fn pending_memory(flags: &Flags) -> usize {
    if flags.pending_memory > 0 {
        return flags.pending_memory;
    }
    let there_is = memory::limit().unwrap_or(usize::MAX);
    (there_is / PENDING_MEMORY_SHARE).min(PENDING_MEMORY_MAX)
}

impl Server {
    /// Starts to serve; gives nothing if a signal came before that.
    fn start(
        flags: Flags,
        logger: &Logger,
        sender: Sender<Event>,
        events: &Receiver<Event>,
    ) -> Result<Option<Self>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let source = load::read(&flags).map_err(|error| text(&error))?;
        let loaded = load::parse_first(source, &flags).map_err(|error| text(&error))?;
        let workers = if flags.workers == 0 { cpu::workers() } else { flags.workers };
        let shared = Arc::new(Shared::new(workers, logger.sink.clone()));
        shared.set_pending_memory(pending_memory(&flags));
        process::register(&shared, logger);
        let mut config = load::compile(&loaded, &flags, &shared).map_err(|error| text(&error))?;
        let facts = Arc::new(Facts {
            shared: shared.clone(),
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        });
        let mut endpoints = Endpoints::new(facts.clone()).map_err(|error| text(&error))?;
        let tasks = std::mem::take(&mut config.services.tasks);
        let config = Arc::new(config);
        let mut watches = Watches::new(shared.clone(), cpu::yield_to_workers);
        clusters::watch(&mut watches, &config.services, &shared)?;
        // Before the wait, so that probes hear meanwhile that the process lives.
        endpoints.apply(&config.services).map_err(|error| text(&error))?;
        if clusters::wait(&config.services, &shared, events).is_some() {
            return Ok(None);
        }
        let runtime = Runtime::start(shared.clone(), config.clone(), Options::default())
            .map_err(|error| text(&error))?;
        // The workers run: what this thread does from now on, and whom it starts, comes second.
        cpu::yield_to_workers();
        if let Some(path) = &flags.pidfile {
            std::fs::write(path, format!("{}\n", std::process::id()))
                .map_err(|error| format!("pidfile {path}: {error}"))?;
        }
        facts.ready.store(true, Ordering::Relaxed);
        let reloads = Reloads::new(shared.clone(), sender);
        let mut server = Self {
            flags,
            shared,
            facts,
            runtime: Some(runtime),
            config,
            endpoints,
            tasks: Tasks::start(tasks),
            watches,
            notifications: None,
            reloads,
            lameduck: Duration::ZERO,
            put_off: None,
        };
        server.follow(&loaded);
        Ok(Some(server))
    }

    /// What has to happen after a configuration was taken up.
    fn follow(&mut self, loaded: &Loaded) {
        for warning in &loaded.tree.warnings {
            self.shared.sink.line(Level::Warning, "", warning.to_string());
        }
        let config = self.config.clone();
        let services = &config.services;
        self.lameduck = services.health.iter().map(|h| h.lameduck).max().unwrap_or_default();
        self.endpoints.watch_health(services.health.first().cloned());
        for target in &services.loops {
            self.endpoints.spawn(probe::watch_for_loop(target.clone()));
        }
        self.reloads.follow(loaded, services);
        self.notify(services);
    }

    /// Tells secondaries of the zones there are, anew with each configuration.
    fn notify(&mut self, services: &Services) {
        self.notifications = None;
        match Notifications::start(&services.notifies, self.shared.sink.clone()) {
            Ok(notifications) => self.notifications = Some(notifications),
            Err(error) => {
                let text = format!("nobody can be notified of changes: {error}");
                self.shared.sink.line(Level::Error, "transfer", text);
            }
        }
    }

    fn greet(&self) {
        if self.flags.quiet {
            return;
        }
        let bound = self.runtime.as_ref().map(Runtime::local_addresses).unwrap_or_default();
        print!("{}{}", face::banner(&self.config, &bound), face::version_text());
        // Someone may be waiting for these lines behind a pipe.
        _ = std::io::Write::flush(&mut std::io::stdout());
    }

    fn live(&mut self, events: &Receiver<Event>) -> ExitCode {
        loop {
            let event = match (self.put_off.take(), self.reloads.wait()) {
                (Some(event), _) => Ok(event),
                (None, Some(wait)) => events.recv_timeout(wait),
                (None, None) => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Signal(SIGTERM)) => {
                    self.say("SIGTERM: Shutting down servers then terminating");
                    return self.stop();
                }
                Ok(Event::Signal(SIGINT)) => {
                    self.say("SIGINT: Shutting down");
                    return self.stop();
                }
                Ok(Event::Signal(SIGQUIT)) => {
                    self.say("SIGQUIT: Quitting process immediately");
                    return ExitCode::SUCCESS;
                }
                Ok(Event::Signal(SIGUSR1)) => {
                    self.say("SIGUSR1: Reloading");
                    if let Err(error) = self.reload(events) {
                        let text = format!("SIGUSR1: {error}");
                        self.shared.sink.line(Level::Error, "", text);
                    }
                }
                Ok(Event::Signal(_)) => {}
                Ok(Event::Look) => {
                    self.put_off = settle(events);
                    self.look(events);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look(events);
                    self.reloads.schedule();
                }
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
            }
        }
    }

    /// Reloads if the Corefile differs from what was last looked at.
    fn look(&mut self, events: &Receiver<Event>) {
        if !self.reloads.active() {
            return;
        }
        // A file that cannot be read is being replaced, or gone: what runs goes on.
        let Ok(source) = load::read(&self.flags) else { return };
        match load::parse_anew(source) {
            Ok(loaded) if !self.reloads.is_new(&loaded.hash) => {}
            Ok(loaded) => {
                if let Err(error) = self.take_up(loaded, events) {
                    self.reloads.failed(&error);
                }
            }
            Err(error) => {
                let text = error.brief();
                if self.reloads.is_new(&text) {
                    let text = format!("Corefile parse failed: {text}");
                    self.shared.sink.line(Level::Warning, "reload", text);
                }
            }
        }
    }

    fn reload(&mut self, events: &Receiver<Event>) -> Result<(), String> {
        let source = load::read(&self.flags).map_err(|error| error.brief())?;
        let loaded = load::parse_anew(source).map_err(|error| error.brief())?;
        self.take_up(loaded, events)
    }

    /// Builds everything new beside the old, then swaps: all or nothing.
    fn take_up(&mut self, loaded: Loaded, events: &Receiver<Event>) -> Result<(), String> {
        self.say("Reloading");
        let result = self.try_take_up(loaded, events);
        match &result {
            Ok(()) => self.say("Reloading complete"),
            Err(error) => {
                // What was begun to be watched for it is not wanted.
                self.watches.retain(&clusters::feeds(&self.config.services));
                let text = format!("Restart failed: {error}");
                self.shared.sink.line(Level::Error, "", text);
            }
        }
        result
    }

    fn try_take_up(&mut self, loaded: Loaded, events: &Receiver<Event>) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let mut config =
            load::compile(&loaded, &self.flags, &self.shared).map_err(|error| error.brief())?;
        let tasks = std::mem::take(&mut config.services.tasks);
        let config = Arc::new(config);
        clusters::watch(&mut self.watches, &config.services, &self.shared)?;
        // The old configuration answers meanwhile. A signal is obeyed right after the reload.
        let signal = clusters::wait(&config.services, &self.shared, events);
        self.put_off = signal.or(self.put_off.take());
        self.endpoints.apply(&config.services).map_err(|error| text(&error))?;
        let applied = self.runtime.as_mut().map(|runtime| runtime.apply(config.clone()));
        match applied {
            Some(Err(error)) => {
                // The endpoints of the old configuration are still bound or can be bound again.
                _ = self.endpoints.apply(&self.config.services);
                return Err(text(&error));
            }
            Some(Ok(silent)) if !silent.is_empty() => {
                let text = format!("workers {silent:?} have not taken up the configuration yet");
                self.shared.sink.line(Level::Warning, "reload", text);
            }
            _ => {}
        }
        self.config = config;
        self.tasks = Tasks::start(tasks);
        self.watches.retain(&clusters::feeds(&self.config.services));
        self.follow(&loaded);
        Ok(())
    }

    /// Says so, keeps answering for the lameduck time, then ends what is under way.
    fn stop(&mut self) -> ExitCode {
        self.notifications = None;
        self.facts.stopping.store(true, Ordering::Relaxed);
        if !self.lameduck.is_zero() {
            let text = format!("Going into lameduck mode for {:?}", self.lameduck);
            self.shared.sink.line(Level::Info, "health", text);
            std::thread::sleep(self.lameduck);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown(GRACE);
        }
        ExitCode::SUCCESS
    }

    fn say(&self, text: &str) {
        self.shared.sink.line(Level::Info, "", text);
    }
}

/// Swallows the rest of a burst of file events; gives a signal that came in between.
fn settle(events: &Receiver<Event>) -> Option<Event> {
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
