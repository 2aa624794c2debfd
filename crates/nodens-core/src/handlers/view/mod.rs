//! `view`: a server block that answers only questions that meet its conditions.

use crate::config::{BlockBuilder, ServerBlock, View};
use crate::expression::{self, Facts};
use crate::handler::{Job, Phase, Spec};
use crate::metadata;
use nodens_corefile::{Directive, Error};
use nodens_expr::Program;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { phase: Phase::Settings, narrows: true, ..Spec::new("view", setup) };

/// Reads `view NAME { expr EXPRESSION… }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let [name] = directive.expect_args()?;
    let environment = expression::environment();
    let mut conditions = Vec::new();
    for property in directive.lines() {
        match property.name.text.as_str() {
            "expr" => conditions.push(compile(property, &environment)?),
            _ => return Err(property.unknown_property(&["expr"])),
        }
    }
    // All must hold. One that has no value does not.
    let wants = move |job: &Job, block: &ServerBlock| {
        let facts = Facts::new(metadata::Source { job, block });
        conditions.iter().all(|condition| condition.is_true(&facts))
    };
    block.view = Some(View::new(name.text.clone(), wants));
    Ok(())
}

/// The words of an `expr` line as one expression.
pub(crate) fn compile(
    line: &Directive,
    environment: &nodens_expr::Environment,
) -> Result<Program, Error> {
    line.expect_no_body()?;
    let words = line.expect_args_from(1)?;
    let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    // An expression has a word at least, so there is a place to point at.
    let at = words.first().unwrap_or(&line.name);
    Program::compile(&text, environment).map_err(|error| Error::invalid(at, error.to_string()))
}
