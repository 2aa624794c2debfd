//! `any`: a short answer to ANY questions (RFC 8482 section 4.2).

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Rcode, Section, Type};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("any", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Any;

/// CPU and OS of the HINFO record, as character-strings.
const HINFO: &[u8] = b"\x0dANY obsoleted\x0cSee RFC 8482";
/// Seconds; the number of the RFC.
const TTL: u32 = 8482;

/// Reads `any`, which takes no arguments.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    directive.expect_no_body()?;
    block.push(Any);
    Ok(())
}

impl Handle for Any {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        if q.qtype != Type::ANY {
            return Step::Next;
        }
        let qname = q.qname.clone();
        let fields = (Type::HINFO, Class::IN, TTL);
        let fits = q.reply(Rcode::NOERROR, false).record(Section::Answer, qname.view(), fields, HINFO);
        debug_assert!(fits.is_ok(), "one record fits any message");
        Step::Answered
    }
}
