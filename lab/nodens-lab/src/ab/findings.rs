//! From blocks to findings: values of blocks, differences of pairs, tests, verdicts.

mod disturbed;
mod values;

use super::plan::{ARMS, Metric};
use disturbed::undisturbed;
use lab_result::comparison::{
    Block, Cell, ComparisonPlan, Cost, Finding, Load, MetricPlan, Omitted, Verdict,
};
use lab_stats::power::{Plan, Resampled};
use lab_stats::{Comparison, Interval, Margin, Settings, holm, linear, paired, sequential};
use values::{Value, Values, values};

pub(crate) use disturbed::decides_undisturbed;

/// Fewer pairs than this are not tested.
const PAIRS_MIN: usize = 2;
/// With fewer pairs of A with itself, the spread of the pairs of A and B tells more.
const NOISE_PAIRS_MIN: usize = 6;

/// What one phase has shown.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The primary one first, then as planned.
    pub(crate) all: Vec<Finding>,
    pub(crate) omitted: Vec<Omitted>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn settings(plan: &ComparisonPlan) -> Settings {
    let power = Plan { alpha: plan.alpha, power: plan.power };
    Settings { plan: power, resamples: plan.resamples, seed: plan.seed }
}

/// The findings of the blocks of one phase. `noise` are those of A with itself.
pub(crate) fn findings(plan: &ComparisonPlan, blocks: &[Block], noise: &[Finding]) -> Findings {
    let mut found = Findings::default();
    for load in &plan.loads {
        for metric in &plan.metrics {
            let cell = Cell {
                set: load.set.clone(),
                load: load.name.clone(),
                metric: metric.metric.clone(),
            };
            match finding(plan, blocks, (load, metric, cell.clone())) {
                Ok((finding, values)) => {
                    if values.bounds() > 0 {
                        found.notes.push(bounds(&finding, values.bounds()));
                    }
                    if values.left_out > 0 {
                        found.notes.push(left_out(&finding, values.left_out));
                    }
                    found.all.push(finding);
                }
                Err(reason) => found.omitted.push(Omitted { cell, reason }),
            }
        }
    }
    found.all.sort_by_key(|finding| !finding.primary);
    adjust(plan, &mut found.all);
    for finding in &mut found.all {
        complete(plan, finding, noise);
    }
    found
}

/// What a reader must know of values that are only bounds.
fn bounds(finding: &Finding, censored: usize) -> String {
    let Finding { cell: Cell { metric, load, set }, pairs, .. } = finding;
    let (of, why) = match metric.as_str() {
        "capacity" => (
            "searches",
            "the limit was out of reach, and the highest or lowest rate that was tried stands in its place",
        ),
        _ => ("blocks", "it lies among the lost queries, and the timeout stands in its place"),
    };
    format!("{metric} at {load} ({set}): in {censored} of {} {of} {why}", 2 * pairs)
}

/// What a reader must know of pairs without a value.
fn left_out(finding: &Finding, count: usize) -> String {
    let Finding { cell: Cell { metric, load, set }, pairs, .. } = finding;
    let all = crate::term::of(pairs + count, "pair");
    format!("{metric} at {load} ({set}): {count} of {all} left out, as counters were not read")
}

