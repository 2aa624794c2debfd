//! What there is of memory, and the parts of a server that are made to fit it.

use crate::budget::{Budget, Cache, Wishes};
use crate::context::Context;
use crate::events::Event;
use crate::flags::Flags;
use crate::handover::Inherited;
use crate::logger::Logger;
use crate::node::Node;
use crate::process;
use nodens_core::{Config, Shared};
use nodens_kube::Moments;
use nodens_net::{InheritedListener, Options, Runtime, StartError, cpu, memory};
use nodens_zone::data::room;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What all parts need, made to fit the memory there is.
pub(super) fn context(flags: Flags, logger: &Logger, events: Sender<Event>) -> Context {
    let budget = budget(&flags);
    let shared = Arc::new(Shared::new(budget.workers, logger.sink.clone()));
    shared.set_pending_memory(budget.pending);
    shared.cache.set_ceiling(budget.cache);
    process::register(&shared, logger);
    Context { flags, shared, budget, events }
}

/// What the memory there is goes to.
pub(crate) fn budget(flags: &Flags) -> Budget {
    let workers = if flags.workers == 0 { cpu::workers() } else { flags.workers };
    let told = |octets| Some(octets).filter(|octets| *octets > 0);
    let limit = told(flags.memory).or_else(memory::limit).unwrap_or(usize::MAX / 16);
    let connections = nodens_net::connections_max();
    Budget::new(Wishes { limit, workers, pending: told(flags.pending_memory), connections })
}

/// What is done when watches have read much.
pub(super) fn moments() -> Moments {
    Moments { synced: cpu::yield_to_workers, lists_read: memory::give_back }
}

/// Starts the workers.
pub(super) fn runtime(
    context: &Context,
    config: &Arc<Config>,
    node: Option<&Node>,
    inherited: &mut Inherited,
) -> Result<Runtime, StartError> {
    let options = options(node, inherited, &context.budget);
    let options = options.map_err(|source| StartError::Worker { worker: 0, source })?;
    Runtime::start(context.shared.clone(), config.clone(), options)
}

/// What a predecessor leaves to zones, which may have its memory of the same control group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) octets: usize,
    /// How often there was no room before.
    pub(super) refused: u64,
}

impl Beside {
    /// Nothing where there is no predecessor.
    pub(super) fn of(context: &Context, inherited: &Inherited) -> Option<Self> {
        let octets = || context.budget.zones_beside(memory::used().unwrap_or(0));
        inherited.is_some().then(|| Self { octets: octets(), refused: room::refused() })
    }
}

/// Zones have from now on what is left beside all of these caches, but no more than a predecessor leaves them.
pub(super) fn fit_zones(context: &Context, caches: &[Cache], beside: Option<Beside>) {
    let left = caches.iter().map(|cache| context.budget.zones(*cache));
    room::set_most(left.chain(beside.map(|beside| beside.octets)).min().unwrap_or(0) as u64);
}

/// Leaves room for a predecessor, which may have its memory of the same control group.
pub(super) fn fit_beside(context: &Context, inherited: &Inherited) {
    if inherited.is_some() {
        let octets = context.budget.cache_beside(memory::used().unwrap_or(0));
        context.shared.cache.set_ceiling(octets);
    }
}

fn options(node: Option<&Node>, inherited: &mut Inherited, budget: &Budget) -> io::Result<Options> {
    let transparent = node.map(|node| node.local_addresses().to_vec()).unwrap_or_default();
    let paused = inherited.is_some();
    let listeners = match node {
        // There may be another attempt, which must not open sockets of its own beside those of the
        // predecessor: no process would read them before this one serves.
        Some(_) => inherited.listeners.iter().map(InheritedListener::try_clone).collect(),
        None => Ok(std::mem::take(&mut inherited.listeners)),
    };
    let listeners: Vec<InheritedListener> = listeners?;
    Ok(Options {
        transparent,
        paused,
        inherited: listeners,
        connections_max: Some(budget.connections),
        held_max: budget.held,
        ..Options::default()
    })
}
