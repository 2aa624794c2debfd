use super::*;
use crate::tally::Tally;
use crate::workload::Step;
use nodens_wire::{Name, Type};
use std::time::Instant;

fn config() -> Config {
    let pace = Pace::Open { rate: 200.0, arrivals: Arrivals::Uniform };
    let server = "127.0.0.1:9".parse().unwrap();
    let duration = Duration::from_millis(500);
    // On a busy machine an answer may take its time.
    let timeout = Duration::from_secs(20);
    Config { pace, duration, timeout, clients: 4, ..Config::new(server, 200.0) }
}

/// A thousand answers after `nanos` each in a second, from a generator without fault.
fn outcome(nanos: u64) -> Outcome {
    let mut tally = Tally::default();
    (tally.counts.sent, tally.counts.answered) = (1_000, 1_000);
    tally.response.record_n(nanos, 1_000);
    Outcome {
        active: Duration::from_secs(1),
        elapsed: Duration::from_secs(1),
        ..crate::judge::tests::outcome_of(tally)
    }
}

/// What runs on an echo that `change` has spoilt say about a load with a median of 1 ms: reasons
/// and notes.
fn judged(change: impl FnOnce(&mut [Outcome; 3])) -> (String, String) {
    let mut runs = [50_000; 3].map(outcome);
    change(&mut runs);
    let [before, after, headroom] = &runs;
    let verdict = judge(&config(), &outcome(1_000_000), [before, after], Some(headroom), true);
    (verdict.invalid.join("; "), verdict.notes.join("; "))
}

fn lose(outcome: &mut Outcome) {
    outcome.tally.counts.answered -= 1;
    outcome.tally.counts.timed_out += 1;
}

#[test]
fn a_quiet_echo_vouches_for_a_load() {
    assert_eq!(judged(|_| {}), (String::new(), String::new()));
}

#[test]
fn an_echo_that_lost_a_query_makes_the_load_invalid() {
    for (at, when) in [(0, "before"), (1, "after")] {
        let (why, _) = judged(|runs| lose(&mut runs[at]));
        let wanted = format!("1 of 1000 queries to the echo {when} the load were lost");
        assert!(why.starts_with(&wanted), "{why}");
        let (why, _) = judged(|runs| runs[at].verdict.invalid.push("a fault".to_owned()));
        assert!(
            why.contains(&format!("the baseline {when} the load is invalid: a fault")),
            "{why}"
        );
    }
}

#[test]
fn a_generator_that_cannot_do_half_as_much_again_makes_the_load_invalid() {
    let wanted = "the generator cannot reach 1.5 times this load";
    assert!(judged(|runs| lose(&mut runs[2])).0.contains(wanted));
    let late = |runs: &mut [Outcome; 3]| runs[2].verdict.invalid.push("late".to_owned());
    assert!(judged(late).0.contains(wanted));
    // A closed loop has no rate: the echo's own must be half as high again.
    let closed = Config { pace: Pace::Closed { window: 4 }, ..config() };
    let invalid = |answered| {
        let mut load = outcome(1_000_000);
        load.tally.counts.answered = answered;
        let echo = outcome(50_000);
        judge(&closed, &load, [&echo, &echo], None, true).invalid
    };
    assert!(invalid(600).is_empty());
    assert!(invalid(700)[0].contains(wanted));
}

#[test]
fn an_echo_that_is_not_much_faster_than_the_server_is_remarked_and_nothing_subtracted() {
    let (why, notes) = judged(|runs| runs[1] = outcome(201_000));
    assert_eq!(why, "");
    assert!(notes.starts_with("p99.9 of the echo after the load, 20"), "{notes}");
    let load = outcome(1_000_000);
    let verdict = judge(&config(), &load, [&outcome(10), &outcome(10)], None, false);
    assert!(verdict.notes[0].contains("not on the path"), "{verdict:?}");
    assert_eq!(load.tally.response.max(), Some(1_000_000));
}

