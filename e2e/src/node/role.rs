//! `nodens-e2e node-role`: the manifest of Kubernetes' own node cache with the image of Nodens, on a real node.
//!
//! The load comes from addresses of pods in a namespace beside those of the kubelet, because thousands of questions a
//! second have to be counted one by one.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};

use super::checks::{deploy_coredns, rolled_out};
use super::images::NODENS_NODE;
use super::machine::{CLUSTER_DNS, Node};
use crate::clients::programs;
use crate::measure::table::duration;
use crate::official::{self, LOCAL_DNS};
use crate::sandbox::Sandbox;
use crate::sandbox::call;
use crate::sim::gap::{self, Watch};
use crate::sim::kill::distribution;
use crate::sim::load::{self, Load, Questions, failed, when};
use crate::sim::net::{self, NODE, PODS};
use crate::sim::servers::START_TIMEOUT;
use crate::sim::state::{attracts, rules};

const PODS_OF_LOAD: usize = 50;
const DAEMON_SET: &str = "daemonset/node-local-dns";
const IMAGE: &str = "registry.k8s.io/dns/k8s-dns-node-cache:";

/// What a run of the checks has.
pub(super) struct Role<'a> {
    pub(super) node: &'a mut Node,
    pub(super) sandbox: &'a Sandbox,
    pub(super) rate: f64,
    pub(super) quick: bool,
}

type Check = (&'static str, fn(&mut Role<'_>) -> Result<String>);

const CHECKS: &[Check] = &[
    ("the official manifest", official_manifest),
    ("clients of pods", clients),
    ("rolling updates", rolling_updates),
    ("everything is killed", kills),
    ("central pods are replaced", replaced),
    ("a clean exit", clean_exit),
    ("kube-proxy comes late", race),
];

