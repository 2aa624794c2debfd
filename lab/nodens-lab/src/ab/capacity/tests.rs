use super::*;
use crate::ab::findings::findings;
use clap::Parser;
use lab_experiment::limit::Said;
use lab_random::Stream;
use lab_result::comparison::{Cell, MetricPlan, Verdict};
use lab_result::search::Probe;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: crate::ab::Args,
}

fn line(words: &[&str]) -> Result<crate::ab::Args, String> {
    let words = [&["ab", "--a", "127.0.0.1", "--b", "127.0.0.1"], words].concat();
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    line.args.check().map_err(|error| error.to_string())?;
    Ok(line.args)
}

fn plan() -> CapacityPlan {
    line(&["--capacity", "p99<5ms,loss<0.1%"]).unwrap().capacity.plan().unwrap().unwrap()
}

fn capacity(limited_by: &str, limit: Option<f64>, interval: Option<[f64; 2]>) -> Capacity {
    let limited_by = limited_by.to_owned();
    Capacity { limit, interval, limited_by, floor: 100.0, probes: Vec::new() }
}

#[test]
fn the_objective_is_read_as_that_of_a_load_and_the_searches_are_planned() {
    let plan = plan();
    assert_eq!(plan.objective, "p99<5ms,loss<0.1%");
    assert_eq!((plan.probes, plan.probe_ns), (20, 1_000_000_000));
    assert_eq!(length(&plan, 1_000_000_000), 20 * 2_300_000_000);
    let of = ComparisonPlan { capacity: Some(plan), ..ComparisonPlan::default() };
    let load = Load { rate: 3_000.0, ..Load::default() };
    assert_eq!(warm_rate(&of, &load), 1_500.0, "a load that keeps the server busy, and not more");
    assert_eq!(warm_rate(&ComparisonPlan::default(), &load), 3_000.0);
    assert!(line(&[]).unwrap().capacity.plan().unwrap().is_none());
}

#[test]
fn probes_of_both_servers_have_the_same_queries_and_each_probe_has_its_own() {
    let generator = Generator {
        clients: 4,
        threads: 1,
        cpus: Vec::new(),
        timeout: Duration::from_secs(1),
        seed: 1,
    };
    let workload = lab_load::cluster::mix(&lab_load::cluster::Cluster::default(), 4, 1_000, 1);
    let hash = |server: &str, number| {
        let server = server.parse().unwrap();
        let config = generator.probe(server, 500.0, Duration::from_secs(1), (7, number));
        (lab_load::run::plan_hash(&config, &workload.workload), config.seed)
    };
    assert_eq!(hash("192.0.2.1:53", 3), hash("192.0.2.2:1053", 3));
    assert_ne!(hash("192.0.2.1:53", 3).1, hash("192.0.2.1:53", 4).1);
}

#[test]
fn what_does_not_go_together_with_capacity_is_refused() {
    let capacity = ["--capacity", "p99<5ms"];
    for other in [
        &["--rates", "1k"][..],
        &["--loads", "50"],
        &["--primary", "cpu"],
        &["--block", "2s"],
        &["--duet"],
        &["--self-test", "3"],
    ] {
        let error = line(&[&capacity[..], other].concat()).err().unwrap();
        assert!(error.contains("--capacity") && error.contains(other[0]), "{error}");
    }
    let error = line(&["--capacity-probes", "9"]).err().unwrap();
    assert!(error.contains("--capacity <LIMITS>"), "{error}");
    assert!(line(&["--capacity", "p99"]).err().unwrap().contains("expected limits such as"));
    for wrong in [
        ["--capacity-probes", "1"],
        ["--capacity-probe", "50ms"],
        ["--capacity-floor", "0.5"],
        ["--capacity-ceiling", "50"],
        ["--capacity-precision", "0.1%"],
    ] {
        let error = line(&[&capacity[..], &wrong].concat()).err().unwrap();
        assert!(error.contains(wrong[0]), "{error}");
    }
}

