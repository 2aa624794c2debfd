//! `nodens-lab ab` on echoes whose difference is known.

use crate::{Echo, lab};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

const LAB: &str = env!("CARGO_BIN_EXE_nodens-lab");

/// Short blocks that are not measured again: what the machine does must not matter here.
const SHORT: [&str; 10] =
    ["--rates", "1500", "--block", "200ms", "--warm-up", "0s", "--pairs", "6", "--retries", "0"];

fn ab(folder: &Path, arguments: &[&str]) -> Output {
    let mut all = vec!["ab", "--out", folder.to_str().unwrap()];
    all.extend(SHORT);
    all.extend(arguments);
    lab(&all)
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn result(folder: &Path) -> Value {
    serde_json::from_str(&read(folder, "result.json")).unwrap()
}

fn echo(injection: &str) -> String {
    format!("{LAB} echo --listen 127.0.0.1:{{port}} {injection}")
}

#[test]
fn what_the_children_of_a_server_use_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let whole = format!("sh -c '{} & wait'", echo(""));
    let output = ab(
        folder.path(),
        &["--a-cmd", &whole, "--b-cmd", &whole, "--noise-pairs", "0", "--no-html", "--group", "6"],
    );
    let result = result(folder.path());
    let loaded = |block: &&Value| block["load"] != "idle";
    for block in result["blocks"].as_array().unwrap().iter().filter(loaded) {
        // A shell that waits uses nothing; an echo of 300 queries does.
        assert!(block["cpu_ns"].as_u64().unwrap() > 100_000, "{block} {output:?}");
        assert!(block["memory"].as_u64().unwrap() > 1_000_000, "{block}");
    }
}

#[test]
fn a_much_worse_server_is_found_and_every_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (echo("--loss 0%"), echo("--loss 70%"));
    let mut arguments = vec!["--a-cmd", &a, "--b-cmd", &b, "--primary", "loss", "--timeout", "1s"];
    arguments.extend(["--group", "3", "--noise-pairs", "2", "--ci"]);
    let table = folder.path().join("blocks.csv");
    let export = format!("csv={}", table.display());
    arguments.extend(["--export", &export]);
    let output = ab(folder.path(), &arguments);
    let result = result(folder.path());
    assert_eq!(crate::schema::Schema::of("comparison").faults(&result), [""; 0]);
    assert!(read(folder.path(), "result.html").starts_with("<!DOCTYPE html>"));
    let (rows, blocks) = (read(folder.path(), "blocks.csv"), result["blocks"].as_array().unwrap());
    assert_eq!(rows.lines().count(), 1 + blocks.len());
    let loss = &result["findings"][0];
    let (metric, verdict) = (&loss["cell"]["metric"], &loss["verdict"]);
    assert_eq!((metric, verdict), (&"loss".into(), &"slower".into()), "{loss}");
    assert_eq!((loss["pairs"].as_u64(), loss["p"].as_f64()), (Some(6), Some(2.0 / 64.0)));
    // Worse; unless the machine was so busy that the run is INVALID.
    let invalid = !result["invalid_because"].as_array().unwrap().is_empty();
    assert_eq!(output.status.code(), Some(if invalid { 2 } else { 1 }), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        (invalid || told.contains("\nB (nodens-lab) is worse than")) && told.contains("plan "),
        "{told}"
    );
    assert!(read(folder.path(), "report.md").contains("Average CPU (mCores)"));
    assert!(read(folder.path(), "junit.xml").contains("<failure "));
    let plan: Value = serde_json::from_str(&read(folder.path(), "plan.json")).unwrap();
    assert_eq!(result["plan"], plan, "the plan is what was written before");
    let blocks = result["blocks"].as_array().unwrap();
    let loaded = |block: &&Value| block["load"] != "idle" && block["phase"] == "comparison";
    let first = |side: &str| {
        let mine = |block: &&Value| block["side"] == side && block["first"] == true;
        blocks.iter().filter(loaded).filter(mine).count()
    };
    assert_eq!(first("a") + first("b"), 6, "a coin decides for each pair");
    for pair in 0..6 {
        let plans = blocks.iter().filter(loaded).filter(|block| block["pair"] == pair);
        let plans: Vec<_> = plans.map(|block| block["plan"].as_str().unwrap()).collect();
        assert!(plans.len() == 2 && plans[0] == plans[1], "both sides are asked the same");
    }
    let starts = |side: &str| {
        let mine = blocks.iter().filter(loaded).filter(|block| block["side"] == side);
        let starts: std::collections::BTreeSet<_> =
            mine.map(|block| block["incarnation"].as_u64().unwrap()).collect();
        starts.len()
    };
    assert_eq!((starts("a"), starts("b")), (2, 2), "three pairs for each start");
    assert!(blocks.iter().all(|block| block["cpu_ns"].as_u64().is_some()));
}

