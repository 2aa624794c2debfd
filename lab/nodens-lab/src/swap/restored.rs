//! Putting back what runs have changed.

use super::args::Args;
use crate::term;
use anyhow::{Result, bail};
use lab_swap::{Claim, Cluster, Error, Outcome, Restored, restore};
use std::process::ExitCode;
use std::time::Duration;

/// How long the pods of the run may take to be replaced before its ReplicaSets are left where they are.
const PATIENCE: Duration = Duration::from_secs(180);

/// Puts everything back.
pub(super) fn put_back(cluster: &Cluster, claim: &Claim) -> Result<Vec<Restored>, Error> {
    restore(cluster, claim, PATIENCE)
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
    for line in told(&put_back(cluster, claim)?) {
        term::out(&format!("  {line}"));
    }
    Ok(())
}