#[test]
fn the_check_of_the_headroom_is_at_half_as_much_again_of_the_highest_rate() {
    let workload = Workload::new(1);
    let faster = |config: &Config| faster(config, &workload).map(|(plan, _)| plan);
    let rate = |config: &Config| match faster(config).map(|plan| plan.pace) {
        Some(Pace::Open { rate, .. }) => rate,
        other => panic!("{other:?}"),
    };
    assert_eq!(rate(&config()), 300.0);
    let arrivals = Arrivals::OnOff { on: 1, off: 3 };
    let bursts = Config { pace: Pace::Open { rate: 200.0, arrivals }, ..config() };
    let plan = faster(&bursts).unwrap();
    assert_eq!(plan.pace, Pace::Open { rate: 300.0, arrivals }, "the bursts are kept");
    assert_eq!(plan.peak_rate(), 1.5 * bursts.peak_rate());
    let mut steps = config();
    steps.follow(Profile::steps("100:1s,500:1s").unwrap());
    assert_eq!(rate(&steps), 750.0);
    part_of(&mut steps, &workload, Duration::from_secs(1), 1.0);
    assert_eq!(steps.profile.to_string(), "steps 100:500ms,500:500ms", "nothing is left out");
    assert_eq!(steps.duration, Duration::from_secs(1));
    assert!(faster(&Config { pace: Pace::Closed { window: 1 }, ..config() }).is_none());
}

#[test]
fn recorded_times_are_those_of_the_echo_too_and_half_as_fast_again_for_the_headroom() {
    let mut workload = Workload::new(1);
    workload.push(Name::parse("a.example.").unwrap().view(), Type::A, None);
    // A query every 100 ms for a second, then one every 10 ms.
    let step = Step { message: 0, client: 0 };
    let times = (0..10).map(|n| n * 100).chain((0..40).map(|n| 1_000 + n * 10));
    let times: Vec<u64> = times.map(|millis| millis * 1_000_000).collect();
    workload.script(vec![step; times.len()]);
    workload.set_times(times);
    let arrivals = Arrivals::Recorded { peak: 2.0 };
    let duration = Duration::from_millis(1_400);
    let config = Config { pace: Pace::Open { rate: 40.0, arrivals }, duration, ..config() };
    let server = Echoes::start(&config, Options::default()).unwrap();
    let config = Config { server: server.config.server, ..config };
    let options = Options { length: Duration::from_millis(300), ..Options::default() };
    let stop = AtomicBool::new(false);
    let (load, baseline) =
        run_between(&config, &workload, &stop, options, |_| {}, &mut ()).unwrap();
    let asked = |outcome: &Outcome| {
        let span = outcome.tally.span.unwrap().intended;
        (outcome.tally.counts.answered, (span.1 - span.0) / 1_000_000)
    };
    assert_eq!(asked(&load), (50, 1_390));
    assert_eq!(asked(&baseline.before), (30, 290), "the busiest 300 ms");
    assert_eq!(asked(&baseline.after), (30, 290));
    assert_eq!(asked(&baseline.headroom.unwrap()), (50, 926), "all of it, in two thirds");
}

#[test]
fn the_cpu_of_an_echo_is_one_that_no_load_thread_has() {
    assert_eq!(spare_cpu(&[0, 1, 2, 3], &[3, 1]), Some(2));
    assert_eq!(spare_cpu(&[0, 1], &[0, 1]), None);
    assert_eq!(spare_cpu(&[5], &[]), None, "the only one is not to spare");
}

#[test]
fn a_load_runs_between_two_runs_on_an_echo_over_each_transport() {
    let mut workload = Workload::new(1);
    workload.push(Name::parse("a.example.").unwrap().view(), Type::A, None);
    // The server is an echo, too, so that all three runs are alike.
    for transport in Transport::ALL {
        let config = Config { transport, ..config() };
        let server = Echoes::start(&config, Options::default()).unwrap();
        let mut phases = Vec::new();
        let began = Instant::now();
        let (outcome, baseline) = run_between(
            &server.config,
            &workload,
            &AtomicBool::new(false),
            Options { length: Duration::from_millis(300), ..Options::default() },
            |phase| phases.push(phase),
            &mut (),
        )
        .unwrap();
        assert!(server.are_well());
        assert_eq!(phases, ["baseline", "load", "baseline"]);
        assert!(began.elapsed() >= Duration::from_millis(1_100), "{:?}", began.elapsed());
        assert_eq!(outcome.tally.counts.answered, 100, "{transport}");
        for run in [&baseline.before, &baseline.after] {
            assert_eq!((run.tally.counts.sent, run.tally.counts.lost()), (60, 0), "{transport}");
        }
        assert_eq!(baseline.headroom.unwrap().tally.counts.sent, 90);
        assert!(baseline.same_path);
        for why in &baseline.verdict.invalid {
            assert!(outcome.verdict.invalid.contains(why), "{why}");
        }
    }
}
