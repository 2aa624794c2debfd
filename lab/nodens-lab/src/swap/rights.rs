//! Whether the account of this run may do all that the run does.

use super::args::{Args, LoadFrom};
use super::setup::Setup;
use crate::term;
use anyhow::{Context, Result, bail};
use lab_result::comparison::ComparisonPlan;
use lab_swap::rights::{Right, missing, needed};

/// Refuses a run that would find out later that it may not go on, or not put back.
pub(super) fn check(args: &Args, setup: &Setup, plan: &ComparisonPlan) -> Result<()> {
    let mut rights = needed(&setup.record, args.load_from == LoadFrom::Job);
    // Without them, a metric that decides would have no value.
    if ["cpu", "memory"].contains(&&*plan.primary.metric) {
        rights.push(Right::counters());
    }
    let missing = match missing(&setup.cluster, &rights) {
        Err(error) if error.may_pass() => return Err(error).context("cannot ask for rights"),
        Err(error) => {
            term::note(&format!("whether this account has all rights is not known: {error}"));
            return Ok(());
        }
        Ok(missing) => missing,
    };
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|right| format!("\n  {right}")).collect();
    bail!("nothing was changed, as this account may not{}", list.concat())
}
