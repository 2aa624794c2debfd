//! Reads `header`.

use super::{HeaderRules, Mask};
use nodens_corefile::{Directive, Error};
use nodens_wire::Flags;

pub(super) fn read(directive: &Directive) -> Result<HeaderRules, Error> {
    directive.expect_no_args()?;
    if directive.lines().is_empty() {
        let expected = "'header' needs at least one line such as 'response set ra' in braces";
        return Err(directive.invalid(expected));
    }
    let mut rules = HeaderRules::default();
    for line in directive.lines() {
        line.expect_no_body()?;
        let mask = match line.name.text.to_ascii_lowercase().as_str() {
            "query" => &mut rules.query,
            "response" => &mut rules.response,
            _ => return Err(line.unknown_property(&["query", "response"])),
        };
        read_rule(line, mask)?;
    }
    Ok(rules)
}

fn read_rule(line: &Directive, mask: &mut Mask) -> Result<(), Error> {
    let args = line.expect_args_from(2)?;
    let (Some(action), flags) = (args.first(), args.iter().skip(1)) else { return Ok(()) };
    let on = match action.text.to_ascii_lowercase().as_str() {
        "set" => true,
        "clear" => false,
        _ => return Err(Error::expected(action, "'set' or 'clear'")),
    };
    for flag in flags {
        let bits = match flag.text.to_ascii_lowercase().as_str() {
            "aa" => Flags::AA,
            "ra" => Flags::RA,
            "rd" => Flags::RD,
            _ => return Err(Error::expected(flag, "one of the flags aa, ra, rd")),
        };
        mask.rule(bits, on);
    }
    Ok(())
}
