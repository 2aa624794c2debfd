//! The last steps to a server that runs, each of which may have to be waited for.

use super::error::StartError;
use super::memory;
use crate::budget::Budget;
use crate::clusters;
use crate::endpoints::Endpoints;
use crate::handover::{Inherited, Waited, Waiting};
use crate::node::{self, Node};
use nodens_core::{Config, Shared};
use nodens_net::Runtime;
use std::sync::Arc;

/// Starts endpoints and workers, once there is what they need. Gives nothing if the process has to end
/// first. Where a predecessor that was there at the beginning is gone, this process is the first.
pub(super) fn run(
    what: (&Arc<Shared>, &Arc<Config>, &Budget),
    node: Option<&Node>,
    endpoints: &mut Endpoints,
    waiting: &mut Waiting<'_>,
) -> Result<Option<Runtime>, StartError> {
    let (shared, config, budget) = what;
    // Before the wait, so that probes hear meanwhile that the process lives.
    let apply = |inherited: &mut Inherited| {
        resume_alone(endpoints, inherited);
        endpoints.apply(&config.services)
    };
    let applied = node::when_free(node, waiting, apply)?;
    memory::fit_beside(shared, budget, &waiting.inherited);
    if applied.is_none() {
        return Ok(None);
    }
    loop {
        match clusters::wait(&config.services, shared, waiting) {
            Waited::On => break,
            Waited::Alone => resume_alone(endpoints, &waiting.inherited),
            Waited::Ended => return Ok(None),
        }
    }
    if !waiting.warm()? {
        return Ok(None);
    }
    let start = |inherited: &mut Inherited| {
        resume_alone(endpoints, inherited);
        memory::runtime(what, node, inherited)
    };
    let started = node::when_free(node, waiting, start)?;
    // The workers have them.
    waiting.inherited.listeners.clear();
    if started.is_some() && !waiting.inherited.is_some() {
        // It may be so since a moment ago.
        resume_alone(endpoints, &waiting.inherited);
        shared.cache.set_ceiling(budget.cache);
        node.iter().for_each(|node| node.inherit(Vec::new()));
    }
    Ok(started)
}

/// Serves what the predecessor served so far, if that one is gone.
fn resume_alone(endpoints: &mut Endpoints, inherited: &Inherited) {
    if !inherited.is_some() {
        endpoints.serve_inherited();
    }
}
