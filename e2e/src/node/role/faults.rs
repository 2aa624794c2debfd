//! What ends, freezes or comes late on a node.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::manifests::{DAEMON_SET, Manifest, official};
use super::processes::{self, Stopped};
use super::{CENTRAL, Role};
use crate::measure::table::duration;
use crate::node::checks::rolled_out;
use crate::node::machine::CLUSTER_DNS;
use crate::official::LOCAL_DNS;
use crate::sim::ask;
use crate::sim::gap::{self, Watch};
use crate::sim::kill::{GOAL, WATCHED, distribution};
use crate::sim::net::{self, NODE};
use crate::sim::servers::START_TIMEOUT;
use crate::sim::state::{attracts, rules};

/// A name of every cluster.
const INSIDE: &str = "kubernetes.default.svc.cluster.local";
/// Until the last of the central pods that were replaced has ended: its lameduck time and a little more.
const LAMEDUCK: Duration = Duration::from_secs(7);

/// Every process of the node cache is killed, and the kubelet is stopped so that nothing is restarted.
pub(super) fn kills(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Official)?;
    let times = role.times(20, 2);
    let (gaps, answered) =
        role.under_load(true, |role| (0..times).map(|_| kill(role)).collect::<Result<Vec<_>>>())?;
    let text = distribution(&gaps);
    let is_good = |gap: &Option<Duration>| gap.is_some_and(|gap| gap < GOAL);
    ensure!(gaps.iter().all(is_good), "{text}");
    let lost: u64 = answered.lost.iter().sum();
    Ok(format!("{text}; {lost} of {} queries were lost with it", answered.asked))
}

fn kill(role: &Role<'_>) -> Result<Option<Duration>> {
    role.wait()?;
    let watch = Watch::start(CLUSTER_DNS.parse()?, INSIDE);
    thread::sleep(Duration::from_millis(500));
    let kubelet = role.freeze("kubelet")?;
    let (servers, killed) = (processes::running()?, Instant::now());
    ensure!(!servers.is_empty(), "nothing runs that could be killed");
    servers.into_iter().try_for_each(|server| processes::signal(server, Signal::KILL))?;
    thread::sleep(WATCHED);
    let asked = watch.finish()?;
    drop(kubelet);
    let before = asked.iter().filter(|question| question.at < killed);
    let answered = before.filter(|question| question.answered.is_some()).count();
    ensure!(answered > 20, "only {answered} queries were answered before");
    Ok(gap::resumed(&asked, killed).ok())
}

/// All central pods are replaced.
pub(super) fn replaced(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Official)?;
    role.lossless(false, |role| {
        role.replace_centrals()?;
        Ok("all central pods are new".to_owned())
    })
}

/// One central pod takes queries and answers none, and the control plane does not notice: without and with a node cache.
pub(super) fn frozen(role: &mut Role<'_>) -> Result<String> {
    role.withdraw()?;
    let without = role.under_load(false, freeze)?.1;
    role.provide(Manifest::Official)?;
    let with = role.under_load(false, freeze)?.1;
    let ([old, new], [kept, fresh]) = (without.lost, with.lost);
    let text = format!(
        "lost or failed of {}: {old} kept and {new} new names without, {kept} and {fresh} with{}",
        with.asked, with.words
    );
    ensure!(old + new > 0, "nothing was frozen: {text}");
    ensure!(kept <= old && fresh <= new, "{text}");
    Ok(text)
}

fn freeze(role: &Role<'_>) -> Result<()> {
    let centrals = processes::centrals()?;
    ensure!(centrals.len() == 3, "{} central servers run", centrals.len());
    let _stopped = Stopped::new(centrals[0])?;
    // Less than it takes until kubelet finds it not ready.
    thread::sleep(Duration::from_secs(u64::try_from(role.times(20, 8))?));
    Ok(())
}

