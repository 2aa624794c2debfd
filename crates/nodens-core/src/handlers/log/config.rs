//! `log [NAME…] [FORMAT] { class CLASS… }`.

use super::{Log, Rule};
use crate::config::BlockBuilder;
use crate::handlers::Handler;
use crate::kind::ResponseClass;
use crate::log::{COMMON, Format};
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use std::sync::Arc;

/// Reads the directive; a repeated one adds rules, the first whose name matches counts.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let mut names = directive.args();
    let mut format = COMMON;
    if let [head @ .., last] = names
        && !head.is_empty()
        && last.text.contains('{')
    {
        (names, format) = (head, &last.text);
    }
    let format = Arc::new(Format::new(format));
    let classes = classes(directive)?;
    let rule = |scope| Rule { scope, format: format.clone(), classes: classes.clone() };
    let mut rules = Vec::new();
    for name in names {
        let scope = Name::parse(&name.text)
            .map_err(|error| Error::expected(name, format!("a domain name ({error})")))?;
        rules.push(rule(scope));
    }
    if names.is_empty() {
        rules.push(rule(Name::root()));
    }
    if let Some(Handler::Log(log)) = block.handlers.last_mut() {
        log.rules.append(&mut rules);
    } else {
        block.push(Log { rules });
    }
    Ok(())
}

fn classes(directive: &Directive) -> Result<Vec<ResponseClass>, Error> {
    let mut classes = Vec::new();
    let mut all = false;
    for property in directive.body.iter().flatten() {
        if property.name.text != "class" {
            return Err(property.unknown_property(&["class"]));
        }
        if property.args.is_empty() {
            let wanted = "at least one of all, success, denial, error behind `class`";
            return Err(Error::invalid(&property.name, format!("expected {wanted}")));
        }
        for token in property.args() {
            match class(token)? {
                Some(class) => classes.push(class),
                None => all = true,
            }
        }
    }
    Ok(if all { Vec::new() } else { classes })
}

fn class(token: &Token) -> Result<Option<ResponseClass>, Error> {
    match token.text.as_str() {
        "all" => Ok(None),
        "success" => Ok(Some(ResponseClass::Success)),
        "denial" => Ok(Some(ResponseClass::Denial)),
        "error" => Ok(Some(ResponseClass::Error)),
        _ => Err(Error::expected(token, "a class: all, success, denial or error")),
    }
}
