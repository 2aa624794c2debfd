//! `grpc_server`: what clients of DNS over gRPC may have.

use crate::config::{BlockBuilder, HttpBounds};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("grpc_server", setup);

/// Reads `grpc_server { max_connections NUMBER; max_streams NUMBER }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    block.settings.grpc = HttpBounds::read(directive)?;
    Ok(())
}
