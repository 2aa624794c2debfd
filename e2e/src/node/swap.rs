//! `nodens-e2e swap`: `nodens-lab swap` on a real node: two releases of CoreDNS, Nodens, CoreDNS with itself, a
//! DaemonSet; runs that are killed at any moment, after which everything has to be as it was; and a load that the Pods
//! of an Indexed Job share.

mod daemonset;
mod kills;
mod same;
mod workers;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args as Arguments;
use serde_json::{Value, json};

use self::daemonset::DAEMONSET;
use super::checks::{deploy_coredns, rolled_out};
use super::images::{self, CLIENTS, NODENS};
use super::machine::Node;
use crate::control_plane::peers;
use crate::limit;
use crate::sandbox::Sandbox;

/// The lab, for the load.
const LAB: &str = "localhost/nodens-lab:1";
/// A second CoreDNS.
const OTHER: &str = "localhost/coredns:other";
/// Exit code of the lab for results that say nothing.
const INVALID: i32 = 3;
/// What compares two images without the baseline with itself before, in names of the cluster and others apart.
const BOTH_NAMES: [&str; 6] =
    ["--noise-rounds", "0", "--settle", "2s", "--external", "outside.example"];
const DEPLOYMENT: Workload = Workload { kind: "deployment", name: "coredns" };
/// What would undo the change, if it did anything.
const OPERATOR: Workload = Workload { kind: "deployment", name: "dns-operator" };
/// All whose specs a run may change.
const WORKLOADS: [Workload; 3] = [DEPLOYMENT, DAEMONSET, OPERATOR];
/// How long it may take until everything is as before after a kill: the pods of the run have to end.
const RESTORE_LIMIT: Duration = Duration::from_secs(240);

#[derive(Arguments)]
pub(crate) struct SwapArgs {
    /// Only checks whose names contain one of these.
    #[arg(long, value_delimiter = ',', default_value = "")]
    only: Vec<String>,
    /// The static program that is Nodens [default: the one beside this program].
    #[arg(long)]
    pub(super) program: Option<PathBuf>,
    /// The static program that is the lab [default: the one beside this program].
    #[arg(long)]
    lab: Option<PathBuf>,
    /// A second CoreDNS [default: the release before, of the peers' cache].
    #[arg(long)]
    other: Option<PathBuf>,
    /// Rounds of each comparison.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Length of each load.
    #[arg(long, default_value = "10s")]
    length: String,
    /// Comparisons of CoreDNS with itself, each with names of the cluster only.
    #[arg(long, default_value_t = 1)]
    same: usize,
    /// Seed of the first of them, for queries and the order of the images; each further one has the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs that are killed.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// The latest moment of a kill, in seconds after the start.
    #[arg(long, default_value_t = 40)]
    kill_within: u64,
    /// Where results are kept [default: nowhere].
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A workload in `kube-system`.
#[derive(Debug, Clone, Copy)]
struct Workload {
    kind: &'static str,
    name: &'static str,
}

impl Workload {
    /// As kubectl names it.
    fn path(self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// What a comparison wrote.
struct Compared {
    /// For people.
    text: String,
    /// `result.json`.
    result: Value,
}

struct Swap<'a> {
    node: &'a Node,
    args: &'a SwapArgs,
    lab: PathBuf,
    out: PathBuf,
}

type Check = (&'static str, fn(&Swap<'_>) -> Result<String>);

const CHECKS: &[Check] = &[
    ("workers of an Indexed Job", workers::run),
    ("two releases of CoreDNS", releases),
    ("CoreDNS and Nodens", nodens),
    ("a DaemonSet", daemonset::run),
    ("CoreDNS with itself", same::run),
    ("killed runs", kills::run),
];

/// Runs the checks that `args` asks for; returns how many failed.
pub(super) fn run(node: &Node, sandbox: &Sandbox, args: &SwapArgs) -> Result<usize> {
    let own = std::env::current_exe()?;
    let lab = args.lab.clone().unwrap_or_else(|| own.with_file_name("nodens-lab"));
    let folder = sandbox.folder("images")?;
    images::add(node, &folder, LAB, (&lab, "/nodens-lab"), "none")?;
    let other = args.other.clone().unwrap_or_else(|| peers().join("before/coredns"));
    ensure!(other.is_file(), "no {}: run 'cargo xtask peers coredns-before'", other.display());
    images::add(node, &folder, OTHER, (&other, "/coredns"), "NET_BIND_SERVICE")?;
    deploy_coredns(node)?;
    node.apply(&[], &operator().to_string())?;
    rolled_out(node, "kube-system", &OPERATOR.path())?;
    let out = args.out.clone().map_or_else(|| sandbox.folder("swap"), Ok)?;
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let swap = Swap { node, args, lab, out };
    let mut failed = 0;
    for (name, check) in CHECKS.iter().filter(|check| limit::wanted(check.0, &args.only)) {
        let begun = Instant::now();
        let outcome = check(&swap);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(figures) => println!("ok      {name}: {figures} ({seconds:.0} s)"),
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#} ({seconds:.0} s)");
            }
        }
    }
    Ok(failed)
}

