//! `template CLASS TYPE [ZONES…] { … }`.

use super::matching::environment;
use super::{Draft, Pattern, Rule, Series, Template};
use crate::config::BlockBuilder;
use crate::go_regex;
use crate::handlers::{Handler, view};
use nodens_zone::presentation;
use crate::zones::{Fallthrough, Zones};
use nodens_corefile::{Directive, Error, Token, take};
use nodens_expr::{Environment, is_reserved};
use nodens_wire::edns::push_extended_error;
use nodens_wire::{Class, Rcode, Type};

const PROPERTIES: [&str; 9] = [
    "match", "var", "expr", "answer", "additional", "authority", "rcode", "ederror", "fallthrough",
];

/// Reads the directive; a repeated one adds a rule behind the earlier ones.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let rule = rule(directive, block)?;
    if let Some(Handler::Template(template)) = block.handlers.last_mut() {
        template.rules.push(rule);
    } else {
        block.push(Template { rules: vec![rule] });
    }
    Ok(())
}

fn rule(directive: &Directive, block: &BlockBuilder<'_>) -> Result<Rule, Error> {
    let [class, qtype, zones @ ..] = directive.expect_args_from(2)? else {
        return Err(directive.invalid("expected a class and a type"));
    };
    let zones = Zones::of(zones, &block.zones)?;
    let series = Series::new(block.server.clone(), block.view_name(), zones.names().len());
    let mut rule = Rule {
        class: known(class, Class::mnemonic, "a class such as IN or ANY")?,
        qtype: known(qtype, Type::mnemonic, "a type such as AAAA or ANY")?,
        zones,
        patterns: Vec::new(),
        vars: Vec::new(),
        conditions: Vec::new(),
        records: [const { Vec::new() }; 3],
        rcode: Rcode::NOERROR,
        ederror: Vec::new(),
        fallthrough: Fallthrough::default(),
        series,
    };
    let mut environment = environment();
    for line in directive.lines() {
        line.expect_no_body()?;
        property(line, &mut rule, &mut environment)?;
    }
    Ok(rule)
}

fn property(
    line: &Directive,
    rule: &mut Rule,
    environment: &mut Environment,
) -> Result<(), Error> {
    let [answer, authority, additional] = &mut rule.records;
    match line.name.text.as_str() {
        "match" => {
            for token in line.expect_args_from(1)? {
                rule.patterns.push(pattern(token)?);
            }
        }
        "var" => var(line, rule, environment)?,
        "expr" => rule.conditions.push(view::compile(line, environment)?),
        "answer" => records(line, answer)?,
        "authority" => records(line, authority)?,
        "additional" => records(line, additional)?,
        "rcode" => {
            let [rcode] = line.expect_args()?;
            rule.rcode = known(rcode, Rcode::mnemonic, "an RCODE such as NXDOMAIN")?;
        }
        "ederror" => rule.ederror = ederror(line)?,
        "fallthrough" => rule.fallthrough = Fallthrough::of(line.args())?,
        // CoreDNS reads it and does nothing.
        "upstream" => {}
        _ => return Err(line.unknown_property(&PROPERTIES)),
    }
    Ok(())
}

/// A mnemonic, in upper case as CoreDNS wants it.
fn known<T: std::str::FromStr + Copy>(
    token: &Token,
    mnemonic: impl Fn(T) -> Option<&'static str>,
    expected: &str,
) -> Result<T, Error> {
    let code = token.text.parse().ok();
    let code = code.filter(|code| mnemonic(*code) == Some(token.text.as_str()));
    code.ok_or_else(|| Error::expected(token, expected))
}

fn pattern(token: &Token) -> Result<Pattern, Error> {
    let regex = go_regex::compile(&token.text)
        .map_err(|error| Error::expected(token, format!("a regular expression ({error})")))?;
    Ok(Pattern { text: token.text.clone(), regex })
}

/// `var NAME EXPRESSION`; expressions on later lines may use it.
fn var(line: &Directive, rule: &mut Rule, environment: &mut Environment) -> Result<(), Error> {
    let [name, words @ ..] = line.expect_args_from(2)? else {
        return Err(line.invalid("expected a name and an expression"));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.text.chars().all(plain) || name.text.starts_with(|c: char| c.is_ascii_digit()) {
        let text = format!("invalid variable name {:?}: expected letters, digits and _", name.text);
        return Err(Error::invalid(name, text));
    }
    if environment.contains(&name.text) || is_reserved(&name.text) {
        let text = format!("variable name {:?} is reserved: expected another name", name.text);
        return Err(Error::invalid(name, text));
    }
    let expression = Directive { args: words.to_vec(), ..line.clone() };
    let program = view::compile(&expression, environment)?;
    let known = std::mem::take(environment);
    *environment = known.with_variable(&name.text, rule.vars.len(), program.result());
    rule.vars.push((name.text.clone(), program));
    Ok(())
}

fn records(line: &Directive, into: &mut Vec<Draft>) -> Result<(), Error> {
    for text in line.expect_args_from(1)? {
        let template = nodens_gotemplate::Template::parse(&line.name.text, &text.text)
            .map_err(|error| Error::expected(text, format!("a template of a record ({error})")))?;
        let fixed = Some(&text.text).filter(|text| !text.contains("{{"));
        // What is no record fails when it is used, as CoreDNS has it.
        match fixed.and_then(|text| presentation::record(text).ok()) {
            Some(record) => into.push(Draft::Fixed(record)),
            None => into.push(Draft::Template(template)),
        }
    }
    Ok(())
}

/// `ederror CODE [REASON]`
fn ederror(line: &Directive) -> Result<Vec<u8>, Error> {
    let args = line.expect_args_within(1..=2)?;
    let reason = args.get(1).map_or("", |reason| reason.text.as_str());
    let mut option = Vec::new();
    if let Some(code) = args.first() {
        let code = take::parse_integer(code, 0..=u16::MAX)?;
        push_extended_error(&mut option, code, reason);
    }
    Ok(option)
}
