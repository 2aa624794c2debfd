//! `multisocket`: how many sockets share each address.

use crate::config::BlockBuilder;
use crate::handler::Spec;
use nodens_corefile::{Directive, Error, take};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("multisocket", setup);

/// The most sockets an address may have, as in CoreDNS.
const SOCKETS_MAX: usize = 1024;

/// Reads `multisocket [NUMBER]`; without a number the owner of the sockets chooses.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    directive.expect_no_body()?;
    let number = directive.expect_args_within(0..=1)?.first();
    block.settings.multisocket =
        number.map(|number| take::parse_integer(number, 1..=SOCKETS_MAX)).transpose()?;
    Ok(())
}
