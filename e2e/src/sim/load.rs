//! The queries of the node's pods, every one of which has to be answered.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use lab_load::cluster::{Cluster, mix};
use lab_load::transport::Share;
use lab_load::{Config, Outcome, Spin, Transport, Workload, run};
use nodens_wire::{Name, Rcode, Type};

use super::cluster;
use super::net::{self, PODS, pod_address};

/// Longer than it takes to see that an answer does not come, and no longer than a stub resolver waits.
pub(super) const TIMEOUT: Duration = Duration::from_secs(4);
/// Of this many clients one has a connection, and the rest a port that they keep.
const CLIENTS_PER_CONNECTION: u32 = 10;

/// What pods ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Questions {
    /// Names that exist, so that every answer but NOERROR is a fault.
    Existing,
    /// Names of the cluster that exist.
    Inside,
    /// Names that exist and not queried before.
    New,
    /// What pods with search lists ask, NXDOMAIN among the answers.
    Pods,
    /// What search lists make of names outside of the cluster, each of them once.
    Noise,
    /// Names that exist on a real node.
    Real,
    /// Names of addresses of pods, so many that no cache has them when they are asked for again.
    RealNew,
}

/// Every name below this one exists.
pub(crate) const NEW: &str = "new.default.svc.cluster.local";

/// Names that every cluster has, and one outside.
const REAL: [&str; 3] = [
    "kubernetes.default.svc.cluster.local",
    "kube-dns.kube-system.svc.cluster.local",
    crate::node::OUTSIDE,
];
/// More than are asked for while an answer is kept.
const REAL_NEW: u64 = 20_000;

fn of(names: impl Iterator<Item = String>, seed: u64) -> Result<Workload> {
    let mut workload = Workload::new(seed);
    for name in names {
        workload.push(Name::parse(&name).context(name)?.view(), Type::A, None);
    }
    Ok(workload)
}

/// A name below each external one, behind every search domain of the cluster; another one each time.
fn noise() -> Result<Workload> {
    let names = Cluster::default();
    let mut externals: Vec<&Name> =
        names.names().filter(|name| !Cluster::is_internal(name)).collect();
    externals.sort_by_key(|name| name.to_string());
    let mut domains: Vec<String> = cluster::namespaces()
        .into_iter()
        .map(|namespace| format!("{namespace}.svc.cluster.local"))
        .collect();
    domains.extend(["svc.cluster.local", "cluster.local"].map(str::to_owned));
    let searched = externals
        .iter()
        .flat_map(|name| domains.iter().map(move |domain| format!("{name}{domain}")));
    let mut workload = of(searched, unique_seed())?;
    workload.set_hit_rate(0.0);
    Ok(workload)
}

/// Another one each time, so that no names come twice in a run.
fn unique_seed() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Questions {
    fn workload(self, pods: usize, seed: u64) -> Result<Workload> {
        let cluster = Cluster::default();
        let below = |suffix: &str| -> Result<Workload> {
            let suffix = Name::parse(suffix).context("a suffix")?;
            Ok(Workload::unique(unique_seed(), suffix.view(), Type::A)?)
        };
        match self {
            Questions::Pods => return Ok(mix(&cluster, pods, 50_000, seed).workload),
            Questions::New => return below(NEW),
            Questions::Noise => return noise(),
            Questions::Real => return of(REAL.iter().map(|name| (*name).to_owned()), seed),
            Questions::RealNew => {
                let hosts = (0..REAL_NEW).map(|number| number + 1000 * seed);
                let name = |n: u64| format!("10-{}-{}-{}", n >> 16 & 255, n >> 8 & 255, n & 255);
                return of(hosts.map(|n| format!("{}.default.pod.cluster.local", name(n))), seed);
            }
            Questions::Existing | Questions::Inside => {}
        }
        let mut names: Vec<&Name> = cluster.names().collect();
        if self == Questions::Inside {
            names.retain(|name| name.to_string().ends_with(".cluster.local."));
        }
        names.sort_by_key(|name| name.to_string());
        let mut workload = Workload::new(seed);
        for (name, qtype) in names.iter().flat_map(|name| [(name, Type::A), (name, Type::AAAA)]) {
            workload.push(name.view(), qtype, None);
        }
        Ok(workload)
    }
}

/// Pods that ask.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Outcome>>,
    questions: Questions,
}

