//! Facts about a question that one directive knows and another may use, by label.

use crate::config::ServerBlock;
use crate::handler::{Cx, Handle, Job};

/// The value of a metadata label for the current question, if anything knows it.
pub fn value(cx: &Cx<'_>, label: &str) -> Option<String> {
    Source { job: cx.job, block: cx.block }.value(label)
}

/// Where values come from. They are looked up when they are used, so a label that is not used
/// costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Source<'j> {
    /// The question.
    pub job: &'j Job,
    /// The server block at work.
    pub block: &'j ServerBlock,
}

impl Source<'_> {
    /// The value of a label, if anything knows it.
    pub fn value(self, label: &str) -> Option<String> {
        let zones = self.block.settings.metadata.as_ref()?;
        let asked = match self.job.current.is_clients() {
            true => self.job.query.qname(&self.job.request),
            false => self.job.current.qname.view(),
        };
        if !zones.contains(asked) {
            return None;
        }
        if label == "view/name" {
            return self.block.view.as_ref().map(|view| view.name().to_owned());
        }
        self.block.handlers.iter().find_map(|handler| handler.label(self.job, asked, label))
    }
}
