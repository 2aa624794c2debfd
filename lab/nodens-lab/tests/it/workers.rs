//! A load that several processes share.

use crate::load::json;
use crate::{Echo, lab};
use lab_result::ResultFile;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const LOAD: [&str; 9] =
    ["-Q", "400", "-l", "2", "-t", "5", "--arrivals", "uniform", "--no-version"];

/// A load on `echo` with the result on standard output.
fn load(echo: &Echo, more: &[&str]) -> ResultFile {
    let arguments = [&["load", "-p", &echo.port, "--json"], &LOAD[..], more].concat();
    json(&lab(&arguments))
}

#[test]
fn two_and_four_processes_do_what_one_does() {
    let echo = Echo::start();
    let one = load(&echo, &[]);
    assert_eq!((one.counts.sent, one.counts.answered), (800, 800));
    let by_qtype = |result: &ResultFile| -> Vec<_> {
        result.by_qtype.iter().map(|group| (group.name.clone(), group.sent)).collect()
    };
    let seconds = |result: &ResultFile| -> Vec<_> {
        result.seconds.iter().take(2).map(|second| second.sent).collect()
    };
    for workers in [2, 4] {
        let sum = load(&echo, &["--workers", &workers.to_string()]);
        assert_eq!(sum.plan.hash, one.plan.hash);
        assert_eq!(sum.counts.scheduled, one.counts.scheduled);
        assert_eq!((sum.counts.sent, sum.counts.answered), (800, 800), "{:?}", sum.verdict);
        assert_eq!(sum.counts.question_octets, one.counts.question_octets);
        let sorted = |mut groups: Vec<_>| {
            groups.sort();
            groups
        };
        assert_eq!(sorted(by_qtype(&sum)), sorted(by_qtype(&one)));
        assert_eq!((seconds(&sum), sum.plan.clients), (seconds(&one), one.plan.clients));
        let planned = |result: &ResultFile| -> Vec<u64> {
            result.rate.steps.iter().take(20).map(|step| step[0]).collect()
        };
        assert_eq!(planned(&sum), planned(&one), "the same schedule");
        assert_eq!(sum.response.recorded(), 800);
        assert_eq!((sum.workers.len(), sum.threads.len()), (workers, workers));
        let clocks = sum.workers.iter().map(|worker| worker.clock.unwrap());
        let close =
            |clock: lab_result::ClockOffset| clock.offset_ns.unsigned_abs() <= clock.within_ns;
        assert!(clocks.into_iter().all(close), "{:?}", sum.workers);
    }
}

#[test]
fn workers_that_are_started_one_by_one_start_together_and_their_lines_are_merged() {
    let echo = Echo::start();
    let port = crate::load::closed_port();
    let desk = format!("http://127.0.0.1:{port}/0123456789abcdef");
    let folder = tempfile::tempdir().unwrap();
    let begin = |index: usize| {
        let worker = format!("{index}/3");
        let arguments = [&["load", "-p", &echo.port], &LOAD[..], &["--worker", &worker]].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodens-lab"));
        command.args(arguments).args(["--start-from", &desk]).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    // The one that tells the start comes last.
    let workers: Vec<_> = [2, 1, 0].map(begin).into_iter().collect();
    let mut log = Vec::new();
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert_eq!(output.stdout.iter().filter(|octet| **octet == b'\n').count(), 1);
        log.extend(output.stdout);
    }
    let (log_file, sum_file) = (folder.path().join("results"), folder.path().join("sum.json"));
    std::fs::write(&log_file, &log).unwrap();
    let (results, sum) = (log_file.to_str().unwrap(), sum_file.to_str().unwrap());
    let output = lab(&["merge", results, "-o", sum]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("3 workers started within"), "{text}");
    let whole = lab_result::read(Path::new(sum)).unwrap();
    assert_eq!((whole.counts.sent, whole.counts.answered), (800, 800));
    // Without one of them, the sum says nothing about the server.
    let lines = String::from_utf8(log).unwrap();
    let (_, others) = lines.split_once('\n').unwrap();
    std::fs::write(&log_file, others).unwrap();
    let output = lab(&["merge", results, "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let whole = json(&output);
    assert_eq!(whole.verdict.invalid_because[0], "worker 2 of 3 has no result");
    let refused = lab(&["merge", results, results]);
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("worker 1 has two results"), "{errors}");
}

#[test]
fn a_worker_that_is_killed_makes_the_whole_invalid() {
    let echo = Echo::start();
    let arguments =
        [&["load", "-p", &echo.port, "--json"], &LOAD[..], &["--workers", "2"]].concat();
    let parent = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let child = (0..1_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let ids = std::fs::read_to_string(&children).unwrap_or_default();
        let ids: Vec<_> = ids.split_whitespace().map(str::to_owned).collect();
        ids.get(1).cloned()
    });
    // The start is at least a second after that.
    std::thread::sleep(std::time::Duration::from_millis(1_800));
    Command::new("kill").args(["-KILL", &child.unwrap()]).status().unwrap();
    let output = parent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let whole = json(&output);
    let why = &whole.verdict.invalid_because[0];
    assert!(why.starts_with("worker 1 of 2 has no result: signal: 9"), "{why}");
    assert_eq!(whole.workers.len(), 1);
}

