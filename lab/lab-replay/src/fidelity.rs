//! How faithful a replay is: when its queries arrived, by a clock that is not its own, beside when they should.
//!
//! The two clocks start at different times, so what is compared starts at the median distance between them.

use crate::limits::BATCHES_MAX;
use crate::replay::{Open, check, chosen};
use crate::survey::Survey;
use crate::{ReplayError, Settings, feed};
use lab_load::SECOND;
use lab_workload::recorded::Carrier;
use std::sync::mpsc;

/// The part by which the queries of a second may be off.
pub const RATE_ERROR: f64 = 0.001;
/// Nanoseconds by which quartiles of gaps and of times may be off.
pub const TIME_ERROR: u64 = 1_000_000;
/// Queries by which a second may be off in any case: those at its edges.
const EDGE: u64 = 2;

/// The lower quartile, the median and the upper quartile.
pub type Quartiles<T> = [T; 3];

/// One second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondOf {
    /// Queries that should have arrived.
    pub planned: u64,
    /// Queries that did.
    pub arrived: u64,
    /// The most by which a quartile of the gaps is off, in nanoseconds.
    pub gap_error: u64,
}

impl SecondOf {
    /// The part by which its queries are off.
    pub fn rate_error(&self) -> f64 {
        self.planned.abs_diff(self.arrived) as f64 / self.planned.max(1) as f64
    }

    /// Whether its rate is near enough.
    pub fn keeps_rate(&self) -> bool {
        self.planned.abs_diff(self.arrived) <= EDGE || self.rate_error() <= RATE_ERROR
    }

    /// Whether the quartiles of its gaps are near enough.
    pub fn keeps_gaps(&self) -> bool {
        self.gap_error <= TIME_ERROR
    }
}

/// Arrivals beside the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fidelity {
    /// Queries that should have arrived.
    pub planned: u64,
    /// Queries that did.
    pub arrived: u64,
    /// Second by second.
    pub seconds: Vec<SecondOf>,
    /// Gaps between neighbours as planned, in nanoseconds.
    pub planned_gaps: Quartiles<u64>,
    /// As they arrived.
    pub arrived_gaps: Quartiles<u64>,
    /// By how much queries arrived later than planned, in nanoseconds, and the most in either direction; known
    /// only if all arrived.
    pub errors: Option<(Quartiles<i64>, u64)>,
    /// Queries whose planned time is not that of the recording, see [`Plan::moved`].
    pub moved: u64,
}

/// When the queries of a replay are to arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Nanoseconds from the start of the replay, in rising order.
    pub times: Vec<u64>,
    /// Queries that stand too far behind later ones in the recording: they are planned for when they are read.
    pub moved: u64,
}

impl Fidelity {
    /// Compares a plan with times in nanoseconds, in rising order.
    pub fn of(plan: &Plan, arrived: &[u64]) -> Self {
        let (planned, moved) = (&plan.times, plan.moved);
        let mut errors: Vec<i64> = planned.iter().zip(arrived).map(|(p, a)| gap(*p, *a)).collect();
        let all = planned.len() == arrived.len();
        // If some are missing, neighbours are not known, but the first ones are likely to be the same.
        let offset =
            if all { quartiles(&mut errors)[1] } else { errors.first().copied().unwrap_or(0) };
        errors.iter_mut().for_each(|error| *error -= offset);
        let most = errors.iter().map(|error| error.unsigned_abs()).max().unwrap_or(0);
        let first = planned.first().copied().unwrap_or(0);
        let planned: Vec<i64> = planned.iter().map(|time| gap(first, *time)).collect();
        let arrived: Vec<i64> =
            arrived.iter().map(|time| gap(first, *time).saturating_sub(offset)).collect();
        Self {
            planned: planned.len() as u64,
            arrived: arrived.len() as u64,
            seconds: seconds(&planned, &arrived),
            planned_gaps: quartiles(&mut gaps(&planned)),
            arrived_gaps: quartiles(&mut gaps(&arrived)),
            errors: all.then(|| (quartiles(&mut errors), most)),
            moved,
        }
    }

    /// Whether all arrived, at the planned rate in each second, and the gaps are those that were planned. Of no
    /// query, nothing is known.
    pub fn is_met(&self) -> bool {
        let near = |(planned, arrived): (&u64, &u64)| planned.abs_diff(*arrived) <= TIME_ERROR;
        self.planned > 0
            && self.moved == 0
            && self.planned == self.arrived
            && self.seconds.iter().all(|second| second.keeps_rate() && second.keeps_gaps())
            && self.planned_gaps.iter().zip(&self.arrived_gaps).all(near)
            && self.errors.is_some_and(|(errors, _)| {
                errors.iter().all(|error| error.unsigned_abs() <= TIME_ERROR)
            })
    }
}

/// When queries over UDP are to leave, in nanoseconds from the start of the replay.
pub fn plan(settings: &Settings, survey: &Survey, open: &Open<'_>) -> Result<Plan, ReplayError> {
    let timing = check(settings, survey)?;
    let (sender, steps) = mpsc::sync_channel::<Vec<feed::Step>>(BATCHES_MAX);
    let chosen: &Open<'_> = &|| chosen(settings, open);
    std::thread::scope(|scope| {
        let (sample, over) = (settings.sample, settings.over);
        let reading = scope.spawn(move || feed::feed(chosen, (sample, over), timing, &sender));
        let is_query = |step: &feed::Step| {
            step.carrier == Carrier::Udp && matches!(step.action, feed::Action::Ask { .. })
        };
        let times = steps.into_iter().flatten().filter(is_query).map(|step| step.intended);
        let times: Vec<u64> = times.collect();
        let lost = || ReplayError::Thread(std::io::Error::other("it panicked"));
        let read = reading.join().unwrap_or_else(|_| Err(lost()))?;
        Ok(Plan { times, moved: read.disorder })
    })
}

