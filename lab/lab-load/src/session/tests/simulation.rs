//! Whole runs in simulated time: the same session, schedule and counts as a real run, and a server
//! that is a function. Nothing here depends on how busy the machine is.

use super::super::*;
use crate::SECOND;
use crate::rng;
use crate::schedule::{Arrivals, Schedule};
use crate::table::Rest;
use lab_histogram::Quantile;
use nodens_wire::header::set_flags;
use nodens_wire::{Name, Type};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const CLIENTS: usize = 4;
const MS: u64 = 1_000_000;

struct Plan {
    rate: f64,
    seconds: u64,
    timeout: u64,
}

/// What the session has after a run against a server that answers item `n`, sent at `t`, at the
/// time that `server(n, t)` says. `look` sees the session after every step.
fn simulate(
    plan: &Plan,
    server: impl Fn(u64, u64) -> Option<u64>,
    mut look: impl FnMut(&Session<'_>, u64),
) -> Tally {
    let mut workload = Workload::new(1);
    for name in ["a.example.", "b.example."] {
        workload.push(Name::parse(name).unwrap().view(), Type::A, None);
    }
    let rest = Rest { answered: 3 * plan.timeout, given_up: 3 * plan.timeout };
    let limits = Limits { ids: 1 << 16, ids_max: 1 << 16, timeout: plan.timeout, rest, seed: 1 };
    let mut session = Session::new(&workload, CLIENTS, limits);
    let mut answers = BinaryHeap::new();
    let end = plan.seconds * SECOND;
    let times = Schedule::new(Arrivals::Uniform, plan.rate, 1).take_while(|time| *time < end);
    for (item, intended) in (0..).zip(times) {
        deliver(&mut session, &mut answers, intended);
        session.expire(intended, |_, _, _| {});
        look(&session, intended);
        let client = item as usize % CLIENTS;
        let mut message = Vec::new();
        session.schedule(intended);
        let id = session.issue(client, intended, (item, intended), &mut message).unwrap();
        session.sent(client, id, intended);
        if let Some(at) = server(item, intended) {
            set_flags(&mut message, Flags(Flags::QR));
            answers.push(Reverse((at, client, message)));
        }
    }
    // The rest in steps, as a real loop looks for timeouts.
    let mut now = end;
    while session.tally.counts.in_flight() > 0 {
        deliver(&mut session, &mut answers, now);
        session.expire(now, |_, _, _| {});
        look(&session, now);
        now += MS;
    }
    session.tally.close(now, plan.timeout, false);
    assert_eq!(session.tally.contradictions(), [""; 0]);
    session.tally
}

type Answers = BinaryHeap<Reverse<(u64, usize, Vec<u8>)>>;

fn deliver(session: &mut Session<'_>, answers: &mut Answers, now: u64) {
    while let Some(Reverse((at, client, message))) =
        answers.peek().filter(|next| next.0.0 <= now).cloned()
    {
        answers.pop();
        session.receive(client, &message, at);
    }
}

#[test]
fn a_second_of_freeze_at_a_thousand_a_second_delays_a_thousand_queries_of_that_second() {
    let plan = Plan { rate: 1_000.0, seconds: 10, timeout: 2 * SECOND };
    let server = |_, sent: u64| {
        let frozen = (3 * SECOND..4 * SECOND).contains(&sent);
        Some(if frozen { 4 * SECOND } else { sent } + MS / 10)
    };
    let tally = simulate(&plan, server, |_, _| {});
    assert_eq!(tally.counts.answered, 10_000);
    let delayed: Vec<_> =
        tally.cohorts.iter().map(|cohort| cohort.response.count_above(MS / 2)).collect();
    assert_eq!(delayed, [0, 0, 0, 1_000, 0, 0, 0, 0, 0, 0]);
    // They are spread over the whole second and not, as in a closed loop, a window's worth of 1 s.
    for (part, wanted) in [(0.1, 100), (0.5, 500), (0.9, 900)] {
        let nanos = tally.cohorts[3].response.quantile(part).nanos().unwrap();
        assert!(nanos.abs_diff(wanted * MS) < 5 * MS, "{part}: {nanos}");
    }
    // A tenth of all queries: the 95th percentile of the run is half a second.
    let nanos = tally.response.quantile(0.95).nanos().unwrap();
    assert!(nanos.abs_diff(500 * MS) < 5 * MS, "{nanos}");
}

#[test]
fn losses_stand_in_the_seconds_of_the_freeze_and_none_in_those_of_their_detection() {
    let plan = Plan { rate: 1_000.0, seconds: 12, timeout: 5 * SECOND };
    let frozen = |sent: u64| (3 * SECOND..6 * SECOND).contains(&sent);
    let server = |_, sent: u64| (!frozen(sent)).then_some(sent + MS);
    let tally = simulate(&plan, server, |_, _| {});
    let lost: Vec<_> = tally.cohorts.iter().map(|cohort| cohort.timed_out).collect();
    assert_eq!(lost, [0, 0, 0, 1_000, 1_000, 1_000, 0, 0, 0, 0, 0, 0]);
    assert_eq!(tally.cohorts[4].response.quantile(0.01), Quantile::AtLeast(5 * SECOND));
    assert_eq!(tally.response.quantile(0.76), Quantile::AtLeast(5 * SECOND));
}

#[test]
fn a_second_is_final_when_its_end_and_the_timeout_are_over_and_then_never_changes() {
    let plan = Plan { rate: 200.0, seconds: 6, timeout: 2 * SECOND };
    // Every 10th query is lost, the others take up to 1.9 s.
    let server =
        |item: u64, sent: u64| (!item.is_multiple_of(10)).then(|| sent + (item % 20) * 100 * MS);
    let mut finals = Vec::new();
    let tally = simulate(&plan, server, |session, now| {
        for second in 0..plan.seconds {
            let is_final = session.final_cohort(second, now).is_some();
            let over = now >= (second + 1) * SECOND + plan.timeout;
            assert!(over || !is_final, "second {second} is final at {now}");
            if is_final && finals.len() as u64 == second {
                finals.push(session.final_cohort(second, now).unwrap());
            }
        }
    });
    assert!(finals.len() >= 5, "{}", finals.len());
    for (at, early) in finals.iter().enumerate() {
        assert!(early.is_final && *early == tally.cohorts[at], "second {at}");
    }
}

#[test]
fn an_interrupted_run_has_final_numbers_of_its_finished_seconds_only() {
    let mut tally = Tally::default();
    for second in 0..4 {
        let cohort = tally.cohort(second * SECOND).unwrap();
        (cohort.scheduled, cohort.sent, cohort.answered) = (1, 1, u64::from(second != 1));
        cohort.timed_out = u64::from(second == 1);
    }
    // Second 3 has all its answers so far, but was cut in the middle; the timeout of 2 is not over.
    tally.close(3 * SECOND + SECOND / 2, SECOND, true);
    let finals: Vec<_> = tally.cohorts.iter().map(|cohort| cohort.is_final).collect();
    assert_eq!(finals, [true, true, false, false]);
    tally.close(3 * SECOND + SECOND / 2, SECOND, false);
    assert!(tally.cohorts.iter().all(|cohort| cohort.is_final));
}

/// The issue's mixture: 1 % of the answers take 50 ms, 0.1 % are lost, the others take between 0.2
/// and 1.2 ms.
#[test]
fn percentiles_and_loss_are_those_of_a_known_mixture() {
    let plan = Plan { rate: 20_000.0, seconds: 10, timeout: SECOND };
    let delay = |item: u64| {
        let (which, how_long) = (rng::unit(5, item), rng::unit(6, item));
        let body = 200_000 + (how_long * 1e6) as u64;
        (which >= 0.001).then_some(if which < 0.011 { 50 * MS } else { body })
    };
    let tally = simulate(&plan, |item, sent| Some(sent + delay(item)?), |_, _| {});
    let mut exact: Vec<_> = (0..200_000).map(|item| delay(item).unwrap_or(u64::MAX)).collect();
    exact.sort_unstable();
    for part in [0.01, 0.1, 0.5, 0.9, 0.95, 0.988, 0.992, 0.995, 0.998] {
        let wanted = exact[(part * exact.len() as f64).ceil() as usize - 1] as f64;
        let Quantile::Value(found) = tally.response.quantile(part) else { panic!("{part}") };
        assert!((found as f64 / wanted - 1.0).abs() < 0.004, "{part}: {found} for {wanted}");
        // And against the distribution itself: 0.1 % at the end is lost, 1 % below it at 50 ms.
        let law = if part > 0.989 { 50e6 } else { 2e5 + 1e6 * part / 0.989 };
        assert!((found as f64 / law - 1.0).abs() < 0.024, "{part}: {found} for {law}");
    }
    assert_eq!(tally.response.quantile(0.9995), Quantile::AtLeast(SECOND));
    let lost = tally.counts.lost() as f64;
    assert!((lost - 200.0).abs() < 4.0 * 200_f64.sqrt(), "{lost}");
}
