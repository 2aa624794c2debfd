//! `nodens-e2e swap`: `nodens-lab swap` on a real node: two versions of CoreDNS, Nodens, CoreDNS with itself; and
//! runs that are killed at any moment, after which everything has to be as it was.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as Arguments;
use serde_json::{Value, json};

use super::checks::{deploy_coredns, rolled_out};
use super::images::{self, CLIENTS, COREDNS, NODENS};
use super::machine::Node;
use super::tools::output as run_to_end;
use crate::limit;
use crate::sandbox::Sandbox;

/// The lab, for the load.
const LAB: &str = "localhost/nodens-lab:1";
/// A second CoreDNS.
const OTHER: &str = "localhost/coredns:other";
const WORKLOAD: &str = "kube-system/deployment/coredns";
/// What would undo the change, if it did anything.
const OPERATOR: &str = "dns-operator";
/// How long it may take until everything is as before after a kill: the pods of the run have to end.
const RESTORE_LIMIT: Duration = Duration::from_secs(240);
/// A Lease that is not renewed counts for 30 s.
const LEASE: Duration = Duration::from_secs(32);

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
    /// Another CoreDNS than that of the peers' cache.
    #[arg(long)]
    other: Option<PathBuf>,
    /// Rounds of each comparison.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Length of each load.
    #[arg(long, default_value = "10s")]
    length: String,
    /// Comparisons of CoreDNS with itself.
    #[arg(long, default_value_t = 1)]
    same: usize,
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

struct Swap<'a> {
    node: &'a Node,
    args: &'a SwapArgs,
    lab: PathBuf,
    out: PathBuf,
}

type Check = (&'static str, fn(&Swap<'_>) -> Result<String>);

const CHECKS: &[Check] = &[
    ("two versions of CoreDNS", versions),
    ("CoreDNS and Nodens", nodens),
    ("CoreDNS with itself", same),
    ("killed runs", kills),
];

