//! `autopath`.

use crate::config::BlockBuilder;
use crate::handler::Handle;
use nodens_corefile::{Directive, Error};

/// The directive at work.
#[derive(Debug)]
pub struct Autopath;

impl Handle for Autopath {}

/// Reads the directive.
pub fn setup(_directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.push(Autopath);
    Ok(())
}

/// What the handler remembers between lookups.
#[derive(Debug, Default)]
pub struct State {}
