//! SIGKILL of everything in the node role: how long pods are without answers.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::World;
use super::ask::INSIDE;
use super::gap::{self, Watch};
use super::proxy::CLUSTER_DNS;
use super::role::Kind;
use crate::measure::table::duration;

/// How long pods may be without answers.
pub(crate) const GOAL: Duration = Duration::from_secs(1);
/// How long what never comes back is watched.
pub(crate) const WATCHED: Duration = Duration::from_secs(3);

/// Kills it many times.
pub(super) fn run(world: &mut World) -> Result<String> {
    let mut gaps: Vec<Option<Duration>> = Vec::new();
    for _ in 0..world.times(20, 3) {
        world.role.start()?;
        world.role.ready()?;
        let watch = Watch::start(CLUSTER_DNS, INSIDE);
        thread::sleep(Duration::from_millis(300));
        let killed = Instant::now();
        world.role.process()?.kill()?;
        thread::sleep(WATCHED);
        let asked = watch.finish()?;
        let before = asked.iter().filter(|question| question.at < killed).count();
        ensure!(before > 20, "only {before} queries before the end");
        gaps.push(gap::resumed(&asked, killed).ok());
        // What is still broken would be so for the next one, too.
        if gaps.last() == Some(&None) {
            world.role.clean();
        }
    }
    let text = distribution(&gaps);
    let good = gaps.iter().flatten().filter(|gap| **gap < GOAL).count();
    // The peers show what happens without anyone's help: nothing.
    ensure!(world.role.kind() != Kind::Nodens || good == gaps.len(), "{text}");
    Ok(text)
}

/// Times from the shortest to the longest, and how many have none.
pub(crate) fn distribution(gaps: &[Option<Duration>]) -> String {
    let mut times: Vec<Duration> = gaps.iter().flatten().copied().collect();
    times.sort();
    let good = times.iter().filter(|gap| **gap < GOAL).count();
    let list: Vec<String> = times.iter().map(|gap| duration(*gap)).collect();
    let never = gaps.len() - times.len();
    let mut text = format!("answered again in under 1 s {good} of {} times", gaps.len());
    if let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) {
        text += &format!("; median {}, longest {}", duration(*median), duration(*longest));
        text += &format!("; all: {}", list.join(" "));
    }
    if never > 0 {
        text += &format!("; {never} times not within {}", duration(WATCHED));
    }
    text
}
