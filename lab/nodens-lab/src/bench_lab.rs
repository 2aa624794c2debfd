//! `nodens-lab bench-lab`: load generators side by side, in one run, on one echo server.
//!
//! Every generator gets one CPU, the echo two others (as far as there are so many). What a generator
//! did is not taken from its own report: the echo counts the answers and stamps the arrivals, and the
//! kernel says how much CPU the generator's process used. Only the latency floor is the generator's
//! own word, for no other program can know it. Order and repeats, and what happens when a measurement is
//! disturbed, are those of `lab_experiment`: what drifts on the machine hits all generators.

mod experiment;
pub(crate) mod network;
mod report;
mod tools;

use crate::child::Scratch;
use crate::term::{self, Style, Table};
use anyhow::{Context, Result, bail};
use lab_echo::arrivals::Spacing;
use lab_experiment::placement::{Placement, Wish};
use network::Network;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tools::{Job, Tool};

/// Different names that are asked for.
const NAMES: usize = 10_000;
/// Arrivals this long after the first and before the last are not looked at: generators may start
/// and end as they like.
const EDGE: u64 = 300_000_000;
/// How much longer than configured a generator may take, including its own timeout.
const OVERTIME: Duration = Duration::from_secs(20);

/// Arguments of `bench-lab`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Repeats of everything.
    #[arg(short, long, default_value_t = 3)]
    repeats: usize,
    /// Seconds of each measurement.
    #[arg(short = 'l', long, default_value_t = 3)]
    seconds: u32,
    /// QPS where pacing is measured.
    #[arg(short = 'Q', long, default_value_t = 20_000)]
    rate: u32,
    /// How often a measurement is repeated during which the hypervisor took CPU time.
    #[arg(long, default_value_t = 1)]
    retries: usize,
    /// Leave out the measurements across a veth pair.
    #[arg(long)]
    no_veth: bool,
    /// Replace the table in this Markdown file, between its two markers.
    #[arg(long, value_name = "FILE")]
    docs: Option<PathBuf>,
}

/// What is measured, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// As many queries as go through, 256 of them in flight.
    Maximum,
    /// A fixed rate, evenly.
    Pacing,
    /// A low rate, for the lowest latency that can be seen.
    Floor,
}

/// Where the queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Loopback,
    Veth,
}

/// One measurement.
struct Sample {
    tool: &'static str,
    route: Route,
    cell: Cell,
    /// Answers that the echo sent.
    answered: u64,
    /// CPU time of the generator's process.
    cpu: Duration,
    /// How the queries arrived.
    spacing: Option<Spacing>,
    /// Nanoseconds: the lowest and the median latency.
    floor: Option<(u64, u64)>,
}

struct Bench<'a> {
    args: &'a Args,
    stop: &'a AtomicBool,
    /// The echo's, and the generators'.
    cpus: Placement,
    scratch: Scratch,
    names: PathBuf,
    /// The veth pair, if there is one.
    network: Option<Network>,
}

