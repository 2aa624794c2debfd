//! What a run was asked to do: its name, and how long of it was sending.

use crate::Workload;
use crate::run::{Config, Transport};
use crate::tally::Tally;
use crate::workload::PlanHash;
use std::time::Duration;

/// How long queries were sent. Without a number of them that was reached, silence up to the end is a
/// part of the load; what no server answered is not waited for.
pub(crate) fn sending(config: &Config, tally: &Tally, elapsed: Duration) -> Duration {
    match config.queries.filter(|queries| tally.counts.scheduled >= *queries) {
        Some(_) => Duration::from_nanos(tally.span.map_or(0, |span| span.sent.1)),
        None => config.duration.min(elapsed),
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
}
