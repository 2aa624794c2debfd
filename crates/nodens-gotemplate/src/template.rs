//! The template as its users see it.

use crate::ast::{List, Normal};
use crate::error::{ParseError, RenderError};
use crate::parse;
use crate::render;
use crate::value::Object;
use std::collections::BTreeMap;
use std::fmt;

/// A parsed template.
#[derive(Debug, Clone)]
pub struct Template {
    name: String,
    /// Kept to tell the places of errors.
    text: String,
    /// The template itself under `name`, and those it defines.
    lists: BTreeMap<String, List>,
}

impl Template {
    /// Parses a template's text. The name appears in errors, and `{{ template }}` can call it.
    ///
    /// # Errors
    ///
    /// [`ParseError`] with the first thing that is wrong, where it stands and what was expected.
    pub fn parse(name: &str, text: &str) -> Result<Self, ParseError> {
        let lists = parse::parse(name, text)?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), lists })
    }

    /// Renders the template with `data` as dot and appends the result to `out`.
    ///
    /// # Errors
    ///
    /// [`RenderError`] if the template asks the data for something it does not have, a function refuses
    /// its arguments, or a limit of [`crate::limits`] is reached. `out` then holds what was written before.
    pub fn render(&self, data: &dyn Object, out: &mut String) -> Result<(), RenderError> {
        render::render(self, data, out)
    }

    /// The name given to the template.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text given to [`Template::parse`].
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn list(&self, name: &str) -> Option<&List> {
        self.lists.get(name)
    }
}

/// The template in Go's normal form: without comments, with one space between operands. This is how the
/// template is written in the label of a metric.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lists.get(&self.name) {
            Some(list) => write!(f, "{}", Normal(list)),
            None => Ok(()),
        }
    }
}
