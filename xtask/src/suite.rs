//! `cargo xtask test`: all tests of the workspace, and those that failed once more alone.
//!
//! Hundreds of tests start servers, measure waits and kill processes, all on a few shared CPUs. What fails only beside the
//! others is said at the end, with its name, and does not fail the run; what fails alone as well does.

mod report;

use report::{Failed, Report};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// More failures than this are no matter of a busy machine: nothing is run again.
const AGAIN_MAX: usize = 10;
/// How often a test that failed is run alone before it has failed for good.
const TRIES: usize = 2;

/// The entry point of the task: further arguments are those of `cargo test`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<bool> {
    let mut first = vec!["--no-fail-fast".to_owned()];
    first.extend(if args.is_empty() { vec!["--workspace".to_owned()] } else { args.to_vec() });
    let (ended_well, report) = cargo_test(&first)?;
    let again = report.failed();
    if !ended_well && (again.is_empty() || again.len() > AGAIN_MAX || report.has_crashed()) {
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
    for _ in 0..TRIES {
        let (ended_well, report) = cargo_test(&test.arguments())?;
        // A name that no test has would pass as well.
        if ended_well && report.passed() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
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
    let mut report = Report::default();
    let (mut lines, mut line, mut out) =
        (BufReader::new(reader), Vec::new(), std::io::stdout().lock());
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        out.write_all(report.take(&text).as_bytes())?;
        line.clear();
    }
    Ok((child.wait()?.success(), report))
}
