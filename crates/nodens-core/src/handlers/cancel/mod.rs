//! `cancel`: limits the time a question may take.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use crate::handlers::Handler;
use nodens_corefile::take::parse_go_duration;
use nodens_corefile::{Directive, Error};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("cancel", setup);

/// A little more than clients wait.
const TIMEOUT_DEFAULT: Duration = Duration::from_millis(5001);

/// The directive at work.
#[derive(Debug)]
pub struct Cancel {
    timeout: Duration,
}

impl Handle for Cancel {
    const ONLY_WATCHES: bool = true;

    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let deadline_ns = cx.now.plus(self.timeout);
        cx.job.deadline_ns = cx.job.deadline_ns.min(deadline_ns);
        Step::Next
    }
}

/// Reads `cancel [TIMEOUT]`; a later one replaces an earlier one.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_no_body()?;
    let timeout = match directive.expect_args_within(0..=1)? {
        [timeout] => {
            let parsed = parse_go_duration(timeout)?;
            if parsed.is_zero() {
                return Err(Error::expected(timeout, "a duration above zero"));
            }
            parsed
        }
        _ => TIMEOUT_DEFAULT,
    };
    if let Some(Handler::Cancel(earlier)) = block.handlers.last_mut() {
        earlier.timeout = timeout;
    } else {
        block.push(Cancel { timeout });
    }
    Ok(())
}
