//! The parts of a server, and the one order in which they begin and end.
//!
//! A server comes to its first query in these steps, each done once. When a step after prepare fails, what it and
//! those before it made is dropped, in the order of the fields of [`Services`]: workers, endpoints,
//! tasks, certificates, signing of zones, watches, notifier, transfers from primaries, updates, dnstap, node role.
//!
//! | step | what it does, in this order | what it leaves |
//! |---|---|---|
//! | claim | [`handover::claim`](crate::handover::claim) asks a predecessor for what it holds | [`Waiting`], with the name, the sockets and the connection to the predecessor |
//! | [prepare](Services::prepare) | node role: template, network, address of the upstream service; Corefile; endpoints' thread, with the predecessor's listeners and the node's own; counting by client and name; watches of clusters | a configuration, and nothing that answers queries |
//! | [bind](Services::bind) | addresses of the endpoints, as soon as they are free | `/health` answers; `/ready` says no |
//! | [warm](Services::warm) | lists of clusters; zones that are kept on disk; cache of the predecessor | transfers from primaries |
//! | [serve](Services::serve) | addresses of DNS and workers, paused beside a predecessor; then tasks | what [`Handover`](crate::handover::Handover) offers to successors |
//! | ready | [`Services::announce_ready`], at once or when the predecessor has paused ([`Services::take_queries`]) | PID file; `/ready` says yes |
//! | [configure](Services::configure) | after every configuration: counting, dnstap, checks of health and loops, reloads, certificates of ACME servers, signing of zones, notifier, transfers from primaries, updates, node role | |
//!
//! It ends in one of these ways. Whatever brings queries here stops first, and what answers them last:
//! notifier, endpoints, node role, workers, dnstap, rules of the node role.
//!
//! | step | what it does |
//! |---|---|
//! | [pause](Services::pause) | the workers read no more queries; a successor gets what brings them here |
//! | [retire](Services::retire) | endpoints and node role are the successor's; all can still [resume](Services::resume) |
//! | [leave](Services::leave) | everything ends, connections go to the successor |
//! | [stop](Services::stop) | everything ends without a successor: the node's addresses go first, then the lameduck time passes |

mod zones;

use super::compiled::{Compiled, source};
use super::error::{ReloadError, StartError};
use super::{GRACE, memory};
use crate::budget::Cache;
use crate::context::Context;
use crate::dnstap::Taps;
use crate::endpoints::{Endpoints, Facts};
use crate::handover::{Inherited, Waited, Waiting};
use crate::load::{self, LoadError, Loaded, Source};
use crate::node::{self, Node};
use crate::pidfile::{self, PidfileError};
use crate::reload::Reloads;
use crate::tasks::{Tasks, Work};
use crate::{clusters, insight, probe, signing::Signing};
use nodens_acme::Acme;
use nodens_core::Config;
use nodens_core::log::Level;
use nodens_kube::Watches;
use nodens_net::{
    HandedConnection, Left, ListenerAddress, Notifications, Runtime, Secondaries, Updates, cpu,
};
use nodens_node::handover::Named;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The parts, in the order in which they are dropped.
pub(super) struct Services {
    context: Arc<Context>,
    facts: Arc<Facts>,
    /// The workers, from [`Services::serve`] until the end.
    pub(super) runtime: Option<Runtime>,
    pub(super) config: Arc<Config>,
    endpoints: Endpoints,
    tasks: Tasks,
    acme: Acme,
    signing: Signing,
    watches: Watches,
    notifier: Option<Notifications>,
    /// With the configuration whose zones they are.
    secondaries: Option<(Secondaries, Arc<Config>)>,
    updates: Option<Updates>,
    taps: Taps,
    /// What a predecessor leaves to zones, until it is gone.
    zones_beside: Option<memory::Beside>,
    pub(super) node: Option<Node>,
    lameduck: Duration,
}

