use super::*;
use crate::Order;
use crate::disturbance::{Kind, Signs};
use std::cell::Cell;

/// A subject that keeps a diary, and is disturbed or fails where it is told to.
#[derive(Default)]
struct Simulated {
    diary: Vec<String>,
    measured: usize,
    /// Measurements, by their number, in which the hypervisor takes this part.
    stolen: Vec<(usize, f64)>,
    /// The number of the measurement, or the call, that fails.
    fails: Option<&'static str>,
    /// Whether an arm that fails is left out.
    tolerant: bool,
    of_group: Vec<Fault>,
    passed: usize,
    /// All arms of a block at the same time.
    side_by_side: bool,
    /// After how many records it has enough.
    enough: Option<usize>,
}

impl Simulated {
    fn call(&mut self, name: &str) -> Result<(), String> {
        self.diary.push(name.to_owned());
        match self.fails {
            Some(call) if call == name => Err(format!("{name} failed")),
            _ => Ok(()),
        }
    }
}

impl Subject for Simulated {
    type Value = usize;
    type Error = String;

    fn start(&mut self, arm: &Arm, _: usize) -> Result<(), String> {
        self.call(&format!("start {}", arm.name))
    }

    fn ready(&mut self, _: &Block) -> Result<Option<Ready<usize>>, String> {
        self.call("ready")?;
        Ok(Some(Ready { faults: self.of_group.clone(), values: vec![100, 200] }))
    }