fn operator() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": OPERATOR.name, "namespace": "kube-system"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": OPERATOR.name}},
            "template": {
                "metadata": {"labels": {"app": OPERATOR.name}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "idle", "image": CLIENTS, "imagePullPolicy": "IfNotPresent"}],
                },
            },
        },
    })
}

impl Swap<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.lab);
        command.arg("swap").args(arguments).env("KUBECONFIG", self.node.kubeconfig());
        command.stdin(Stdio::null());
        command
    }

    /// The command that compares the workload's image with `candidate`.
    fn exchange(&self, workload: Workload, candidate: &str) -> Command {
        let subject = format!("kube-system/{}", workload.path());
        let operator = format!("kube-system/{}", OPERATOR.name);
        let mut command = self.command(&[&subject, "--candidate", candidate, "--lab-image", LAB]);
        command.args(["--scale-down", &operator]);
        command
    }

    /// A comparison to its end, after which all has to be as before.
    fn compared(
        &self,
        name: &str,
        workload: Workload,
        candidate: &str,
        more: &[&str],
    ) -> Result<Compared> {
        let folder = self.out.join(name);
        let out = folder.display().to_string();
        let rounds = self.args.rounds.to_string();
        let before = self.state()?;
        let mut command = self.exchange(workload, candidate);
        command.args(["--rounds", &rounds, "-l", &self.args.length]);
        let output = command.args(["--out", &out]).args(more).output().context("nodens-lab")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_over = output.status.success() || output.status.code() == Some(INVALID);
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(is_over, "{command:?}: {}: {text}{}", output.status, error.trim());
        self.is_as_before(&before)?;
        let result = std::fs::read_to_string(folder.join("result.json"))?;
        Ok(Compared { text, result: serde_json::from_str(&result).context("result.json")? })
    }

    /// What has to be as it was: the specs of all that is changed.
    fn state(&self) -> Result<Vec<Value>> {
        let spec = |workload: &Workload| {
            let mut object = self.object(&workload.path())?;
            Ok(object.get_mut("spec").map(Value::take).unwrap_or_default())
        };
        WORKLOADS.iter().map(spec).collect()
    }

    /// An object of `kube-system`; null if there is none.
    fn object(&self, path: &str) -> Result<Value> {
        let get = ["get", path, "-n", "kube-system", "--ignore-not-found", "-o", "json"];
        let text = self.node.kubectl(&get)?;
        if text.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(&text)?) }
    }

    /// The record, or what is left of a run: Jobs, queries, ReplicaSets.
    fn leftovers(&self) -> Result<String> {
        let kinds = "leases,jobs,configmaps";
        let text = self.node.kubectl(&["get", kinds, "-n", "kube-system", "-o", "name"])?;
        let ours = text.lines().filter(|line| line.contains("nodens-lab"));
        let sets = r#"jsonpath={range .items[*]}{.metadata.name} {.spec.template.metadata.annotations}{"\n"}{end}"#;
        let sets = self.node.kubectl(&["get", "replicasets", "-n", "kube-system", "-o", sets])?;
        let ours = ours.chain(sets.lines().filter(|line| line.contains("nodens-lab")));
        Ok(ours.collect::<Vec<_>>().join(", "))
    }

    /// Waits until it is.
    fn is_as_before(&self, before: &[Value]) -> Result<()> {
        let until = Instant::now() + RESTORE_LIMIT;
        loop {
            let (now, left) = (self.state()?, self.leftovers()?);
            if now == before && left.is_empty() {
                break;
            }
            ensure!(Instant::now() < until, "not as before: {now:?}, left: {left}");
            thread::sleep(Duration::from_millis(500));
        }
        for (workload, _) in WORKLOADS.iter().zip(before).filter(|(_, spec)| !spec.is_null()) {
            rolled_out(self.node, "kube-system", &workload.path())?;
        }
        Ok(())
    }
}

