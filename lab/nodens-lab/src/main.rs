//! `nodens-lab`: measures DNS servers.
//!
//! One folder or file per subcommand; what they share is here: [`term`] (what people look at),
//! [`child`] (servers that this program starts and ends), [`authority`] (a small upstream inside
//! this process), [`interrupt`] (Ctrl-C).

#![forbid(unsafe_code)]

mod ab;
mod analyse;
mod authority;
mod bench;
mod bench_lab;
mod child;
mod compare;
mod counters;
mod demo;
mod dnsperf;
mod echo;
mod export;
mod fresh;
mod given;
mod hold;
mod http;
mod interrupt;
mod listen;
mod load;
mod merge;
mod placed;
mod probing;
mod remover;
mod replay;
mod report;
mod scenarios;
mod search;
mod server;
mod swap;
mod tap;
mod tapped;
mod term;
mod tune;
mod zones;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Exit code of a run whose numbers the generator declared INVALID.
const EXIT_INVALID: u8 = 3;
/// Exit code of a run that found no server: its host said so.
const EXIT_NOTHING_LISTENS: u8 = 4;
/// Exit code of a valid run that did not achieve what was required of it.
const EXIT_REQUIREMENT: u8 = 5;
/// Exit code of a run that was ended by a signal, as shells have it for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Measures DNS servers, truthfully before fast.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send queries to a server and report latency, loss and whether the numbers can be trusted.
    Load(Box<load::Args>),
    /// Add up the results of workers that shared a load.
    Merge(merge::Args),
    /// Send the queries of a packet capture again, as they were, and compare the responses.
    Replay(Box<replay::Args>),
    /// Make one page of pictures and tables from result files; it opens without a network.
    Report(report::Args),
    /// Write a result file in the format of dnsperf, Shotgun, dns-metrics or others.
    Export(export::Args),
    /// Accept dnsperf's options and print its output.
    Dnsperf(dnsperf::Args),
    /// Answer every query with itself, over UDP, TCP, TLS, HTTPS or QUIC: the cost of sending and receiving alone.
    Echo(Box<echo::Args>),
    /// Compare two servers in randomized pairs of blocks: faster, slower, equivalent or inconclusive.
    Ab(Box<ab::Args>),
    /// Exchange images of a Deployment or DaemonSet in a live cluster, compare them, put everything back.
    Swap(Box<swap::Args>),
    /// Describe how results of different days differ, without a verdict (see `ab`).
    Compare(compare::Args),
    /// Analyse result files of other load generators and of this one as they are, and name what they assume.
    Analyse(Box<analyse::Args>),
    /// Show what a Nodens cache on a node does to the queries of its pods.
    Demo(demo::Args),
    /// Find out which of many settings of kernel and server matter, and whether users feel it.
    Tune(Box<tune::Args>),
    /// Work out what search lists cost: from names and a resolv.conf, or from a capture or dnstap.
    Search(Box<search::Args>),
    /// Record what servers write as dnstap to a socket, as a capture for the other commands.
    Tap(tap::Args),
    /// Rebuild zones, and a Corefile that serves them, from a capture of what a resolver asked.
    Zones(Box<zones::Args>),
    /// Open connections over TCP and keep them: what each costs a server, and whether it stays.
    Hold(hold::Args),
    /// Measure Nodens beside other DNS servers on this machine.
    Bench(bench::Args),
    /// Measure what authoritative servers do: catalogs of many zones, large zones, zones that change.
    Authority(scenarios::Args),
    /// Measure this load generator beside dnsperf and kxdpgun on the same echo server.
    BenchLab(bench_lab::Args),
    /// Keep the settings that a trial changes; started by `tune`.
    #[command(hide = true)]
    KeepSettings,
}

fn main() -> ExitCode {
    let result = interrupt::flag().and_then(|stop| run(&stop));
    result.unwrap_or_else(|error| {
        eprintln!("nodens-lab: {}", told(&error));
        ExitCode::FAILURE
    })
}

/// An error with its causes. Some errors have the cause in their own text: it is printed once.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match &*text {
        "" => cause,
        _ if text.contains(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

fn run(stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if dnsperf::is_called() {
        return dnsperf::run_as_called(stop);
    }
    match Cli::try_parse().unwrap_or_else(|error| ab::refuse(&error)).command {
        Command::Load(args) => load::run(&args, stop),
        Command::Merge(args) => merge::run(&args),
        Command::Replay(args) => replay::run(&args, stop),
        Command::Report(args) => report::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Dnsperf(args) => dnsperf::run(&args, stop),
        Command::Echo(args) => echo::run(&args, stop),
        Command::Ab(args) => ab::run(&args, stop),
        Command::Swap(args) => swap::run(&args, stop),
        Command::Compare(args) => compare::run(&args),
        Command::Analyse(args) => analyse::run(&args),
        Command::Demo(args) => demo::run(&args, stop),
        Command::Tune(args) => tune::run(&args, stop),
        Command::Search(args) => search::run(&args, stop),
        Command::Tap(args) => tap::run(&args, stop),
        Command::Zones(args) => zones::run(&args, stop),
        Command::Hold(args) => hold::run(&args, stop),
        Command::Bench(args) => bench::run(&args, stop),
        Command::Authority(args) => scenarios::run(&args, stop),
        Command::BenchLab(args) => bench_lab::run(&args, stop),
        Command::KeepSettings => tune::keep(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A default stands in the code as text, which only a run reads.
    #[test]
    fn every_command_accepts_its_own_defaults() {
        let server = "127.0.0.1:53";
        for line in [
            &["load", "-s", server][..],
            &["echo"],
            &["ab", "--a", server, "--b", server],
            &["analyse", "a.txt"],
            &["swap", "kube-system/deployment/coredns", "--candidate", "x"],
            &["demo"],
            &["tap", "--listen", "./tap.sock", "-o", "tap.fstrm"],
            &["hold", "-s", server],
            &["bench"],
            &["authority", "ixfr"],
            &["bench-lab"],
            &["tune", "--server-cmd", "server {port}", "--all-knobs"],
        ] {
            let words = [&["nodens-lab"], line].concat();
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{line:?}: {error}");
            }
        }
    }
}
