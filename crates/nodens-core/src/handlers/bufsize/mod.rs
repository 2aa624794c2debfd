//! `bufsize`: limits the UDP payload size a client may announce.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use crate::handlers::Handler;
use crate::limits::UDP_SIZE_DEFAULT;
use nodens_corefile::{Directive, Error, take};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("bufsize", setup);

/// Sizes that may be configured, in octets.
const SIZES: std::ops::RangeInclusive<u16> = 512..=4096;

/// The directive at work.
#[derive(Debug)]
pub struct Bufsize {
    /// Octets.
    size: u16,
}

/// Reads `bufsize [SIZE]`. As in CoreDNS only the first one of a block counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_body()?;
    let size = match directive.expect_args_within(0..=1)? {
        [size] => take::parse_integer(size, SIZES)?,
        _ => UDP_SIZE_DEFAULT,
    };
    if !block.handlers.iter().any(|handler| matches!(handler, Handler::Bufsize(_))) {
        block.settings.udp_size_max = size;
        block.push(Bufsize { size });
    }
    Ok(())
}

impl Handle for Bufsize {
    /// What is asked upstream; what is sent to the client follows [`udp_size_max`].
    ///
    /// [`udp_size_max`]: crate::config::BlockSettings::udp_size_max
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if let Some(edns) = &mut cx.q().edns {
            edns.udp_size = edns.udp_size.min(self.size);
        }
        Step::Next
    }
}
