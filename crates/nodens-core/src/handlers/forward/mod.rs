//! `forward`.

use crate::config::BlockBuilder;
use crate::handler::Handle;
use nodens_corefile::{Directive, Error};

/// The directive at work.
#[derive(Debug)]
pub struct Forward;

impl Handle for Forward {}

/// Reads the directive.
pub fn setup(_directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.push(Forward);
    Ok(())
}

/// What the handler remembers while a question is under way.
#[derive(Debug, Default)]
pub struct State {
    /// The message to send upstream.
    pub message: Vec<u8>,
}

impl State {
    /// Forgets everything but buffers.
    pub fn clear(&mut self) {
        self.message.clear();
    }
}

/// Questions under way, for those who ask the same meanwhile.
#[derive(Debug, Default)]
pub struct Flights {}
