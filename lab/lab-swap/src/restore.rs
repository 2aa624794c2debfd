//! Everything back to what the record says it was.

use crate::api::{Api, Error, OTHERS};
use crate::change::{Change, Decision, test};
use crate::record::Claim;
use crate::workload::MARK;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often the ReplicaSets of the run are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often an object that others change at the same time is tried.
const TRIES: usize = 8;

/// The label that gives an object another version. Annotations of a Deployment would stay in its ReplicaSet.
const FENCE: &str = "/metadata/labels/nodens-lab~1restoring";

/// What became of one change.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The change, for people.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// How a field got back.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was put back.
    Back,
    /// It was as before: not changed yet, or put back by another.
    Already,
    /// It has a value that the run did not give it, and keeps it.
    Foreign(Value),
    /// Its object is gone.
    Gone,
}

/// Puts back all changes of `claim`, the last one first, and deletes the Lease, and with it what the run
/// created. It may be called again after an error, and by several programs at once.
///
/// In between it waits, at most for `patience`, until pods of the run are replaced, because the
/// ReplicaSets that the run made can be deleted only then. What cannot be deleted does no harm.
///
/// # Errors
///
/// The first error of a server, after all objects were tried; the Lease is still there then. That another
/// run has the Lease now: whoever deleted ours has put everything back before.
pub fn restore(api: &dyn Api, claim: &Claim, patience: Duration) -> Result<Vec<Restored>, Error> {
    let lease = api.get(&claim.path)?;
    let is_other = |lease: &Value| lease.pointer("/metadata/uid") != Some(&json!(claim.uid));
    if lease.as_ref().is_some_and(is_other) {
        let message = "another run has the Lease now: nothing is left of this one".to_owned();
        return Err(Error { what: claim.path.clone(), code: OTHERS, message });
    }
    let changes = claim.learned(lease.as_ref());
    let mut paths: Vec<&str> = Vec::new();
    for change in changes.iter().rev() {
        if !paths.contains(&&*change.path) {
            paths.push(&change.path);
        }
    }
    let (mut all, mut first) = (Vec::new(), Ok(()));
    for path in paths {
        // All of one object at once, so that it is rolled out once.
        let of_object: Vec<&Change> = changes.iter().filter(|c| c.path == path).collect();
        match object(api, path, &of_object) {
            Ok(restored) => all.extend(restored),
            Err(error) => first = first.and(Err(error)),
        }
    }
    first?;
    let until = Instant::now() + patience;
    while remove_sets(api, claim) > 0 && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    match api.delete(&claim.path, Some(&claim.uid)) {
        // Others have deleted it since, and made their own.
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(all),
    }
}

/// Puts back the changes of one object.
fn object(api: &dyn Api, path: &str, changes: &[&Change]) -> Result<Vec<Restored>, Error> {
    let mut tries = 0;
    loop {
        let Some(now) = api.get(path)? else {
            let gone = |c: &&Change| Restored { what: c.what.clone(), outcome: Outcome::Gone };
            return Ok(changes.iter().map(gone).collect());
        };
        let mut restored = Vec::new();
        let mut patch: Vec<Value> = now
            .pointer("/metadata/resourceVersion")
            .map(|version| test("/metadata/resourceVersion", version))
            .into_iter()
            .collect();
        let fixed = patch.len();
        for change in changes {
            let outcome = match change.back(&now) {
                Decision::Already => Outcome::Already,
                Decision::Foreign(value) => Outcome::Foreign(value),
                Decision::Patch(operations) => {
                    patch.extend(operations);
                    Outcome::Back
                }
            };
            restored.push(Restored { what: change.what.clone(), outcome });
        }
        // A restoration that was killed has left it there.
        patch.extend(now.pointer(FENCE).map(|_| unfenced()));
        tries += 1;
        if patch.len() == fixed {
            let is_same = restored.iter().all(|one| one.outcome == Outcome::Already);
            match if is_same { fence(api, path, &now) } else { Ok(()) } {
                // It has another version than the one that was looked at: what is its value now?
                Err(error) if error.is_conflict() && tries < TRIES => continue,
                Err(error) if error.may_pass() => return Err(error),
                // Nothing is to be put back, so what refuses this does not keep the others from it.
                _ => return Ok(restored),
            }
        }
        match api.patch(path, &Value::Array(patch)) {
            Ok(_) => return Ok(restored),
            // Its status changes all the time.
            Err(error) if error.is_conflict() && tries < TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives the object another version, by a label that comes and goes. A patch of the run that is still under
/// way, because its connection broke, has the version of before in it and is refused then.
fn fence(api: &dyn Api, path: &str, now: &Value) -> Result<(), Error> {
    let Some(version) = now.pointer("/metadata/resourceVersion") else { return Ok(()) };
    let mut patch = vec![test("/metadata/resourceVersion", version)];
    patch.extend(Change::of("fence", path, now, FENCE, Vec::new()).set(now, &json!("yes")));
    api.patch(path, &Value::Array(patch))?;
    match api.patch(path, &json!([unfenced()])) {
        // Another restoration has removed it.
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Takes the label away, and nothing that others may have put beside it.
fn unfenced() -> Value {
    json!({"op": "remove", "path": FENCE})
}

/// Deletes the ReplicaSets that the run made and that have no pods any more, so that
/// `kubectl rollout undo` does not offer them. Returns how many are left.
fn remove_sets(api: &dyn Api, claim: &Claim) -> usize {
    let workload = &claim.record.workload;
    let sets = format!("/apis/apps/v1/namespaces/{}/replicasets", workload.namespace);
    let Ok(Some(list)) = api.get(&sets) else { return 0 };
    let items = list.pointer("/items").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut left = 0;
    for set in items.iter().filter(|set| is_of(set, claim)) {
        let wanted = set.pointer("/spec/replicas") == Some(&json!(0));
        let are = set.pointer("/status/replicas").and_then(Value::as_u64).unwrap_or(0);
        let name = set.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let uid = set.pointer("/metadata/uid").and_then(Value::as_str);
        if !(wanted && are == 0) || api.delete(&format!("{sets}/{name}"), uid).is_err() {
            left += 1;
        }
    }
    left
}

/// Whether a ReplicaSet of the workload carries the mark of a run.
fn is_of(set: &Value, claim: &Claim) -> bool {
    let workload = &claim.record.workload;
    let marked = set
        .pointer("/spec/template/metadata/annotations")
        .is_some_and(|annotations| annotations.get(MARK).is_some());
    let owners = set.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    marked
        && owners.into_iter().flatten().any(|owner| {
            owner.get("kind") == Some(&json!(workload.kind.name()))
                && owner.get("name") == Some(&json!(workload.name))
        })
}
