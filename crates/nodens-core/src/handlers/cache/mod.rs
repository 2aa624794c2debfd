//! `cache`.

use crate::config::BlockBuilder;
use crate::handler::Handle;
use nodens_corefile::{Directive, Error};

/// The directive at work.
#[derive(Debug)]
pub struct Cache;

impl Handle for Cache {}

/// Reads the directive.
pub fn setup(_directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.push(Cache);
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

/// Answers kept for all server blocks.
#[derive(Debug, Default)]
pub struct Store {}
