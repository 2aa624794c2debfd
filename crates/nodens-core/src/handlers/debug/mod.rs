//! `debug`: debug lines are written, and a fault ends the process.

use crate::config::BlockBuilder;
use crate::handler::{Phase, Spec};
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { phase: Phase::Settings, ..Spec::new("debug", setup) };

/// Reads `debug`, which takes no arguments.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    directive.expect_no_body()?;
    block.settings.debug = true;
    Ok(())
}