#[test]
fn a_worker_with_a_result_exits_with_0_and_the_sum_is_judged() {
    let start = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    let start = jiff::Timestamp::try_from(start).unwrap().to_string();
    // Nothing listens there: the run is none, and no requirement is met.
    let port = crate::load::closed_port();
    let arguments = ["load", "-p", &port, "-Q", "100", "-l", "1", "-t", "0.2", "--no-version"];
    let more = ["--worker", "0/1", "--start-at", &start, "--require", "loss=0"];
    let output = lab(&[&arguments[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result");
    std::fs::write(&file, &output.stdout).unwrap();
    let merged = lab(&["merge", file.to_str().unwrap()]);
    assert_eq!(merged.status.code(), Some(4), "{merged:?}");
}

#[test]
fn what_cannot_be_shared_is_refused() {
    for (arguments, wanted) in [
        (&["--workers", "0"][..], "invalid value"),
        (&["--workers", "2", "--slo", "loss=0"], "cannot be used with"),
        (&["--workers", "2", "--baseline"], "cannot be used with"),
        (&["--workers", "2", "-d", "-"], "standard input gives only once"),
        (&["--workers", "4", "-c", "3"], "4 workers need at least 4 clients"),
        (&["--worker", "0/2"], "expected --start-from"),
        (&["--worker", "2/2", "--start-at", "2020-01-01T00:00:00Z"], "expected a worker"),
        (
            &["--worker", "2", "--start-at", "2020-01-01T00:00:00Z"],
            "JOB_COMPLETION_INDEX is not set",
        ),
        (&["--worker", "0/2", "--start-from", "https://a:1"], "expected http://HOST:PORT/TOKEN"),
        (&["--worker", "0/2", "--start-from", "http://127.0.0.1:1"], "HOST:PORT/TOKEN"),
        (&["--start-at", "soon"], "invalid value"),
        (&["--start-at", "2020-01-01T00:00:00Z"], "the common start was"),
    ] {
        let echo = crate::load::closed_port();
        let output = lab(&[&["load", "-p", &echo, "--no-out", "--no-version"], arguments].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(wanted), "{arguments:?}: {errors}");
    }
    let manifest = lab(&["load", "-Q", "1M", "--workers", "4", "--print-job", "lab:1"]).stdout;
    let manifest = String::from_utf8(manifest).unwrap();
    assert!(manifest.contains("completions: 4") && manifest.contains("- \"1M\""), "{manifest}");
}

/// A load of which a query has arrived, and which has a group of processes of its own.
fn begun(more: &[&str]) -> std::process::Child {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let child = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-p", &port, "-Q", "200", "-l", "600", "-t", "60", "--json"])
        .args(["--no-version"])
        .args(more)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    server.recv(&mut [0; 512]).unwrap();
    // The port stays its own: a closed one would be a refusal.
    std::mem::forget(server);
    child
}

fn interrupt(process: &str) {
    assert!(Command::new("kill").args(["-INT", "--", process]).status().unwrap().success());
}

#[test]
fn ctrl_c_of_a_terminal_leaves_the_result_of_all_workers() {
    let child = begun(&["--workers", "3"]);
    // A terminal sends it to every process of the group.
    interrupt(&format!("-{}", child.id()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let result = json(&output);
    assert!(result.run.interrupted && result.counts.sent > 0, "{:?}", result.verdict);
    assert_eq!(result.workers.len(), 3, "{:?}", result.verdict);
}

#[test]
fn a_request_to_end_that_comes_twice_is_one() {
    let child = begun(&[]);
    let process = child.id().to_string();
    // As `timeout` does it: to the process, and to its group.
    interrupt(&process);
    std::thread::sleep(std::time::Duration::from_millis(5));
    interrupt(&process);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(json(&output).run.interrupted);
}