/// The DaemonSet is deleted.
pub(super) fn clean_exit(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Official)?;
    let done = role.lossless(true, |role| {
        role.kubectl(&["delete", DAEMON_SET, "--wait"])?;
        let begun = Instant::now();
        loop {
            let left = rules()?;
            let links = net::tool(NODE, "ip -o link", "")?;
            let is_clean = left.is_empty() && !attracts()? && !links.contains("nodelocaldns");
            if is_clean {
                return Ok(format!("nothing is left after {}", duration(begun.elapsed())));
            }
            let is_late = begun.elapsed() > START_TIMEOUT;
            ensure!(!is_late, "left behind: {}\n{links}", left.join("\n"));
            thread::sleep(Duration::from_millis(50));
        }
    });
    role.applied = None;
    done
}

/// The Service for the node cache and its DaemonSet come while kube-proxy is busy.
pub(super) fn race(role: &mut Role<'_>) -> Result<String> {
    role.withdraw_upstream()?;
    let delay = Duration::from_secs(u64::try_from(role.times(30, 10))?);
    let done = role.lossless(true, |role| {
        let proxy = role.freeze("kube-proxy")?;
        role.node.apply(&[], &official()?)?;
        thread::sleep(delay);
        let is_early = attracts()?;
        drop(proxy);
        ensure!(!is_early, "it takes queries that it cannot answer");
        let begun = Instant::now();
        role.wait()?;
        let took = begun.elapsed();
        thread::sleep(Duration::from_secs(2));
        Ok(format!("takes queries {} after kube-proxy, {delay:?} late", duration(took)))
    });
    role.applied = done.is_ok().then_some(Manifest::Official);
    done
}

/// With the right to ask for them, each central server is asked by itself: one that dies costs nothing, and others come
/// in its place.
pub(super) fn endpoints(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Own)?;
    role.lossless(false, |role| {
        let old = role.centrals_asked(&BTreeSet::new())?;
        let dead = processes::centrals()?.into_iter().next().context("no central server runs")?;
        processes::signal(dead, Signal::KILL)?;
        thread::sleep(Duration::from_secs(3));
        rolled_out(role.node, "kube-system", CENTRAL)?;
        role.replace_centrals()?;
        let new = role.centrals_asked(&old)?;
        Ok(format!(
            "{} got queries, one of them was killed, all were replaced by {}",
            old.len(),
            new.len()
        ))
    })
}

impl Role<'_> {
    fn replace_centrals(&self) -> Result<()> {
        self.kubectl(&["rollout", "restart", CENTRAL])?;
        rolled_out(self.node, "kube-system", CENTRAL)?;
        thread::sleep(LAMEDUCK);
        Ok(())
    }

    /// Waits until all pods of central servers are others than `before`, and each has been asked; gives their addresses.
    fn centrals_asked(&self, before: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        let get = ["get", "pods", "-l", "k8s-app=kube-dns", "-o"];
        // Those that end are there for a while.
        let address =
            ["jsonpath={.items[?(@.status.containerStatuses[0].ready==true)].status.podIP}"];
        let metrics = (LOCAL_DNS.parse::<IpAddr>()?, 9253).into();
        let begun = Instant::now();
        loop {
            let text = self.kubectl(&[&get[..], &address].concat())?;
            let pods: BTreeSet<String> = text.split_whitespace().map(str::to_owned).collect();
            let text = ask::http(metrics, "/metrics")?;
            let is_asked = |pod: &String| {
                let of_pod = format!("to=\"{pod}:53\"");
                text.lines().any(|line| {
                    line.starts_with("coredns_proxy_request_duration_seconds_count")
                        && line.contains(&of_pod)
                        && !line.ends_with(" 0")
                })
            };
            if !pods.is_empty() && pods.is_disjoint(before) && pods.iter().all(is_asked) {
                return Ok(pods);
            }
            ensure!(begun.elapsed() < START_TIMEOUT, "{pods:?} exist, but not all get queries");
            thread::sleep(Duration::from_millis(200));
        }
    }
}
