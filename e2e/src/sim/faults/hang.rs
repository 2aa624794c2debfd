//! A process that hangs: the kubelet restarts it, as the manifest says.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::super::gap::{self, Watch};
use super::super::net::{NODE, inside};
use super::super::proxy::CLUSTER_DNS;
use super::super::state::nothing_left;
use super::super::{World, ask};
use super::{By, ensure_answered, start};
use crate::measure::table::duration;
use crate::official::LOCAL_DNS;

const MANIFEST: &str = "deploy/node/kube-proxy.yaml";
const HEALTH_PORT: u16 = 8080;
/// How long pods may be without answers once it is killed.
const GOAL: Duration = Duration::from_secs(1);
/// Longer than answers take to come back.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// The manifest's liveness probe.
struct Liveness {
    period: Duration,
    timeout: Duration,
    failures: u64,
    grace: Duration,
}

impl Liveness {
    fn of_manifest() -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MANIFEST);
        Self::parse(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)
    }

    fn parse(manifest: &str) -> Result<Self> {
        let (_, probe) = manifest.split_once("livenessProbe:\n").context("no liveness probe")?;
        let (probe, _) = probe.split_once("Probe:\n").unwrap_or((probe, ""));
        let number = |field: &str| {
            let line =
                probe.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "));
            line.with_context(|| format!("no {field}"))?.parse::<u64>().context(field.to_owned())
        };
        let seconds = |field| number(field).map(Duration::from_secs);
        Ok(Liveness {
            period: seconds("periodSeconds")?,
            timeout: seconds("timeoutSeconds")?,
            failures: number("failureThreshold")?,
            grace: seconds("terminationGracePeriodSeconds")?,
        })
    }

    /// The longest that a process which hangs may live.
    fn longest(&self) -> Duration {
        self.period * u32::try_from(self.failures).unwrap_or(u32::MAX) + self.timeout + self.grace
    }

    /// Probes as the kubelet does, from now on, and ends the process when it has failed often enough. Returns when it was
    /// killed.
    fn watch(&self, world: &mut World) -> Result<Instant> {
        let local: IpAddr = LOCAL_DNS.parse()?;
        let mut failures = 0;
        let mut next = Instant::now();
        while failures < self.failures {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next += self.period;
            let health = (local, HEALTH_PORT).into();
            let well =
                inside(NODE, || Ok(ask::http_within(self.timeout, health, "/health").is_ok()))?;
            failures = if well { 0 } else { failures + 1 };
        }
        world.role.process()?.signal(Signal::TERM)?;
        thread::sleep(self.grace);
        let killed = Instant::now();
        world.role.process()?.kill()?;
        Ok(killed)
    }
}

/// It is stopped, and ended by what looks after it.
pub(in super::super) fn hangs(world: &mut World) -> Result<String> {
    let liveness = Liveness::of_manifest()?;
    start(world)?;
    ensure_answered(world, By::Node)?;
    let watch = Watch::start(CLUSTER_DNS, ask::INSIDE);
    thread::sleep(GOAL);
    let stopped = Instant::now();
    world.role.process()?.signal(Signal::STOP)?;
    let killed = liveness.watch(world)?;
    thread::sleep(AFTERWARDS);
    let asked = watch.finish()?;
    let hung = killed - stopped;
    ensure!(hung <= liveness.longest() + GOAL, "killed after {hung:?}");
    let during: Vec<_> =
        asked.iter().filter(|one| one.at > stopped && one.at < killed).copied().collect();
    let lost = gap::lost(&during);
    ensure!(
        lost * 10 > during.len() * 9,
        "of {} only {lost} are lost while it hangs",
        during.len()
    );
    let gap = gap::resumed(&asked, killed)?;
    ensure!(gap < GOAL, "answered {} after it was killed", duration(gap));
    nothing_left()?;
    ensure_answered(world, By::Centrals)?;
    Ok(format!(
        "no answers for {} until it was killed, answered by the central servers {} after that",
        duration(hung),
        duration(gap)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_s_probe_is_read_and_is_what_the_document_says() {
        let liveness = Liveness::of_manifest().unwrap();
        assert_eq!(liveness.failures, 3);
        assert_eq!(liveness.longest() - liveness.grace, Duration::from_secs(35));
        assert_eq!(liveness.grace, Duration::from_secs(1));
        assert!(Liveness::parse("livenessProbe:\n  periodSeconds: 1\nreadinessProbe:\n").is_err());
    }
}
