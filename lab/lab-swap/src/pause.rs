//! Pausing owners: from what the record says they were, or not at all.

use crate::api::{Api, Error};
use crate::change::{Change, test};
use crate::record::Claim;
use serde_json::Value;

/// How often an object that others change at the same time is tried.
const TRIES: usize = 8;

/// Whether `change` is still to be made. What has its value already was paused by hand: it belongs in no
/// record, so that it stays as it is.
///
/// # Errors
///
/// What the server said. That another run's record has the field: its end would wake the owner up.
pub fn is_needed(api: &dyn Api, change: &Change) -> Result<bool, Error> {
    if !change.during.contains(&change.before) {
        return Ok(true);
    }
    let is_same = |one: &Change| one.path == change.path && one.pointer == change.pointer;
    let all = Claim::find_all(api)?;
    match all.iter().flatten().find(|claim| claim.record.changes.iter().any(is_same)) {
        None => Ok(false),
        Some(Claim { holder, record, .. }) => Err(Error::new(
            &change.what,
            format!(
                "the run of {holder} on {} has paused it: wait for its end, or nodens-lab swap --restore if it is gone",
                record.workload
            ),
        )),
    }
}

/// Makes the changes of owners, all before the two of the workload.
///
/// # Errors
///
/// What the server said, or that an object is no longer what it was when the record was made. What was not
/// changed is no longer in `claim` then, nor in its Lease: to put it back could undo what another has set.
pub fn pause(api: &dyn Api, claim: &mut Claim) -> Result<(), Error> {
    let own = claim.record.workload.path();
    let beside: Vec<Change> =
        claim.record.changes.iter().filter(|change| change.path != own).cloned().collect();
    for (made, change) in beside.iter().enumerate() {
        let Err(Failed { error, may_be_made }) = one(api, claim, change) else { continue };
        let left = beside.get(made + usize::from(may_be_made)..).unwrap_or_default();
        // The run that calls this knows already; the Lease is for those that come after it.
        _ = claim.forget(api, left);
        return Err(error);
    }
    Ok(())
}

/// Why an owner is not paused.
struct Failed {
    error: Error,
    /// Without an answer nobody knows whether a patch was applied.
    may_be_made: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, may_be_made: false }
    }
}

fn one(api: &dyn Api, claim: &Claim, change: &Change) -> Result<(), Failed> {
    // Whoever was suspended may have lost the Lease.
    claim.renew(api)?;
    let mut tries = 0;
    loop {
        let object =
            api.get(&change.path)?.ok_or_else(|| Error::new(&change.what, "it is gone"))?;
        // A conflict may be the answer to a second copy of a patch that was applied. What has been tried and
        // is as wanted stays in the record: that an owner stays paused is worse than that one is woken up.
        if tries > 0 && change.value(&object).as_ref() == change.during.first() {
            return Ok(());
        }
        check(change, &object)?;
        // What was looked at is what is changed.
        let version = object.pointer("/metadata/resourceVersion");
        let version = version.map(|version| test("/metadata/resourceVersion", version));
        let mut patch: Vec<Value> = version.into_iter().collect();
        patch.extend(change.set(&object, change.during.first().unwrap_or(&Value::Null)));
        tries += 1;
        match api.patch(&change.path, &Value::Array(patch)) {
            Ok(_) => return Ok(()),
            // Its status changes all the time.
            Err(error) if error.is_conflict() && tries < TRIES => {}
            Err(error) => {
                let may_be_made = error.code == 0 || error.code >= 500;
                return Err(Failed { error, may_be_made });
            }
        }
    }
}

/// Whether the field still has its value of before.
fn check(change: &Change, object: &Value) -> Result<(), Error> {
    let now = change.value(object).unwrap_or(Value::Null);
    if now == change.before {
        return Ok(());
    }
    let message = format!(
        "another program has changed it from {} to {now} since this run looked: start again",
        change.before
    );
    Err(Error::new(&change.what, message))
}