#[test]
fn searches_start_between_what_the_first_ones_found_if_a_limit_can_be_compared() {
    let start = |a, b| between(&plan(), &[("old", a), ("new", b)]).map_err(|e| e.to_string());
    let at_least = |rate| capacity("generator", Some(rate), None);
    let at_most = || capacity("server", None, None);
    assert_eq!(start(is(1_000.0), is(4_000.0)), Ok(2_000.0));
    assert_eq!(start(is(1_000.0), at_least(4_000.0)), Ok(2_000.0));
    assert_eq!(start(at_most(), is(400.0)), Ok(200.0));
    let error = start(at_least(9_000.0), at_least(8_000.0)).unwrap_err();
    assert!(error.contains("still met at 9.00k/s by old and at 8.00k/s by new"), "{error}");
    let error = start(at_most(), at_most()).unwrap_err();
    assert!(error.contains("neither old nor new meets p99<5ms,loss<0.1% at 100/s"), "{error}");
    // A disturbance of one of them leaves the comparison to the searches of the pairs.
    let disturbed = || capacity("between", Some(4_000.0), None);
    assert_eq!(start(disturbed(), is(1_000.0)), Ok(2_000.0));
    assert_eq!(start(capacity("generator", None, None), is(4_000.0)), Ok(2_000.0));
    for other in [disturbed(), at_most(), at_least(9_000.0)] {
        let error = start(other, disturbed()).unwrap_err();
        assert!(error.contains("the first search of "), "{error}");
    }
}

#[test]
fn a_search_that_says_too_little_is_a_fault() {
    assert_eq!(unknown(&capacity("server", Some(2e3), Some([1_950.0, 2_050.0]))), None);
    assert_eq!(unknown(&capacity("generator", Some(2e3), None)), None, "a bound is known");
    assert_eq!(unknown(&capacity("server", None, None)), None);
    let wide = unknown(&capacity("server", Some(2e3), Some([1_500.0, 2_500.0]))).unwrap();
    assert!(wide.contains("between 1.50k/s and 2.50k/s"), "{wide}");
    let few = unknown(&capacity("probes", Some(2e3), None)).unwrap();
    assert!(few.contains("more --capacity-probes"), "{few}");
    let mut between = capacity("between", Some(2e3), None);
    let because = vec!["late".to_owned()];
    between.probes = vec![Probe { said: "invalid".into(), because, ..Probe::default() }];
    let between = unknown(&between).unwrap();
    assert!(between.contains("INVALID: late"), "{between}");
}

/// A search of a server that holds `limit`, but for chance: near the limit a probe says either, and one of
/// twenty is disturbed.
fn searched(limit: f64, start: f64, random: &mut Stream) -> Capacity {
    let CapacityPlan { precision, probes, .. } = plan();
    let (floor, ceiling) = (500.0, 8_000.0);
    let mut search = Search::new(Bounds { floor, ceiling, precision, probes_max: probes }, start);
    while let Some(rate) = search.rate() {
        let holds = 1.0 / (1.0 + ((rate / limit).ln() / 0.02).exp());
        let said =
            if random.unit() < holds && random.unit() > 0.05 { Said::Met } else { Said::Missed };
        search.take(said);
    }
    let found = search.found();
    Capacity {
        limit: found.rate,
        interval: found.interval.map(|interval| [interval.low, interval.high]),
        limited_by: probing::limited_by(found.why).to_owned(),
        floor,
        probes: Vec::new(),
    }
}

/// The finding of pairs of searches.
fn finding(pairs: &[[Capacity; 2]], seed: u64) -> lab_result::comparison::Finding {
    let load = Load { name: "p99<5ms".into(), set: "s".into(), rate: 1_500.0 };
    let mut blocks = Vec::new();
    for (pair, found) in pairs.iter().enumerate() {
        for (side, found) in ["a", "b"].iter().zip(found) {
            blocks.push(Block {
                pair,
                side: (*side).to_owned(),
                set: load.set.clone(),
                load: load.name.clone(),
                used: true,
                capacity: Some(found.clone()),
                ..Block::default()
            });
        }
    }
    let metric = MetricPlan { metric: CAPACITY.to_owned(), margin: 0.05 };
    let primary = Cell { set: "s".into(), load: "p99<5ms".into(), metric: CAPACITY.to_owned() };
    let plan = ComparisonPlan {
        seed,
        primary,
        metrics: vec![metric],
        alpha: 0.05,
        power: 0.8,
        loads: vec![load],
        resamples: 200,
        capacity: Some(plan()),
        ..ComparisonPlan::default()
    };
    findings(&plan, &blocks, &[]).all.remove(0)
}

/// A comparison of `pairs` pairs of searches of servers with these limits.
fn compared(limits: [f64; 2], pairs: usize, seed: u64) -> lab_result::comparison::Finding {
    let mut random = Stream::new(seed, 7);
    let mut search = |limit| searched(limit, 1_500.0, &mut random);
    let pairs: Vec<_> = (0..pairs).map(|_| limits.map(&mut search)).collect();
    finding(&pairs, seed)
}

fn is(limit: f64) -> Capacity {
    capacity("server", Some(limit), Some([limit * 0.99, limit * 1.01]))
}