impl Load {
    /// Starts `rate` QPS from `pods` addresses to `server`, until it is ended.
    pub(crate) fn start(
        questions: Questions,
        server: Ipv4Addr,
        rate: f64,
        pods: usize,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let workload = questions.workload(pods, 7)?;
        let server = (server, 53).into();
        let share = |transport, weight| Share { transport, weight, server };
        let clients = 2 * pods;
        let config = Config {
            duration: Duration::from_secs(3600),
            timeout: TIMEOUT,
            clients: clients.max(lab_load::run::clients_needed(rate, TIMEOUT)),
            sources: (0..pods).map(|number| IpAddr::from(pod_address(number))).collect(),
            mix: vec![share(Transport::Udp, CLIENTS_PER_CONNECTION - 1), share(Transport::Tcp, 1)],
            // It would take a CPU from the servers.
            spin: Spin::Never,
            ..Config::new(server, rate)
        };
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || net::inside(PODS, || Ok(run(&config, &workload, &stop, |_| {})?))
        });
        Ok(Load { stop, thread, questions })
    }

    /// Waits for the timeout of the last queries, ends the load and returns its outcome.
    pub(crate) fn finish(self) -> Result<Outcome> {
        std::thread::sleep(TIMEOUT);
        self.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.join().map_err(|_| anyhow!("the load panicked"))??;
        let faults = outcome.tally.contradictions();
        ensure!(faults.is_empty(), "the load's counts do not add up: {faults:?}");
        Ok(outcome)
    }

    /// As [`Load::finish`], and an error unless every query was answered without a fault. Where connections `may_end`,
    /// queries in flight on one are counted and tolerated: their clients open another one and ask again.
    pub(crate) fn finish_whole(self, may_end: bool) -> Result<String> {
        let questions = self.questions;
        let outcome = self.finish()?;
        let counts = &outcome.tally.counts;
        let bad = failed(&outcome, questions);
        let forgiven = if may_end { counts.connection_failed } else { 0 };
        let lost = lost(&outcome) - forgiven;
        let mut text = format!(
            "{} queries, {lost} lost, {bad} failed, {} not sent",
            counts.sent,
            counts.skipped + counts.send_errors,
        );
        if may_end {
            text += &format!(", {forgiven} in connections that ended");
        }
        ensure!(counts.sent > 0, "no query was sent");
        ensure!(lost == 0 && bad == 0 && counts.send_errors == 0, "{text}{}", when(&outcome));
        Ok(text)
    }
}

/// Answers that differ from the known data.
pub(crate) fn failed(outcome: &Outcome, questions: Questions) -> u64 {
    let can_be_missing = matches!(questions, Questions::Pods | Questions::Noise);
    let good =
        |rcode: u16| rcode == Rcode::NOERROR.0 || (can_be_missing && rcode == Rcode::NXDOMAIN.0);
    outcome.tally.rcodes.iter().filter(|(rcode, _)| !good(*rcode)).map(|(_, count)| count).sum()
}

/// Queries without an answer: lost ones, and those of the end that had time enough.
pub(crate) fn lost(outcome: &Outcome) -> u64 {
    let cohorts = &outcome.tally.cohorts;
    // What was asked in the last two seconds may have been on its way.
    let old = cohorts.get(..cohorts.len().saturating_sub(2)).unwrap_or_default();
    let late: u64 = old.iter().map(|cohort| cohort.interrupted).sum();
    outcome.tally.counts.lost() + late
}

/// The seconds in which queries were lost or failed, for error messages.
pub(crate) fn when(outcome: &Outcome) -> String {
    let counts = &outcome.tally.counts;
    let mut text = format!(
        " ({} timed out, {} refused, {} with their connection, RCODEs {:?})",
        counts.timed_out,
        counts.refused,
        counts.connection_failed,
        outcome.tally.rcodes.iter().collect::<Vec<_>>()
    );
    for (second, cohort) in outcome.tally.cohorts.iter().enumerate() {
        let lost = cohort.lost() + cohort.interrupted;
        if lost > 0 {
            text += &format!(", {lost} in second {second}");
        }
    }
    text
}

/// A quantile of the response times, in words.
pub(crate) fn quantile(outcome: &Outcome, fraction: f64) -> String {
    crate::measure::table::quantile(outcome.tally.response.quantile(fraction))
}

/// Wraps a result of the load for a caller that waits for an action and the load.
pub(crate) fn under(load: Load, deed: Result<String>, may_end: bool) -> Result<String> {
    let whole = load.finish_whole(may_end);
    let deed = deed?;
    let whole = whole.context(deed.clone())?;
    Ok(format!("{deed}; {whole}"))
}
