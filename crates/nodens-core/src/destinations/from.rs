//! The FROM of directives that ask others: which zones are asked for.

use crate::config::BlockBuilder;
use crate::log::Level;
use nodens_corefile::take::parse_zones;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;

/// FROM is one zone. A prefix that needs several stands for its first, as in CoreDNS; `origin` is the directive,
/// for the warning that says so.
pub(crate) fn zone_of_from(
    from: &Token,
    origin: &'static str,
    block: &BlockBuilder<'_>,
) -> Result<Name, Error> {
    let zones = parse_zones(std::slice::from_ref(from))?;
    let Some(first) = zones.first() else {
        return Err(Error::invalid(from, format!("unable to normalize '{}'", from.text)));
    };
    if zones.len() > 1 {
        let text = format!(
            "Unsupported CIDR notation: '{}' expands to multiple zones. Using only '{first}'.",
            from.text
        );
        block.shared.sink.line(Level::Warning, origin, text);
    }
    name(from, first)
}

/// Adds the zones of a line `except` to `all`.
pub(crate) fn read_except(line: &Directive, all: &mut Vec<Name>) -> Result<(), Error> {
    for zone in parse_zones(line.expect_args_from(1)?)? {
        all.push(name(&line.name, &zone)?);
    }
    Ok(())
}

fn name(token: &Token, text: &str) -> Result<Name, Error> {
    Name::parse(text).map_err(|error| Error::invalid(token, format!("{text}: {error}")))
}