impl Services {
    /// All steps from the claim until the workers run, with the Corefile that they run with.
    pub(super) fn start(
        context: &Arc<Context>,
        waiting: &mut Waiting<'_>,
    ) -> Result<(Self, Loaded), StartError> {
        let (mut services, Compiled { loaded, tasks, .. }) = Self::prepare(context, waiting)?;
        services.bind(waiting)?;
        services.warm(waiting)?;
        services.serve(waiting, tasks)?;
        Ok((services, loaded))
    }

    fn prepare(
        context: &Arc<Context>,
        waiting: &mut Waiting<'_>,
    ) -> Result<(Self, Compiled), StartError> {
        let Context { flags, shared, .. } = &**context;
        let mut watches = Watches::new(shared.clone(), memory::moments());
        let prepare = |node| Node::prepare(node, context, &mut watches, waiting);
        let node = match flags.node.as_ref().map(prepare) {
            Some(None) => return Err(StartError::Ended),
            prepared => prepared.flatten(),
        };
        let loaded = load::parse_first(source(context, node.as_ref())?, flags)?;
        // Files of zones are read before the configuration can say what its cache is to have.
        let zones_beside = memory::Beside::of(context, &waiting.inherited);
        memory::fit_zones(context, &[Cache::written(&loaded.tree)], zones_beside);
        let compiled = Compiled::new(loaded, context, node.as_ref())?;
        let facts = Arc::new(Facts::new(shared.clone()));
        let mut endpoints = Endpoints::new(facts.clone())?;
        endpoints.inherit(std::mem::take(&mut waiting.inherited.http));
        if let Some(node) = &node {
            endpoints.serve_node(node.local_addresses(), node.metrics_address());
        }
        let config = compiled.config.clone();
        insight::start(flags, &facts, &endpoints, &config);
        clusters::watch(&mut watches, &config.services, shared)?;
        let services = Self {
            context: context.clone(),
            facts,
            runtime: None,
            config,
            endpoints,
            tasks: Tasks::start(Work::default()),
            acme: Acme::default(),
            signing: Signing::default(),
            watches,
            notifier: None,
            secondaries: None,
            updates: None,
            taps: Taps::default(),
            zones_beside,
            node,
            lameduck: Duration::ZERO,
        };
        Ok((services, compiled))
    }

    /// Before the wait for anything else, so that probes hear meanwhile that the process lives.
    fn bind(&mut self, waiting: &mut Waiting<'_>) -> Result<(), StartError> {
        let (endpoints, config) = (&mut self.endpoints, &self.config);
        let apply = |inherited: &mut Inherited| {
            serve_alone(endpoints, inherited);
            endpoints.apply(&config.services)
        };
        let applied = node::when_free(self.node.as_ref(), waiting, apply)?;
        memory::fit_beside(&self.context, &waiting.inherited);
        applied.ok_or(StartError::Ended)
    }

    fn warm(&mut self, waiting: &mut Waiting<'_>) -> Result<(), StartError> {
        loop {
            match clusters::wait(&self.config.services, &self.context.shared, waiting) {
                Waited::On => break,
                Waited::Alone => serve_alone(&mut self.endpoints, &waiting.inherited),
                Waited::Ended => return Err(StartError::Ended),
            }
        }
        self.restore(waiting)?;
        if waiting.warm()? { Ok(()) } else { Err(StartError::Ended) }
    }

    /// Where a predecessor that was there at the beginning is gone, this process is the first.
    fn serve(&mut self, waiting: &mut Waiting<'_>, tasks: Work) -> Result<(), StartError> {
        let (context, endpoints) = (&self.context, &mut self.endpoints);
        let (config, node) = (&self.config, self.node.as_ref());
        let start = |inherited: &mut Inherited| {
            serve_alone(endpoints, inherited);
            memory::runtime(context, config, node, inherited)
        };
        let started = node::when_free(node, waiting, start)?;
        // The workers have them.
        waiting.inherited.listeners.clear();
        self.runtime = Some(started.ok_or(StartError::Ended)?);
        if !waiting.inherited.is_some() {
            // It may be so since a moment ago.
            serve_alone(endpoints, &waiting.inherited);
            node.iter().for_each(|node| node.inherit(Vec::new()));
            self.have_all_memory();
        }
        // The workers run: what this thread does from now on, and whom it starts, comes second.
        cpu::yield_to_workers();
        self.tasks = Tasks::start(tasks);
        Ok(())
    }

