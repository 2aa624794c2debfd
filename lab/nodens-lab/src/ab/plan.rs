//! What is fixed before the first block: queries, loads, order, metrics, margins.

use super::side::Spec;
use super::{Args, capacity};
use crate::given;
use anyhow::{Context, Result, bail};
use lab_experiment::{Design, Order};
use lab_load::workload::PlanHash;
use lab_load::{Workload, cluster, names};
use lab_result::comparison::{Cell, ComparisonPlan, Load, MetricPlan, SetPlan};
use lab_workload::{Style, TypeMix};
use nodens_wire::Type;
use std::path::Path;
use std::time::Duration;

/// The arms, as the result file names them.
pub(crate) const ARMS: [&str; 2] = ["a", "b"];
/// Draws before their order repeats.
const ORDER_LEN: usize = 1 << 18;
/// Queries of the cluster mix.
const MIX: usize = 100_000;
/// Relative width of the histogram's buckets.
pub(crate) const RESOLUTION: f64 = 1.0 / 256.0;
/// How much finer than a margin buckets must be.
const FINER: f64 = 5.0;
/// The metrics, and the differences that do not matter by default.
const METRICS: [(&str, f64); 7] = [
    ("p50", 0.02),
    ("p90", 0.02),
    ("p99", 0.05),
    ("p99.9", 0.1),
    ("loss", 0.001),
    ("cpu", 0.02),
    ("memory", 0.05),
];

/// The metric of a comparison by capacity, which has no other.
pub(crate) const CAPACITY: &str = "capacity";
/// The difference of capacities that does not matter by default.
const CAPACITY_MARGIN: f64 = 0.05;

/// A set of queries.
pub(crate) struct Set {
    pub(crate) name: String,
    source: String,
    pub(crate) workload: Workload,
}

impl Set {
    /// Queries that are no one's choice.
    pub(crate) fn new(name: &str, workload: Workload) -> Self {
        Self { name: name.to_owned(), source: name.to_owned(), workload }
    }
}

/// A metric by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Metric {
    /// A quantile of the response time.
    Quantile(f64),
    Loss,
    Cpu,
    Memory,
    /// The highest rate that meets an objective.
    Capacity,
}

impl Metric {
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "p50" => Self::Quantile(0.5),
            "p90" => Self::Quantile(0.9),
            "p99" => Self::Quantile(0.99),
            "p99.9" => Self::Quantile(0.999),
            "loss" => Self::Loss,
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            CAPACITY => Self::Capacity,
            _ => return None,
        })
    }

    /// Whether it is a time to answer, which a late query makes longer.
    pub(crate) fn is_latency(self) -> bool {
        matches!(self, Self::Quantile(_))
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Quantile(_) | Self::Cpu => "ns",
            Self::Loss => "part",
            Self::Memory => "octets",
            Self::Capacity => "qps",
        }
    }

    /// How many queries a block needs: 100 beyond the quantile.
    pub(crate) fn questions_needed(self) -> u64 {
        match self {
            Self::Quantile(part) => (100.0 / (1.0 - part)).round() as u64,
            _ => 1,
        }
    }
}

/// The query sets of the command line; the mix of a cluster without any.
pub(crate) fn sets(args: &Args) -> Result<Vec<Set>> {
    let mut sets = Vec::new();
    // Result files know the set of `--names` as `questions`.
    for (flag, name, given) in [
        ("internal", "internal", &args.internal),
        ("external", "external", &args.external),
        ("names", "questions", &args.names),
    ] {
        if let Some(given) = given {
            let (workload, source) =
                questions(given, args.seed).with_context(|| format!("--{flag}"))?;
            sets.push(Set { name: name.to_owned(), source, workload });
        }
    }
    if sets.is_empty() {
        let mix = cluster::mix(&cluster::Cluster::default(), args.clients, MIX, args.seed);
        let source = "mix of a Kubernetes node".to_owned();
        sets.push(Set { name: "cluster".to_owned(), source, workload: mix.workload });
    }
    Ok(sets)
}

