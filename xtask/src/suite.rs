//! `cargo xtask test`: all tests of the workspace, and those that failed once more alone.
//!
//! Hundreds of tests start servers, measure waits and kill processes, all on a few shared CPUs. What fails only beside the
//! others is said at the end, with its name, and does not fail the run; what fails alone as well does.

mod report;

use report::{Failed, Report};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// More failures than this are no matter of a busy machine: nothing is run again.
const AGAIN_MAX: usize = 5;
/// How long output is awaited after the end of cargo: servers that a crashed test left running may hold the pipe.
const OUTPUT_MAX: Duration = Duration::from_secs(2);

/// The entry point of the task: further arguments are those of `cargo test`. With options other than `-p` nothing is run
/// again, since it would run without them.
pub(crate) fn run(args: &[String]) -> anyhow::Result<bool> {
    let mut first = vec!["--no-fail-fast".to_owned()];
    first.extend(if args.is_empty() { vec!["--workspace".to_owned()] } else { args.to_vec() });
    let (ended_well, report) = cargo_test(&first)?;
    let again = report.failed();
    let is_plain = args.iter().all(|arg| arg == "-p" || !arg.starts_with('-'));
    let may_run_again = is_plain && !report.has_crashed() && (1..=AGAIN_MAX).contains(&again.len());
    if !ended_well && !may_run_again {
        println!("{} passed, {} failed", report.passed(), again.len().max(1));
        return Ok(false);
    }
    let (mut busy, mut failed) = (Vec::new(), Vec::new());
    for test in again {
        println!("== again, alone: {test}");
        if passes_alone(&test)? { busy.push(test) } else { failed.push(test) }
    }
    for test in &busy {
        println!("failed beside the other tests and passed alone: {test}");
    }
    for test in &failed {
        println!("failed, alone too: {test}");
    }
    println!("{} passed, {} failed", report.passed() + busy.len() as u64, failed.len());
    Ok(failed.is_empty())
}

fn passes_alone(test: &Failed) -> anyhow::Result<bool> {
    let (ended_well, report) = cargo_test(&test.arguments())?;
    // A name that no test has would pass as well.
    Ok(ended_well && report.passed() > 0)
}

/// Runs `cargo test`, shows what it prints and reads it.
fn cargo_test(args: &[String]) -> anyhow::Result<(bool, Report)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let (reader, writer) = std::io::pipe()?;
    // Both in one pipe: which program a line is of is told on the other stream.
    let mut command = Command::new(cargo);
    command.arg("test").args(args).env("CARGO_TERM_COLOR", "never").stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    drop(command);
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || send_lines(reader, &sender));
    let (mut report, mut out) = (Report::default(), std::io::stdout().lock());
    let mut until = None;
    while until.is_none_or(|until| Instant::now() < until) {
        match lines.recv_timeout(OUTPUT_MAX) {
            Ok(line) => out.write_all(report.take(&String::from_utf8_lossy(&line)).as_bytes())?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if until.is_none() && child.try_wait()?.is_some() {
            until = Some(Instant::now() + OUTPUT_MAX);
        }
    }
    Ok((child.wait()?.success(), report))
}

/// Sends each line as it comes, with its end.
fn send_lines(reader: impl Read, lines: &Sender<Vec<u8>>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        if lines.send(std::mem::take(&mut line)).is_err() {
            return;
        }
    }
}