fn finding(
    plan: &ComparisonPlan,
    blocks: &[Block],
    (load, planned, cell): (&Load, &MetricPlan, Cell),
) -> Result<(Finding, Values), String> {
    let metric = Metric::of(&planned.metric).ok_or("unknown metric")?;
    // What decides is shown, and the comparison is INVALID.
    if cell != plan.primary {
        undisturbed(metric, blocks, load)?;
    }
    let values = values(metric, blocks, load, questions_planned(plan, load))?;
    let ratio = metric != Metric::Loss;
    let difference = |(a, b): &(Value, Value)| {
        if ratio { (b.value / a.value).ln() } else { b.value - a.value }
    };
    let differences: Vec<f64> = values.pairs.iter().map(difference).collect();
    if differences.len() < PAIRS_MIN || differences.iter().any(|d| !d.is_finite()) {
        return Err(format!("{} with a value", crate::term::of(differences.len(), "pair")));
    }
    let facing = Facing::of(metric);
    let compared = compare(plan, &facing.turned(&differences), margin(metric, planned.margin))
        .ok_or("there are no differences")?;
    let shown = |value: f64| {
        let value = facing.back(value);
        if ratio { value.exp_m1() } else { value }
    };
    let median = if metric == Metric::Capacity { Values::strict_median } else { Values::median };
    let (a, b) = (median(&values, |pair| pair.0), median(&values, |pair| pair.1));
    // A bound never shows that two servers are alike, and not that B is no worse if the true values say
    // worse of B.
    let is_open = |(a, b): &(Value, Value)| match facing {
        Facing::Less => b.is_bound || a.at_most,
        Facing::More => b.at_most || a.is_bound,
    };
    let is_open = values.pairs.iter().any(is_open);
    let finding = Finding {
        primary: cell == plan.primary,
        cell,
        rate: load.rate,
        unit: metric.unit().to_owned(),
        scale: if ratio { "ratio" } else { "difference" }.to_owned(),
        pairs: compared.pairs,
        pooled: values.pooled,
        a: a.value,
        b: b.value,
        a_is_bound: a.is_bound,
        b_is_bound: b.is_bound,
        more_is_better: facing == Facing::More,
        a_at_most: a.at_most,
        b_at_most: b.at_most,
        estimate: shown(compared.estimate),
        median: shown(compared.median),
        interval: compared
            .interval
            .map(|interval| facing.ends([interval.low, interval.high].map(shown))),
        method: method(compared.method).to_owned(),
        p: compared.difference.p,
        p_exact: compared.difference.exact,
        p_adjusted: compared.difference.p,
        p_equivalent: if values.bounds() > 0 { 1.0 } else { compared.equivalence_p },
        p_worse: if is_open { 1.0 } else { compared.worse_p },
        margin: planned.margin,
        sigma: compared.sigma,
        detectable: None,
        pairs_needed: None,
        verdict: Verdict::Inconclusive,
        differences,
    };
    Ok((finding, values))
}

/// The comparison of one metric: by a fixed number of pairs, or one that may be read after each.
fn compare(plan: &ComparisonPlan, differences: &[f64], margin: Margin) -> Option<Comparison> {
    let with = if plan.sequential { sequential::compare } else { lab_stats::compare };
    with(differences, margin, &settings(plan))
}

/// The queries that a block has by the plan, less what chance may take; `None` where those that it had
/// count. Between looks it must not change which blocks are pooled.
fn questions_planned(plan: &ComparisonPlan, load: &Load) -> Option<u64> {
    let planned = 0.9 * load.rate * plan.block_ns as f64 / 1e9;
    plan.sequential.then_some(planned as u64)
}

/// Whether the primary metric of a sequential comparison has a verdict.
pub(crate) fn is_decided(plan: &ComparisonPlan, blocks: &[Block]) -> bool {
    let cell = &plan.primary;
    let load = plan.loads.iter().find(|load| load.set == cell.set && load.name == cell.load);
    let planned = plan.metrics.iter().find(|planned| planned.metric == cell.metric);
    let Some((load, planned)) = load.zip(planned) else { return false };
    let Ok((mut finding, _)) = finding(plan, blocks, (load, planned, cell.clone())) else {
        return false;
    };
    judge(plan, &mut finding);
    finding.verdict != Verdict::Inconclusive
}

/// Which way a metric faces: the tests are for one of which less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Facing {
    Less,
    More,
}

impl Facing {
    fn of(metric: Metric) -> Self {
        if metric == Metric::Capacity { Self::More } else { Self::Less }
    }

