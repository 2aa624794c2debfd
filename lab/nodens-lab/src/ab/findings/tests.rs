use super::super::{Measured, conclude};
use super::values::quantile;
use super::*;
use lab_histogram::Histogram;
use lab_result::comparison::Shift;
use lab_result::comparison::{ComparisonFile, SetPlan};
use std::sync::atomic::AtomicBool;

const LOAD: &str = "50 %";

fn plan(metrics: &[(&str, f64)]) -> ComparisonPlan {
    let metric =
        |(name, margin): &(&str, f64)| MetricPlan { metric: (*name).to_owned(), margin: *margin };
    ComparisonPlan {
        seed: 1,
        primary: Cell { set: "s".into(), load: LOAD.into(), metric: metrics[0].0.into() },
        metrics: metrics.iter().map(metric).collect(),
        alpha: 0.05,
        power: 0.8,
        sets: vec![SetPlan { name: "s".into(), ..SetPlan::default() }],
        loads: vec![Load { name: LOAD.into(), set: "s".into(), rate: 1_000.0 }],
        resamples: 500,
        ..ComparisonPlan::default()
    }
}

/// A block of 1,000 queries with a median of `micros`, and CPU and memory to match.
fn block(side: &str, pair: usize, micros: u64) -> Block {
    let mut response = Histogram::new();
    (0..1_000).for_each(|n| response.record(micros * 1_000 + n * micros));
    Block {
        pair,
        side: side.into(),
        set: "s".into(),
        load: LOAD.into(),
        used: true,
        elapsed_ns: 1_000_000_000,
        sent: 1_000,
        answered: 1_000,
        response,
        cpu_ns: Some(micros * 1_000 * 1_000 + 5_000_000),
        memory: Some(1_000_000 + 1_000 * pair as u64),
        answers_so_far: 1_000 * (pair as u64 + 1),
        incarnation: usize::from(side == "b"),
        ..Block::default()
    }
}

fn idle(side: &str) -> Block {
    let (set, load) = (String::new(), "idle".to_owned());
    let block = block(side, 0, 1);
    Block { set, load, sent: 0, answered: 0, cpu_ns: Some(5_000_000), ..block }
}

/// Pairs with some noise, B slower by `percent`.
fn blocks(pairs: usize, percent: u64) -> Vec<Block> {
    let mut blocks = vec![idle("a"), idle("b")];
    for pair in 0..pairs {
        let micros = 1_000 + (pair as u64 * 7) % 5;
        blocks.push(block("a", pair, micros));
        blocks.push(block("b", pair, micros * (100 + percent) / 100 + (pair as u64 * 3) % 4));
    }
    blocks
}

#[test]
fn a_slower_server_is_called_slower_in_time_and_cpu() {
    let found = findings(&plan(&[("p50", 0.02), ("cpu", 0.02)]), &blocks(12, 5), &[]);
    assert_eq!(found.all.len(), 2, "{:?}", found.omitted);
    for finding in &found.all {
        assert_eq!(finding.verdict, Verdict::Slower, "{finding:?}");
        assert!((finding.estimate - 0.05).abs() < 0.005, "{}", finding.estimate);
        let [low, high] = finding.interval.unwrap();
        assert!(low < finding.estimate && finding.estimate < high);
        assert!(finding.detectable.unwrap() < 0.02);
    }
    assert!(found.all[0].primary && !found.all[1].primary);
}

/// Every block has a fault; of `late` of them it is only that queries left late.
fn disturbed(late: usize) -> Vec<Block> {
    let mut blocks = blocks(12, 5);
    for (at, block) in blocks.iter_mut().filter(|block| block.load != "idle").enumerate() {
        block.faults = vec!["a fault".into()];
        block.only_late = at < late;
    }
    blocks
}

#[test]
fn late_queries_void_latencies_and_not_what_an_answer_costs() {
    let by_cpu = plan(&[("cpu", 0.02), ("p50", 0.02)]);
    let found = findings(&by_cpu, &disturbed(24), &[]);
    let metrics: Vec<_> = found.all.iter().map(|f| f.cell.metric.as_str()).collect();
    assert_eq!(metrics, ["cpu"]);
    assert!(found.omitted[0].reason.contains("late in 24 of 24 blocks"), "{:?}", found.omitted);
    let (invalid, notes) = super::super::judge(&by_cpu, &disturbed(24));
    assert!(invalid.is_empty() && notes[0].contains("24 of 24 blocks"), "{invalid:?} {notes:?}");
}