/// A file of queries, or names under a suffix, and what it is for people.
fn questions(given: &str, seed: u64) -> Result<(Workload, String)> {
    let mut workload = Workload::new(seed);
    let path = Path::new(given);
    if path.exists() {
        let octets = std::fs::read(path).with_context(|| format!("cannot read {given}"))?;
        let types = TypeMix::only(Type::A);
        let errors = names::read(&octets, &Style::default(), &types, seed, &mut workload);
        given::tell_faults(given, &errors);
        if workload.is_empty() {
            bail!("{given} has no query");
        }
        return Ok((workload, given.to_owned()));
    }
    for name in given::below(given)? {
        workload.push(name?.view(), Type::A, None);
    }
    workload.zipf(1.0, ORDER_LEN);
    Ok((workload, given::told_suffix(given)))
}

/// The plan for `sets` at `loads`; refuses claims that nothing could support.
pub(crate) fn plan(
    args: &Args,
    sets: &[Set],
    loads: Vec<Load>,
    specs: &[Spec; 2],
) -> Result<ComparisonPlan> {
    let capacity = args.capacity.plan()?;
    let metrics = match capacity {
        Some(_) => with_margins(&[(CAPACITY, CAPACITY_MARGIN)], &args.margin)?,
        None => metrics(&args.margin)?,
    };
    let primary = capacity.as_ref().map_or(&*args.primary, |_| CAPACITY);
    let primary = self::primary(primary, &metrics, &loads)?;
    if !(args.alpha > 0.0 && args.alpha < 0.5 && args.power > 0.0 && args.power < 1.0) {
        bail!("expected a level above 0 and below 0.5 and a power above 0 and below 1");
    }
    let (pairs, alpha, fewest) = (args.pairs(), args.alpha, fewest(args.alpha, args.sequential));
    if pairs < fewest {
        bail!(
            "{pairs} pairs cannot show any difference at a level of {alpha}: expected at least {fewest}"
        );
    }
    // One server that is given cannot be in two places at the same time.
    let alone = args.duet && !specs[0].is_command();
    let noise_pairs = if alone { 0 } else { args.noise_pairs };
    let group = args.group.unwrap_or(if specs.iter().any(Spec::changes) { 1 } else { 5 });
    let set_plan = |set: &Set| {
        let mut hash = PlanHash::default();
        set.workload.hash_into(&mut hash);
        SetPlan {
            name: set.name.clone(),
            source: set.source.clone(),
            questions: set.workload.period().map(|_| set.workload.len() as u64),
            hash: format!("{:016x}", hash.finish()),
        }
    };
    Ok(ComparisonPlan {
        seed: args.seed,
        primary,
        metrics,
        alpha: args.alpha,
        power: args.power,
        pairs,
        noise_pairs,
        group_pairs: group.max(1),
        block_ns: capacity
            .as_ref()
            .map_or(args.block(), |plan| capacity::length(plan, args.timeout)),
        warm_up_ns: args.warm_up(),
        timeout_ns: args.timeout,
        clients: args.clients,
        sets: sets.iter().map(set_plan).collect(),
        loads,
        order: order(pairs, args.seed),
        resamples: 10_000,
        resolution: RESOLUTION,
        rules: [
            rules(args.retries),
            super::duet::rules(args, specs)?,
            capacity.as_ref().map_or_else(Vec::new, capacity::rules),
        ]
        .concat(),
        servers: [specs[0].described(), specs[1].described()],
        sequential: args.sequential,
        duet: args.duet,
        capacity,
    })
}

/// The fewest pairs that can show a difference.
pub(crate) fn fewest(alpha: f64, sequential: bool) -> usize {
    if sequential {
        return lab_stats::sequential::fewest(alpha).unwrap_or(usize::MAX);
    }
    lab_stats::power::Plan { alpha, ..lab_stats::power::Plan::default() }.fewest()
}

fn rules(retries: usize) -> Vec<String> {
    vec![
        format!("a pair is measured again, at most {retries} times, if in one of its blocks"),
        "the hypervisor took more than 1 % of the CPU time (steal)".to_owned(),
        "the generator declared the load INVALID".to_owned(),
        "or the echo run before its group lost a query".to_owned(),
        "of a pair that is still disturbed after that the least disturbed attempt is kept and noted; \
         no other pair is left out"
            .to_owned(),
    ]
}

