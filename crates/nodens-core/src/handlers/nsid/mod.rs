//! `nsid`: tells which server answered, to clients that ask for it (RFC 5001).

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec};
use crate::handlers::Handler;
use nodens_corefile::{Directive, Error};
use nodens_wire::edns::{Options, code, push_option};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("nsid", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Nsid {
    identifier: Vec<u8>,
}

/// Reads `nsid [WORD…]`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_body()?;
    if block.handlers.iter().any(|handler| matches!(handler, Handler::Nsid(_))) {
        return Err(directive.invalid("'nsid' can only be used once per server block"));
    }
    let words: Vec<_> = directive.args().iter().map(|word| word.text.as_str()).collect();
    let identifier = match words.as_slice() {
        [] => block.options.hostname.clone(),
        words => words.join(" "),
    };
    block.push(Nsid { identifier: identifier.into_bytes() });
    Ok(())
}

impl Handle for Nsid {
    const LOOKS_AT_QUESTIONS: bool = false;
    const ONLY_WATCHES: bool = true;

    /// Only a response that a handler wrote carries the option.
    fn amend(&self, cx: &mut Cx<'_>) {
        let job = &mut *cx.job;
        let Some(edns) = &job.query.edns else { return };
        let asked = |(option, _): (u16, &[u8])| option == code::NSID;
        if !job.current.response.written || !edns.options(&job.request).any(asked) {
            return;
        }
        let options = &mut job.current.response.options;
        if Options::new(options).any(asked) {
            remove(options);
        }
        push_option(options, code::NSID, &self.identifier);
    }
}

/// Takes another server's identifier out, if a handler kept an upstream's options.
fn remove(options: &mut Vec<u8>) {
    let mut kept = Vec::with_capacity(options.len());
    for (option, data) in Options::new(options).filter(|(option, _)| *option != code::NSID) {
        push_option(&mut kept, option, data);
    }
    *options = kept;
}
