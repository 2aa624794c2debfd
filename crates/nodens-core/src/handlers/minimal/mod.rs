//! `minimal`: drops the sections of a positive response that nobody asked for.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec};
use nodens_corefile::{Directive, Error};
use nodens_wire::{Header, Opcode, Rcode, Records, Section, Type};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("minimal", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Minimal;

/// Reads `minimal`, which takes no arguments.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    directive.expect_no_body()?;
    block.push(Minimal);
    Ok(())
}

impl Handle for Minimal {
    const LOOKS_AT_QUESTIONS: bool = false;

    fn amend(&self, cx: &mut Cx<'_>) {
        let q = cx.q();
        let transfer = matches!(q.qtype, Type::AXFR | Type::IXFR);
        let query = q.flags.opcode() == Opcode::QUERY;
        if q.response.written && q.response.rcode == Rcode::NOERROR && query && !transfer {
            cut(&mut q.response.wire);
        }
    }
}

/// Ends the message behind its answer section, unless it is a NODATA response or a referral.
///
/// Compression pointers lead backwards, so what stays does not depend on what goes.
fn cut(wire: &mut Vec<u8>) {
    let Ok(mut header) = Header::read(wire) else { return };
    let [_, answers, authority, additional] = header.counts;
    if authority == 0 && additional == 0 {
        return;
    }
    let Ok(records) = Records::of(wire) else { return };
    let mut end = records.at();
    for record in records {
        let Ok(record) = record else { return };
        match record.section {
            Section::Answer => end = record.end(),
            Section::Authority
                if answers == 0 && matches!(record.rtype, Type::SOA | Type::NS) =>
            {
                return;
            }
            Section::Authority if answers == 0 => {}
            Section::Authority | Section::Additional => break,
        }
    }
    wire.truncate(end);
    header.counts[2..].fill(0);
    header.write_to(wire);
}
