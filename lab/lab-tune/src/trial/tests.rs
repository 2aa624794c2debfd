use super::*;
use crate::simulated::{self, Does, Server, TRUTH, Tally};
use lab_result::tuning::Verdict;
use std::cell::Cell;

/// Fewer servers than a self-test has: this is a test of every build.
const SERVERS: u64 = 5;

#[test]
fn exactly_the_three_knobs_that_matter_are_named_and_confirmed_on_fresh_data() {
    let tally = simulated::trials(SERVERS, 0, true, &|| false);
    tally.sentences().iter().for_each(|sentence| eprintln!("three of 30 matter: {sentence}"));
    assert_eq!(tally.servers, SERVERS);
    assert!(tally.is_good(true), "{tally:?}");
    assert!(tally.named_exactly >= 4 && tally.named_falsely == 0, "{tally:?}");
    assert!(tally.right_way >= 3 && tally.confirmed_falsely == 0, "{tally:?}");
}

#[test]
fn of_a_server_on_which_nothing_matters_nothing_is_confirmed() {
    let tally = simulated::trials(SERVERS, 1_000, false, &|| false);
    tally.sentences().iter().for_each(|sentence| eprintln!("nothing matters: {sentence}"));
    assert_eq!(tally.servers, SERVERS);
    assert!(tally.named_falsely == 0 && tally.confirmed_falsely == 0, "{tally:?}");
}

/// A plan that takes little time.
fn short() -> TuningPlan {
    let mut plan = simulated::plan(5);
    plan.knobs.truncate(6);
    (plan.blocks, plan.alpha, plan.permutations) = (10, 0.05, 499);
    plan
}

#[test]
fn a_gain_that_costs_failures_is_mixed() {
    let does =
        [Does { knob: 1, p99: -0.3, failures: 0.02 }, Does { knob: 3, p99: -0.3, failures: 0.0 }];
    let trial = tune(&short(), &mut Server::new(&does, 2), &|| false).unwrap();
    let verdicts: Vec<Verdict> = trial.knobs.iter().map(|knob| knob.verdict).collect();
    use Verdict::{Better, Mixed, NotShown};
    assert_eq!(verdicts, [NotShown, Mixed, NotShown, Better, NotShown, NotShown]);
    assert_eq!(trial.knobs[1].because, ["better: p99", "worse: failures"]);
}

/// A server whose p99 is at most 50 ms, and 5 s if more than 1 % of its queries are lost.
struct Losing(u32, Vec<usize>);

