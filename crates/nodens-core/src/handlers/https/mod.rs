//! `https`: what clients of DNS over HTTPS may have.

use crate::config::{BlockBuilder, HttpBounds};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("https", setup);

/// Reads `https { max_connections NUMBER; max_streams NUMBER }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    block.settings.https = HttpBounds::read(directive)?;
    Ok(())
}
