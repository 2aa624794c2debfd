//! What a run was asked to do: its name, and how long of it was sending.

use crate::clock::Clock;
use crate::run::{Config, Pace, Transport};
use crate::schedule::{Arrivals, Schedule};
use crate::tally::Tally;
use crate::workload::PlanHash;
use crate::{Workload, nanos};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between looks at whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// How long queries were sent. Without a number of them that was reached, silence up to the end is a
/// part of the load; what no server answered is not waited for.
pub(crate) fn sending(config: &Config, tally: &Tally, elapsed: Duration) -> Duration {
    match config.queries.filter(|queries| tally.counts.scheduled >= *queries) {
        Some(_) => Duration::from_nanos(tally.span.map_or(0, |span| span.sent.1)),
        None => config.duration.min(elapsed),
    }
}

/// Waits for the end of a load whose last queries have their outcomes earlier, as one of bursts; when that
/// was, if it was waited for. Silence is a part of its rate, and of what it costs the server.
pub(crate) fn sit_out(config: &Config, clock: &Clock, stop: &AtomicBool) -> Option<Duration> {
    let is_open = matches!(config.pace, Pace::Open { .. });
    if !is_open || config.queries.is_some() {
        return None;
    }
    loop {
        let now = Duration::from_nanos(clock.now());
        let left = config.duration.checked_sub(now).filter(|left| !left.is_zero());
        let Some(left) = left.filter(|_| !stop.load(Ordering::Relaxed)) else { return Some(now) };
        std::thread::sleep(left.min(LOOK));
    }
}

/// Names the plan: queries, order, schedule, seed. All workers that share it have the same.
pub fn plan_hash(config: &Config, workload: &Workload) -> u64 {
    let mut hash = PlanHash::default();
    workload.hash_into(&mut hash);
    let pace = format!("{:?} {:?} {:?}", config.pace, config.duration, config.queries);
    hash.write(pace.as_bytes());
    hash.write(config.profile.to_string().as_bytes());
    hash.write(&config.seed.to_be_bytes());
    hash.write(&(config.clients as u64).to_be_bytes());
    // Who asks by which transport, and on which connection, is part of the plan.
    for share in &config.mix {
        hash.write(format!("{} {}", share.transport, share.weight).as_bytes());
    }
    let streams = &config.streams;
    if !streams.life.is_endless() {
        hash.write(streams.life.to_string().as_bytes());
    }
    // So is whether its first second has handshakes. What is the default leaves a plan's name as it was.
    let has_streams = config.shares().iter().any(|share| share.transport != Transport::Udp);
    if has_streams && streams.connects_first() != streams.life.is_endless() {
        hash.write(format!("connect-first {}", streams.connects_first()).as_bytes());
    }
    hash.finish()
}

/// One item of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its number, which is that of its query in the workload.
    pub item: u64,
    /// When it is to be sent, in nanoseconds since the start.
    pub intended: u64,
    /// Which of all clients sends it.
    pub client: usize,
}

/// The items of an open loop in the order of their times, whichever thread sends them.
pub struct Plan<'a> {
    config: &'a Config,
    workload: &'a Workload,
    schedule: Schedule,
    /// Whether the workload has the times, and not the schedule.
    recorded: bool,
    item: u64,
    end: u64,
}

impl<'a> Plan<'a> {
    /// The plan of a run; none of a closed loop, whose times depend on the server.
    pub fn of(config: &'a Config, workload: &'a Workload) -> Option<Self> {
        match config.pace {
            Pace::Open { rate, arrivals } => Some(Self::at(config, workload, rate, arrivals)),
            Pace::Closed { .. } => None,
        }
    }

    pub(crate) fn at(
        config: &'a Config,
        workload: &'a Workload,
        rate: f64,
        arrivals: Arrivals,
    ) -> Self {
        let schedule = Schedule::with_profile(arrivals, &config.profile, rate, config.seed);
        let recorded = matches!(arrivals, Arrivals::Recorded { .. });
        Self { config, workload, schedule, recorded, item: 0, end: nanos(config.duration) }
    }
}

impl Iterator for Plan<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let item = self.item;
        let intended =
            if self.recorded { self.workload.time_of(item) } else { self.schedule.next() };
        let intended = intended.filter(|intended| *intended < self.end)?;
        if self.config.queries.is_some_and(|queries| item >= queries) {
            return None;
        }
        self.item += 1;
        Some(Planned { item, intended, client: self.workload.client(item, self.config.clients) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_whose_connections_are_opened_at_another_time_is_another_plan() {
        let hash = |transport, connect_first| {
            let mut config = Config::new("192.0.2.1:53".parse().unwrap(), 1_000.0);
            (config.transport, config.streams.connect_first) = (transport, connect_first);
            plan_hash(&config, &Workload::new(1))
        };
        let tcp = |connect_first| hash(Transport::Tcp, connect_first);
        assert_eq!(tcp(None), tcp(Some(true)), "the default where connections persist");
        assert_ne!(tcp(None), tcp(Some(false)));
        let udp = |connect_first| hash(Transport::Udp, connect_first);
        assert_eq!(udp(None), udp(Some(false)), "no connection, no difference");
    }

    #[test]
    fn a_plan_has_the_times_of_its_schedule_and_ends_with_its_queries_or_its_time() {
        let mut workload = Workload::new(1);
        let name = nodens_wire::Name::parse("a.example").unwrap();
        workload.push(name.view(), nodens_wire::Type::A, None);
        let of = |queries, seconds| Config {
            pace: Pace::Open { rate: 100.0, arrivals: Arrivals::Uniform },
            queries,
            duration: Duration::from_millis(seconds),
            clients: 3,
            ..Config::new("192.0.2.1:53".parse().unwrap(), 100.0)
        };
        let (counted, timed) = (of(Some(4), 1_000), of(None, 55));
        let four: Vec<_> = Plan::of(&counted, &workload).unwrap().collect();
        let times: Vec<_> = four.iter().map(|planned| planned.intended).collect();
        assert_eq!(times, [0, 10_000_000, 20_000_000, 30_000_000]);
        assert_eq!(four.iter().map(|planned| planned.item).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(four.iter().all(|one| one.client == workload.client(one.item, 3)));
        assert_eq!(Plan::of(&timed, &workload).unwrap().count(), 6);
        let closed = Config { pace: Pace::Closed { window: 1 }, ..timed.clone() };
        assert!(Plan::of(&closed, &workload).is_none());
    }
}
