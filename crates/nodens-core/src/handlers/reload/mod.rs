//! `reload`: take up a changed Corefile.

use crate::config::{BlockBuilder, ReloadService};
use crate::handler::Spec;
use nodens_corefile::{Directive, Error, take};
use std::time::Duration;

#[cfg(test)]
mod tests;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(30);
const INTERVAL_LEAST: Duration = Duration::from_secs(2);
const JITTER_DEFAULT: Duration = Duration::from_secs(15);
const JITTER_LEAST: Duration = Duration::from_secs(1);

/// How the directive is read.
pub const SPEC: Spec = Spec::new("reload", setup);

/// Reads `reload [INTERVAL] [JITTER]`; the last of all blocks counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    if let Some(line) = directive.lines().first() {
        return Err(line.unknown_property(&[]));
    }
    let mut service = ReloadService { interval: INTERVAL_DEFAULT, jitter: JITTER_DEFAULT };
    let args = directive.expect_args_within(0..=2)?;
    if let Some(interval) = args.first() {
        service.interval = take::parse_go_duration_within(interval, INTERVAL_LEAST..=Duration::MAX)
            .map_err(|_| Error::expected(interval, "a duration of 2s or more"))?;
    }
    if let Some(jitter) = args.get(1) {
        let wanted = || Error::expected(jitter, "a duration: 0, or 1s or more");
        service.jitter = take::parse_go_duration(jitter).map_err(|_| wanted())?;
        if !service.jitter.is_zero() && service.jitter < JITTER_LEAST {
            return Err(wanted());
        }
    }
    service.jitter = service.jitter.min(service.interval / 2);
    block.services.reload = Some(service);
    Ok(())
}