#[test]
fn each_load_is_judged_by_its_own_pairs() {
    let mut plan = plan(&[("p50", 0.02), ("cpu", 0.02)]);
    plan.loads.push(Load { name: "10 %".into(), ..plan.loads[0].clone() });
    let of_b = |count: usize| {
        let quiet = blocks(12, 5).into_iter().filter(|block| block.load != "idle");
        let quiet = quiet.map(|block| Block { load: "10 %".into(), ..block });
        let mut all: Vec<_> = blocks(12, 5).into_iter().chain(quiet).collect();
        let mine = all.iter_mut().filter(|block| block.load == LOAD && block.side == "b");
        mine.take(count).for_each(|block| block.faults = vec!["steal".into()]);
        all
    };
    assert_eq!(findings(&plan, &of_b(3), &[]).all.len(), 4);
    // A sixth of the blocks of the load, and a third of its pairs.
    let found = findings(&plan, &of_b(4), &[]);
    let cells: Vec<_> =
        found.all.iter().map(|found| (&*found.cell.metric, &*found.cell.load)).collect();
    assert_eq!(cells, [("p50", LOAD), ("p50", "10 %"), ("cpu", "10 %")], "what decides is shown");
    assert!(found.omitted[0].reason.contains("4 of 24 blocks are disturbed"), "{found:?}");
    let reason = "at 50 % (s) 4 of 24 blocks are disturbed";
    assert_eq!(super::super::judge(&plan, &of_b(4)).0, [reason]);
    assert_eq!(super::super::judge(&plan, &of_b(3)).0, [""; 0]);
    let file = concluded(plan, of_b(4));
    assert_eq!(
        (file.invalid_because, file.verdict),
        (vec![reason.to_owned()], Verdict::Inconclusive)
    );
}

fn concluded(plan: ComparisonPlan, comparison: Vec<Block>) -> ComparisonFile {
    let measured = Measured {
        noise: Vec::new(),
        comparison,
        provenance: lab_result::Provenance::default(),
        parties: Default::default(),
        started: std::time::SystemTime::now(),
    };
    conclude(plan, String::new(), measured, &AtomicBool::new(false))
}

#[test]
fn a_pair_whose_counters_were_not_read_is_left_out_and_told() {
    let plan = plan(&[("cpu", 0.02), ("memory", 0.05)]);
    let without = |count: usize| {
        let mut all = blocks(12, 5);
        let of_b = all.iter_mut().filter(|block| block.side == "b" && block.load == LOAD);
        of_b.take(count).for_each(|block| (block.cpu_ns, block.memory) = (None, Some(0)));
        findings(&plan, &all, &[])
    };
    let found = without(3);
    let pairs: Vec<_> = found.all.iter().map(|one| (&*one.cell.metric, one.pairs)).collect();
    assert_eq!(pairs, [("cpu", 9), ("memory", 9)], "{:?}", found.omitted);
    assert!(found.notes[0].contains("cpu at 50 % (s): 3 of 12 pairs"), "{:?}", found.notes);
    let found = without(4);
    assert_eq!((found.all.len(), found.omitted.len()), (0, 2), "{:?}", found.all);
    assert!(found.omitted[0].reason.contains("CPU time is not known"));
}

#[test]
fn without_what_decides_a_comparison_is_invalid() {
    let mut blind = blocks(12, 5);
    assert_eq!(concluded(plan(&[("cpu", 0.02)]), blind.clone()).invalid_because, [""; 0]);
    blind.iter_mut().for_each(|block| block.cpu_ns = None);
    let file = concluded(plan(&[("cpu", 0.02), ("p50", 0.02)]), blind);
    let [reason] = &file.invalid_because[..] else { panic!("{:?}", file.invalid_because) };
    assert!(reason.starts_with("what decides, cpu at 50 % (s), was not measured: "), "{reason}");
    assert_eq!((file.verdict, file.findings.len()), (Verdict::Inconclusive, 1));
}

#[test]
fn latencies_have_no_verdict_if_faults_of_all_kinds_together_are_too_many() {
    let mut blocks = disturbed(5);
    // Of 24 blocks, 5 are late and 5 are spoilt in another way: each less than a quarter, not both.
    let loaded = blocks.iter_mut().filter(|block| block.load != "idle");
    loaded.skip(10).for_each(|block| block.faults.clear());
    let found = findings(&plan(&[("cpu", 0.02), ("p50", 0.02)]), &blocks, &[]);
    let metrics: Vec<_> = found.all.iter().map(|f| f.cell.metric.as_str()).collect();
    assert_eq!(metrics, ["cpu"]);
    assert!(
        found.omitted[0].reason.contains("10 of 24 blocks are disturbed"),
        "{:?}",
        found.omitted
    );
}

