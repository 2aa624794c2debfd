//! `cargo xtask test`: all tests of the workspace, and those that failed once more alone.
//!
//! Hundreds of tests start servers, measure waits and kill processes, all on a few shared CPUs. What fails only beside the
//! others is said at the end, with its name, and does not fail the run; what fails alone as well does.

mod beside;
mod programs;
mod report;

use programs::Program;
use report::Report;

/// More failures than this are no matter of a busy machine: nothing is run again.
const AGAIN_MAX: usize = 12;

/// A test that failed, and the program that it is part of.
struct Failed<'p> {
    program: &'p Program,
    name: String,
}

/// The entry point of the task: further arguments are those of `cargo test`, after `--` those of the test programs.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let dashes = arguments.iter().position(|argument| argument == "--");
    let (selection, filter) = arguments.split_at(dashes.unwrap_or(arguments.len()));
    let filter = filter.get(1..).unwrap_or_default();
    let mut selection = selection.to_vec();
    if selection.is_empty() {
        selection.push("--workspace".to_owned());
    }
    let Some(mut programs) = programs::build(&selection)? else {
        println!("0 passed, 1 failed");
        return Ok(false);
    };
    // Other options may leave out examples, or libraries, without which cargo refuses to look for examples.
    if filter.is_empty() && selection == ["--workspace"] {
        programs.push(programs::examples());
    }
    let reports = beside::run(&programs, filter)?;
    verdict(&programs, &reports)
}

/// Says what failed, after another run of each test that did.
fn verdict(programs: &[Program], reports: &[Report]) -> anyhow::Result<bool> {
    let passed: u64 = reports.iter().map(Report::passed).sum();
    let crashed = reports.iter().filter(|report| report.has_crashed()).count();
    let again = programs.iter().zip(reports).flat_map(|(program, report)| {
        report.failed().iter().map(move |name| Failed { program, name: name.clone() })
    });
    let again: Vec<_> = again.collect();
    if crashed > 0 || again.len() > AGAIN_MAX {
        let ended_early = programs.iter().zip(reports).filter(|(_, report)| report.has_crashed());
        ended_early
            .for_each(|(program, _)| println!("failed, without a result: {}", program.target));
        again.iter().for_each(|test| println!("failed: {} ({})", test.name, test.program.target));
        println!("{passed} passed, {} failed", again.len() + crashed);
        return Ok(false);
    }
    let (mut busy, mut failed) = (Vec::new(), Vec::new());
    for test in again {
        println!("== again, alone: {} ({})", test.name, test.program.target);
        if beside::passes_alone(test.program, &test.name)? {
            busy.push(test)
        } else {
            failed.push(test)
        }
    }
    for test in &busy {
        let (name, target) = (&test.name, &test.program.target);
        println!("failed beside the other tests and passed alone: {name} ({target})");
    }
    for test in &failed {
        println!("failed, alone too: {} ({})", test.name, test.program.target);
    }
    println!("{} passed, {} failed", passed + busy.len() as u64, failed.len());
    Ok(failed.is_empty())
}