fn releases(swap: &Swap<'_>) -> Result<String> {
    verdict(&swap.compared("releases", DEPLOYMENT, OTHER, &BOTH_NAMES)?)
}

fn nodens(swap: &Swap<'_>) -> Result<String> {
    verdict(&swap.compared("nodens", DEPLOYMENT, NODENS, &BOTH_NAMES)?)
}

/// What was found of CPU, in microseconds for each answer: without it the rounds show nothing.
fn verdict(compared: &Compared) -> Result<String> {
    let Compared { text, result } = compared;
    println!("{text}");
    usable(result)?;
    let is_cpu =
        |finding: &&Value| finding.pointer("/cell/metric").and_then(Value::as_str) == Some("cpu");
    let told = |finding: &Value| {
        let number = |at: &str| finding.get(at).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let set = finding.pointer("/cell/set").and_then(Value::as_str).unwrap_or_default();
        let verdict = finding.get("verdict").and_then(Value::as_str).unwrap_or_default();
        let [a, b] = ["a", "b"].map(|side| number(side) / 1e3);
        let part = number("estimate") * 100.0;
        format!("{set} {a:.1} µs to {b:.1} µs ({part:+.1} %, {verdict})")
    };
    let findings = result.get("findings").and_then(Value::as_array).into_iter().flatten();
    let cpu: Vec<String> = findings.filter(is_cpu).map(told).collect();
    ensure!(!cpu.is_empty(), "CPU was not found: {:?}", result.get("omitted"));
    Ok(cpu.join(", "))
}

/// An error if the result says nothing, or is about answers that failed: the servers know every name.
fn usable(result: &Value) -> Result<()> {
    let list = |at: &str| result.get(at).and_then(Value::as_array).cloned().unwrap_or_default();
    let reasons = list("invalid_because");
    ensure!(reasons.is_empty(), "the result is invalid: {reasons:?}");
    let blocks = list("blocks");
    let failures: Vec<&Value> = blocks.iter().filter_map(|block| block.get("failures")).collect();
    ensure!(failures.is_empty(), "answers failed in {} loads: {failures:?}", failures.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_about_failed_answers_is_of_no_use() {
        let result = |reasons: Value, block: Value| json!({"invalid_because": reasons, "blocks": [{"answered": 10}, block]});
        let good = json!({"answered": 10});
        usable(&result(json!([]), good.clone())).unwrap();
        let failed = json!({"answered": 10, "failures": {"SERVFAIL": 10}});
        let error = usable(&result(json!([]), failed)).unwrap_err().to_string();
        assert!(error.starts_with("answers failed in 1 loads"), "{error}");
        assert!(usable(&result(json!(["nothing was measured"]), good)).is_err());
    }
}
