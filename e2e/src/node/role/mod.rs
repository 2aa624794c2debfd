//! `nodens-e2e node-role`: the manifest of Kubernetes' own node cache, and our own, with the image of Nodens, on a real
//! node.
//!
//! The load comes from addresses of pods in a namespace beside those of the kubelet, because thousands of queries a
//! second have to be counted one by one.

mod faults;
mod manifests;
mod pods;
mod processes;
mod updates;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use self::manifests::{Manifest, SELECTOR};
use super::RoleArgs;
use super::checks::{deploy_coredns, rolled_out};
use super::machine::{CLUSTER_DNS, Node};
use crate::limit::{self, Limit};
use crate::measure::table::duration;
use crate::official::LOCAL_DNS;
use crate::sandbox::{Sandbox, call};
use crate::sim::load::{self, Load, Questions, failed, when};
use crate::sim::net::{self, NODE};
use crate::sim::servers::START_TIMEOUT;
use crate::sim::state::{attracts, rules};

const PODS_OF_LOAD: usize = 50;
/// In this namespace everything is but what asks.
const SYSTEM: [&str; 2] = ["-n", "kube-system"];
/// The central servers, of which one is frozen.
const CENTRAL: &str = "deployment/coredns";
const CENTRALS: &str = "--replicas=3";

/// What a run of the checks has.
struct Role<'a> {
    node: &'a Node,
    sandbox: &'a Sandbox,
    rate: f64,
    quick: bool,
    /// What is applied, as far as checks have come.
    applied: Option<Manifest>,
}

/// A check: its name, the seconds after which it is given up, and what it does.
type Check = (&'static str, u64, fn(&mut Role<'_>) -> Result<String>);

/// In an order in which manifests change seldom.
const CHECKS: &[Check] = &[
    ("the official manifest", 300, official_manifest),
    ("clients in pods", 300, pods::clients),
    ("hand-overs", 300, updates::hand_overs),
    ("changes of the configuration", 420, updates::configurations),
    ("everything is killed", 420, faults::kills),
    ("central pods are replaced", 300, faults::replaced),
    ("a clean exit", 180, faults::clean_exit),
    ("a central pod is frozen", 420, faults::frozen),
    ("kube-proxy comes late", 300, faults::race),
    ("rolling updates", 420, updates::rolling),
    ("upgrades that crash", 600, updates::crashes),
    ("central pods are found and left", 300, faults::endpoints),
    ("a leak and its pod", 300, pods::leak),
];

/// Runs the checks that `args` asks for; returns how many failed.
pub(super) fn run(node: &Node, sandbox: &Sandbox, args: &RoleArgs) -> Result<usize> {
    deploy_coredns(node)?;
    node.kubectl(&[&["scale", CENTRAL, CENTRALS], &SYSTEM[..]].concat())?;
    rolled_out(node, "kube-system", CENTRAL)?;
    // The node is the sandbox; what looks at the node enters it by name.
    call("ip", &["netns", "attach", NODE, "1"])?;
    net::add_pods(PODS_OF_LOAD)?;
    let mut role = Role { node, sandbox, rate: args.rate, quick: args.quick, applied: None };
    let (mut passed, mut failed) = (0, 0);
    for (name, seconds, check) in CHECKS.iter().filter(|check| limit::wanted(check.0, &args.only)) {
        let begun = Instant::now();
        let spare = node.spare();
        let limit = Limit::start(name, Duration::from_secs(*seconds), move || log(&spare));
        let outcome = check(&mut role);
        drop(limit);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(figures) => {
                passed += 1;
                println!("ok      {name}: {figures} ({seconds:.0} s)");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#} ({seconds:.0} s)\n{}", log(node));
                // The next one begins in a known state.
                role.applied = None;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    ensure!(passed + failed > 0, "no check is called {:?}", args.only);
    Ok(failed)
}

/// What the node cache and the central servers wrote last, and the state of their pods.
fn log(node: &Node) -> String {
    let last = |what: &[&str]| {
        let text = node.kubectl(&[what, &SYSTEM].concat());
        text.unwrap_or_else(|error| format!("{error:#}"))
    };
    let pods = last(&["get", "pods", "-o", "wide"]);
    let own = last(&["logs", "-l", SELECTOR, "--tail=40", "--prefix", "--ignore-errors"]);
    let central = last(&["logs", "-l", "k8s-app=kube-dns", "--tail=5", "--prefix"]);
    let described = last(&["describe", "pods", "-l", SELECTOR]);
    let events = described.split("Events:").skip(1).collect::<Vec<_>>().join("Events:");
    format!("{pods}\n{own}\n{central}\n{events}")
}

/// A program of the node that is stopped until this is dropped.
struct Frozen<'a>(&'a Node, &'static str);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // It has ended, and that shows elsewhere.
        _ = self.0.signal(self.1, Signal::CONT);
    }
}

