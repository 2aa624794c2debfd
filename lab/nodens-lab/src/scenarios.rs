//! `nodens-lab authority`: what operators of authoritative servers do, with Nodens, Knot, NSD and BIND one
//! after the other, on this machine. Each server is started anew, with settings of its own, on loopback.
//!
//! Zones come from a primary inside this program, so that all secondaries get the same octets at
//! the same speed.

mod big_zone;
mod catalog_start;
mod configs;
mod experiment;
mod fan_out;
mod ixfr;
mod loads;
mod members_change;
mod memory;
mod primary;
mod probe;
mod readers;
mod servers;
mod sheet;
mod started;
mod zones;

use crate::child::Scratch;
use crate::term::{self, Live, Style};
use anyhow::{Context, Result, bail};
use lab_experiment::placement::{Placement, Wish};
use servers::Peer;
use sheet::Sheet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines of progress where they follow each other.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The same on a terminal, where one takes the other's place.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Descriptors that a server may need for transfers, which it inherits from this process.
const DESCRIPTORS: u64 = 16_384;

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Scenario {
    /// From the start of a secondary to the last member of a catalog served, from the network and from disk.
    CatalogStart,
    /// One large zone from a master file: time and memory.
    MemoryMillion,
    /// Latency of a secondary while members of its catalog are added, removed and changed.
    MembersChange,
    /// Latency while a large zone is transferred in, transferred out, and read again from its file.
    BigZoneChange,
    /// Differences of a large zone at a secondary: octets, time, memory after many.
    Ixfr,
    /// From a change at the primary until each of many secondaries has it.
    FanOut,
}

/// Arguments of `authority`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<Scenario>,
    /// The Nodens program (default: beside this one).
    #[arg(long, value_name = "PROGRAM")]
    nodens: Option<PathBuf>,
    /// Servers to measure (default: all that are installed).
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// Members of the catalog.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    zones: u32,
    /// Records of the large zone.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=9_000_000))]
    records: u32,
    /// Members added, as many removed and as many changed, a second.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    changes: u32,
    /// Differences after which memory is looked at.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    differences: u32,
    /// Secondaries of a change, each at an address of its own.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=200))]
    secondaries: u8,
    /// How long each load takes.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "60s", value_parser = lab_units::whole_seconds)]
    seconds: f64,
    /// The part of a server's highest rate that it is loaded with.
    #[arg(long, default_value = "20%", value_parser = lab_units::part)]
    load: f64,
    /// How often a server is measured again because the hypervisor took CPU time or the load was INVALID.
    #[arg(long, default_value_t = 0)]
    retries: usize,
    /// When a server that has not served everything is given up.
    #[arg(long, value_name = "TIME", default_value = "20min", value_parser = lab_units::whole_seconds)]
    patience: f64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the tables in Markdown and the numbers in JSON.
    #[arg(short, long, default_value = "target/authority")]
    out: PathBuf,
}

/// Half of the CPUs for the server under test, half for the primary and the load; all share a single one.
fn cpus() -> Result<Placement> {
    let all = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?.len();
    let others = all.div_ceil(2);
    crate::placed::choose(&Wish { subject: 1..=usize::MAX, helper: 0..=0, load: others..=others })
}

/// What all scenarios need.
struct Lab<'a> {
    args: &'a Args,
    stop: &'a AtomicBool,
    /// The server's, and those of the primary and the load.
    cpus: Placement,
    peers: &'a [Peer],
    scratch: Scratch,
}

impl Lab<'_> {
    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.args.patience)
    }

    /// Machine, system and CPUs, a line each.
    fn about(&self) -> Vec<String> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let load: Vec<_> = read("/proc/loadavg").split(' ').take(3).map(str::to_owned).collect();
        vec![
            format!(
                "{}, Linux {}; load average {} (1, 5, 15 minutes) at the end",
                model.unwrap_or_default().trim_start_matches([' ', '\t', ':']),
                read("/proc/sys/kernel/osrelease").trim(),
                load.join(" ")
            ),
            format!("CPUs: server {:?}, primary and load {:?}", self.cpus.subject, self.cpus.load),
        ]
    }
}

/// What is being done for a server, on standard error.
struct Progress {
    name: &'static str,
    live: Live,
    shown: Mutex<Option<Instant>>,
    every: Duration,
}

impl Progress {
    fn new(name: &'static str) -> Self {
        let every = if std::io::stderr().is_terminal() { DRAW_EVERY } else { LINE_EVERY };
        Self { name, live: Live::new(), shown: Mutex::default(), every }
    }

    /// Shows something that changes all the time, now and then.
    fn show(&self, text: &str) {
        let shown = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_none_or(|at| at.elapsed() >= self.every) {
            self.say(text);
        }
    }

    fn say(&self, text: &str) {
        self.live.show(0.0, 0.0, &format!("{}: {text}", self.name));
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if args.seconds.is_nan() || args.seconds < 1.0 || !(0.001..=1.0).contains(&args.load) {
        bail!("expected at least one second, and a load between 0.1 and 100 %");
    }
    let wanted = if args.servers.is_empty() { servers::names() } else { args.servers.clone() };
    let (peers, missing) = servers::find(&wanted, args.nodens.as_deref())?;
    for (name, why) in &missing {
        term::out(&term::paint(Style::Bad, &format!("{name} is missing: {why}")));
    }
    if peers.is_empty() {
        bail!("none of the servers is installed");
    }
    lab_sys::limits::raise_descriptors(DESCRIPTORS)?;
    let lab = Lab { args, stop, cpus: cpus()?, peers: &peers, scratch: Scratch::new()? };
    for scenario in &args.scenarios {
        let mut sheet: Sheet = match scenario {
            Scenario::CatalogStart => catalog_start::run(&lab)?,
            Scenario::MemoryMillion => memory::run(&lab)?,
            Scenario::MembersChange => members_change::run(&lab)?,
            Scenario::BigZoneChange => big_zone::run(&lab)?,
            Scenario::Ixfr => ixfr::run(&lab)?,
            Scenario::FanOut => fan_out::run(&lab)?,
        };
        sheet.notes.extend(lab.about());
        sheet.print();
        sheet.write(&args.out)?;
    }
    Ok(ExitCode::SUCCESS)
}
