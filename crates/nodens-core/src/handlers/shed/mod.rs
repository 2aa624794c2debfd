//! `shed`: silence instead of SERVFAIL for queries over UDP that the server has no room for.
//!
//! The worker and the sockets' owner drop and count; this says that they shall.

use crate::config::{BlockBuilder, ShedCounters};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("shed", setup);

/// Reads `shed`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    directive.expect_no_args()?;
    if let Some(line) = directive.lines().first() {
        return Err(line.unknown_property(&[]));
    }
    if let Some((transport, _)) = block.server.split_once("://").filter(|(own, _)| *own != "dns") {
        let text = format!(
            "only plain DNS server blocks are supported; {} uses transport {transport}",
            block.server
        );
        return Err(directive.invalid(text));
    }
    let counter = |reason| {
        let help = "Counter of queries and responses dropped, per server, by reason.";
        let labels = [("server", block.server.as_str()), ("reason", reason)];
        block.shared.registry.counter("coredns_shed_dropped_total", help, &labels)
    };
    let counters = ShedCounters { queries: counter("query"), responses: counter("response") };
    block.settings.shed = Some(counters);
    Ok(())
}