#[test]
fn pods_are_found_by_kubectl_and_asked_at_their_addresses() {
    let (folder, echo) = (tempfile::tempdir().unwrap(), Echo::start());
    let kubectl = folder.path().join("kubectl");
    let pods = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": [{
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "coredns-1", "namespace": "kube-system" },
        "spec": { "containers": [{ "name": "coredns", "image": "coredns:1", "ports": [
            { "name": "dns", "protocol": "UDP", "containerPort": echo.port.parse::<u16>().unwrap() },
        ] }] },
        "status": { "phase": "Running", "podIP": "127.0.0.1",
            "conditions": [{ "type": "Ready", "status": "True" }] },
    }] });
    std::fs::write(folder.path().join("pods.json"), pods.to_string()).unwrap();
    // Answers what kubectl would, to the arguments it would need.
    let script = "#!/bin/sh\n\
        [ \"$*\" = \"--context east --namespace kube-system get pods --selector k8s-app=kube-dns \
        --output json\" ] || { echo \"unexpected: $*\" >&2; exit 1; }\n\
        cat \"$(dirname \"$0\")/pods.json\"\n";
    std::fs::write(&kubectl, script).unwrap();
    std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let address = format!("127.0.0.1:{}", echo.port);
    let mut arguments = vec!["--kubectl", kubectl.to_str().unwrap(), "--b", &address];
    arguments.extend(["--a-k8s", "kube-system/k8s-app=kube-dns", "--a-context", "east"]);
    arguments.extend(["--noise-pairs", "0", "--ci"]);
    let output = ab(folder.path(), &arguments);
    assert_ne!(output.status.code(), Some(4), "{output:?}");
    let result = result(folder.path());
    let server = result["a"]["server"].as_str().unwrap();
    assert!(server.contains("coredns-1 at 127.0.0.1:") && server.contains("coredns:1"), "{server}");
    assert!(result["findings"].as_array().unwrap().iter().any(|f| f["cell"]["metric"] == "p50"));
    let omitted = result["omitted"].to_string();
    assert!(omitted.contains("CPU time is not known"), "{omitted}");
    let mut arguments = arguments.clone();
    arguments.extend(["--b-k8s", "x"]);
    assert_eq!(ab(folder.path(), &arguments).status.code(), Some(4), "two servers for B");
}

#[test]
fn what_cannot_be_compared_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let error = |arguments: &[&str]| {
        let output = ab(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let sides = ["--a", "127.0.0.1:9", "--b", "127.0.0.1:9"];
    let with = |more: &[&str]| error(&[&sides[..], more].concat());
    assert!(error(&[]).contains("--a, --a-cmd and --a-k8s"));
    assert!(with(&["--internal", "/nonexistent/x"]).contains("neither a file nor a suffix"));
    assert!(with(&["--internal", "intrenal.txt"]).contains("there is no file `intrenal.txt`"));
    let short = lab(&[&["ab", "--block", "1ms"], &sides[..]].concat());
    assert!(String::from_utf8_lossy(&short.stderr).contains("at least 100ms"), "{short:?}");
    assert!(with(&["--margin", "p50=0.5%"]).contains("buckets"));
    assert!(with(&["--primary", "p51"]).contains("expected one of p50"));
    let dead = ab(folder.path(), &sides);
    assert_eq!(dead.status.code(), Some(4), "{dead:?}");
    assert!(String::from_utf8_lossy(&dead.stderr).contains("nothing listens at 127.0.0.1:9"));
    let echo = Echo::start();
    let address = format!("127.0.0.1:{}", echo.port);
    let ends = error(&["--a-cmd", "sh -c 'echo the reason {port}; exit 1'", "--b", &address]);
    assert!(ends.contains("the reason"), "{ends}");
    assert!(error(&["--a", "127.0.0.1:9", "--b-cmd", "nodens"]).contains("{port}"));
    assert_eq!(lab(&["ab", "--ci", "--paris", "9"]).status.code(), Some(4), "not `inconclusive`");
    assert_eq!(lab(&["swap", "--ci", "--paris", "9"]).status.code(), Some(4));
    let workload = ["swap", "a/deployment/b", "--candidate", "c", "--kubeconfig", "/nowhere"];
    assert_eq!(lab(&workload).status.code(), Some(1));
    assert_eq!(lab(&[&workload[..], &["--ci"]].concat()).status.code(), Some(4), "not `worse`");
    assert_eq!(lab(&["ab", "--paris", "9"]).status.code(), Some(2));
}

#[test]
fn a_self_test_counts_its_comparisons() {
    let arguments =
        ["ab", "--self-test", "2", "--pairs", "6", "--block", "150ms", "--retries", "0"];
    let output = lab(&arguments);
    let told = String::from_utf8(output.stdout).unwrap();
    for metric in ["p50", "cpu"] {
        let line = told.lines().find(|line| line.starts_with(metric)).unwrap();
        assert!(line.contains("of 2 comparisons") && line.contains("interval"), "{told}");
    }
}

#[test]
fn a_sequential_comparison_ends_with_the_pair_that_decides_it() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (echo("--latency 1ms"), echo("--latency 60ms"));
    let mut arguments = vec!["--a-cmd", &a, "--b-cmd", &b, "--group", "30", "--noise-pairs", "0"];
    arguments.extend(["--sequential", "--primary", "p50"]);
    let mut all = vec!["ab", "--out", folder.path().to_str().unwrap()];
    all.extend(SHORT.iter().map(|word| if *word == "6" { "30" } else { *word }));
    all.extend(arguments);
    let told = String::from_utf8(lab(&all).stdout).unwrap();
    let result = result(folder.path());
    assert_eq!(crate::schema::Schema::of("comparison").faults(&result), [""; 0]);
    let p50 = &result["findings"][0];
    assert_eq!(
        (&p50["verdict"], &p50["method"]),
        (&"slower".into(), &"confidence sequence".into())
    );
    let invalid = !result["invalid_because"].as_array().unwrap().is_empty();
    // A machine so busy that no verdict stands goes on to the end.
    let pairs = if invalid { 30 } else { result["decided_after"].as_u64().unwrap() };
    assert!(p50["pairs"] == pairs && pairs >= 7, "{p50}");
    assert_eq!(told.contains(&format!("decided after {pairs} pairs of at most 30")), pairs < 30);
    let last = result["blocks"].as_array().unwrap().last().unwrap()["pair"].as_u64();
    assert_eq!(last, Some(pairs - 1), "nothing is measured after the decision");
    assert!(read(folder.path(), "result.html").contains("read after each"));
    assert!(p50["interval"][0].as_f64().unwrap() > 0.0, "{p50}");
}

