//! `chaos`.

use crate::config::BlockBuilder;
use crate::handler::Handle;
use nodens_corefile::{Directive, Error};

/// The directive at work.
#[derive(Debug)]
pub struct Chaos;

impl Handle for Chaos {}

/// Reads the directive.
pub fn setup(_directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.push(Chaos);
    Ok(())
}