    fn set(&mut self, place: &Place<'_>) -> Result<(), String> {
        self.call(&format!("set {}", place.arm.name))
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<usize>>, String> {
        let number = self.measured;
        self.measured += 1;
        self.call(&format!("measure {} {}", place.arm.name, place.unit.condition))?;
        let stolen =
            self.stolen.iter().find(|(at, _)| *at == number).map_or(0.0, |(_, part)| *part);
        let faults = Signs { stolen, ..Signs::default() }.faults();
        Ok(Some(Measured { value: number, faults }))
    }

    fn restore(&mut self, place: &Place<'_>) -> Result<(), String> {
        self.call(&format!("restore {}", place.arm.name))
    }

    fn failed(&mut self, arm: &Arm, error: String) -> Result<(), String> {
        if !self.tolerant {
            return Err(error);
        }
        self.diary.push(format!("{} is left out", arm.name));
        Ok(())
    }

    fn side_by_side(&self) -> bool {
        self.side_by_side
    }

    fn measure_all(&mut self, all: &[Place<'_>]) -> Result<Simultaneous<usize>, String> {
        self.call("together")?;
        all.iter().map(|place| self.measure(place)).collect()
    }

    fn enough(&mut self, so_far: &[Record<usize>]) -> bool {
        assert!(so_far.iter().any(|record| record.used), "a block that counts for nothing");
        self.enough.is_some_and(|records| so_far.len() >= records)
    }

    fn end(&mut self) -> Result<(), String> {
        self.call("end")
    }

    fn passed(&mut self, _: &Unit<'_>) {
        self.passed += 1;
    }
}

const TOGETHER: Again = Again { retries: 2, together: Together::Block };

fn measure(
    design: &Design,
    again: Again,
    subject: &mut Simulated,
) -> Result<Results<usize>, String> {
    run(design, &design.plan().unwrap(), again, subject, &|| false)
}

/// The numbers of the measurements that count.
fn used(results: &Results<usize>) -> Vec<usize> {
    let counts = results.records.iter().filter(|r| r.used && r.condition.is_some());
    counts.map(|record| record.value).collect()
}

#[test]
fn a_group_is_started_measured_in_the_planned_order_and_ended() {
    let design = Design { group_blocks: 2, conditions: 2, ..Design::of_arms(&["a", "b"], 3, 1) };
    let plan = design.plan().unwrap();
    let mut subject = Simulated::default();
    let results = measure(&design, TOGETHER, &mut subject).unwrap();
    let mut expected = Vec::new();
    for group in plan.blocks.chunks(2) {
        expected.extend(["start a", "start b", "ready"].map(str::to_owned));
        for block in group {
            for condition in 0..2 {
                for arm in block.order.iter().map(|arm| ["a", "b"][*arm]) {
                    expected.push(format!("set {arm}"));
                    expected.push(format!("measure {arm} {condition}"));
                    expected.push(format!("restore {arm}"));
                }
            }
        }
        expected.push("end".to_owned());
    }
    assert_eq!(subject.diary, expected);
    assert_eq!(subject.passed, 6);
    assert_eq!(used(&results), (0..12).collect::<Vec<_>>());
    assert!(!results.interrupted && results.disturbed().count() == 0);
    let of_a: Vec<_> = results.of("a").map(|record| (record.block, record.condition)).collect();
    assert_eq!(of_a.len(), 6);
    assert_eq!(results.of("nothing").count(), 0);
    let before: Vec<_> = results.records.iter().filter(|r| r.condition.is_none()).collect();
    let before: Vec<_> = before.iter().map(|r| (&*r.arm, r.block, r.value)).collect();
    assert_eq!(before, [("a", 0, 100), ("b", 0, 200), ("a", 2, 100), ("b", 2, 200)]);
}

#[test]
fn a_disturbed_pair_is_measured_again_as_a_whole() {
    let design = Design::of_arms(&["a", "b"], 2, 1);
    let mut subject = Simulated { stolen: vec![(1, 0.5)], ..Simulated::default() };
    let results = measure(&design, TOGETHER, &mut subject).unwrap();
    assert_eq!(used(&results), [2, 3, 4, 5]);
    let first: Vec<_> = results.records.iter().filter(|r| !r.used).map(|r| r.value).collect();
    assert_eq!(first, [0, 1], "what does not count is kept, too");
    assert_eq!(results.disturbed().count(), 0);
}

#[test]
fn a_disturbed_measurement_is_measured_again_alone_where_blocks_are_long() {
    let design = Design::of_arms(&["a", "b"], 2, 1);
    let again = Again { retries: 2, together: Together::Single };
    let mut subject = Simulated { stolen: vec![(1, 0.5)], ..Simulated::default() };
    let results = measure(&design, again, &mut subject).unwrap();
    assert_eq!(used(&results), [0, 2, 3, 4]);
}

#[test]
fn of_attempts_that_are_all_disturbed_the_least_disturbed_counts_with_its_reason() {
    let design = Design::of_arms(&["a", "b"], 1, 1);
    let stolen = vec![(0, 0.5), (2, 0.02), (4, 0.03)];
    let mut subject = Simulated { stolen, ..Simulated::default() };
    let results = measure(&design, TOGETHER, &mut subject).unwrap();
    assert_eq!(used(&results), [2, 3]);
    let faults: Vec<_> = results.disturbed().flat_map(|r| &r.faults).collect();
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].kind, faults[0].part), (Kind::Stolen, 0.02));
    assert_eq!(results.records.len(), 2 + 6, "no more attempts than allowed");
}

#[test]
fn what_holds_for_a_group_is_noted_and_not_measured_again() {
    let design = Design::of_arms(&["a", "b"], 1, 1);
    let of_group = vec![Fault::of_group("the echo lost queries")];
    let mut subject = Simulated { of_group, ..Simulated::default() };
    let results = measure(&design, TOGETHER, &mut subject).unwrap();
    assert_eq!(used(&results), [0, 1]);
    assert_eq!(results.disturbed().count(), 2);
}

#[test]
fn whatever_fails_what_was_set_is_restored_and_what_was_started_is_ended() {
    let design = Design::of_arms(&["a", "b"], 4, 1);
    for (fails, last) in [
        ("start b", &["start b", "end"][..]),
        ("ready", &["ready", "end"]),
        ("set b", &["set b", "restore b", "end"]),
        ("measure b 0", &["measure b 0", "restore b", "end"]),
        ("restore b", &["restore b", "end"]),
        ("end", &["end"]),
    ] {
        let mut subject = Simulated { fails: Some(fails), ..Simulated::default() };
        let error = measure(&design, TOGETHER, &mut subject).unwrap_err();
        assert_eq!(error, format!("{fails} failed"));
        assert!(subject.diary.ends_with(&last.iter().map(ToString::to_string).collect::<Vec<_>>()));
    }
}

