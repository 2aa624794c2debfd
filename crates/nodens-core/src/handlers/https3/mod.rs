//! `https3`: what clients of DNS over HTTPS on HTTP/3 may have.

use crate::config::{BlockBuilder, HttpBounds};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("https3", setup);

/// Reads `https3 { max_connections NUMBER; max_streams NUMBER }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    block.settings.https3 = HttpBounds::read_any(directive)?;
    Ok(())
}
