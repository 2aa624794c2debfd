//! `view`: a server block that answers only questions that meet its conditions.

use crate::config::{BlockBuilder, ServerBlock};
use crate::expression::{self, Facts};
use crate::handlers::metadata;
use crate::job::Job;
use nodens_corefile::{Directive, Error};
use nodens_expr::Program;

#[cfg(test)]
mod tests;

/// Reads `view NAME { expr EXPRESSION… }`.
pub fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
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
    block.view = Some(View { name: name.text.clone(), conditions });
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

/// Conditions on the question, which must all hold.
#[derive(Debug)]
pub struct View {
    name: String,
    conditions: Vec<Program>,
}

impl View {
    /// The view's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the view of `block` wants the question. A condition that has no value does not hold.
    pub fn wants(&self, job: &Job, block: &ServerBlock) -> bool {
        let facts = Facts::new(metadata::Source { job, block });
        self.conditions.iter().all(|condition| condition.is_true(&facts))
    }
}
