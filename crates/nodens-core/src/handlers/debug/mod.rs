//! `debug`: debug lines are written, and a fault ends the process.

use crate::config::BlockBuilder;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// Reads `debug`, which takes no arguments.
pub fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    directive.expect_no_body()?;
    block.settings.debug = true;
    Ok(())
}