#[test]
fn in_a_duet_both_servers_are_loaded_at_the_same_time_and_change_places() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (echo("--latency 1ms"), echo("--latency 60ms"));
    let mut arguments = vec!["--a-cmd", &a, "--b-cmd", &b, "--group", "6", "--noise-pairs", "0"];
    arguments.extend(["--duet", "--primary", "p50"]);
    let output = ab(folder.path(), &arguments);
    if cpus < 2 {
        assert!(String::from_utf8_lossy(&output.stderr).contains("at least two CPUs"));
        return;
    }
    let result = result(folder.path());
    assert_eq!(crate::schema::Schema::of("comparison").faults(&result), [""; 0]);
    let p50 = &result["findings"][0];
    assert_eq!((&p50["verdict"], p50["pairs"].as_u64()), (&"slower".into(), Some(6)), "{p50}");
    let blocks = result["blocks"].as_array().unwrap();
    let of = |pair: u64, side: &str| {
        let mine = |block: &&Value| {
            block["pair"] == pair && block["side"] == side && block["load"] != "idle"
        };
        blocks.iter().find(mine).unwrap()
    };
    let time = |block: &Value, name: &str| block[name].as_u64().unwrap();
    for pair in 0..6 {
        let (a, b) = (of(pair, "a"), of(pair, "b"));
        let end = |block: &Value| time(block, "started_unix_ns") + time(block, "elapsed_ns");
        let (begin_a, begin_b) = (time(a, "started_unix_ns"), time(b, "started_unix_ns"));
        assert!(begin_a < end(b) && begin_b < end(a), "one after the other: {a} {b}");
        assert!(a["first"] != b["first"] && a["plan"] == b["plan"]);
    }
    let firsts = (0..6).filter(|pair| of(*pair, "a")["first"] == true).count();
    assert!((1..6).contains(&firsts), "a coin decides who has which half");
    let rules = result["plan"]["rules"].to_string();
    assert!(rules.contains("the second place: the server on CPU"), "{rules}");
    assert!(result["costs"].as_array().unwrap().is_empty(), "what a server costs alone");
    let report = read(folder.path(), "report.md");
    assert!(report.contains("A beside B") && !report.contains("Average CPU"), "{report}");
    let no_rates = lab(&["ab", "--duet", "--a", "127.0.0.1:9", "--b", "127.0.0.1:9"]);
    assert!(String::from_utf8_lossy(&no_rates.stderr).contains("--rates"), "{no_rates:?}");
}

#[test]
fn a_self_test_says_how_many_pairs_sequential_duets_took() {
    let mut arguments = vec!["ab", "--self-test", "1", "--pairs", "7", "--retries", "0"];
    arguments.push("--sequential");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        arguments.push("--duet");
    }
    let output = lab(&arguments);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("of 1 comparisons took all 7"), "{told}{:?}", output.stderr);
}