/// The metrics with the margins of `given`, as `p99=5%`.
pub(crate) fn metrics(given: &[String]) -> Result<Vec<MetricPlan>> {
    with_margins(&METRICS, given)
}

fn with_margins(known: &[(&str, f64)], given: &[String]) -> Result<Vec<MetricPlan>> {
    let mut metrics: Vec<_> = known
        .iter()
        .map(|(metric, margin)| MetricPlan { metric: (*metric).to_owned(), margin: *margin })
        .collect();
    for text in given {
        let known: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        let (name, margin) = text
            .split_once('=')
            .with_context(|| format!("--margin {text}: expected METRIC=PART, such as p99=5%"))?;
        let plan = metrics.iter_mut().find(|plan| plan.metric == name);
        let plan = plan.with_context(|| format!("--margin {text}: expected one of {known}"))?;
        plan.margin = lab_units::part(margin).with_context(|| format!("--margin {text}"))?;
    }
    for MetricPlan { metric, margin } in &metrics {
        let finest = RESOLUTION * FINER;
        if matches!(Metric::of(metric), Some(Metric::Quantile(_))) && *margin < finest {
            bail!(
                "--margin {metric}={:.3}%: response times are kept in buckets of {:.2} %, which \
                 supports margins from {:.2} % on",
                margin * 100.0,
                RESOLUTION * 100.0,
                finest * 100.0
            );
        }
        if *margin <= 0.0 {
            bail!("--margin {metric}: expected more than 0");
        }
    }
    Ok(metrics)
}

/// The one that decides: `METRIC[@LOAD[@SET]]`, else the middle load of the first set.
pub(crate) fn primary(text: &str, metrics: &[MetricPlan], loads: &[Load]) -> Result<Cell> {
    let mut parts = text.split('@');
    let metric = parts.next().unwrap_or_default();
    if !metrics.iter().any(|plan| plan.metric == metric) {
        let known = METRICS.map(|(name, _)| name).join(", ");
        bail!("--primary {text}: expected one of {known}");
    }
    let (load, set) = (parts.next(), parts.next());
    let squeeze = |text: &str| text.replace(' ', "");
    let fits = |found: &&Load| {
        load.is_none_or(|load| squeeze(load) == squeeze(&found.name))
            && set.is_none_or(|set| set == found.set)
    };
    let mut fitting: Vec<&Load> = loads.iter().filter(fits).collect();
    let first = fitting.first().map(|found| found.set.clone()).unwrap_or_default();
    fitting.retain(|found| found.set == first);
    let chosen = fitting.get(fitting.len() / 2).with_context(|| {
        let known: Vec<_> = loads
            .iter()
            .map(|load| format!("{metric}@{}@{}", squeeze(&load.name), load.set))
            .collect();
        format!("--primary {text}: expected one of {}", known.join(", "))
    })?;
    Ok(Cell { set: chosen.set.clone(), load: chosen.name.clone(), metric: metric.to_owned() })
}

/// The pairs of A and B, each ordered by a fair coin of its own: that is what the tests count on. Of orders that
/// are balanced over few pairs, one that happens to go with the machine is far more likely.
pub(crate) fn design(pairs: usize, seed: u64) -> Design {
    Design { order: Order::Random, ..Design::of_arms(&ARMS, pairs, seed) }
}

/// Which side comes first in each pair.
pub(crate) fn order(pairs: usize, seed: u64) -> Vec<String> {
    let plan = design(pairs, seed).plan();
    let blocks = plan.map(|plan| plan.blocks).unwrap_or_default();
    let firsts = blocks.iter().filter_map(|block| ARMS.get(*block.order.first()?));
    firsts.map(|arm| (*arm).to_owned()).collect()
}

/// How long it will take at least.
pub(crate) fn estimate(plan: &ComparisonPlan) -> Duration {
    longest(plan, 0)
}

