//! `metadata`: facts about a question that one directive knows and another may use, by label.

use crate::config::BlockBuilder;
use crate::handler::Spec;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("metadata", setup);

/// Reads `metadata [ZONES…]`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    if let Some(line) = directive.lines().first() {
        return Err(line.unknown_property(&[]));
    }
    block.settings.metadata = Some(Zones::of(directive.args(), &block.zones)?);
    Ok(())
}
