//! Start, events, shutdown.

mod compiled;
mod error;
mod handing_over;
mod lacks;
mod memory;
mod reloading;
mod services;

pub(crate) use memory::budget;

use crate::budget::Cache;
use crate::context::Context;
use crate::events::{Deferred, Event, settle, watch_signals};
use crate::flags::Flags;
use crate::handover::{self, AtEnd, Finished, Handover, Successors, Waiting};
use crate::logger::Logger;
use crate::machine::{Machine, Wanted};
use crate::reload::Reloads;
use crate::{face, pidfile};
use error::StartError;
use nodens_core::log::{Level, Record};
use nodens_net::{Runtime, cpu};
use nodens_node::handover::Name;
use rustix::process::Signal;
use services::Services;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long shutdown waits for queries under way, as CoreDNS does.
const GRACE: Duration = Duration::from_secs(5);
/// The stack of the thread that reads configurations: as much as the first thread of a process has.
const STACK_LEN: usize = 8 << 20;
/// How often it is seen whether queries may be taken beside a predecessor.
const SHARED_ROUND: Duration = Duration::from_millis(20);

/// The running server: its parts, and what the main thread does with them.
struct Server {
    context: Arc<Context>,
    services: Services,
    reloads: Reloads,
    /// What came while something else was waited for.
    deferred: Deferred,
    handover: Handover,
    /// What the process does at the end.
    at_end: AtEnd,
}

/// Serves until a signal ends it.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    nodens_net::memory::keep_large_blocks_apart();
    let (sender, mut events) = channel();
    // First of all: a signal must never meet its default action, which ends the process.
    if let Err(error) = watch_signals(sender.clone(), flags.log_format) {
        eprintln!("signals: {error}");
        return ExitCode::FAILURE;
    }
    let mut name = None;
    loop {
        let (own_flags, own_sender) = (flags.clone(), sender.clone());
        let life = move || {
            let (at_end, code) = live(&own_flags, own_sender, &events, name);
            (at_end, code, events)
        };
        // The serving thread raises its nice value, which cannot be undone. It runs on a thread of its
        // own so that a later server does not inherit that.
        let thread = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK_LEN);
        let (at_end, code) = match thread.spawn(life).map(JoinHandle::join) {
            Ok(Ok((at_end, code, back))) => {
                events = back;
                (at_end, code)
            }
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => {
                eprintln!("cannot start the server thread: {error}");
                return ExitCode::FAILURE;
            }
        };
        // What has ended may have left much, and this process may wait for long.
        nodens_net::memory::give_back();
        match handover::finish(at_end, code, &sender, &events) {
            Finished::End(code) => return code,
            Finished::Fail(why) => {
                face::start_error(flags.log_format, &why);
                return ExitCode::FAILURE;
            }
            Finished::Again(taken) => name = Some(taken),
        }
    }
}

/// The life of one server, with the exit code and what is to be done after it. `name` is that under
/// which successors find it, if it is ours already.
fn live(
    flags: &Flags,
    sender: Sender<Event>,
    events: &Receiver<Event>,
    name: Option<Name>,
) -> (AtEnd, ExitCode) {
    let logger = Logger::start(flags.log_format, std::io::stdout());
    let mut at_end = AtEnd::Exit;
    let context = memory::context(flags.clone(), &logger, sender);
    let code = match Server::start(context, events, name) {
        Ok(mut server) => {
            server.greet();
            server.look_at_machine();
            let code = server.live(events);
            at_end = server.at_end.clone();
            code
        }
        Err(StartError::Ended) => ExitCode::SUCCESS,
        Err(error) => {
            face::start_error(flags.log_format, &error.to_string());
            ExitCode::FAILURE
        }
    };
    if let Some(path) = &flags.pidfile {
        pidfile::remove(path);
    }
    logger.stop();
    (at_end, code)
}

