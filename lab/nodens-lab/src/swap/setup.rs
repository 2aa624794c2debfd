//! What there is before anything is changed: the cluster, the workload, its owners, queries and plan.

use super::args::{Args, LoadFrom};
use super::queries::{self, Set};
use super::restored::leftover;
use super::rounds::pairs;
use crate::ab::plan as shared;
use crate::term::{self, Style};
use anyhow::{Context, Result, bail};
use lab_result::comparison::{ComparisonPlan, Load};
use lab_swap::owner::{self, Owner};
use lab_swap::{Change, Claim, Cluster, Record, Workload};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::path::Path;

/// Everything that was found.
pub(super) struct Setup {
    pub(super) cluster: Cluster,
    pub(super) workload: Workload,
    /// The workload as it was.
    pub(super) object: Value,
    pub(super) container: String,
    /// Of the baseline and of the candidate.
    pub(super) images: [String; 2],
    pub(super) server: SocketAddr,
    pub(super) sets: Vec<Set>,
    pub(super) record: Record,
    /// Who has the Lease.
    pub(super) holder: String,
    /// Owners, for people.
    pub(super) told: Vec<String>,
}

/// Looks for everything; restores what an earlier run left first.
pub(super) fn find(args: &Args) -> Result<Setup> {
    let workload = args.workload.clone().context("no workload")?;
    let cluster = Cluster::find(args.kubeconfig.as_deref(), args.context.as_deref())?;
    if let Some(claim) = Claim::find(&cluster, &workload)? {
        if args.dry_run {
            bail!("an earlier run has left {workload} changed: nodens-lab swap --restore");
        }
        leftover(&cluster, &claim)?;
    }
    let object = workload.get(&cluster)?;
    let (place, container) = workload.container(&object, args.container.as_deref())?;
    let baseline = args.baseline.as_deref().unwrap_or(Workload::image(&object, place)).to_owned();
    let candidate = args.candidate.clone().context("no --candidate")?;
    let server = match args.server {
        Some(server) => server,
        None => queries::server(&cluster, &workload.namespace, &object)?,
    };
    let sets = queries::sets(args, &cluster)?;
    let (mut changes, told) = owners(args, (&cluster, &workload, &object))?;
    let images = [baseline, candidate];
    changes.extend(workload.changes(&object, (place, &container), &pairs(&images)));
    let id = lab_random::at(lab_load_seed(), u64::from(std::process::id()));
    let record = Record::new(&format!("{:08x}", id as u32), &workload, changes);
    let holder = format!("nodens-lab on {} (process {})", host(), std::process::id());
    Ok(Setup { cluster, workload, object, container, images, server, sets, record, holder, told })
}

/// Different for each start.
fn lab_load_seed() -> u64 {
    crate::ab::measure::unix(std::time::SystemTime::now())
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "an unknown machine".to_owned(),
        name => name.to_owned(),
    }
}

/// The changes that pause owners, and what people should know of them.
fn owners(
    args: &Args,
    (cluster, workload, object): (&Cluster, &Workload, &Value),
) -> Result<(Vec<Change>, Vec<String>)> {
    let (mut changes, mut told) = (Vec::new(), Vec::new());
    for owner in owner::owners(cluster, workload, object)? {
        match owner {
            Owner::Pausable { name, change } => {
                let what = format!("{name} is paused: {}", change.what);
                paused(cluster, change, what, (&mut changes, &mut told))?;
            }
            Owner::Undoes { name, hint } if args.owned_anyway || !args.scale_down.is_empty() => {
                told.push(format!("{name}: {hint}"));
            }
            Owner::Undoes { name, hint } => bail!("{workload} belongs to {name}: {hint}"),
            Owner::Known { name, note } => told.push(format!("{name}: {note}")),
        }
    }
    for text in &args.scale_down {
        let change = owner::scaled_down(cluster, text).context("--scale-down")?;
        let what = format!("{text} is scaled to 0");
        paused(cluster, change, what, (&mut changes, &mut told))?;
    }
    Ok((changes, told))
}

/// Adds a change that pauses an owner, unless it is paused already.
fn paused(
    cluster: &Cluster,
    change: Change,
    what: String,
    (changes, told): (&mut Vec<Change>, &mut Vec<String>),
) -> Result<()> {
    if changes.contains(&change) {
        return Ok(());
    }
    if lab_swap::is_needed(cluster, &change)? {
        told.push(what);
        changes.push(change);
    } else {
        told.push(format!("{what} (already before this run, and left so)"));
    }
    Ok(())
}

