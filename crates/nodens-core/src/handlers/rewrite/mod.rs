//! `rewrite`.

use crate::config::BlockBuilder;
use crate::handler::Handle;
use nodens_corefile::{Directive, Error};

/// The directive at work.
#[derive(Debug)]
pub struct Rewrite;

impl Handle for Rewrite {}

/// Reads the directive.
pub fn setup(_directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.push(Rewrite);
    Ok(())
}

/// What the handler remembers while a question is under way.
#[derive(Debug, Default)]
pub struct State {
}

impl State {
    /// Forgets everything but buffers.
    pub fn clear(&mut self) {}
}

/// What a `cname` rule remembers between lookups.
#[derive(Debug, Default)]
pub struct CnameState {}
