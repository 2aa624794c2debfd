//! `header`: sets or clears flags of requests and responses.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use crate::handlers::Handler;
use crate::log::Level;
use nodens_corefile::{Directive, Error};
use nodens_wire::Flags;

mod config;
#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("header", setup);

/// The directive at work.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HeaderRules {
    query: Mask,
    response: Mask,
}

/// Rules in the order of the Corefile, folded into what they do in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mask {
    set: u16,
    clear: u16,
}

impl Mask {
    /// One more rule, which outdoes the earlier ones.
    fn rule(&mut self, bits: u16, on: bool) {
        let (to, from) =
            if on { (&mut self.set, &mut self.clear) } else { (&mut self.clear, &mut self.set) };
        *to |= bits;
        *from &= !bits;
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn apply(self, flags: Flags) -> Flags {
        flags.with(self.set, true).with(self.clear, false)
    }
}

/// Reads `header`. As in CoreDNS only the first one of a block counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let rules = config::read(directive)?;
    if block.handlers.iter().any(|handler| matches!(handler, Handler::HeaderRules(_))) {
        let text = format!(
            "{}: only the first 'header' of a server block counts, this one is ignored",
            directive.name.position
        );
        block.shared.sink.line(Level::Warning, "header", text);
        return Ok(());
    }
    block.push(rules);
    Ok(())
}

impl Handle for HeaderRules {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        q.flags = self.query.apply(q.flags);
        Step::Next
    }

    /// A response that nobody wrote is the server's, whose flags are not ours to change.
    fn amend(&self, cx: &mut Cx<'_>) {
        let response = &mut cx.q().response;
        if response.written && !self.response.is_empty() {
            response.set_flags(self.response.apply(response.flags()));
        }
    }
}
