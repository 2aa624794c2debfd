//! `multisocket`.

use crate::config::BlockBuilder;
use nodens_corefile::{Directive, Error};

/// Reads the directive.
pub fn setup(_directive: &Directive, _block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    Ok(())
}
