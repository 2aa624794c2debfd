//! `any`.

use crate::config::BlockBuilder;
use crate::handler::Handle;
use nodens_corefile::{Directive, Error};

/// The directive at work.
#[derive(Debug)]
pub struct Any;

impl Handle for Any {}

/// Reads the directive.
pub fn setup(_directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.push(Any);
    Ok(())
}