#[test]
fn late_queries_leave_no_verdict_on_latencies_and_other_faults_none_at_all() {
    let by_latency = plan(&[("p50", 0.02), ("cpu", 0.02)]);
    let (invalid, _) = super::super::judge(&by_latency, &disturbed(24));
    assert_eq!(invalid.len(), 1);
    let by_cpu = plan(&[("cpu", 0.02)]);
    let (invalid, _) = super::super::judge(&by_cpu, &disturbed(12));
    assert_eq!(invalid.len(), 1);
}

#[test]
fn cpu_is_less_the_idle_use_and_fits_the_line() {
    let (plan, blocks) = (plan(&[("cpu", 0.02)]), blocks(8, 0));
    let found = findings(&plan, &blocks, &[]);
    assert!((found.all[0].a / 1_002_000.0 - 1.0).abs() < 0.01, "{}", found.all[0].a);
    let costs = costs(&plan, &blocks);
    assert_eq!(costs.len(), 2);
    assert!((costs[0].idle / 5e6 - 1.0).abs() < 0.2, "{:?}", costs[0]);
    assert!((costs[0].per_answer / 1_002_000.0 - 1.0).abs() < 0.01, "{:?}", costs[0]);
    let growth = costs[0].memory_growth.unwrap();
    assert!((growth / 1e6 - 1.0).abs() < 0.3, "one octet per answer is a million: {growth}");
}

#[test]
fn others_must_pass_holm() {
    let many: Vec<_> = [("p50", 0.02), ("cpu", 0.02), ("memory", 0.05), ("loss", 0.001)].into();
    let found = findings(&plan(&many), &blocks(6, 5), &[]);
    let cpu = found.all.iter().find(|finding| finding.cell.metric == "cpu").unwrap();
    // The lowest p-value of six pairs, three times: too much.
    assert!(cpu.p < 0.05 && cpu.p_adjusted > 0.05 && cpu.verdict != Verdict::Slower, "{cpu:?}");
    assert_eq!(found.all[0].verdict, Verdict::Slower, "the primary one stands alone");
}

#[test]
fn quantiles_without_enough_queries_are_pooled_or_left_out() {
    let metrics = [("p50", 0.02), ("p99", 0.05), ("p99.9", 0.1)];
    let found = findings(&plan(&metrics), &blocks(60, 0), &[]);
    let p99 = found.all.iter().find(|finding| finding.cell.metric == "p99").unwrap();
    assert_eq!((p99.pooled, p99.pairs), (10, 6));
    assert_eq!(found.omitted.len(), 1);
    assert!(found.omitted[0].reason.contains("100000 are needed"), "{}", found.omitted[0].reason);
}

#[test]
fn what_was_not_measured_is_omitted_with_a_reason() {
    let mut all = blocks(8, 0);
    all.iter_mut().for_each(|block| block.cpu_ns = None);
    let found = findings(&plan(&[("p50", 0.02), ("cpu", 0.02)]), &all, &[]);
    assert_eq!(found.omitted[0].reason, "CPU time is not known");
    let none = findings(&plan(&[("p50", 0.02)]), &[], &[]);
    assert_eq!(none.omitted[0].reason, "nothing was measured");
}

/// 600 of 1,000 queries are lost, with a timeout of 2 s.
fn lose_most(block: &mut Block) {
    block.response = Histogram::new();
    (0..400).for_each(|_| block.response.record(1_000_000));
    (0..600).for_each(|_| block.response.record_censored(2_000_000_000));
    (block.answered, block.lost) = (400, 600);
}

#[test]
fn lost_queries_stand_in_quantiles_as_the_timeout() {
    let mut all = blocks(8, 0);
    for block in all.iter_mut().filter(|block| block.side == "b" && block.sent > 0) {
        lose_most(block);
    }
    let found = findings(&plan(&[("p50", 0.02), ("loss", 0.001)]), &all, &[]);
    let p50 = &found.all[0];
    assert_eq!((p50.b, p50.a_is_bound, p50.b_is_bound), (2e9, false, true));
    assert_eq!((p50.shift(), p50.verdict), (Shift::AtLeast, Verdict::Slower));
    assert!(found.notes[0].contains("8 of 16 blocks"), "{:?}", found.notes);
    assert!((found.all[1].estimate - 0.6).abs() < 1e-9 && found.all[1].scale == "difference");
}