    /// Queries are taken from now on.
    pub(super) fn announce_ready(&self) -> Result<(), PidfileError> {
        if let Some(path) = &self.context.flags.pidfile {
            pidfile::write(path)?;
        }
        self.facts.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// As [`Services::announce_ready`], where it is too late to fail.
    fn announce_ready_or_say(&self) {
        if let Err(error) = self.announce_ready() {
            self.context.shared.sink.line(Level::Error, "", error.to_string());
        }
    }

    /// Fits the parts to the configuration that the workers have.
    pub(super) fn configure(&mut self, loaded: &Loaded, reloads: &mut Reloads) {
        let sink = &self.context.shared.sink;
        sink.levels().show_debug(self.config.blocks.iter().any(|block| block.settings.debug));
        for warning in &loaded.tree.warnings {
            sink.line(Level::Warning, "", warning.to_string());
        }
        for text in self.context.budget.warnings(Cache::of(&self.config)) {
            sink.line(Level::Warning, "", format!("memory: {text}"));
        }
        let config = self.config.clone();
        self.show_zones();
        if let Some(insight) = self.facts.insight.get() {
            insight.take_up(config.clone());
        }
        let services = &config.services;
        services.show(&self.context.shared.registry);
        self.taps = Taps::start(&services.taps, &self.context.shared);
        self.lameduck = services.health.iter().map(|h| h.lameduck).max().unwrap_or_default();
        self.endpoints.watch_health(services.health.first().cloned());
        let begins = self.node.as_ref().map(|node| node.readiness().check);
        probe::watch_for_loops(&services.loops, begins, &self.endpoints);
        let runtime = self.runtime.iter();
        runtime.for_each(|runtime| _ = self.facts.vitals.set(runtime.vitals().clone()));
        reloads.configure(loaded, services);
        // Anew with each configuration.
        self.keep_files();
        self.notify();
        self.keep_secondaries();
        self.take_updates();
        if let Some(node) = &mut self.node {
            node.configure(&config);
        }
    }

    /// From now on certificates of this configuration alone are obtained and renewed, and its zones signed.
    fn keep_files(&mut self) {
        let (services, sink) = (&self.config.services, &self.context.shared.sink);
        // One at a time: both would order the same.
        self.acme = Acme::default();
        self.acme = Acme::start(services.acme.as_ref(), sink);
        self.signing.replace(&services.signers, sink);
    }

    /// The Corefile as it is now.
    pub(super) fn source(&self) -> Result<Source, LoadError> {
        source(&self.context, self.node.as_ref())
    }

    /// Builds everything that `loaded` wants beside what there is, which answers meanwhile. `wait` waits
    /// for lists of clusters.
    pub(super) fn prepare_anew(
        &mut self,
        loaded: Loaded,
        wait: impl FnOnce(&nodens_core::config::Services),
    ) -> Result<Compiled, ReloadError> {
        self.fit_zones_to_both(&loaded.tree);
        let compiled = Compiled::new(loaded, &self.context, self.node.as_ref())?;
        clusters::watch(&mut self.watches, &compiled.config.services, &self.context.shared)?;
        wait(&compiled.config.services);
        Ok(compiled)
    }

    /// Swaps the configurations, all or nothing; [`Services::configure`] has to follow.
    pub(super) fn replace(&mut self, compiled: Compiled) -> Result<Loaded, ReloadError> {
        let Compiled { loaded, config, tasks } = compiled;
        self.endpoints.apply(&config.services)?;
        let applied = self.runtime.as_mut().map(|runtime| runtime.apply(config.clone()));
        match applied {
            Some(Err(error)) => {
                // The endpoints of the old configuration are still bound or can be bound again.
                _ = self.endpoints.apply(&self.config.services);
                return Err(error.into());
            }
            Some(Ok(silent)) if !silent.is_empty() => {
                let text = format!("workers {silent:?} have not taken up the configuration yet");
                self.context.shared.sink.line(Level::Warning, "reload", text);
            }
            _ => {}
        }
        self.config = config;
        self.tasks = Tasks::start(tasks);
        self.drop_unwanted_watches();
        Ok(loaded)
    }

    /// The endpoints' listeners, for a successor.
    pub(super) fn http_listeners(&self) -> Vec<(SocketAddr, OwnedFd)> {
        self.endpoints.export()
    }

    /// Takes queries, which the predecessor does not do any more.
    pub(super) fn take_queries(&mut self) {
        self.serve_confirmed();
        let Some(runtime) = &mut self.runtime else { return };
        // A worker that does not answer takes its queries when it comes back.
        _ = runtime.resume();
        self.endpoints.serve_inherited();
        self.announce_ready_or_say();
    }

    /// The predecessor is gone: what it had is free.
    pub(super) fn settle(&mut self) {
        self.have_all_memory();
        if let Some(runtime) = &mut self.runtime {
            runtime.settle();
        }
        self.node.iter().for_each(Node::put_right);
    }

    /// What brings queries here, for a successor.
    pub(super) fn network(&self) -> io::Result<Named> {
        Ok(self.node.as_ref().map(Node::descriptors).transpose()?.unwrap_or_default())
    }

    pub(super) fn pause(&self) {
        if let Some(Err(error)) = self.runtime.as_ref().map(Runtime::pause) {
            // It takes nothing either way, and a successor is what helps its clients.
            let text = format!("{error}, handing over all the same");
            self.context.shared.sink.line(Level::Warning, "handover", text);
        }
    }

    pub(super) fn retire(&mut self) {
        self.endpoints.pause();
        self.acme = Acme::default();
        // The successor has the databases.
        self.updates = None;
        self.signing = Signing::default();
        if let Some(node) = &mut self.node {
            node.abandon();
        }
    }

    /// Takes queries again after [`Services::pause`], and where `is_retired` also does again what the
    /// successor did.
    pub(super) fn resume(&mut self, is_retired: bool) {
        if is_retired {
            self.take_updates();
            self.serve_confirmed();
        }
        // A worker that does not answer resumes when it comes back.
        _ = self.runtime.as_mut().map(Runtime::resume);
        if !is_retired {
            return;
        }
        self.endpoints.resume();
        self.keep_files();
        if let Some(node) = &mut self.node {
            node.configure(&self.config);
        }
        self.announce_ready_or_say();
    }

    /// Leaves what arrives at the listeners `kept` to another process. `left_behind` hears which workers
    /// did not end. No connection comes once `successor` is dropped, which is at the end of this.
    pub(super) fn leave(
        &mut self,
        kept: &[ListenerAddress],
        successor: Sender<HandedConnection>,
        left_behind: impl FnOnce(Left),
    ) {
        self.stop_notifying();
        self.endpoints.close();
        self.node.iter_mut().for_each(Node::let_go);
        if let Some(runtime) = self.runtime.take() {
            left_behind(runtime.leave(kept, &successor, GRACE));
        }
        self.taps.finish();
    }

    /// Says that it ends, answers for the lameduck time, then ends what is under way.
    pub(super) fn stop(&mut self) {
        self.stop_notifying();
        self.facts.stopping.store(true, Ordering::Relaxed);
        // Whatever is asked from now on goes to the central servers.
        self.node.iter_mut().for_each(Node::withdraw);
        if !self.lameduck.is_zero() {
            let text = format!("Going into lameduck mode for {:?}", self.lameduck);
            self.context.shared.sink.line(Level::Info, "health", text);
            std::thread::sleep(self.lameduck);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown(GRACE);
        }
        self.taps.finish();
        self.node.iter().for_each(Node::release);
    }
}

/// Serves what the predecessor served so far, if that one is gone.
fn serve_alone(endpoints: &mut Endpoints, inherited: &Inherited) {
    if !inherited.is_some() {
        endpoints.serve_inherited();
    }
}
