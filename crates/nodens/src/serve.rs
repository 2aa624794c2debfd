//! Start, events, shutdown.

mod error;
mod handing_over;
mod memory;
mod reloading;
mod starting;

pub(crate) use memory::budget;

use crate::budget::{Budget, Cache};
use crate::dnstap::Taps;
use crate::endpoints::{Endpoints, Facts};
use crate::events::{Deferred, Event, settle, watch_signals};
use crate::flags::Flags;
use crate::handover::{self, AtEnd, Finished, Handover, Successors, Waiting};
use crate::load::{self, LoadError, Loaded, Source};
use crate::logger::Logger;
use crate::node::Node;
use crate::pidfile::{self, PidfileError};
use crate::reload::Reloads;
use crate::tasks::Tasks;
use crate::{clusters, face, insight, probe};
use error::StartError;
use nodens_core::config::{Services, Task};
use nodens_core::log::{Level, Record};
use nodens_core::{Config, Shared};
use nodens_kube::Watches;
use nodens_net::{Notifications, Runtime, cpu};
use nodens_node::handover::Name;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long shutdown waits for questions under way, as CoreDNS does.
const GRACE: Duration = Duration::from_secs(5);
/// The stack of the thread that reads configurations: as much as the first thread of a process has.
const STACK_LEN: usize = 8 << 20;
/// How often it is seen whether questions may be taken beside a predecessor.
const SHARED_ROUND: Duration = Duration::from_millis(20);

