//! `quic`: bounds of connections over QUIC.

use crate::config::BlockBuilder;
use crate::handler::Spec;
use crate::limits::QUIC_STREAMS_MAX;
use nodens_corefile::{Directive, Error, Token};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("quic", setup);

const PROPERTIES: [&str; 3] = ["max_streams", "max_connections", "worker_pool_size"];

/// Reads `quic { max_streams|max_connections|worker_pool_size NUMBER }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    directive.expect_no_args()?;
    let settings = &mut block.settings.quic;
    let mut seen: Vec<&str> = Vec::new();
    for property in directive.lines() {
        let [value] = property.expect_args()?;
        property.expect_no_body()?;
        let name = property.name.text.as_str();
        match name {
            "max_streams" => {
                let number = number(value, 1)?;
                settings.streams_max = u32::try_from(number).unwrap_or(u32::MAX);
                settings.streams_max = settings.streams_max.min(QUIC_STREAMS_MAX);
            }
            "max_connections" => settings.connections_max = number(value, 0)?,
            "worker_pool_size" => settings.in_flight_max = number(value, 1)?,
            _ => return Err(property.unknown_property(&PROPERTIES)),
        }
        if seen.contains(&name) {
            let text = format!("{name} already defined for this server block");
            return Err(property.invalid(text));
        }
        seen.push(name);
    }
    Ok(())
}

fn number(value: &Token, least: i64) -> Result<usize, Error> {
    let wanted = if least > 0 { "a positive integer" } else { "a non-negative integer" };
    let number = value.text.parse::<i64>().ok().filter(|number| *number >= least);
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Error::expected(value, wanted))
}