/// Runs the checks whose names contain `only`; returns how many failed.
pub(super) fn run(role: &mut Role<'_>, only: &str) -> Result<usize> {
    deploy_coredns(role.node)?;
    // The node is the sandbox; what looks at the node enters it by name.
    call("ip", &["netns", "attach", NODE, "1"])?;
    net::add_pods(PODS_OF_LOAD)?;
    let (mut passed, mut failed) = (0, 0);
    for (name, check) in CHECKS.iter().filter(|(name, _)| name.contains(only)) {
        let begun = Instant::now();
        let outcome = check(role);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(figures) => {
                passed += 1;
                println!("ok      {name}: {figures} ({seconds:.0} s)");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#} ({seconds:.0} s)\n{}", role.log());
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}

impl Role<'_> {
    fn times(&self, all: usize, quick: usize) -> usize {
        if self.quick { quick } else { all }
    }

    /// What the node cache wrote last.
    fn log(&self) -> String {
        let log = ["logs", "-n", "kube-system", DAEMON_SET, "--tail=30"];
        let pods = ["describe", "pods", "-n", "kube-system", "-l", "k8s-app=node-local-dns"];
        let [log, pods] = [&log[..], &pods[..]].map(|arguments| self.node.kubectl(arguments));
        log.or(pods).unwrap_or_default()
    }

    /// Applies the manifest, with the image and nothing else changed, unless it is there.
    fn provide(&self) -> Result<()> {
        if self.node.kubectl(&["get", "-n", "kube-system", DAEMON_SET]).is_err() {
            self.node.apply(&[], &manifest()?)?;
        }
        rolled_out(self.node, "kube-system", DAEMON_SET)?;
        self.wait()
    }

    /// Waits until questions end on the node.
    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        while !attracts()? {
            ensure!(begun.elapsed() < START_TIMEOUT, "it attracts nothing: {}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn loads(&self) -> Result<[(Questions, Load); 2]> {
        let load = |questions, part: f64| -> Result<(Questions, Load)> {
            let address = CLUSTER_DNS.parse()?;
            Ok((questions, Load::start(questions, address, self.rate * part, PODS_OF_LOAD)?))
        };
        let loads = [load(Questions::Real, 0.95)?, load(Questions::RealNew, 0.05)?];
        thread::sleep(Duration::from_secs(2));
        Ok(loads)
    }

    /// Does something under load and fails when a question was lost; see [`Load::finish_whole`] for `may_end`.
    fn lossless(
        &self,
        may_end: bool,
        deed: impl FnOnce(&Self) -> Result<String>,
    ) -> Result<String> {
        let loads = self.loads()?;
        let done = deed(self);
        let (mut asked, mut lost, mut words) = (0, 0, String::new());
        for (questions, load) in loads {
            let outcome = load.finish()?;
            asked += outcome.tally.counts.sent;
            let forgiven = if may_end { outcome.tally.counts.connection_failed } else { 0 };
            let bad = load::lost(&outcome) + failed(&outcome, questions) - forgiven;
            if bad > 0 {
                words += &when(&outcome);
            }
            lost += bad;
        }
        let text = format!("{}; {asked} asked, {lost} lost or failed{words}", done?);
        ensure!(lost == 0, "{text}");
        Ok(text)
    }
}

/// The manifest with the image of Nodens.
fn manifest() -> Result<String> {
    let text = official::manifest(CLUSTER_DNS)?;
    let (before, rest) = text.split_once(IMAGE).context("no image")?;
    let (_, after) = rest.split_once('\n').context("no line after the image")?;
    Ok(format!("{before}{NODENS_NODE}\n{after}"))
}

fn official_manifest(role: &mut Role<'_>) -> Result<String> {
    let begun = Instant::now();
    role.provide()?;
    let took = begun.elapsed();
    let all = rules()?;
    for address in [LOCAL_DNS, CLUSTER_DNS] {
        let count = all.iter().filter(|rule| rule.contains(address)).count();
        ensure!(count == 12, "{count} rules for {address}:\n{}", all.join("\n"));
    }
    let answered = role.lossless(false, |_| Ok("answers".to_owned()))?;
    Ok(format!("attracts after {}, 12 rules for each address; {answered}", duration(took)))
}

/// Resolvers of applications, with the `resolv.conf` of a pod.
fn clients(role: &mut Role<'_>) -> Result<String> {
    role.provide()?;
    let folder = role.sandbox.folder("clients")?;
    let file = folder.join("pod.resolv.conf");
    let search = "default.svc.cluster.local svc.cluster.local cluster.local";
    let text = format!("nameserver {CLUSTER_DNS}\nsearch {search}\noptions ndots:5\n");
    std::fs::write(&file, text)?;
    let names = ["kubernetes", "kube-dns.kube-system", super::OUTSIDE];
    let mut done = Vec::new();
    for program in programs::build(&folder)? {
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        let output = Command::new("nsenter")
            .args([&format!("--net=/run/netns/{PODS}"), "unshare", "--mount", "sh", "-c"])
            .args([script, "sh"])
            .arg(&file)
            .args(program.command(&names))
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        for address in ["10.96.0.1", CLUSTER_DNS, "192.0.2.80"] {
            ensure!(text.contains(address), "{} did not find {address}: {text}", program.name);
        }
        done.push(program.name);
    }
    Ok(done.join(", "))
}

/// The DaemonSet is updated as `maxSurge: 1` does it: the new pod runs beside the old one.
fn rolling_updates(role: &mut Role<'_>) -> Result<String> {
    role.provide()?;
    let times = role.times(10, 2);
    // Two pods that declare the same port of a host would not be let onto one node.
    let patch = r#"[{"op": "remove", "path": "/spec/template/spec/containers/0/ports"},
        {"op": "replace", "path": "/spec/updateStrategy/rollingUpdate",
         "value": {"maxSurge": 1, "maxUnavailable": 0}}]"#;
    let arguments = ["patch", "-n", "kube-system", DAEMON_SET, "--type=json", "-p", patch];
    role.node.kubectl(&arguments)?;
    rolled_out(role.node, "kube-system", DAEMON_SET)?;
    role.wait()?;
    role.lossless(false, |role| {
        for _ in 0..times {
            role.node.kubectl(&["rollout", "restart", "-n", "kube-system", DAEMON_SET])?;
            rolled_out(role.node, "kube-system", DAEMON_SET)?;
            ensure!(attracts()?, "after an update it attracts nothing");
        }
        Ok(format!("{times} updates"))
    })
}

/// Every process of the node cache is killed; the kubelet starts it again later.
fn kills(role: &mut Role<'_>) -> Result<String> {
    let mut gaps = Vec::new();
    for _ in 0..role.times(20, 2) {
        role.provide()?;
        let watch = Watch::start(CLUSTER_DNS.parse()?);
        thread::sleep(Duration::from_millis(500));
        let killed = Instant::now();
        kill_all()?;
        thread::sleep(Duration::from_secs(4));
        gaps.push(gap::resumed(&watch.finish()?, killed).ok());
        // A new pod, so that the kubelet does not wait longer each time before it starts it again.
        let pods = ["-n", "kube-system", "-l", "k8s-app=node-local-dns", "--now"];
        role.node.kubectl(&[&["delete", "pods"], &pods[..]].concat())?;
    }
    let text = distribution(&gaps);
    let is_good = |gap: &Option<Duration>| gap.is_some_and(|gap| gap < Duration::from_secs(1));
    ensure!(gaps.iter().all(is_good), "{text}");
    Ok(text)
}

fn kill_all() -> Result<()> {
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        // A process may end while it is looked at.
        let arguments = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = arguments.split(|octet| *octet == 0).collect();
        let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        if let (Some(id), true) = (id.and_then(Pid::from_raw), words.contains(&&b"-localip"[..])) {
            rustix::process::kill_process(id, Signal::KILL)?;
            killed += 1;
        }
    }
    ensure!(killed > 0, "nothing runs that could be killed");
    Ok(())
}