#[test]
fn two_quantiles_among_lost_queries_are_not_equivalent() {
    let mut all = blocks(8, 0);
    for block in all.iter_mut().filter(|block| block.sent > 0) {
        lose_most(block);
    }
    let found = findings(&plan(&[("p50", 0.02)]), &all, &[]);
    let p50 = &found.all[0];
    assert_eq!((p50.shift(), p50.verdict), (Shift::Unknown, Verdict::Inconclusive));
    assert_eq!(p50.pairs_needed, None, "more pairs tell nothing");
}

#[test]
fn a_few_quantiles_among_lost_queries_leave_the_others_without_equivalence() {
    let mut all = blocks(10, 0);
    for block in all.iter_mut().filter(|block| block.sent > 0 && block.pair < 4) {
        lose_most(block);
    }
    let found = findings(&plan(&[("p50", 0.02)]), &all, &[]);
    let p50 = &found.all[0];
    assert_eq!((p50.a_is_bound, p50.b_is_bound, p50.shift()), (false, false, Shift::Known));
    assert_eq!((p50.p_equivalent, p50.p_worse), (1.0, 1.0), "B may be slower than the timeout");
    assert_eq!(p50.verdict, Verdict::Inconclusive);
}

#[test]
fn pairs_that_were_measured_again_count_once() {
    let mut all = blocks(8, 0);
    all.push(Block { used: false, ..block("a", 0, 9_000) });
    all.push(Block { used: false, ..block("b", 0, 1) });
    let found = findings(&plan(&[("p50", 0.02)]), &all, &[]);
    assert_eq!(found.all[0].pairs, 8);
    assert_eq!(found.all[0].verdict, Verdict::Equivalent);
}

#[test]
fn quantiles_within_a_bucket_are_interpolated() {
    let mut block = block("a", 0, 1);
    block.response = Histogram::new();
    block.response.record_n(1_000_000, 50);
    block.response.record_n(2_000_000, 50);
    let at = |part| quantile(&[&block], part).unwrap().value;
    assert!(at(0.1) < at(0.4) && at(0.4) < 1_004_000.0 && at(0.6) > 1_990_000.0);
}

/// Blocks up to each number of pairs, as the looks of a sequential comparison have them.
fn decided_after(plan: &ComparisonPlan, blocks: &[Block]) -> Option<usize> {
    let upto = |pairs: usize| -> Vec<Block> {
        blocks.iter().filter(|block| block.pair < pairs).cloned().collect()
    };
    (1..=30).find(|pairs| is_decided(plan, &upto(*pairs)))
}

#[test]
fn a_sequential_comparison_is_decided_as_soon_as_it_is_shown() {
    let plan = ComparisonPlan {
        sequential: true,
        block_ns: 1_000_000_000,
        pairs: 30,
        ..plan(&[("p50", 0.02), ("memory", 0.05)])
    };
    assert_eq!(decided_after(&plan, &blocks(30, 10)), Some(7));
    let alike = decided_after(&plan, &blocks(30, 0)).unwrap();
    assert!((5..15).contains(&alike), "{alike}");
    let found = findings(&plan, &blocks(7, 10), &[]);
    let first = &found.all[0];
    assert_eq!((first.verdict, &*first.method), (Verdict::Slower, "confidence sequence"));
    let [low, high] = first.interval.unwrap();
    assert!(low > 0.05 && high < 0.15, "{first:?}");
    assert!(first.p <= 0.05 && first.p > 0.015 && first.detectable.is_none(), "{first:?}");
    // Six pairs of the same sign would do for a test that is made once.
    let six = &findings(&plan, &blocks(6, 10), &[]).all[0];
    assert!(six.verdict == Verdict::Inconclusive && six.pairs_needed == Some(7), "{six:?}");
}

#[test]
fn what_blocks_are_pooled_does_not_change_between_looks() {
    let plan =
        ComparisonPlan { sequential: true, block_ns: 1_000_000_000, ..plan(&[("p99", 0.05)]) };
    // By the plan 900 queries a block, so twelve blocks together; one block more than fulfils it.
    let mut many = blocks(72, 0);
    let pooled = |blocks: &[Block]| findings(&plan, blocks, &[]).all.first().map(|f| f.pooled);
    assert_eq!(pooled(&many), Some(12));
    many.last_mut().unwrap().sent = 500;
    assert_eq!(pooled(&many), Some(12));
}