/// What became of the queries of a load.
struct Answered {
    asked: u64,
    /// Lost or failed: of names that are asked again and again, and of new ones.
    lost: [u64; 2],
    words: String,
}

impl<'a> Role<'a> {
    fn times(&self, all: usize, quick: usize) -> usize {
        if self.quick { quick } else { all }
    }

    /// `kubectl` in the namespace of the node cache.
    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.node.kubectl(&[arguments, &SYSTEM].concat())
    }

    /// Stops a program of the node for a while.
    fn freeze(&self, program: &'static str) -> Result<Frozen<'a>> {
        self.node.signal(program, Signal::STOP)?;
        Ok(Frozen(self.node, program))
    }

    /// Waits until queries end on the node.
    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        while !attracts()? {
            ensure!(begun.elapsed() < START_TIMEOUT, "it takes no queries");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Does something under load, and returns the outcome of the queries; see [`Load::finish_whole`] for `may_end`.
    fn under_load<T>(
        &self,
        may_end: bool,
        deed: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<(T, Answered)> {
        let server = CLUSTER_DNS.parse()?;
        let load =
            |questions, part: f64| Load::start(questions, server, self.rate * part, PODS_OF_LOAD);
        let kinds = [Questions::Real, Questions::RealNew];
        let loads = [load(kinds[0], 0.95)?, load(kinds[1], 0.05)?];
        thread::sleep(Duration::from_secs(2));
        let done = deed(self);
        let mut answered = Answered { asked: 0, lost: [0; 2], words: String::new() };
        for ((load, kind), lost) in loads.into_iter().zip(kinds).zip(&mut answered.lost) {
            let outcome = load.finish()?;
            let counts = &outcome.tally.counts;
            answered.asked += counts.sent;
            let forgiven = if may_end { counts.connection_failed } else { 0 };
            *lost = (load::lost(&outcome) + failed(&outcome, kind)).saturating_sub(forgiven);
            if *lost > 0 {
                answered.words += &when(&outcome);
            }
        }
        let Answered { asked, lost: [old, new], words } = &answered;
        let done = done.with_context(|| format!("{asked} queries, {old} and {new} lost{words}"))?;
        Ok((done, answered))
    }

    /// Does something under load and fails when a query was lost.
    fn lossless(
        &self,
        may_end: bool,
        deed: impl FnOnce(&Self) -> Result<String>,
    ) -> Result<String> {
        let (done, Answered { asked, lost, words }) = self.under_load(may_end, deed)?;
        let lost: u64 = lost.iter().sum();
        let text = format!("{done}; {asked} queries, {lost} lost or failed{words}");
        ensure!(lost == 0, "{text}");
        Ok(text)
    }
}

fn official_manifest(role: &mut Role<'_>) -> Result<String> {
    let begun = Instant::now();
    role.provide(Manifest::Official)?;
    let took = begun.elapsed();
    let all = rules()?;
    for address in [LOCAL_DNS, CLUSTER_DNS] {
        let count = all.iter().filter(|rule| rule.contains(address)).count();
        ensure!(count == 12, "{count} rules for {address}:\n{}", all.join("\n"));
    }
    let answered = role.lossless(false, |_| {
        thread::sleep(Duration::from_secs(2));
        Ok("answers".to_owned())
    })?;
    Ok(format!("takes queries after {}, 12 rules for each address; {answered}", duration(took)))
}
