//! Trials of settings, on an echo in network namespaces that the trial makes. They need root, as every
//! use of namespaces does.

use super::lab;
use lab_result::tuning::{self, TuningFile, Verdict};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// An echo whose answers take a time that is a setting.
const SERVER: &str =
    concat!(env!("CARGO_BIN_EXE_nodens-lab"), " echo --listen 0.0.0.0:{port} --latency {wait}");

fn arguments<'a>(folder: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let always = ["tune", "--server-cmd", SERVER, "-o", folder.to_str().unwrap()];
    let load = ["--load", "-Q 400 -c 4 -w uniform --count 10", "-l", "200ms", "--warm-up", "0"];
    let plan = ["--primary", "p50", "--retries", "0", "--permutations", "499"];
    [&always[..], &load, &plan, more].concat()
}

fn tune(folder: &Path, more: &[&str]) -> Output {
    lab(&arguments(folder, more))
}

fn result(folder: &Path) -> TuningFile {
    tuning::read(&folder.join("result.json")).unwrap()
}

/// The namespaces that processes of this program have made and not removed.
fn namespaces(process: u32) -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mine = format!("nodens-lab-{process}-");
    text.lines().filter(|line| line.starts_with(&mine)).map(str::to_owned).collect()
}

#[test]
fn a_setting_that_matters_is_found_and_confirmed_and_one_that_does_not_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--knobs", "tcp_sack,tcp_fin_timeout", "--knob", "server:wait=1ms,4ms"];
    let output = tune(
        folder.path(),
        &[&settings[..], &["--blocks", "3", "--baselines", "1", "--pairs-max", "8"]].concat(),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let file = result(folder.path());
    let knob = |name: &str| file.knobs.iter().find(|knob| knob.knob == name).unwrap();
    let wait = knob("server:wait");
    // A busy machine may make the trial INVALID, which is said, and is no failure of it. Fresh data that is
    // disturbed confirms nothing.
    let disturbed = wait.because.iter().any(|why| why.contains("are disturbed"));
    let (verdict, said) = match disturbed && !file.invalid_because.is_empty() {
        false => (Verdict::Worse, "of 3 settings: worse: server:wait"),
        true => (Verdict::Unconfirmed, "of 3 settings: not confirmed: server:wait"),
    };
    assert_eq!(wait.verdict, verdict, "{text}");
    let effect = wait.effect.as_ref().unwrap();
    // ln 4 on a quiet machine; what else takes time on a busy one makes the ratio smaller.
    assert!(effect.named == Some(1) && effect.estimate > 0.3, "{effect:?}");
    assert!(wait.confirmation.as_ref().unwrap().pairs >= 6);
    for other in ["tcp_sack", "tcp_fin_timeout"] {
        assert_eq!(knob(other).verdict, Verdict::NotShown, "{other}: {text}");
    }
    // Three settings and fold-over: 8 combinations and a baseline in each of 3 blocks.
    let screening = file.measurements.iter().filter(|one| one.phase == "screening");
    assert_eq!((file.plan.runs, screening.count()), (8, 27));
    assert!(text.contains(said), "{text}");
    let page = std::fs::read_to_string(folder.path().join("result.html")).unwrap();
    assert!(page.contains("Effects on p50") && page.contains("server:wait"));
    let code = output.status.code();
    assert!(code == Some(0) || (code == Some(3) && text.contains("INVALID")), "{code:?}: {text}");
}

#[test]
fn a_trial_that_is_interrupted_has_its_results_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--knob", "server:wait=1ms,2ms", "--knobs", "tcp_sack", "--blocks", "200"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(arguments(folder.path(), &more))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while namespaces(child.id()).len() < 2 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(namespaces(child.id()).len(), 2, "one for the server and one for the load");
    std::thread::sleep(Duration::from_secs(4));
    let id = child.id();
    Command::new("kill").args(["-INT", &id.to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(namespaces(id).is_empty(), "namespaces are left");
    let file = result(folder.path());
    assert!(file.interrupted && !file.measurements.is_empty());
}

#[test]
fn a_plan_changes_nothing_and_says_all_and_the_host_needs_a_yes() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--knobs", "tcp_sack", "--knob", "server:wait=1ms,2ms"];
    let output = tune(folder.path(), &[&settings[..], &["--plan"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{:?}", String::from_utf8(output.stderr));
    for part in
        ["2 settings", "8 combinations", "network namespaces", "net.ipv4.tcp_sack", "   6: "]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!folder.path().join("plan.json").exists());
    let before = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap();
    let output = tune(folder.path(), &[&settings[..], &["--host"]].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("these settings of this machine change"), "{text}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("--yes"));
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap(), before);
}

#[test]
fn what_cannot_be_tried_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (more, word) in [
        (&["--knobs", "tcp_sak"][..], "tcp_sack"),
        (&[], "no settings: expected --knobs"),
        (&["--knobs", "tcp_sack", "--knob", "tcp_sack=1,0"], "`tcp_sack` is given twice"),
        (&["--knob", "sysctl:net.ipv4.no_such_thing=0,1"], "no_such_thing"),
        (&["--knob", "server:other=1,2"], "{other}"),
        (&["--knobs", "tcp_sack", "--primary", "p98"], "expected one of p50, p99"),
        (&["--knobs", "tcp_sack", "--primary", "qps"], "a load on a schedule"),
        (&["--knobs", "tcp_sack", "--load", "-s 127.0.0.1"], "--load"),
        (&["--knobs", "tcp_sack", "-l", "1ms"], "at least 200ms"),
        (&["--knobs", "tcp_sack", "--permutations", "18"], "expected at least 19"),
        (&["--knobs", "tcp_sack", "--pairs-max", "5"], "expected at least 6, or 0"),
    ] {
        let words: Vec<&str> = arguments(folder.path(), &[]);
        // What is given twice replaces the default of these tests.
        let replaced = |word: &&str| more.iter().any(|more| more.starts_with('-') && more == word);
        let mut kept = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if replaced(&word) {
                words.next();
            } else {
                kept.push(word);
            }
        }
        kept.extend(more);
        let output = lab(&kept);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(word), "{more:?}: {errors}");
    }
    assert!(!folder.path().join("plan.json").exists());
}

#[test]
fn a_self_test_counts_what_is_named() {
    let output = lab(&["tune", "--self-test", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for part in ["three of 30", "none of 30", "named a false one in 0 of 2 (95 % interval"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}
