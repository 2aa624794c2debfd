//! `errors [stdout] { stacktrace; consolidate DURATION REGEX [LEVEL] [show_first] }`.

use super::Errors;
use crate::config::BlockBuilder;
use crate::go_regex;
use crate::handlers::Handler;
use crate::log::{Level, Pattern, Rules};
use nodens_corefile::{Directive, Error, Token};
use std::sync::Arc;


/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    if block.handlers.iter().any(|handler| matches!(handler, Handler::Errors(_))) {
        let text = "this plugin can only be used once per Server Block";
        return Err(Error::invalid(&directive.name, text));
    }
    match directive.args() {
        [] => {}
        [target] if target.text == "stdout" => {}
        [target] => return Err(Error::expected(target, "`stdout` or nothing (invalid log file)")),
        [_, extra, ..] => return Err(Error::expected(extra, "at most one argument")),
    }
    let mut rules = Rules::default();
    for property in directive.body.iter().flatten() {
        match property.name.text.as_str() {
            // Contained faults are always reported with where they happened.
            "stacktrace" => {
                property.expect_no_args()?;
                property.expect_no_body()?;
            }
            "consolidate" => rules.patterns.push(pattern(property)?),
            _ => return Err(property.unknown_property(&["stacktrace", "consolidate"])),
        }
    }
    block.push(Errors { rules: Arc::new(rules) });
    Ok(())
}

fn pattern(property: &Directive) -> Result<Pattern, Error> {
    let [period, regex, options @ ..] = property.args() else {
        let text = "expected `consolidate DURATION REGEX [LEVEL] [show_first]`";
        return Err(Error::invalid(&property.name, text));
    };
    let period = nodens_corefile::take::parse_go_duration(period)?;
    let compiled = go_regex::compile(&regex.text)
        .map_err(|error| Error::expected(regex, format!("a regular expression ({error})")))?;
    let mut pattern =
        Pattern { regex: compiled, period, level: Level::Error, show_first: false };
    let mut level_given = false;
    for option in options {
        match level(option) {
            Some(_) if level_given => {
                return Err(Error::invalid(option, "multiple log levels specified in consolidate"));
            }
            Some(_) if pattern.show_first => {
                let text = "log level must come before show_first in consolidate";
                return Err(Error::invalid(option, text));
            }
            Some(level) => (pattern.level, level_given) = (level, true),
            None if option.text == "show_first" => pattern.show_first = true,
            None => {
                let wanted = "warning, error, info, debug or show_first";
                return Err(Error::expected(option, wanted));
            }
        }
    }
    Ok(pattern)
}

fn level(option: &Token) -> Option<Level> {
    match option.text.as_str() {
        "warning" => Some(Level::Warning),
        "error" => Some(Level::Error),
        "info" => Some(Level::Info),
        "debug" => Some(Level::Debug),
        _ => None,
    }
}