#[test]
fn a_stop_leaves_whole_pairs_only() {
    let design = Design { order: Order::Random, ..Design::of_arms(&["a", "b"], 4, 1) };
    for calls in 0..30 {
        let left = Cell::new(calls);
        let stop = || left.replace(left.get().max(1) - 1) == 0;
        let mut subject = Simulated::default();
        let plan = design.plan().unwrap();
        let results = run(&design, &plan, TOGETHER, &mut subject, &stop).unwrap();
        assert!(used(&results).len().is_multiple_of(2));
        assert_eq!(results.interrupted, used(&results).len() < 8, "{calls} calls");
        let count = |name| subject.diary.iter().filter(|entry| entry.starts_with(name)).count();
        assert_eq!(count("set"), count("restore"));
        assert!(subject.diary.is_empty() || subject.diary.ends_with(&["end".to_owned()]));
    }
}

/// Two arms under three conditions, the first two of which are one stage.
fn staged() -> Design {
    let stages = vec![2, 1];
    Design { conditions: 3, stages, ..Design::of_arms(&["a", "b"], 1, 1) }
}

/// Arm, condition and attempt of what counts.
fn counted(results: &Results<usize>) -> Vec<(&str, usize, usize)> {
    let counts = results.records.iter().filter(|r| r.used && r.condition.is_some());
    counts.map(|r| (&*r.arm, r.condition.unwrap(), r.attempt)).collect()
}

#[test]
fn an_arm_stays_set_for_a_stage_and_each_stage_has_the_order_of_the_block() {
    let design = staged();
    let plan = design.plan().unwrap();
    let names = plan.blocks[0].order.iter().map(|arm| ["a", "b"][*arm]);
    let names: Vec<&str> = names.collect();
    for together in [Together::Block, Together::Single, Together::Held] {
        let mut subject = Simulated::default();
        let again = Again { retries: 1, together };
        let results = measure(&design, again, &mut subject).unwrap();
        let mut expected = vec!["start a".to_owned(), "start b".to_owned(), "ready".to_owned()];
        for conditions in [0..2, 2..3] {
            for arm in &names {
                expected.push(format!("set {arm}"));
                expected.extend(conditions.clone().map(|at| format!("measure {arm} {at}")));
                expected.push(format!("restore {arm}"));
            }
        }
        expected.push("end".to_owned());
        assert_eq!(subject.diary, expected, "{together:?}");
        assert_eq!((used(&results).len(), subject.passed), (6, 3));
    }
}

#[test]
fn what_is_disturbed_in_a_stage_is_measured_again_as_the_rule_says() {
    let design = staged();
    let first = design.plan().unwrap().blocks[0].order[0];
    let (one, other) = (["a", "b"][first], ["a", "b"][1 - first]);
    // The second measurement is the second condition of the arm that comes first.
    for (together, sets, counts) in [
        (Together::Block, 6, [(one, 0, 1), (one, 1, 1), (other, 0, 1), (other, 1, 1)]),
        (Together::Single, 5, [(one, 0, 0), (one, 1, 1), (other, 0, 0), (other, 1, 0)]),
        (Together::Held, 4, [(one, 0, 0), (one, 1, 1), (other, 0, 0), (other, 1, 0)]),
    ] {
        let mut subject = Simulated { stolen: vec![(1, 0.5)], ..Simulated::default() };
        let results = measure(&design, Again { retries: 2, together }, &mut subject).unwrap();
        assert_eq!(counted(&results)[..4], counts, "{together:?}");
        assert_eq!(subject.diary.iter().filter(|it| it.starts_with("set")).count(), sets);
        assert_eq!(results.disturbed().count(), 0);
    }
}