impl Server {
    /// Takes all steps to a server that runs; see [`services`].
    fn start(
        context: Context,
        events: &Receiver<Event>,
        name: Option<Name>,
    ) -> Result<Self, StartError> {
        let context = Arc::new(context);
        let Context { flags, shared, .. } = &*context;
        let successors = Successors::prepare(shared.sink.clone());
        let claimed = handover::claim(flags, &shared.sink, name, events)?;
        let inherited = claimed.ok_or(StartError::Ended)?;
        let mut waiting = Waiting::new(events, Deferred::at_start(flags), inherited, shared);
        let started = Services::start(&context, &mut waiting);
        let Waiting { inherited, deferred, .. } = waiting;
        let (services, loaded) = match started {
            Err(StartError::Ended) => {
                return Err(inherited.refusal().map_or(StartError::Ended, StartError::Claim));
            }
            started => started?,
        };
        let reloads = Reloads::new(shared.clone(), context.events.clone());
        let handover = Handover::new(&context, inherited, successors);
        let at_end = AtEnd::Exit;
        let mut server = Self { context, services, reloads, deferred, handover, at_end };
        // A predecessor that answers still announces itself.
        if !server.handover.is_pending() {
            server.services.announce_ready()?;
        }
        server.services.configure(&loaded, &mut server.reloads);
        Ok(server)
    }

    fn greet(&self) {
        if self.context.flags.quiet {
            return;
        }
        let bound =
            self.services.runtime.as_ref().map(Runtime::local_addresses).unwrap_or_default();
        let banner = face::banner(&self.services.config, &bound);
        // Not by this thread: the reader of the output may be stopped.
        for text in banner.into_iter().chain([face::version_text()]) {
            self.context.shared.sink.send(Record::Banner(text));
        }
        self.say(&format!(
            "memory: {}",
            self.context.budget.describe(Cache::of(&self.services.config))
        ));
    }

    /// Says which limits of the machine are too low for the configuration.
    fn look_at_machine(&self) {
        let Context { budget, shared, flags, .. } = &*self.context;
        let bound =
            self.services.runtime.as_ref().map(Runtime::local_addresses).unwrap_or_default();
        let cpus = cpu::allowed();
        // A node's queries come from its own pods, through no device with interrupts.
        let is_local = flags.node.is_some() || bound.iter().all(|own| own.ip().is_loopback());
        let wanted = Wanted {
            connections: budget.connections_wanted(),
            allowed: budget.connections,
            pinned: (!is_local && cpus.len() == budget.workers).then_some(cpus),
            ports: Wanted::ports(&self.services.config, budget.workers),
        };
        for text in Machine::here().warnings(&wanted) {
            shared.sink.line(Level::Warning, "", format!("machine: {text}"));
        }
    }

    fn live(&mut self, events: &Receiver<Event>) -> ExitCode {
        loop {
            if let Some(code) = self.hand_over() {
                return code;
            }
            if self.handover.is_overdue() {
                self.say("SIGTERM: Terminating without the successor");
                return self.stop();
            }
            let wait =
                self.handover.shares_listeners().then_some(SHARED_ROUND).or(self.reloads.wait());
            let event = match (self.deferred.next(), wait) {
                (Some(event), _) => Ok(event),
                (None, Some(wait)) => events.recv_timeout(wait),
                (None, None) => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Signal(signal @ (SIGTERM | SIGINT | SIGQUIT)))
                    if self.handover.defer_stop(signal) => {}
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
                    self.handover.successors().tell(Signal::QUIT);
                    self.handover.announce_end();
                    return ExitCode::SUCCESS;
                }
                Ok(event @ (Event::Signal(SIGUSR1) | Event::Look))
                    if self.handover.shares_listeners() =>
                {
                    self.handover.put_off(event);
                }
                Ok(Event::Signal(SIGUSR1)) => {
                    self.say("SIGUSR1: Reloading");
                    if let Err(error) = self.reload(events) {
                        self.reloads.count_failure();
                        let text = format!("SIGUSR1: {error}");
                        self.context.shared.sink.line(Level::Error, "", text);
                    }
                }
                Ok(Event::Signal(SIGUSR2)) => self.start_successor(),
                Ok(Event::Signal(_) | Event::Handover) => {}
                Ok(Event::Look) => {
                    if let Some(event) = settle(events) {
                        self.deferred.push(event);
                    }
                    self.look(events);
                }
                Err(RecvTimeoutError::Timeout) if self.handover.shares_listeners() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.look(events);
                    self.reloads.schedule();
                }
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
            }
        }
    }

    /// Ends, or leaves everything to another process that has our listeners.
    fn stop(&mut self) -> ExitCode {
        // Not with the signal that came: from a terminal, it has that one already.
        self.handover.successors().tell(Signal::TERM);
        if self.handover.shares_listeners() {
            self.stop_beside();
        } else {
            self.services.stop();
        }
        self.handover.successors().wait_for_end();
        ExitCode::SUCCESS
    }

    fn say(&self, text: &str) {
        self.context.shared.sink.line(Level::Info, "", text);
    }
}
