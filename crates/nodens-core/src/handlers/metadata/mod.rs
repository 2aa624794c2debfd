//! `metadata`: facts about a question that one directive knows and another may use, by label.

use crate::config::{BlockBuilder, ServerBlock};
use crate::handler::Cx;
use crate::handlers::kubernetes::Kubernetes;
use crate::job::Job;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// Reads `metadata [ZONES…]`.
pub fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    if let Some(line) = directive.lines().first() {
        return Err(line.unknown_property(&[]));
    }
    block.settings.metadata = Some(Zones::of(directive.args(), block)?);
    Ok(())
}

/// The value of a metadata label for the current question, if anything knows it.
pub fn value(cx: &Cx<'_>, label: &str) -> Option<String> {
    Source { job: cx.job, block: cx.block }.value(label)
}

/// Where values come from. They are looked up when they are used, so a label nobody uses costs
/// nothing.
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
        match label {
            "view/name" => self.block.view.as_ref().map(|view| view.name().to_owned()),
            "forward/upstream" => {
                let upstream = self.job.current.forward.answered.as_ref()?;
                Some(upstream.key.address.to_string())
            }
            _ => {
                let label = label.strip_prefix("kubernetes/")?;
                Kubernetes::of(self.block)?.label(self.job.client().peer.ip(), asked, label)
            }
        }
    }
}