/// All pods of CoreDNS are replaced.
fn replaced(role: &mut Role<'_>) -> Result<String> {
    role.provide()?;
    role.lossless(false, |role| {
        let restart = ["rollout", "restart", "-n", "kube-system", "deployment/coredns"];
        role.node.kubectl(&restart)?;
        rolled_out(role.node, "kube-system", "deployment/coredns")?;
        // The last of the old ones end.
        thread::sleep(Duration::from_secs(10));
        Ok("all central pods are new".to_owned())
    })
}

/// The DaemonSet is deleted.
fn clean_exit(role: &mut Role<'_>) -> Result<String> {
    role.provide()?;
    role.lossless(true, |role| {
        role.node.kubectl(&["delete", "-n", "kube-system", DAEMON_SET, "--wait"])?;
        let begun = Instant::now();
        loop {
            let left = rules()?;
            let links = net::tool(NODE, "ip -o link", "")?;
            let is_clean = left.is_empty() && !attracts()? && !links.contains("nodelocaldns");
            if is_clean {
                return Ok("nothing is left".to_owned());
            }
            if begun.elapsed() > START_TIMEOUT {
                bail!("left behind: {}\n{links}", left.join("\n"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    })
}

/// The Service for the node cache and its DaemonSet come while kube-proxy is busy.
fn race(role: &mut Role<'_>) -> Result<String> {
    let upstream = ["-n", "kube-system", "service/kube-dns-upstream", "--ignore-not-found"];
    for what in [&["-n", "kube-system", DAEMON_SET, "--ignore-not-found"][..], &upstream] {
        role.node.kubectl(&[&["delete", "--wait"], what].concat())?;
    }
    thread::sleep(Duration::from_secs(5));
    ensure!(!attracts()?, "what was deleted still attracts");
    let delay = Duration::from_secs(u64::try_from(role.times(30, 10))?);
    let done = role.lossless(true, |role| {
        role.node.signal("kube-proxy", Signal::STOP)?;
        role.node.apply(&[], &manifest()?)?;
        thread::sleep(delay);
        role.node.signal("kube-proxy", Signal::CONT)?;
        let begun = Instant::now();
        role.wait()?;
        thread::sleep(Duration::from_secs(2));
        Ok(format!("attracts {} after kube-proxy", duration(begun.elapsed())))
    });
    role.node.signal("kube-proxy", Signal::CONT)?;
    done
}
