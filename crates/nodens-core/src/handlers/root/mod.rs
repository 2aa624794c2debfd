//! `root`: where the relative paths of a server block start.

use crate::config::BlockBuilder;
use crate::handler::{Phase, Spec};
use crate::log::Level;
use nodens_corefile::{Directive, Error};
use std::io::ErrorKind;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { phase: Phase::Settings, ..Spec::new("root", setup) };

/// Reads `root PATH`; the last of several counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let [path] = directive.expect_args()?;
    directive.expect_no_body()?;
    match std::fs::metadata(&path.text) {
        Ok(_) => {}
        // The folder may appear later, as a mounted volume does.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("Root path does not exist: {}", path.text);
            block.shared.sink.line(Level::Warning, "root", text);
        }
        Err(error) => {
            let text = format!("unable to access root path '{}': {error}", path.text);
            return Err(Error::invalid(path, text));
        }
    }
    block.settings.root = path.text.as_str().into();
    Ok(())
}