    /// Differences of which less is better.
    fn turned(self, differences: &[f64]) -> Vec<f64> {
        differences.iter().map(|difference| self.back(*difference)).collect()
    }

    /// A value of these, turned back.
    fn back(self, value: f64) -> f64 {
        if self == Self::More { -value } else { value }
    }

    /// The ends of an interval, the lower first.
    fn ends(self, [low, high]: [f64; 2]) -> [f64; 2] {
        if self == Self::More { [high, low] } else { [low, high] }
    }
}

/// The margin of differences as the tests take them.
fn margin(metric: Metric, margin: f64) -> Margin {
    match metric {
        Metric::Loss => Margin::absolute(margin),
        Metric::Capacity => {
            let Margin { low, high } = Margin::ratio(margin);
            Margin { low: -high, high: -low }
        }
        _ => Margin::ratio(margin),
    }
}

fn method(method: lab_stats::Method) -> &'static str {
    match method {
        lab_stats::Method::Bca => "bca",
        lab_stats::Method::Stationary => "stationary bootstrap",
        lab_stats::Method::Inverted => "inverted sign-flip test",
        lab_stats::Method::AlwaysValid => "confidence sequence",
    }
}

fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

/// Holm's correction over everything but the primary metric, for differences and for equivalence.
fn adjust(plan: &ComparisonPlan, findings: &mut [Finding]) {
    let others: Vec<&mut Finding> = findings.iter_mut().filter(|f| !f.primary).collect();
    let count = others.len();
    let differences = holm::adjusted(&others.iter().map(|f| f.p).collect::<Vec<_>>());
    let equivalences = holm::adjusted(&others.iter().map(|f| f.p_equivalent).collect::<Vec<_>>());
    for ((finding, p), equivalent) in others.into_iter().zip(differences).zip(equivalences) {
        (finding.p_adjusted, finding.p_equivalent) = (p, equivalent);
    }
    for finding in findings {
        let Some(compared) = judge(plan, finding) else { continue };
        // As if each of the others had its share of the level: a little more than Holm asks.
        let share = if finding.primary { 1.0 } else { count.max(1) as f64 };
        let wanted = Plan { alpha: plan.alpha / share, power: plan.power };
        let needed = pairs_needed(plan, finding, (&compared, wanted));
        finding.pairs_needed = needed.map(|pairs| pairs.max(finding.pairs + 1));
    }
}

/// Gives the finding its verdict. Returns the comparison that it was made from, the same again by its
/// seed, if more pairs might decide it.
fn judge(plan: &ComparisonPlan, finding: &mut Finding) -> Option<Comparison> {
    let compared = compare(plan, &turned(finding), margin_of(finding))?;
    let verdict = compared.verdict_with(finding.p_adjusted, finding.p_equivalent, plan.alpha);
    finding.verdict = match verdict {
        lab_stats::Verdict::Faster => Verdict::Faster,
        lab_stats::Verdict::Slower => Verdict::Slower,
        lab_stats::Verdict::Equivalent => Verdict::Equivalent,
        lab_stats::Verdict::Inconclusive => Verdict::Inconclusive,
    };
    if !finding.shift().supports(finding.verdict, finding.more_is_better) {
        finding.verdict = Verdict::Inconclusive;
        return None;
    }
    (verdict == lab_stats::Verdict::Inconclusive).then_some(compared)
}

fn metric_of(finding: &Finding) -> Metric {
    Metric::of(&finding.cell.metric).unwrap_or(Metric::Loss)
}

fn margin_of(finding: &Finding) -> Margin {
    margin(metric_of(finding), finding.margin)
}

/// The differences as the tests take them.
fn turned(finding: &Finding) -> Vec<f64> {
    Facing::of(metric_of(finding)).turned(&finding.differences)
}

