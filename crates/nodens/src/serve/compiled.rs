//! From the Corefile to a configuration of this server.

use crate::context::Context;
use crate::load::{self, LoadError, Loaded, Source};
use crate::node::Node;
use crate::tasks::Work;
use nodens_core::Config;
use std::sync::Arc;

/// A configuration that is not at work yet.
pub(super) struct Compiled {
    pub(super) loaded: Loaded,
    pub(super) config: Arc<Config>,
    /// The work beside its queries.
    pub(super) tasks: Work,
}

impl Compiled {
    pub(super) fn new(
        loaded: Loaded,
        context: &Context,
        node: Option<&Node>,
    ) -> Result<Self, LoadError> {
        let mut config = load::compile(&loaded, &context.flags, &context.shared)?;
        config.services.readiness.extend(node.map(Node::readiness));
        config.services.clusters.extend(node.into_iter().flat_map(Node::clusters));
        let tasks = Work::take(&mut config.services);
        Ok(Self { loaded, config: Arc::new(config), tasks })
    }
}

/// The Corefile as it is now.
pub(super) fn source(context: &Context, node: Option<&Node>) -> Result<Source, LoadError> {
    match node {
        Some(node) => node.source(&context.flags),
        None => load::read(&context.flags),
    }
}