/// How long it will take if every pair is measured again as often as is allowed.
pub(crate) fn longest(plan: &ComparisonPlan, retries: usize) -> Duration {
    let in_turn = if plan.duet { 1 } else { 2 };
    let blocks = in_turn * (plan.pairs + plan.noise_pairs) * plan.loads.len() * (retries + 1);
    // A block also takes the start of its threads and the last answers.
    let each = plan.block_ns + plan.warm_up_ns + 60_000_000;
    let starts = (plan.pairs + plan.noise_pairs).div_ceil(plan.group_pairs.max(1)) as u64;
    // Each start has a measurement without load of at most 2 s, and a warm-up of every load.
    let start = plan.block_ns.min(2_000_000_000)
        + 2 * plan.warm_up_ns.saturating_mul(plan.loads.len() as u64)
        + 500_000_000;
    let all = each.saturating_mul(blocks as u64).saturating_add(start.saturating_mul(starts));
    Duration::from_nanos(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads() -> Vec<Load> {
        let mut loads = Vec::new();
        for set in ["internal", "external"] {
            for percent in [10, 50, 80] {
                let (name, rate) = (format!("{percent} %"), f64::from(percent) * 100.0);
                loads.push(Load { name, set: set.to_owned(), rate });
            }
        }
        loads
    }

    fn cell(text: &str) -> String {
        let Cell { set, load, metric } = primary(text, &metrics(&[]).unwrap(), &loads()).unwrap();
        format!("{set} {load} {metric}")
    }

    #[test]
    fn the_primary_metric_is_one_cell() {
        assert_eq!(cell("p50"), "internal 50 % p50");
        assert_eq!(cell("cpu@80%"), "internal 80 % cpu");
        assert_eq!(cell("p99@10 %@external"), "external 10 % p99");
        let plans = metrics(&[]).unwrap();
        assert!(primary("p51", &plans, &loads()).is_err());
        let error = primary("p50@90%", &plans, &loads()).unwrap_err().to_string();
        assert!(error.contains("p50@80%@external"), "{error}");
    }

    #[test]
    fn margins_finer_than_the_histogram_are_refused() {
        let margin = |text: &str| metrics(&[text.to_owned()]);
        assert!(margin("p99=3%").is_ok());
        assert!(margin("cpu=1%").is_ok(), "CPU is not counted in buckets");
        let error = margin("p50=1%").unwrap_err().to_string();
        assert!(error.contains("1.95 %"), "{error}");
        assert!(margin("p98=5%").is_err() && margin("p50").is_err() && margin("cpu=0").is_err());
    }

    #[test]
    fn each_pair_has_a_coin_of_its_own_that_follows_the_seed() {
        assert_eq!(order(20, 5), order(20, 5));
        assert_ne!(order(20, 5), order(20, 6));
        // All of the 64 orders of six pairs are about as frequent, those that are not balanced too.
        let mut found = std::collections::BTreeMap::new();
        (0..6_400).for_each(|seed| *found.entry(order(6, seed)).or_insert(0) += 1);
        assert_eq!(found.len(), 64);
        assert!(found.values().all(|count| (50..=160).contains(count)), "{found:?}");
    }

    #[test]
    fn what_is_asked_again_is_in_the_longest_time() {
        let plan = ComparisonPlan {
            pairs: 10,
            noise_pairs: 2,
            group_pairs: 12,
            block_ns: 1_940_000_000,
            loads: loads().split_off(5),
            ..ComparisonPlan::default()
        };
        let start = Duration::from_millis(2_440);
        assert_eq!(estimate(&plan), start + Duration::from_secs(2 * 24));
        assert_eq!(longest(&plan, 2), start + Duration::from_secs(3 * 2 * 24));
        let duet = ComparisonPlan { duet: true, ..plan };
        assert_eq!(estimate(&duet), start + Duration::from_secs(24), "both at the same time");
    }

    #[test]
    fn queries_come_from_a_file_or_a_suffix() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, "; nothing\n").unwrap();
        assert!(questions(path, 1).unwrap_err().to_string().contains("has no query"));
        std::fs::write(path, "a.example A\n").unwrap();
        assert_eq!(questions(path, 1).unwrap().0.len(), 1);
        assert_eq!(questions("svc.cluster.local", 1).unwrap().0.len(), given::NAMES);
        assert!(questions("/nonexistent/names.txt", 1).is_err());
    }
}