/// Pairs in all that would probably decide.
fn pairs_needed(
    plan: &ComparisonPlan,
    finding: &Finding,
    (compared, wanted): (&Comparison, Plan),
) -> Option<usize> {
    let (differences, margin) = (&turned(finding), margin_of(finding));
    if plan.sequential {
        let settings = Settings { plan: wanted, ..settings(plan) };
        return sequential::pairs_needed(differences, compared.estimate, margin, &settings);
    }
    compared.pairs_needed(differences, margin, wanted)
}

/// What the noise of A with itself says about the finding.
fn complete(plan: &ComparisonPlan, finding: &mut Finding, noise: &[Finding]) {
    // What the pairs so far would find says nothing where their number depends on what was found.
    if plan.sequential {
        return;
    }
    let mut quiet = noise.iter().filter(|noise| noise.pairs >= NOISE_PAIRS_MIN);
    let quiet = quiet.find(|noise| noise.cell == finding.cell);
    let noise = quiet.map_or_else(|| centred(finding), |noise| noise.differences.clone());
    let drawn = Resampled::new(settings(plan).plan, &noise, plan.seed);
    finding.detectable = Some(drawn.detectable(finding.pairs))
        .filter(|effect| effect.is_finite())
        .map(|effect| if finding.scale == "ratio" { effect.exp_m1() } else { effect });
}

/// The differences of a finding around their centre.
fn centred(finding: &Finding) -> Vec<f64> {
    let centre = paired::hodges_lehmann(&finding.differences).unwrap_or(0.0);
    finding.differences.iter().map(|difference| difference - centre).collect()
}

/// CPU = idle + per answer × rate, and the growth of memory, for each side and set.
pub(crate) fn costs(plan: &ComparisonPlan, blocks: &[Block]) -> Vec<Cost> {
    let mut costs = Vec::new();
    for set in &plan.sets {
        for side in ARMS {
            let mine: Vec<&Block> = blocks
                .iter()
                .filter(|block| {
                    block.used
                        && block.side == side
                        && (block.set == set.name || block.load == "idle")
                })
                .collect();
            costs.extend(cost(plan, side, &set.name, &mine));
        }
    }
    costs
}

fn cost(plan: &ComparisonPlan, side: &str, set: &str, blocks: &[&Block]) -> Option<Cost> {
    let points = blocks.iter().filter_map(|block| {
        let seconds = block.elapsed_ns as f64 / 1e9;
        (seconds > 0.0).then_some((block.answered as f64 / seconds, block.cpu_ns? as f64 / seconds))
    });
    let points: Vec<(f64, f64)> = points.collect();
    let line = linear::fit(&points, plan.alpha)?;
    let growth = growth(plan, blocks);
    Some(Cost {
        side: side.to_owned(),
        set: set.to_owned(),
        idle: line.intercept,
        idle_interval: line.intercept_interval.map(ends),
        per_answer: line.slope,
        per_answer_interval: line.slope_interval.map(ends),
        r_squared: line.r_squared,
        points: points.into_iter().map(|(rate, cpu)| [rate, cpu]).collect(),
        memory_growth: growth.as_ref().map(|line| line.slope),
        memory_growth_interval: growth.and_then(|line| line.slope_interval).map(ends),
    })
}

/// Octets per million answers: one slope for all processes, each with a level of its own.
fn growth(plan: &ComparisonPlan, blocks: &[&Block]) -> Option<linear::Line> {
    let mut points = Vec::new();
    for process in blocks.chunk_by(|a, b| a.incarnation == b.incarnation) {
        let of: Vec<(f64, f64)> = process
            .iter()
            .filter_map(|block| Some((block.answers_so_far as f64 / 1e6, block.memory? as f64)))
            .collect();
        let count = (of.len() as f64).max(1.0);
        let (x, y) = (of.iter().map(|p| p.0).sum::<f64>(), of.iter().map(|p| p.1).sum::<f64>());
        points.extend(of.iter().map(|p| (p.0 - x / count, p.1 - y / count)));
    }
    linear::fit(&points, plan.alpha)
}

#[cfg(test)]
mod tests;
