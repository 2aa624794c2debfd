//! Putting back what runs have changed.

use super::args::Args;
use crate::term;
use anyhow::{Result, bail};
use lab_swap::{Api, Claim, Cluster, Error, Outcome, Restored, restore};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// How long the pods of the run may take to be replaced before its ReplicaSets are left where they are.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long it is tried by a program that somebody looks at.
pub(super) const TRY_MAX: Duration = Duration::from_secs(120);
/// How long it waits between two tries.
pub(super) const PAUSE: Duration = Duration::from_secs(2);

/// Puts everything back, and tries again while that fails, for `most` at most.
pub(super) fn put_back(
    api: &dyn Api,
    claim: &Claim,
    most: Duration,
) -> Result<Vec<Restored>, Error> {
    let until = Instant::now() + most;
    let mut last = None;
    loop {
        let error = match restore(api, claim, PATIENCE) {
            Err(error) if !error.is_others() && Instant::now() < until => error,
            ended => return ended,
        };
        if last.as_ref() != Some(&error) {
            term::note(&format!("restoring failed, and is tried again: {error}"));
        }
        last = Some(error);
        std::thread::sleep(PAUSE);
    }
}

/// What became of each change in the end, when the process that stays behind has ended, too; and the error if
/// something may be left.
pub(super) fn ended(
    restored: Result<Vec<Restored>, Error>,
    guard: Result<ExitStatus>,
) -> (Vec<String>, Option<anyhow::Error>) {
    match (restored, guard) {
        (Ok(all), _) => (told(&all), None),
        (Err(error), Ok(status)) if status.success() => {
            (vec![format!("restored by the process that stays behind, after: {error}")], None)
        }
        (Err(error), _) => {
            let text = "restoring failed: run nodens-lab swap --restore";
            (vec![format!("{text}: {error}")], Some(anyhow::Error::new(error).context(text)))
        }
    }
}

/// What became of each change.
pub(super) fn told(all: &[Restored]) -> Vec<String> {
    all.iter()
        .map(|Restored { what, outcome }| match outcome {
            Outcome::Back => format!("{what}: restored"),
            Outcome::Already => format!("{what}: as before"),
            Outcome::Gone => format!("{what}: its object is gone"),
            Outcome::Foreign(value) => {
                format!("{what}: left at {value}, which another program has set")
            }
        })
        .collect()
}

/// `--restore`.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let cluster = Cluster::find(args.kubeconfig.as_deref(), args.context.as_deref())?;
    let claims: Vec<Result<Claim, Error>> = match &args.workload {
        Some(workload) => Claim::find(&cluster, workload)?.into_iter().map(Ok).collect(),
        None => Claim::find_all(&cluster)?,
    };
    if claims.is_empty() {
        term::out("nothing is left changed");
    }
    let mut failed = 0;
    for claim in claims {
        if let Err(error) = claim.map_err(Into::into).and_then(|claim| left(args, &cluster, &claim))
        {
            term::note(&format!("restoring failed: {error:#}"));
            failed += 1;
        }
    }
    if failed > 0 {
        bail!("{failed} runs were not restored");
    }
    Ok(ExitCode::SUCCESS)
}

/// One of the runs that `--restore` finds.
fn left(args: &Args, cluster: &Cluster, claim: &Claim) -> Result<()> {
    // Of all workloads, those of runs that live are not meant.
    if args.workload.is_none() && claim.is_alive() {
        let (workload, holder) = (&claim.record.workload, &claim.holder);
        term::out(&format!("{workload}: a run of {holder} continues"));
        return Ok(());
    }
    leftover(cluster, claim)
}

/// Restores what an earlier run left, unless it still runs.
pub(super) fn leftover(cluster: &Cluster, claim: &Claim) -> Result<()> {
    let (workload, holder) = (&claim.record.workload, &claim.holder);
    if claim.is_alive() {
        bail!(
            "{workload}: a run of {holder} had its Lease {} s ago: end it, or wait until the Lease is {} s old",
            claim.age,
            lab_swap::LEASE_SECONDS
        );
    }
    term::out(&format!("{workload}: a run of {holder} has left it changed; restoring"));
    for line in told(&put_back(cluster, claim, TRY_MAX)?) {
        term::out(&format!("  {line}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_swap::Record;
    use serde_json::{Value, json};
    use std::cell::Cell;
    use std::os::unix::process::ExitStatusExt;

    /// A cluster without objects, whose first requests for one fail.
    struct Failing(Cell<usize>);

    impl Api for Failing {
        fn get(&self, path: &str) -> Result<Option<Value>, Error> {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            if left > 0 { Err(Error::new(path, "refused")) } else { Ok(None) }
        }

        fn text(&self, path: &str) -> Result<String, Error> {
            Err(Error::new(path, "none"))
        }

        fn create(&self, _: &str, object: &Value) -> Result<Value, Error> {
            Ok(object.clone())
        }

        fn patch(&self, _: &str, _: &Value) -> Result<Value, Error> {
            Ok(Value::Null)
        }

        fn delete(&self, _: &str, _: Option<&str>) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn restoring_is_tried_again_and_what_the_guard_did_is_told() {
        let workload = "a/deployment/b".parse().unwrap();
        let object = json!({"spec": {}});
        let changes = lab_swap::Workload::changes(&workload, &object, (0, "dns"), &[("new", "b1")]);
        let api = Failing(Cell::new(1));
        let claim = Claim::make(&api, "me", &Record::new("r", &workload, changes)).unwrap();
        let restored = put_back(&api, &claim, Duration::from_secs(20));
        let good = || Ok(ExitStatus::from_raw(0));
        let (lines, failed) = ended(restored, good());
        assert!(failed.is_none() && lines.len() == 2, "{lines:?}");
        let failing = || {
            api.0.set(1);
            put_back(&api, &claim, Duration::ZERO)
        };
        let (lines, failed) = ended(failing(), good());
        assert!(failed.is_none() && lines[0].contains("process that stays behind"), "{lines:?}");
        for guard in [Ok(ExitStatus::from_raw(256)), Err(anyhow::anyhow!("no child"))] {
            let (lines, failed) = ended(failing(), guard);
            assert!(lines[0].contains("refused"), "{lines:?}");
            assert!(failed.unwrap().to_string().contains("--restore"));
        }
    }
}
