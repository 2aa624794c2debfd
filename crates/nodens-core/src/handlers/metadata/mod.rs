//! `metadata`: facts about a question that one directive knows and another may use, by label.

use crate::config::BlockBuilder;
use crate::handler::Cx;
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
///
/// Values are looked up when they are used, so a label nobody uses costs nothing.
pub fn value(cx: &Cx<'_>, label: &str) -> Option<String> {
    let zones = cx.block.settings.metadata.as_ref()?;
    let qname = match cx.job.outer.is_empty() {
        true => cx.job.query.qname(&cx.job.request),
        false => cx.job.current.qname.view(),
    };
    if !zones.contains(qname) {
        return None;
    }
    match label {
        "view/name" => cx.block.view.as_ref().map(|view| view.name().to_owned()),
        "forward/upstream" => {
            let answered = cx.job.current.forward.answered.as_ref();
            answered.map(|upstream| upstream.name.clone())
        }
        _ => None,
    }
}
