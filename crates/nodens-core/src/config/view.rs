//! Conditions on queries, by which server blocks for the same zone share them.

use super::ServerBlock;
use crate::handler::Job;
use std::fmt;

/// Whether a server block wants a query.
type Wants = dyn Fn(&Job, &ServerBlock) -> bool + Send + Sync;

/// A condition on queries, and its name.
pub struct View {
    name: String,
    wants: Box<Wants>,
}

impl View {
    /// The view called `name`, of queries for which `wants` is true.
    pub fn new(
        name: String,
        wants: impl Fn(&Job, &ServerBlock) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name, wants: Box::new(wants) }
    }

    /// The view's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the view of `block` wants the current query of `job`.
    pub fn wants(&self, job: &Job, block: &ServerBlock) -> bool {
        (self.wants)(job, block)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({})", self.name)
    }
}
