//! Developer tasks: `cargo xtask TASK [ARGUMENT…]`.
//!
//! Every rule and every long check of the project is a task here, so that a developer's machine and CI run the
//! same commands. The crate deliberately shares no code with the server: what judges must not depend on the judged.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command-line tool reports on stdout")]

mod acceptance;
mod conformance;
mod fuzz;
mod image;
mod instructions;
mod mutations;
mod node_cache;
mod peers;
mod repo;
mod suite;
mod tidy;

use std::process::ExitCode;

/// One task: its name, what `cargo xtask` prints about it, and its entry point, which gets the remaining arguments
/// and says whether the check passed.
struct Task {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> anyhow::Result<bool>,
}

const TASKS: &[Task] = &[
    Task {
        name: "acceptance",
        help: "[OPTION…]  give CoreDNS and Nodens every option of every directive, and compare what they accept",
        run: acceptance::run,
    },
    Task {
        name: "bench-instructions",
        help: "[--check | compare A B | …]  count the instructions of a question, chain by chain",
        run: instructions::run,
    },
    Task {
        name: "conformance",
        help: "[OPTION…]  ask Nodens and CoreDNS the same and compare; --help lists the options",
        run: conformance::run,
    },
    Task {
        name: "fuzz",
        help: "[--seconds N]  run every fuzz target for a bounded time",
        run: fuzz::run,
    },
    Task {
        name: "image",
        help: "[OPTION…]  write the container image, without a container engine; --help lists the options",
        run: image::run,
    },
    Task {
        name: "mutations",
        help: "[--write | I1…]  break what the lab promises, place by place, and see that a test notices",
        run: mutations::run,
    },
    Task {
        name: "node-cache",
        help: "[--nodens PATH] [--write]  give node-cache and Nodens the same templates and compare the Corefiles",
        run: node_cache::run,
    },
    Task {
        name: "peers",
        help: "[--tests] [NAME…]  make CoreDNS and the Debian tools that checks compare with available",
        run: peers::run,
    },
    Task {
        name: "test",
        help: "[OPTION…]  run all tests, or those that `cargo test OPTION…` runs, and what failed once more alone",
        run: suite::run,
    },
    Task {
        name: "tidy",
        help: "check the repository's own rules; prints file:line: message",
        run: tidy::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let task = args.first().and_then(|name| TASKS.iter().find(|task| task.name == name));
    let Some(task) = task else {
        eprintln!("usage: cargo xtask TASK [ARGUMENT…]");
        for task in TASKS {
            eprintln!("  {:<18} {}", task.name, task.help);
        }
        return ExitCode::from(2);
    };
    match (task.run)(&args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask {}: {error:#}", task.name);
            ExitCode::from(2)
        }
    }
}
