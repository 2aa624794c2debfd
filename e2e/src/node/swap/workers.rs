//! The Indexed Job that `nodens-lab load --print-job` writes: its Pods share a load, `nodens-lab merge` adds it up.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{LAB, Swap};
use crate::node::tools::output as run_to_end;

const WORKERS: u64 = 2;
/// The name of the Job, its Service and its Pods.
const JOB: &str = "nodens-lab";
/// How far apart the clocks of two Pods of one machine may seem, beyond what the measurement is off by.
const CLOCK_MAX_NS: u64 = 1_000_000;

/// Runs the Job as its first lines say, and adds its results up.
pub(super) fn run(swap: &Swap<'_>) -> Result<String> {
    let workers = WORKERS.to_string();
    let arguments = [
        "load",
        "-s",
        "kube-dns.kube-system",
        "-Q",
        "2000",
        "-l",
        &swap.args.length,
        "--workers",
        &workers,
        "--print-job",
        LAB,
    ];
    let manifest = run_to_end(Command::new(&swap.lab).args(arguments))?;
    let path = swap.node.write("job.yaml", &manifest)?.display().to_string();
    swap.node.kubectl(&["apply", "-f", &path])?;
    let outcome = collected(swap);
    swap.node.kubectl(&["delete", "-f", &path, "--wait"])?;
    let results = swap.node.write("results", &outcome?)?;
    let mut merge = Command::new(&swap.lab);
    merge.arg("merge").arg(&results);
    println!("{}", shown(merge.output().context("nodens-lab merge")?)?);
    // Its exit code is that of the load: a busy machine makes it INVALID, and that is said.
    let merged = shown(merge.arg("--json").output().context("nodens-lab merge")?)?;
    judge(&serde_json::from_str(&merged).context("the sum of the results")?)
}

/// What the Pods wrote.
fn collected(swap: &Swap<'_>) -> Result<String> {
    let job = format!("job/{JOB}");
    let label = format!("job-name={JOB}");
    let wait = ["wait", "--for=condition=complete", "--timeout=240s", &job];
    if let Err(error) = swap.node.kubectl(&wait) {
        let pods = swap.node.kubectl(&["describe", "pods", "-l", &label])?;
        let logs = swap.node.kubectl(&["logs", "-l", &label, "--tail=20"]);
        bail!("{error:#}\n{pods}\n{}", logs.unwrap_or_default());
    }
    swap.node.kubectl(&["logs", "-l", &label, "--tail=-1"])
}

fn shown(output: std::process::Output) -> Result<String> {
    let text = String::from_utf8(output.stdout)?;
    ensure!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// Whether the sum is that of all workers, which began together and compared their clocks.
fn judge(merged: &Value) -> Result<String> {
    let number = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_i64);
    let workers = merged.pointer("/workers").and_then(Value::as_array).context("no workers")?;
    ensure!(workers.len() as u64 == WORKERS, "{} workers have a result", workers.len());
    let (mut sent, mut clocks) = (0, Vec::new());
    for worker in workers {
        let part = number(worker, "/sent").unwrap_or_default();
        ensure!(part > 0, "a worker sent nothing: {worker}");
        sent += part;
        let offset = number(worker, "/clock/offset_ns").context("a clock was not compared")?;
        let within = number(worker, "/clock/within_ns").context("a clock was not compared")?;
        ensure!(
            offset.unsigned_abs() <= within.unsigned_abs() + CLOCK_MAX_NS,
            "clocks of one machine are {offset} ns apart, to {within} ns"
        );
        clocks.push(format!("{:.0} ± {:.0} µs", offset as f64 / 1e3, within as f64 / 1e3));
    }
    let counted = number(merged, "/counts/sent").context("no counts")?;
    ensure!(counted == sent, "the workers sent {sent}, but {counted} are counted");
    let answered = number(merged, "/counts/answered").unwrap_or_default();
    ensure!(answered > 0, "nothing was answered");
    let rcodes = answers(merged)?;
    let valid = merged.pointer("/verdict/invalid_because").context("no verdict")?;
    Ok(format!(
        "{answered} of {sent} queries answered: {rcodes}, clocks {}, INVALID because of {valid}",
        clocks.join(" and ")
    ))
}

/// The answers by RCODE; an error if the server or an upstream failed: both know every name.
fn answers(result: &Value) -> Result<String> {
    let rcodes = result.pointer("/rcodes").and_then(Value::as_object).context("no RCODEs")?;
    let told: Vec<String> =
        rcodes.iter().map(|(rcode, count)| format!("{rcode} {count}")).collect();
    let told = told.join(", ");
    let failed = rcodes.keys().any(|rcode| !["NOERROR", "NXDOMAIN"].contains(&rcode.as_str()));
    ensure!(!failed, "queries were answered with failures: {told}");
    Ok(told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sum_with_failed_answers_is_refused() {
        let worker = json!({"sent": 50, "clock": {"offset_ns": -200, "within_ns": 300}});
        let merged = |rcodes: Value| {
            json!({
                "workers": [worker, worker],
                "counts": {"sent": 100, "answered": 99},
                "rcodes": rcodes,
                "verdict": {"invalid_because": []},
            })
        };
        let told = judge(&merged(json!({"NOERROR": 60, "NXDOMAIN": 39}))).unwrap();
        assert!(told.starts_with("99 of 100 queries answered: NOERROR 60, NXDOMAIN 39"), "{told}");
        let error = judge(&merged(json!({"NOERROR": 60, "SERVFAIL": 39}))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "queries were answered with failures: NOERROR 60, SERVFAIL 39"
        );
    }
}
