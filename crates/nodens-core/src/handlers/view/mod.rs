//! `view`.

use crate::config::BlockBuilder;
use crate::job::Job;
use nodens_corefile::{Directive, Error};

/// Reads the directive.
pub fn setup(_directive: &Directive, _block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    Ok(())
}

/// A condition on the question.
#[derive(Debug)]
pub struct View {
    name: String,
}

impl View {
    /// The view's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the view wants the question.
    pub fn wants(&self, _job: &Job) -> bool {
        true
    }
}