/// From one time to another.
fn gap(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

fn gaps(times: &[i64]) -> Vec<u64> {
    let pairs = times.iter().zip(times.iter().skip(1));
    pairs.map(|(one, next)| next.saturating_sub(*one).unsigned_abs()).collect()
}

/// The quartiles of `values`, which are put in order for that.
fn quartiles<T: Ord + Copy + Default>(values: &mut [T]) -> Quartiles<T> {
    values.sort_unstable();
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or_default())
}

/// Both by the seconds that they lie in.
fn seconds(planned: &[i64], arrived: &[i64]) -> Vec<SecondOf> {
    let length = planned.last().map_or(0, |last| last / SECOND.cast_signed() + 1);
    let (mut planned, mut arrived) = (planned, arrived);
    let mut seconds = Vec::new();
    for second in 0..length {
        let end = (second + 1) * SECOND.cast_signed();
        let is_last = second + 1 == length;
        let split = |times: &mut &[i64]| {
            let count = times.partition_point(|time| *time < end || is_last);
            let (within, rest) = times.split_at_checked(count).unwrap_or((times, &[]));
            *times = rest;
            (count as u64, quartiles(&mut gaps(within)))
        };
        let (planned, arrived) = (split(&mut planned), split(&mut arrived));
        let errors = planned.1.iter().zip(arrived.1).map(|(one, other)| one.abs_diff(other));
        // Gaps between two or three queries have no quartiles.
        let gap_error = if planned.0 < 5 { 0 } else { errors.max().unwrap_or(0) };
        seconds.push(SecondOf { planned: planned.0, arrived: arrived.0, gap_error });
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query every 20 to 60 µs during some seconds.
    fn times(seconds: u64) -> Vec<u64> {
        let mut time = 0;
        let mut times = Vec::new();
        while time < seconds * SECOND {
            times.push(time);
            time += 20_000 + (times.len() as u64 * 7_919) % 40_000;
        }
        times
    }

    fn plan(times: &[u64]) -> Plan {
        Plan { times: times.to_vec(), moved: 0 }
    }

    #[test]
    fn another_clock_is_no_error() {
        let planned = times(3);
        let arrived: Vec<_> = planned.iter().map(|time| time + 5 * SECOND + 77).collect();
        let found = Fidelity::of(&plan(&planned), &arrived);
        assert!(found.is_met(), "{found:?}");
        assert_eq!((found.seconds.len(), found.errors), (3, Some(([0; 3], 0))));
        assert!(found.seconds.iter().all(|second| second.planned == second.arrived));
        assert_eq!(found.planned_gaps, found.arrived_gaps);
    }

    /// When the nth query that was planned for a time arrives, if it does.
    type Fault = fn(usize, u64) -> Option<u64>;

    #[test]
    fn each_fault_is_found() {
        let planned = times(4);
        let faulty: [(&str, Fault); 5] = [
            ("one is missing", |n, time| (n != 5_000).then_some(time)),
            ("a slow second", |_, time| {
                Some(if time > SECOND && time < 2 * SECOND { time + 3_000_000 } else { time })
            }),
            ("some in the next second", |_, time| {
                Some(if time % SECOND > 995_000_000 { time + 5_000_000 } else { time })
            }),
            ("waves of eight milliseconds", |_, time| Some(time / 8_000_000 * 8_000_000)),
            ("too fast", |_, time| Some(time / 1_000 * 998)),
        ];
        for (what, fault) in faulty {
            let mut arrived: Vec<_> =
                planned.iter().enumerate().filter_map(|(n, time)| fault(n, *time)).collect();
            arrived.sort_unstable();
            assert!(!Fidelity::of(&plan(&planned), &arrived).is_met(), "{what}");
        }
        assert!(!Fidelity::of(&plan(&planned), &[]).is_met());
        let moved = Plan { moved: 1, ..plan(&planned) };
        assert!(
            !Fidelity::of(&moved, &planned).is_met(),
            "what was planned is not what was recorded"
        );
        let nothing = Fidelity::of(&plan(&[]), &[]);
        assert!(nothing.seconds.is_empty() && !nothing.is_met(), "{nothing:?}");
    }

    #[test]
    fn quartiles_of_gaps_are_compared_second_by_second() {
        let planned: Vec<u64> = (0..200).map(|n| n * 10_000_000).collect();
        // In the first second pairs of queries, 20 ms apart.
        let pairs = |n: usize, time: &u64| if n < 100 { time - time % 20_000_000 } else { *time };
        let arrived: Vec<_> = planned.iter().enumerate().map(|(n, time)| pairs(n, time)).collect();
        let found = Fidelity::of(&plan(&planned), &arrived);
        let [first, second] = [0, 1].map(|at| found.seconds[at]);
        assert_eq!((first.planned, first.arrived, first.gap_error), (100, 100, 10_000_000));
        assert!(!first.keeps_gaps() && second.keeps_gaps());
    }
}
