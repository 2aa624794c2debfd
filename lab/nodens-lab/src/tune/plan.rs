//! What is fixed before the first measurement, and what people are told of it.

use super::Args;
use crate::load::line::Load;
use crate::term;
use anyhow::{Result, bail};
use lab_experiment::screening::BASELINE;
use lab_knobs::Choice;
use lab_result::tuning::{Claim, KnobPlan, TuningPlan};
use lab_tune::{Metric, metric};
use std::fmt::Write as _;
use std::time::Duration;

/// What a measurement takes besides its load: settings, the start of the server, the last answers.
const AROUND: Duration = Duration::from_millis(400);
/// Named settings that the time of the confirmation is told for.
const NAMED: usize = 3;

/// The plan of a command line.
pub(super) fn plan(
    args: &Args,
    load: &Load,
    (choices, present): (&[Choice], &[String]),
) -> Result<TuningPlan> {
    let closed_loop = load.is_closed();
    let usual = if closed_loop { "qps" } else { "p99" };
    let primary = args.primary.as_deref().unwrap_or(usual);
    if Metric::find(primary).is_none() {
        let known = metric::METRICS.map(|metric| metric.name).join(", ");
        bail!("--primary {primary}: expected one of {known}");
    }
    if primary == "qps" && !closed_loop {
        bail!("--primary qps: a load on a schedule has the rate of that; expected --load '-q …'");
    }
    let mut plan = TuningPlan {
        server: args.server_cmd.clone().unwrap_or_default(),
        load: load.described.clone(),
        scope: if args.host { "host" } else { "namespace" }.to_owned(),
        knobs: choices.iter().zip(present).map(|(choice, present)| knob(choice, present)).collect(),
        primary: primary.to_owned(),
        closed_loop,
        seed: args.seed,
        blocks: args.blocks,
        runs: 0,
        resolution: if args.no_fold_over { 3 } else { 4 },
        baselines: args.baselines,
        alpha: args.alpha,
        permutations: args.permutations,
        confirm_pairs: [args.pairs_min.min(args.pairs_max), args.pairs_max],
        power: args.power,
        retries: args.retries,
        measure_ns: args.measure,
        warm_up_ns: args.warm_up,
    };
    let arms = lab_tune::designs(&plan)?.arms;
    plan.runs = arms.iter().filter(|arm| arm.name != BASELINE).count();
    Ok(plan)
}

/// A setting as the result file has it; of a level that is `present` the value that it has.
fn knob(choice: &Choice, present: &str) -> KnobPlan {
    let Choice { knob, low, high } = choice;
    let claim = |claim: &lab_knobs::Claim| Claim {
        by: claim.by.to_owned(),
        expects: claim.expects.words().to_owned(),
        says: claim.says.to_owned(),
        source: claim.source.to_owned(),
    };
    KnobPlan {
        name: knob.name.to_string(),
        low: if low.as_str() == "present" { present.to_owned() } else { low.to_string() },
        high: high.to_string(),
        takes_effect: knob.takes_effect.words().to_owned(),
        claims: knob.claims.iter().map(claim).collect(),
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs_f64() / 60.0 {
        minutes @ ..10.0 => format!("{minutes:.1} min"),
        minutes => format!("{minutes:.0} min"),
    }
}

/// How long one measurement takes, with all around it.
fn each(plan: &TuningPlan) -> Duration {
    Duration::from_nanos(plan.measure_ns + plan.warm_up_ns) + AROUND
}

/// Measurements of the screening.
fn measurements(plan: &TuningPlan) -> usize {
    plan.blocks * (plan.runs + plan.baselines)
}

fn times(each: Duration, count: usize) -> Duration {
    each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// What will happen, in a sentence.
pub(super) fn sentence(plan: &TuningPlan) -> String {
    let [least, most] = plan.confirm_pairs;
    let screening = measurements(plan);
    let fresh = match most {
        0 => "nothing is confirmed on fresh data".to_owned(),
        _ => format!(
            "then {least} to {most} pairs on fresh data for those that are named, up to {} for {NAMED}",
            minutes(times(each(plan), most * (NAMED + 1)))
        ),
    };
    format!(
        "{} decides, {} in {} of {} combinations and {}: {} measurements, about {}; {fresh}",
        plan.primary,
        term::of(plan.knobs.len(), "setting"),
        term::of(plan.blocks, "block"),
        plan.runs,
        term::of(plan.baselines, "baseline"),
        term::count(screening as u64),
        minutes(times(each(plan), screening)),
    )
}

/// The whole plan: settings, time and order.
pub(super) fn told(plan: &TuningPlan, choices: &[Choice]) -> Result<String> {
    let mut text = String::new();
    let mut line = |what: &str| _ = writeln!(text, "{what}");
    line(&format!("server  {}", plan.server));
    line(&format!("load    {}", plan.load));
    line(&sentence(plan));
    line(match plan.scope.as_str() {
        "host" => "these settings of this machine change, and are restored:",
        _ => "these change in network namespaces that are made for the trial, and nowhere else:",
    });
    let mut table = term::Table::new(&["setting", "where", "low", "high", "takes effect"]);
    for (knob, choice) in plan.knobs.iter().zip(choices) {
        let KnobPlan { name, low, high, takes_effect, .. } = knob.clone();
        table.row(vec![name, choice.knob.place(), low, high, takes_effect]);
    }
    line(&table.framed());
    line("order of the combinations in each block, b for the baseline:");
    let design = lab_tune::designs(plan)?;
    for block in design.plan()?.blocks {
        let name = |at: &usize| {
            let arm = design.arms.get(*at).map_or("", |arm| arm.name.as_str());
            if arm == BASELINE { "b".to_owned() } else { arm.trim_start_matches("run ").to_owned() }
        };
        let order: Vec<String> = block.order.iter().map(name).collect();
        line(&format!("{:>4}: {}", block.index + 1, order.join(" ")));
    }
    Ok(text)
}