pub(crate) fn run(args: &Args, stop: &AtomicBool) -> Result<ExitCode> {
    if args.repeats == 0 || args.seconds == 0 || args.rate == 0 {
        bail!("expected at least one repeat, one second and 1 QPS");
    }
    if let Some(path) = &args.docs {
        report::check(path)?;
    }
    let scratch = Scratch::new()?;
    let names: String = (0..NAMES).map(|n| format!("name{n}.example. A\n")).collect();
    let names = scratch.write("names", &names)?;
    let mut notes = Vec::new();
    let network = match args.no_veth {
        true => None,
        false => Network::new().map_err(|why| notes.push(format!("no veth pair: {why:#}"))).ok(),
    };
    let (tools, missing) = tools::find(network.is_some());
    notes.extend(missing);
    for note in &notes {
        term::out(&term::paint(Style::Bad, note));
    }
    let cpus = crate::placed::choose(&Wish { subject: 1..=2, helper: 0..=0, load: 1..=1 })?;
    let bench = Bench { args, stop, cpus, scratch, names, network };
    let samples = experiment::measure(&bench, &tools, &mut notes)?;
    let report = report::Report { bench: &bench, tools: &tools, notes: &notes, samples: &samples };
    term::out(&report.text(&Table::framed));
    if let Some(path) = &args.docs {
        report::replace(path, &report.text(&Table::markdown))?;
        term::out(&format!("\nwritten: {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

impl Bench<'_> {
    fn sample(&self, tool: &Tool, route: Route, cell: Cell) -> Result<Sample> {
        let file = (cell == Cell::Pacing).then(|| self.scratch.path().join("arrivals"));
        let echo = self.echo(route, file.as_deref())?;
        let job = Job {
            server: echo.address,
            names: &self.names,
            cell,
            rate: self.args.rate,
            seconds: self.args.seconds,
            cpu: self.cpus.load.first().copied().unwrap_or(0),
            interface: self.network.as_ref().map(|network| network.interface.as_str()),
        };
        let mut command = self.inside(route, Side::Client, tool.program());
        tool.arguments(&mut command, &job);
        let before = lab_sys::process::children_time()?;
        let output = self.finish(&mut command)?;
        let cpu = lab_sys::process::children_time()?.saturating_sub(before);
        let answered = echo.stop()?;
        if answered == 0 {
            bail!("no query of it reached the echo: {}", tail(&output));
        }
        let spacing = file.map(|file| spacing(&file)).transpose()?.flatten();
        let floor = if cell == Cell::Floor { tool.floor(&output) } else { None };
        Ok(Sample { tool: tool.name, route, cell, answered, cpu, spacing, floor })
    }

    /// Runs a generator to its end and returns what it wrote.
    fn finish(&self, command: &mut Command) -> Result<Vec<u8>> {
        let output = self.scratch.path().join("output");
        let errors = self.scratch.path().join("errors");
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&output)?);
        command.stderr(std::fs::File::create(&errors)?);
        let mut child = lab_sys::cpu::spawn_confined(command, &self.cpus.load)?;
        let latest = Instant::now() + Duration::from_secs(self.args.seconds.into()) + OVERTIME;
        while child.try_wait()?.is_none() {
            if self.stop.load(Ordering::Relaxed) || Instant::now() > latest {
                child.kill()?;
                child.wait()?;
                bail!("it was interrupted, or did not end by itself");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = std::fs::read(output)?;
        Ok(if output.is_empty() { std::fs::read(errors)? } else { output })
    }

    /// `program`, on the given side of the path.
    fn inside(&self, route: Route, side: Side, program: &Path) -> Command {
        match (&self.network, route) {
            (Some(network), Route::Veth) => {
                let mut command = Command::new("ip");
                let namespace = match side {
                    Side::Client => &network.client,
                    Side::Server => &network.server,
                };
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            _ => Command::new(program),
        }
    }

    fn echo(&self, route: Route, arrivals: Option<&Path>) -> Result<Echo> {
        let mut command = self.inside(route, Side::Server, &std::env::current_exe()?);
        let listen = match route {
            Route::Loopback => "127.0.0.1:0".to_owned(),
            Route::Veth => format!("{}:5300", network::SERVER),
        };
        let threads = self.cpus.subject.len().to_string();
        command.args(["echo", "--json", "--listen", &listen, "-T", &threads]);
        if let Some(file) = arrivals {
            command.arg("--arrivals-file").arg(file);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = lab_sys::cpu::spawn_confined(&mut command, &self.cpus.subject)?;
        let mut line = String::new();
        if let Some(errors) = child.stderr.take() {
            BufReader::new(errors).read_line(&mut line)?;
        }
        let address = line.strip_prefix("echo on ").and_then(|rest| rest.split('/').next());
        let address = address.and_then(|address| address.parse().ok());
        match address {
            Some(address) => Ok(Echo { address, child }),
            None => {
                child.kill()?;
                child.wait()?;
                bail!("the echo did not start: {}", line.trim());
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

/// An echo in a process of its own; killed with the value.
struct Echo {
    address: SocketAddr,
    child: Child,
}

impl Echo {
    /// Ends it; how many answers it sent.
    fn stop(mut self) -> Result<u64> {
        lab_sys::process::interrupt(&mut self.child)?;
        let mut text = String::new();
        if let Some(output) = &mut self.child.stdout {
            output.read_to_string(&mut text)?;
        }
        self.child.wait()?;
        let report: serde_json::Value =
            serde_json::from_str(&text).context("the echo wrote no report")?;
        report["sent"].as_u64().context("the echo's report has no count of answers")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // An error means that it has already ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The spacing of the arrivals in `file`, without the edges.
fn spacing(file: &Path) -> Result<Option<Spacing>> {
    let text = std::fs::read_to_string(file)?;
    let arrivals: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let last = arrivals.last().copied().unwrap_or(0);
    let inner = |time: &u64| (EDGE..=last.saturating_sub(EDGE)).contains(time);
    let arrivals: Vec<u64> = arrivals.into_iter().filter(inner).collect();
    Ok(Spacing::of(&arrivals))
}

/// The last line that is not empty.
fn tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it printed nothing").trim().to_owned()
}
