//! `ready`: an HTTP endpoint that says questions can be answered.

use super::health::listen_address;
use crate::config::{BlockBuilder, Readiness, ReadyService};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error, Token};
use std::sync::Arc;

#[cfg(test)]
mod tests;

const DEFAULT_ADDRESS: &str = ":8181";

/// How the directive is read.
pub const SPEC: Spec = Spec::new("ready", setup);

/// Makes `ready`, if the block has it, wait until `check` of `directive` says yes.
pub(crate) fn wait_for(
    block: &mut BlockBuilder<'_>,
    directive: &'static str,
    check: impl Fn() -> bool + Send + Sync + 'static,
) {
    if block.present.contains(&SPEC.name) {
        let check = Arc::new(check);
        block.services.readiness.push(Readiness { directive, check, can_be_lost: false });
    }
}

/// Reads `ready [ADDRESS] { monitor until-ready|continuously }`.
///
/// Endpoints with the same address are one; the last of the Corefile
/// says whether readiness can be lost.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let address = match directive.expect_args_within(0..=1)? {
        [] => DEFAULT_ADDRESS.to_owned(),
        [address, ..] => listen_address(address, DEFAULT_ADDRESS)?,
    };
    let mut continuously = false;
    for property in directive.lines() {
        match property.name.text.as_str() {
            "monitor" => {
                let [kind] = property.expect_args()?;
                property.expect_no_body()?;
                continuously = is_continuous(kind)?;
            }
            _ => return Err(property.unknown_property(&["monitor"])),
        }
    }
    let services = &mut block.services.ready;
    match services.iter_mut().find(|service| service.address == address) {
        Some(service) => service.continuously = continuously,
        None => services.push(ReadyService { address, continuously }),
    }
    Ok(())
}

fn is_continuous(kind: &Token) -> Result<bool, Error> {
    match kind.text.as_str() {
        "until-ready" => Ok(false),
        "continuously" => Ok(true),
        _ => Err(Error::expected(kind, "until-ready or continuously")),
    }
}