/// What is fixed before the first round.
pub(super) fn plan(args: &Args, setup: &Setup) -> Result<ComparisonPlan> {
    let mut loads = Vec::new();
    for set in &setup.sets {
        for rate in &args.rates {
            loads.push(Load { name: format!("{rate}/s"), set: set.name.clone(), rate: *rate });
        }
    }
    let metrics = shared::metrics(&args.margin)?;
    let primary = shared::primary(&args.primary, &metrics, &loads)?;
    let sets: Result<_> = setup.sets.iter().map(|set| set.plan(args.seed)).collect();
    Ok(ComparisonPlan {
        sequential: false,
        duet: false,
        capacity: None,
        seed: args.seed,
        primary,
        metrics,
        alpha: args.alpha,
        power: args.power,
        pairs: args.rounds,
        noise_pairs: args.noise_rounds,
        group_pairs: 1,
        block_ns: args.length,
        warm_up_ns: 0,
        timeout_ns: args.timeout,
        clients: args.clients,
        sets: sets?,
        loads,
        order: shared::order(args.rounds, args.seed),
        resamples: 10_000,
        resolution: shared::RESOLUTION,
        rules: rules(args.retries),
        servers: setup.images.clone(),
    })
}

fn rules(retries: usize) -> Vec<String> {
    vec![
        "each arm of each round has pods of its own, and all queries once before its load".to_owned(),
        "CPU and memory are those between the first and the last reading of a kubelet within a load"
            .to_owned(),
        format!("a load is measured again, at most {retries} times and with the same pods, if"),
        "the generator declared it INVALID for other reasons than late queries".to_owned(),
        "a container was started again".to_owned(),
        "or, where CPU or memory decides, the load holds fewer than two readings of a kubelet".to_owned(),
        "a pair without CPU or memory is left out of that metric, as long as at most a quarter are".to_owned(),
        "of loads that were measured again the least disturbed one counts, of equals the last one; nothing else is left out"
            .to_owned(),
    ]
}

/// The shortest texts that tell the images apart: what is behind their last slash, or all.
pub(super) fn names(images: &[String; 2]) -> [String; 2] {
    let short = |image: &String| image.rsplit('/').next().unwrap_or_default().to_owned();
    let [a, b] = [short(&images[0]), short(&images[1])];
    match (a == b, images[0] == images[1]) {
        (_, true) => [a, format!("{b} again")],
        (true, false) => images.clone(),
        (false, false) => [a, b],
    }
}

/// What will happen.
pub(super) fn announced(args: &Args, setup: &Setup, plan: &ComparisonPlan) -> String {
    let Setup { workload, container, images: [a, b], server, .. } = setup;
    let mut lines = vec![
        format!(
            "{}  container {container} at {}",
            term::paint(Style::Bold, &workload.to_string()),
            setup.cluster.url
        ),
        format!("  A  {a}"),
        format!("  B  {b}"),
    ];
    for (set, planned) in setup.sets.iter().zip(&plan.sets) {
        let count = term::count(planned.questions.unwrap_or(0));
        lines.push(format!("  {}: {count} queries, {}", set.name, planned.source));
    }
    let from = match args.load_from {
        LoadFrom::Job => "a Job in the cluster",
        LoadFrom::Here => "this machine",
    };
    let rates: Vec<String> = args.rates.iter().map(|rate| term::rate(*rate)).collect();
    let length = args.length / lab_load::SECOND;
    lines.push(format!("  {} QPS for {length} s each from {from} to {server}", rates.join(", ")));
    lines.extend(setup.told.iter().map(|told| format!("  {told}")));
    lines.push(format!(
        "  changed meanwhile, and recorded in the Lease {}:",
        lab_swap::lease_path(workload).rsplit('/').next().unwrap_or_default()
    ));
    lines.extend(setup.record.changes.iter().map(|change| format!("    {}", change.what)));
    let least = 2
        * (plan.pairs + plan.noise_pairs) as u64
        * (plan.loads.len() as u64 * args.length + args.settle)
        / lab_load::SECOND;
    lines.push(format!(
        "  {} after {} of A with itself: {:.0} min of loads, and {} rollouts",
        term::of(plan.pairs, "round"),
        plan.noise_pairs,
        (least as f64 / 60.0).ceil(),
        2 * (plan.pairs + plan.noise_pairs) + 1,
    ));
    lines.join("\n")
}

/// Writes the plan and returns its hash.
pub(super) fn write_plan(folder: &Path, plan: &ComparisonPlan) -> Result<String> {
    let path = folder.join("plan.json");
    let mut text = serde_json::to_string_pretty(plan)?;
    text.push('\n');
    std::fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(crate::ab::hex(&Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_apart() {
        let of = |a: &str, b: &str| names(&[a.to_owned(), b.to_owned()]).join(" | ");
        assert_eq!(of("r/x/coredns:1", "r/x/coredns:2"), "coredns:1 | coredns:2");
        assert_eq!(of("r/coredns:1", "q/coredns:1"), "r/coredns:1 | q/coredns:1");
        assert_eq!(of("r/coredns:1", "r/coredns:1"), "coredns:1 | coredns:1 again");
    }
}