#[test]
fn of_disturbed_attempts_of_an_arm_that_stays_set_the_least_disturbed_counts() {
    let stolen = vec![(0, 0.5), (1, 0.02), (2, 0.03)];
    let mut subject = Simulated { stolen, ..Simulated::default() };
    let again = Again { retries: 2, together: Together::Held };
    let results = measure(&staged(), again, &mut subject).unwrap();
    assert_eq!(used(&results)[..2], [1, 3]);
    assert_eq!(results.disturbed().count(), 1);
    assert_eq!(results.records.len(), 2 + 6 + 2);
}

#[test]
fn an_arm_is_not_set_where_nothing_of_it_is_measured() {
    let mut design = staged();
    design.arms[0].left_out = vec![0, 2];
    let again = Again { retries: 0, together: Together::Held };
    let mut subject = Simulated::default();
    let results = measure(&design, again, &mut subject).unwrap();
    let of_a: Vec<_> = results.of("a").map(|record| record.condition).collect();
    assert_eq!((of_a, results.of("b").count()), (vec![Some(1)], 3));
    let sets = subject.diary.iter().filter(|entry| *entry == "set a").count();
    assert_eq!(sets, 1, "{:?}", subject.diary);
}

#[test]
fn an_arm_that_fails_may_be_left_out_and_the_others_go_on() {
    let design = Design { blocks: 2, group_blocks: 2, ..staged() };
    let again = Again { retries: 0, together: Together::Held };
    for (fails, of_b) in [("start b", 0), ("set b", 0), ("measure b 2", 2)] {
        let fails = Some(fails);
        let mut subject = Simulated { fails, tolerant: true, ..Simulated::default() };
        let results = measure(&design, again, &mut subject).unwrap();
        assert_eq!((results.of("a").count(), results.of("b").count()), (6, of_b), "{fails:?}");
        let said = subject.diary.iter().filter(|entry| *entry == "b is left out").count();
        assert_eq!(said, 1, "{:?}", subject.diary);
        assert!(!results.interrupted);
    }
    let fails = Some("restore b");
    let mut subject = Simulated { fails, tolerant: true, ..Simulated::default() };
    assert!(measure(&design, again, &mut subject).is_err(), "what is not restored is in the way");
}

#[test]
fn it_ends_with_the_block_after_which_the_subject_has_enough() {
    let mut subject = Simulated { enough: Some(4), ..Simulated::default() };
    let design = Design { group_blocks: 2, ..Design::of_arms(&["a", "b"], 6, 1) };
    let results = measure(&design, TOGETHER, &mut subject).unwrap();
    assert!(results.enough && !results.interrupted);
    // Two of them were measured before the group; one block of two is enough.
    assert_eq!((results.records.len(), subject.passed), (4, 1));
    assert_eq!(subject.diary.last().unwrap(), "end", "servers end all the same");
    let mut subject = Simulated::default();
    assert!(!measure(&design, TOGETHER, &mut subject).unwrap().enough);
}

#[test]
fn arms_side_by_side_are_all_set_before_and_all_restored_after() {
    let design = Design::of_arms(&["a", "b"], 1, 1);
    let side_by_side = || Simulated { side_by_side: true, ..Simulated::default() };
    let mut subject = side_by_side();
    let results = measure(&design, TOGETHER, &mut subject).unwrap();
    assert_eq!(used(&results).len(), 2);
    let calls: Vec<&str> =
        subject.diary.iter().map(|call| call.split(' ').next().unwrap()).collect();
    let expected = ["start", "start", "ready", "set", "set", "together", "measure", "measure"];
    assert_eq!(calls, [&expected[..], &["restore", "restore", "end"]].concat());
    // Also what was set before an arm failed.
    for fails in ["set a", "set b", "together"] {
        let mut subject = Simulated { fails: Some(fails), ..side_by_side() };
        measure(&design, TOGETHER, &mut subject).unwrap_err();
        let count = |name: &str| subject.diary.iter().filter(|call| call.starts_with(name)).count();
        assert_eq!(count("restore"), count("set"), "{:?}", subject.diary);
    }
}
