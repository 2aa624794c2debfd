//! `timeouts`: time limits of streams.

use crate::config::BlockBuilder;
use crate::handler::Spec;
use nodens_corefile::{Directive, Error, Token, take};
use std::num::NonZeroU32;
use std::time::Duration;

#[cfg(test)]
mod tests;

const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(24 * 3600);

/// How the directive is read.
pub const SPEC: Spec = Spec::new("timeouts", setup);

/// Reads `timeouts { read|write|idle DURATION; maxtcpqueries NUMBER }`.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_args()?;
    let timeouts = &mut block.settings.timeouts;
    for property in directive.lines() {
        let [value] = property.expect_args()?;
        property.expect_no_body()?;
        match property.name.text.as_str() {
            "read" => timeouts.read = Some(duration(value)?),
            "write" => timeouts.write = Some(duration(value)?),
            "idle" => timeouts.idle = Some(duration(value)?),
            "maxtcpqueries" => timeouts.queries_max = Some(queries(value)?),
            _ => {
                return Err(property.unknown_property(&["read", "write", "idle", "maxtcpqueries"]));
            }
        }
    }
    if directive.lines().is_empty() {
        let text = "timeouts block with no timeouts specified: expected read, write, idle or maxtcpqueries";
        return Err(directive.invalid(text));
    }
    Ok(())
}

/// A duration; a bare number is in seconds.
fn duration(value: &Token) -> Result<Duration, Error> {
    let mut with_unit = value.clone();
    if value.text.parse::<u64>().is_ok() {
        with_unit.text.push('s');
    }
    take::parse_go_duration_within(&with_unit, LEAST..=MOST)
        .map_err(|_| Error::expected(value, "a duration from 1s to 24h"))
}

/// -1 stands for no limit, and so does what no connection can reach.
fn queries(value: &Token) -> Result<Option<NonZeroU32>, Error> {
    match value.text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(number @ 1..) => Ok(u32::try_from(number).ok().and_then(NonZeroU32::new)),
        _ => Err(Error::expected(value, "-1 (unlimited) or a positive number")),
    }
}