#[test]
fn of_capacity_more_is_better_and_its_ratio_is_that_of_b_over_a() {
    let of = |a: f64, b: f64| {
        let near = |n: usize| 1.0 + (n % 3) as f64 * 1e-3;
        finding(&(0..8).map(|n| [is(a), is(b * near(n))]).collect::<Vec<_>>(), 1)
    };
    let more = of(2_000.0, 2_400.0);
    assert_eq!((more.verdict, more.more_is_better), (Verdict::Faster, true));
    assert!((more.estimate - 0.2).abs() < 0.01 && more.a == 2_000.0, "{more:?}");
    let [low, high] = more.interval.unwrap();
    assert!(low <= more.estimate && more.estimate <= high && low > 0.19, "{more:?}");
    assert!(more.differences.iter().all(|difference| *difference > 0.0));
    assert!(more.p_worse < 0.05);
    let less = of(2_400.0, 2_000.0);
    assert_eq!((less.verdict, less.p_worse), (Verdict::Slower, 1.0));
    // The margin is a part of A's capacity: 4 % less is within 5 %, and 5.1 % less is not.
    assert_eq!(of(2_000.0, 1_920.0).verdict, Verdict::Equivalent);
    assert_eq!(of(2_000.0, 1_895.0).verdict, Verdict::Slower);
    assert_eq!(of(2_000.0, 2_095.0).verdict, Verdict::Equivalent);
}

#[test]
fn a_single_search_that_ended_too_early_is_evidence_in_one_direction_only() {
    let of = |first: [Capacity; 2], others: [f64; 2]| {
        let others = (1..8).map(|_| others.map(is));
        finding(&std::iter::once(first).chain(others).collect::<Vec<_>>(), 1)
    };
    let out_of_reach = |rate| capacity("generator", Some(rate), None);
    // All numbers alike, and one of them is no number.
    let alike = of([is(2e3), out_of_reach(2e3)], [2e3, 2e3]);
    assert_eq!((alike.verdict, alike.p_equivalent), (Verdict::Inconclusive, 1.0));
    // B's true limit may be higher: less is not shown, more is.
    let less = of([is(2e3), out_of_reach(1e3)], [2e3, 1e3]);
    assert_eq!((less.b_is_bound, less.verdict), (true, Verdict::Inconclusive));
    let more = of([is(2e3), out_of_reach(4e3)], [2e3, 4e3]);
    assert_eq!((more.verdict, more.p_worse <= 0.05), (Verdict::Faster, true));
    // A's may be higher: then B is not shown to be better, nor to be no worse.
    let more = of([out_of_reach(2e3), is(4e3)], [2e3, 4e3]);
    assert_eq!((more.verdict, more.p_worse), (Verdict::Inconclusive, 1.0));
    // B missed it at the lowest rate.
    let never = of([is(2e3), capacity("server", None, None)], [2e3, 1e3]);
    assert_eq!((never.b_at_most, never.verdict), (true, Verdict::Slower));
    let never = of([is(2e3), capacity("server", None, None)], [2e3, 4e3]);
    assert_eq!((never.verdict, never.p_worse), (Verdict::Inconclusive, 1.0));
}

#[test]
fn a_pair_without_a_limit_is_left_out() {
    let none = capacity("probes", Some(9e9), None);
    let mut pairs: Vec<_> = (0..7).map(|_| [is(2e3), is(3e3)]).collect();
    pairs.push([is(2e3), none]);
    let found = finding(&pairs, 1);
    assert_eq!((found.pairs, found.b), (7, 3e3));
}

#[test]
fn equal_capacities_are_called_different_no_more_often_than_the_level_and_unequal_ones_are_found() {
    let all =
        |limits, runs: u64| -> Vec<_> { (0..runs).map(|seed| compared(limits, 8, seed)).collect() };
    let count = |of: &[lab_result::comparison::Finding], verdict| {
        of.iter().filter(|finding| finding.verdict == verdict).count()
    };
    let alike = all([2_000.0, 2_000.0], 60);
    // 5 % of 60 are 3; more than 8 are as improbable as 1 in 200.
    let by_chance = alike.iter().filter(|finding| finding.p <= 0.05).count();
    assert!(by_chance <= 8, "{by_chance} of 60");
    assert!(count(&alike, Verdict::Equivalent) >= 48, "{}", count(&alike, Verdict::Equivalent));
    let better = count(&all([2_000.0, 2_400.0], 20), Verdict::Faster);
    let worse = count(&all([2_000.0, 1_700.0], 20), Verdict::Slower);
    assert_eq!((better, worse), (20, 20));
}
