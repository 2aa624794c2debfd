//! `metadata`.

use crate::config::BlockBuilder;
use crate::handler::Cx;
use nodens_corefile::{Directive, Error};

/// Reads the directive.
pub fn setup(_directive: &Directive, _block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    Ok(())
}

/// The value of a metadata label for the current question, if anything knows it.
pub fn value(cx: &Cx<'_>, label: &str) -> Option<String> {
    match label {
        "view/name" => cx.block.view.as_ref().map(|view| view.name().to_owned()),
        _ => None,
    }
}