/// Runs the checks that `args` asks for; returns how many failed.
pub(super) fn run(node: &Node, sandbox: &Sandbox, args: &SwapArgs) -> Result<usize> {
    let own = std::env::current_exe()?;
    let lab = args.lab.clone().unwrap_or_else(|| own.with_file_name("nodens-lab"));
    let folder = sandbox.folder("images")?;
    images::add(node, &folder, LAB, &lab, "/nodens-lab")?;
    if let Some(other) = &args.other {
        images::add(node, &folder, OTHER, other, "/coredns")?;
    }
    deploy_coredns(node)?;
    node.apply(&[], &operator().to_string())?;
    rolled_out(node, "kube-system", &format!("deployment/{OPERATOR}"))?;
    let out = args.out.clone().map_or_else(|| sandbox.folder("swap"), Ok)?;
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
        "metadata": {"name": OPERATOR, "namespace": "kube-system"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": OPERATOR}},
            "template": {
                "metadata": {"labels": {"app": OPERATOR}},
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

    /// A comparison to its end; its result.
    fn compared(&self, name: &str, candidate: &str, more: &[&str]) -> Result<Value> {
        let folder = self.out.join(name);
        let out = folder.display().to_string();
        let rounds = self.args.rounds.to_string();
        let operator = format!("kube-system/{OPERATOR}");
        let before = self.state()?;
        let mut command = self.command(&[WORKLOAD, "--candidate", candidate, "--lab-image", LAB]);
        command.args(["--scale-down", &operator, "--rounds", &rounds, "-l", &self.args.length]);
        command.args(["--settle", "2s", "--external", "outside.example", "--out", &out]).args(more);
        let text = run_to_end(&mut command)?;
        println!("{text}");
        self.is_as_before(&before)?;
        let result = std::fs::read_to_string(folder.join("result.json"))?;
        serde_json::from_str(&result).context("result.json")
    }

    /// What has to be as it was: the specs of all that is changed.
    fn state(&self) -> Result<[Value; 2]> {
        Ok([self.spec("coredns")?, self.spec(OPERATOR)?])
    }

    fn spec(&self, deployment: &str) -> Result<Value> {
        let get = ["get", "deployment", deployment, "-n", "kube-system", "-o", "json"];
        let object: Value = serde_json::from_str(&self.node.kubectl(&get)?)?;
        Ok(object.get("spec").cloned().unwrap_or_default())
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

    fn is_as_before(&self, before: &[Value; 2]) -> Result<()> {
        let until = Instant::now() + RESTORE_LIMIT;
        loop {
            let (now, left) = (self.state()?, self.leftovers()?);
            if now == *before && left.is_empty() {
                break;
            }
            ensure!(Instant::now() < until, "not as before: {now:?}, left: {left}");
            thread::sleep(Duration::from_millis(500));
        }
        rolled_out(self.node, "kube-system", "deployment/coredns")
    }
}

fn versions(swap: &Swap<'_>) -> Result<String> {
    ensure!(swap.args.other.is_some(), "--other names no second CoreDNS");
    let result = swap.compared("versions", OTHER, &["--noise-rounds", "0"])?;
    verdict(&result)
}

fn nodens(swap: &Swap<'_>) -> Result<String> {
    let result = swap.compared("nodens", NODENS, &["--noise-rounds", "0"])?;
    verdict(&result)
}

fn verdict(result: &Value) -> Result<String> {
    let text = |pointer: &str| result.pointer(pointer).map_or(String::new(), Value::to_string);
    ensure!(!text("/findings/0").is_empty(), "nothing was found: {}", text("/omitted"));
    Ok(format!(
        "{}: {} of {}",
        text("/verdict"),
        text("/findings/0/estimate"),
        text("/findings/0/cell")
    ))
}

/// CoreDNS and the same CoreDNS: a difference is a false one.
fn same(swap: &Swap<'_>) -> Result<String> {
    let mut called = 0;
    for at in 0..swap.args.same {
        let seed = (at + 1).to_string();
        let more = ["--noise-rounds", "0", "--seed", &seed];
        let result = swap.compared(&format!("same-{at}"), COREDNS, &more)?;
        verdict(&result)?;
        let verdict = result.get("verdict").and_then(Value::as_str).unwrap_or_default();
        called += usize::from(matches!(verdict, "faster" | "slower"));
    }
    let all = swap.args.same;
    ensure!(called <= all / 20, "{called} of {all} call a difference");
    Ok(format!("{called} of {all} call a difference"))
}

/// Runs that are killed at some moment; of every fifth the process that restores is killed, too, and the next start
/// restores.
fn kills(swap: &Swap<'_>) -> Result<String> {
    let before = swap.state()?;
    let (mut changed, mut longest) = (0, Duration::ZERO);
    for at in 0..swap.args.kills {
        let both = at % 5 == 4;
        let moment = lab_random::at(7, at as u64) % (swap.args.kill_within * 1000);
        let (was_changed, took) = killed(swap, &before, Duration::from_millis(moment), both)
            .with_context(|| format!("kill {at} after {moment} ms"))?;
        let guard = if both { ", and what restores" } else { "" };
        println!(
            "kill {at} after {moment} ms{guard}: {}restored in {:.1} s",
            if was_changed { "changed, " } else { "" },
            took.as_secs_f64()
        );
        changed += usize::from(was_changed);
        longest = longest.max(took);
    }
    let all = swap.args.kills;
    Ok(format!(
        "{all} of {all} restored, {changed} of them were changed, longest {:.0} s",
        longest.as_secs_f64()
    ))
}

/// Kills one run; whether something was changed then, and how long restoring took.
fn killed(
    swap: &Swap<'_>,
    before: &[Value; 2],
    moment: Duration,
    both: bool,
) -> Result<(bool, Duration)> {
    let out = swap.out.join("killed").display().to_string();
    let operator = format!("kube-system/{OPERATOR}");
    let mut command = swap.command(&[WORKLOAD, "--candidate", NODENS, "--lab-image", LAB]);
    command.args(["--scale-down", &operator, "--rounds", "6", "-l", "2s", "--settle", "500ms"]);
    command.args(["--noise-rounds", "1", "--no-html", "--out", &out]);
    let log = std::fs::File::create(swap.out.join("killed.log"))?;
    let mut child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
    thread::sleep(moment);
    let was_changed = swap.state()? != *before;
    if both {
        for guard in children(&child)? {
            kill(&guard)?;
        }
    }
    child.kill()?;
    child.wait()?;
    let begun = Instant::now();
    if both && !swap.leftovers()?.is_empty() {
        // Not before the Lease has run out: the run might live on another machine.
        thread::sleep(LEASE);
        run_to_end(&mut swap.command(&["--restore"]))?;
    }
    swap.is_as_before(before)?;
    Ok((was_changed, begun.elapsed()))
}

fn children(child: &Child) -> Result<Vec<String>> {
    let id = child.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let text = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn kill(id: &str) -> Result<()> {
    let id: i32 = id.parse()?;
    let Some(id) = rustix::process::Pid::from_raw(id) else { bail!("no process {id}") };
    Ok(rustix::process::kill_process(id, rustix::process::Signal::KILL)?)
}