/// The running server.
struct Server {
    flags: Flags,
    shared: Arc<Shared>,
    budget: Budget,
    facts: Arc<Facts>,
    runtime: Option<Runtime>,
    config: Arc<Config>,
    endpoints: Endpoints,
    tasks: Tasks,
    watches: Watches,
    notifications: Option<Notifications>,
    taps: Taps,
    reloads: Reloads,
    node: Option<Node>,
    lameduck: Duration,
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
        // The thread becomes nicer in time, which cannot be undone, and this one must not: what it
        // starts next is to be as the first.
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
    let code = match Server::start(flags.clone(), &logger, (sender, events), name) {
        Ok(Some(mut server)) => {
            server.greet();
            let code = server.live(events);
            at_end = server.at_end.clone();
            code
        }
        Ok(None) => ExitCode::SUCCESS,
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
    /// Starts to serve; gives nothing if a signal came before that.
    fn start(
        flags: Flags,
        logger: &Logger,
        (sender, events): (Sender<Event>, &Receiver<Event>),
        name: Option<Name>,
    ) -> Result<Option<Self>, StartError> {
        let (shared, budget) = memory::shared(&flags, logger);
        let successors = Successors::prepare(shared.sink.clone());
        let claimed = handover::claim(&flags, &shared.sink, name, events)?;
        let Some(inherited) = claimed else { return Ok(None) };
        let mut waiting = Waiting::new(events, Deferred::at_start(&flags), inherited, &shared);
        let mut watches = Watches::new(shared.clone(), memory::moments());
        let (all, with) = (&mut watches, (&sender, &mut waiting));
        let prepare = |node| Node::prepare(&flags, node, &shared, all, with);
        let node = match flags.node.as_ref().map(prepare) {
            Some(None) => return Ok(waiting.inherited.ended()?),
            prepared => prepared.flatten(),
        };
        let source = source(&flags, node.as_ref())?;
        let loaded = load::parse_first(source, &flags)?;
        let (config, tasks) = compile(&loaded, &flags, &shared, node.as_ref())?;
        let facts = Arc::new(Facts::new(shared.clone()));
        let mut endpoints = Endpoints::new(facts.clone())?;
        endpoints.inherit(std::mem::take(&mut waiting.inherited.http));
        node.iter().for_each(|node| serve_node(&mut endpoints, node));
        insight::start(&flags, &facts, &endpoints, &config);
        clusters::watch(&mut watches, &config.services, &shared)?;
        let what = (&shared, &config, &budget);
        let started = starting::run(what, node.as_ref(), &mut endpoints, &mut waiting)?;
        let Waiting { inherited, deferred, .. } = waiting;
        let Some(runtime) = started else { return Ok(inherited.ended()?) };
        // The workers run: what this thread does from now on, and whom it starts, comes second.
        cpu::yield_to_workers();
        let reloads = Reloads::new(shared.clone(), sender.clone());
        let handover = Handover::new(&flags, &shared, sender, inherited, successors);
        let mut server = Self {
            deferred,
            flags,
            shared,
            budget,
            facts,
            runtime: Some(runtime),
            config,
            endpoints,
            tasks: Tasks::start(tasks),
            watches,
            notifications: None,
            taps: Taps::default(),
            reloads,
            node,
            lameduck: Duration::ZERO,
            handover,
            at_end: AtEnd::Exit,
        };
        server.announce_ready_unless_pending()?;
        server.configure_services(&loaded);
        Ok(Some(server))
    }

    /// Questions are taken from now on.
    fn announce_ready(&self) -> Result<(), PidfileError> {
        if let Some(path) = &self.flags.pidfile {
            pidfile::write(path)?;
        }
        self.facts.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What has to happen after a configuration was taken up.
    fn configure_services(&mut self, loaded: &Loaded) {
        for warning in &loaded.tree.warnings {
            self.shared.sink.line(Level::Warning, "", warning.to_string());
        }
        for text in self.budget.warnings(Cache::of(&self.config)) {
            self.shared.sink.line(Level::Warning, "", format!("memory: {text}"));
        }
        let config = self.config.clone();
        if let Some(insight) = self.facts.insight.get() {
            insight.take_up(config.clone());
        }
        let services = &config.services;
        self.taps = Taps::start(&services.taps, &self.shared);
        self.lameduck = services.health.iter().map(|h| h.lameduck).max().unwrap_or_default();
        self.endpoints.watch_health(services.health.first().cloned());
        let begins = self.node.as_ref().map(|node| node.readiness().check);
        probe::watch_for_loops(&services.loops, begins, &self.endpoints);
        let runtime = self.runtime.iter();
        runtime.for_each(|runtime| _ = self.facts.vitals.set(runtime.vitals().clone()));
        self.reloads.configure(loaded, services);
        self.notify(services);
        if let Some(node) = &mut self.node {
            node.configure(&config);
        }
    }

    /// Tells secondaries of the zones there are, anew with each configuration.
    fn notify(&mut self, services: &Services) {
        self.notifications = None;
        match Notifications::start(&services.notifies, self.shared.sink.clone()) {
            Ok(notifications) => self.notifications = Some(notifications),
            Err(error) => {
                let text = format!("cannot notify secondaries of changes: {error}");
                self.shared.sink.line(Level::Error, "transfer", text);
            }
        }
    }

    fn greet(&self) {
        if self.flags.quiet {
            return;
        }
        let bound = self.runtime.as_ref().map(Runtime::local_addresses).unwrap_or_default();
        let banner = face::banner(&self.config, &bound);
        // Not by this thread: whoever reads the output may stand still.
        for text in banner.into_iter().chain([face::version_text()]) {
            self.shared.sink.send(Record::Banner(text));
        }
        self.say(&format!("memory: {}", self.budget.describe(Cache::of(&self.config))));
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
                        self.shared.sink.line(Level::Error, "", text);
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

    /// Says so, keeps answering for the lameduck time, then ends what is under way.
    fn stop(&mut self) -> ExitCode {
        self.notifications = None;
        if self.handover.shares_listeners() {
            return self.stop_beside();
        }
        self.facts.stopping.store(true, Ordering::Relaxed);
        // First of all: what is asked from now on goes to the central servers.
        if let Some(node) = &mut self.node {
            node.withdraw();
        }
        if !self.lameduck.is_zero() {
            let text = format!("Going into lameduck mode for {:?}", self.lameduck);
            self.shared.sink.line(Level::Info, "health", text);
            std::thread::sleep(self.lameduck);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown(GRACE);
        }
        self.taps.finish();
        if let Some(node) = &self.node {
            node.release();
        }
        ExitCode::SUCCESS
    }

    fn say(&self, text: &str) {
        self.shared.sink.line(Level::Info, "", text);
    }
}

/// Serves health, readiness and metrics at the addresses of the node.
fn serve_node(endpoints: &mut Endpoints, node: &Node) {
    endpoints.serve_node(node.local_addresses(), node.metrics_address());
}

/// The Corefile as it is now.
fn source(flags: &Flags, node: Option<&Node>) -> Result<Source, LoadError> {
    match node {
        Some(node) => node.source(flags),
        None => load::read(flags),
    }
}

/// A configuration, and the work beside its questions.
fn compile(
    loaded: &Loaded,
    flags: &Flags,
    shared: &Arc<Shared>,
    node: Option<&Node>,
) -> Result<(Arc<Config>, Vec<Task>), LoadError> {
    let mut config = load::compile(loaded, flags, shared)?;
    config.services.readiness.extend(node.map(Node::readiness));
    config.services.clusters.extend(node.into_iter().flat_map(Node::clusters));
    let tasks = std::mem::take(&mut config.services.tasks);
    Ok((Arc::new(config), tasks))
}