impl Tuned for Losing {
    type Error = std::convert::Infallible;
    fn set(&mut self, high: &[usize]) -> Result<(), Self::Error> {
        self.1 = high.to_vec();
        Ok(())
    }
    fn measure(&mut self, _: u64) -> Result<Option<lab_experiment::Measured<Values>>, Self::Error> {
        self.0 += 1;
        let set = self.1.contains(&1);
        // Good runs of the setting are a bit better, and four of five are bad.
        let lost = set && !self.0.is_multiple_of(5);
        let time = if set { 9e5 } else { 1e6 } + f64::from(self.0 % 7);
        let p99 = if lost { ("p99_at_least", 5e9) } else { ("p99", time) };
        let failures = if lost { 0.05 } else { 0.0 };
        let values = [p99, ("failures", failures)].map(|(name, value)| (name.to_owned(), value));
        let measured = lab_experiment::Measured { value: values.into(), faults: Vec::new() };
        Ok(Some(measured))
    }
    fn restore(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[test]
fn a_setting_that_loses_queries_is_judged_by_its_bad_measurements_too() {
    let trial = tune(&short(), &mut Losing(0, Vec::new()), &|| false).unwrap();
    let knob = &trial.knobs[1];
    assert_eq!(knob.verdict, Verdict::Worse, "{knob:?}");
    let change = &knob.confirmation.as_ref().unwrap().changes[0];
    assert!(change.bounds > 0 && change.changed > 1e9, "{change:?}");
    assert!(trial.notes.iter().any(|note| note.contains("at least the timeout")));
}

#[test]
fn what_is_confirmed_was_measured_after_the_screening_and_alone() {
    let does = [Does { knob: 2, p99: 0.3, failures: 0.0 }];
    let mut server = Server::new(&does, 3);
    let trial = tune(&short(), &mut server, &|| false).unwrap();
    assert!(!server.is_set, "a knob was not restored");
    let fresh = trial.measurements.iter().skip_while(|one| one.phase == "screening");
    let fresh: Vec<&Measurement> = fresh.collect();
    let confirmation = trial.knobs[2].confirmation.as_ref().unwrap();
    assert_eq!(fresh.len(), 2 * confirmation.pairs);
    assert!(fresh.iter().all(|one| one.phase == "confirmation"));
    for pair in fresh.chunks(2) {
        let mut high: Vec<&[usize]> = pair.iter().map(|one| &*one.high).collect();
        high.sort_unstable();
        assert_eq!(high, [&[] as &[usize], &[2]], "a pair is the baseline and the knob alone");
        assert_eq!(pair[0].block, pair[1].block);
    }
    // The differences are those of fresh data: none of the screening is among them.
    assert_eq!(confirmation.differences.len(), confirmation.pairs);
    assert!(trial.groups.is_some() && confirmation.dunnett_p.is_some());
}

#[test]
fn the_same_seed_is_the_same_trial() {
    let trial = || tune(&short(), &mut Server::with_truth(9), &|| false).unwrap();
    assert_eq!(trial(), trial());
}

#[test]
fn a_trial_that_is_stopped_has_what_was_measured_and_restores() {
    let asked = Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 60
    };
    let mut server = Server::with_truth(4);
    let trial = tune(&short(), &mut server, &stop).unwrap();
    assert!(trial.interrupted && !server.is_set);
    assert!(!trial.measurements.is_empty() && trial.knobs.len() == 6);
    assert!(trial.knobs.iter().all(|knob| knob.confirmation.is_none()));
    let at_once = tune(&short(), &mut server, &|| true).unwrap();
    assert_eq!(at_once.invalid_because.len(), 2, "{:?}", at_once.invalid_because);
    assert!(at_once.knobs.iter().all(|knob| knob.verdict == Verdict::Unknown));
}

#[test]
fn a_machine_that_disturbs_too_much_makes_the_trial_invalid() {
    struct Disturbed(Server, u32, u32);
    impl Tuned for Disturbed {
        type Error = std::convert::Infallible;
        fn set(&mut self, high: &[usize]) -> Result<(), Self::Error> {
            self.0.set(high)
        }
        fn measure(
            &mut self,
            seed: u64,
        ) -> Result<Option<lab_experiment::Measured<Values>>, Self::Error> {
            let mut measured = self.0.measure(seed)?;
            self.1 += 1;
            if let Some(measured) = measured.as_mut().filter(|_| self.1.is_multiple_of(self.2)) {
                measured.faults.push(lab_experiment::disturbance::Fault::invalid("late"));
            }
            Ok(measured)
        }
        fn restore(&mut self) -> Result<(), Self::Error> {
            self.0.restore()
        }
    }
    let every = |n| tune(&short(), &mut Disturbed(Server::new(&[], 1), 0, n), &|| false).unwrap();
    let invalid = every(2).invalid_because;
    let screening = "of the screening are disturbed, such as: late";
    assert!(invalid.iter().any(|why| why.contains(screening)), "{invalid:?}");
    let quiet = every(20);
    assert!(quiet.invalid_because.is_empty() && quiet.notes.len() == 1, "{quiet:?}");
}

/// A server that is measured on a machine which disturbs some measurements.
struct At<F> {
    server: Server,
    stage: Stage,
    high: Vec<usize>,
    is_disturbed: F,
}

impl<F: Fn(Stage, &[usize]) -> bool> Tuned for At<F> {
    type Error = std::convert::Infallible;
    fn set(&mut self, high: &[usize]) -> Result<(), Self::Error> {
        self.high = high.to_vec();
        self.server.set(high)
    }
    fn measure(
        &mut self,
        seed: u64,
    ) -> Result<Option<lab_experiment::Measured<Values>>, Self::Error> {
        let mut measured = self.server.measure(seed)?;
        let disturbed = (self.is_disturbed)(self.stage, &self.high);
        if let Some(measured) = measured.as_mut().filter(|_| disturbed) {
            measured.faults.push(lab_experiment::disturbance::Fault::invalid("late"));
        }
        Ok(measured)
    }
    fn restore(&mut self) -> Result<(), Self::Error> {
        self.server.restore()
    }
    fn passed(&mut self, stage: Stage, done: usize, all: usize) {
        // What follows the last measurement of the screening is fresh data.
        let is_last = stage == Stage::Screening && done == all;
        self.stage = if is_last { Stage::Confirmation } else { stage };
    }
}

fn disturbed_at(is_disturbed: impl Fn(Stage, &[usize]) -> bool) -> (Trial, Vec<Verdict>) {
    let does =
        [Does { knob: 1, p99: -0.3, failures: 0.0 }, Does { knob: 3, p99: -0.3, failures: 0.0 }];
    let server = Server::new(&does, 2);
    let mut at = At { server, stage: Stage::Screening, high: Vec::new(), is_disturbed };
    let trial = tune(&short(), &mut at, &|| false).unwrap();
    let verdicts = [1, 3].map(|knob| trial.knobs[knob].verdict).to_vec();
    (trial, verdicts)
}

#[test]
fn fresh_data_that_is_disturbed_confirms_nothing_however_quiet_the_screening_was() {
    use Verdict::{Better, Unconfirmed};
    let (quiet, verdicts) = disturbed_at(|_, _| false);
    assert!(quiet.invalid_because.is_empty() && verdicts == [Better; 2], "{verdicts:?}");
    let (all, verdicts) = disturbed_at(|stage, _| stage == Stage::Confirmation);
    assert_eq!(verdicts, [Unconfirmed; 2]);
    let [why] = &*all.invalid_because else { panic!("{:?}", all.invalid_because) };
    assert!(why.contains("of the confirmation are disturbed, such as: late"), "{why}");
    assert!(all.knobs[1].because[0].contains("disturbed"), "{:?}", all.knobs[1].because);
    // The baseline is what both are compared with.
    let baseline = |stage, high: &[usize]| stage == Stage::Confirmation && high.is_empty();
    let (trial, verdicts) = disturbed_at(baseline);
    assert!(!trial.invalid_because.is_empty() && verdicts == [Unconfirmed; 2], "{verdicts:?}");
}

#[test]
fn a_setting_whose_own_measurements_are_disturbed_is_not_confirmed() {
    use Verdict::{Better, Unconfirmed};
    let own = |stage, high: &[usize]| stage == Stage::Confirmation && high == [3];
    // A third of all fresh data would be too much by itself: every second time is a sixth.
    let count = Cell::new(0);
    let half = |stage, high: &[usize]| {
        count.set(count.get() + usize::from(own(stage, high)));
        own(stage, high) && count.get().is_multiple_of(2)
    };
    let mut plan = short();
    plan.retries = 0;
    let does =
        [Does { knob: 1, p99: -0.3, failures: 0.0 }, Does { knob: 3, p99: -0.3, failures: 0.0 }];
    let server = Server::new(&does, 2);
    let mut at = At { server, stage: Stage::Screening, high: Vec::new(), is_disturbed: half };
    let trial = tune(&plan, &mut at, &|| false).unwrap();
    assert_eq!([1, 3].map(|knob| trial.knobs[knob].verdict), [Better, Unconfirmed]);
    let name = &plan.knobs[3].name;
    let [why] = &*trial.invalid_because else { panic!("{:?}", trial.invalid_because) };
    assert!(why.contains(&format!("of {name} on fresh data are disturbed")), "{why}");
}

/// A closed loop whose server answers nothing in four of five measurements with a setting.
struct Silent(u32, Vec<usize>);

impl Tuned for Silent {
    type Error = std::convert::Infallible;
    fn set(&mut self, high: &[usize]) -> Result<(), Self::Error> {
        self.1 = high.to_vec();
        Ok(())
    }
    fn measure(&mut self, _: u64) -> Result<Option<lab_experiment::Measured<Values>>, Self::Error> {
        self.0 += 1;
        let set = self.1.contains(&1);
        let silent = set && !self.0.is_multiple_of(5);
        // When it answers, it answers more.
        let rate = if set { 1.1e6 } else { 1e6 } + f64::from(self.0 % 7);
        let value = [("qps".to_owned(), if silent { 0.0 } else { rate })].into();
        Ok(Some(lab_experiment::Measured { value, faults: Vec::new() }))
    }
    fn restore(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[test]
fn a_setting_with_which_nothing_is_answered_is_judged_by_these_measurements_too() {
    let plan = TuningPlan { primary: "qps".to_owned(), closed_loop: true, ..short() };
    let trial = tune(&plan, &mut Silent(0, Vec::new()), &|| false).unwrap();
    let knob = &trial.knobs[1];
    assert_eq!(knob.verdict, Verdict::Worse, "{knob:?}");
    assert!(trial.notes.iter().any(|note| note.contains("no query was answered")));
    assert!(!trial.notes.iter().any(|note| note.contains("left out")), "{:?}", trial.notes);
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused() {
    let tune = |plan: &TuningPlan| tune(plan, &mut Server::new(&[], 1), &|| false).unwrap_err();
    let none = TuningPlan { knobs: Vec::new(), ..short() };
    assert!(tune(&none).to_string().contains("0 factors"), "{}", tune(&none));
    let metric = TuningPlan { primary: "p98".to_owned(), ..short() };
    assert!(tune(&metric).to_string().contains("`p98` is not a metric"));
    let mut twice = short();
    twice.knobs[1] = twice.knobs[0].clone();
    assert!(tune(&twice).to_string().contains("taken twice"));
    assert!(!Tally::default().is_good(true) && TRUTH.len() == 3);
}
