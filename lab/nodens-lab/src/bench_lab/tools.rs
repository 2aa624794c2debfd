//! The generators: where they are, how they are asked for each measurement, what they say.

use super::{Cell, Route};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sockets of a generator that has several.
const CLIENTS: u32 = 8;
/// Queries in flight at the maximum, over all clients.
const IN_FLIGHT: u32 = 256;
/// QPS where the latency floor is measured.
const FLOOR_RATE: u32 = 1_000;
/// The rate for a generator that does not wait for answers, at the maximum.
const FLOOD: u32 = 5_000_000;

/// A generator that is here.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) version: String,
    program: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lab,
    LabSleeping,
    Dnsperf,
    Kxdpgun,
    Flame,
}

/// What a generator is asked to do.
pub(super) struct Job<'a> {
    pub(super) server: SocketAddr,
    pub(super) names: &'a Path,
    pub(super) cell: Cell,
    pub(super) rate: u32,
    pub(super) seconds: u32,
    pub(super) cpu: usize,
    pub(super) interface: Option<&'a str>,
}

/// The generators that are here, and a line for each that is not.
pub(super) fn find(veth: bool) -> (Vec<Tool>, Vec<String>) {
    let (mut tools, mut missing) = (Vec::new(), Vec::new());
    let mut lab = |name, kind| {
        if let Ok(program) = std::env::current_exe() {
            tools.push(Tool { name, version: env!("CARGO_PKG_VERSION").to_owned(), program, kind });
        }
    };
    lab("nodens-lab", Kind::Lab);
    lab("nodens-lab --idle sleep", Kind::LabSleeping);
    let others = [
        ("dnsperf", Kind::Dnsperf, "-h", "Version", "`cargo xtask peers dnsperf`"),
        ("kxdpgun", Kind::Kxdpgun, "--version", "kxdpgun", "`cargo xtask peers knot-dnsutils`"),
        ("flame", Kind::Flame, "--version", "flamethrower", "build DNS-OARC's flamethrower"),
    ];
    for (name, kind, argument, mark, remedy) in others {
        if kind == Kind::Kxdpgun && !veth {
            missing.push("kxdpgun is left out: it needs the veth pair".to_owned());
            continue;
        }
        let found = crate::child::in_path(name);
        let version = found.as_deref().and_then(|program| version(program, argument, mark));
        match (found, version) {
            (Some(program), Some(version)) => tools.push(Tool { name, version, program, kind }),
            (Some(program), None) => {
                missing.push(format!("{} is another program: {remedy}", program.display()));
            }
            (None, _) => missing.push(format!("{name} is missing: {remedy}")),
        }
    }
    (tools, missing)
}

/// The line of a program's own words with `mark` in it.
fn version(program: &Path, argument: &str, mark: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find(|line| line.contains(mark)).map(|line| line.trim().to_owned())
}

impl Tool {
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Whether it can be measured so.
    pub(super) fn can(&self, cell: Cell, route: Route) -> bool {
        match self.kind {
            // What it does while idle makes no difference where it is never idle.
            Kind::LabSleeping => cell != Cell::Maximum,
            // It goes around the kernel's sockets and needs an interface; it measures no latency.
            Kind::Kxdpgun => route == Route::Veth && cell != Cell::Floor,
            // Its latencies are only averages.
            Kind::Flame => cell != Cell::Floor,
            Kind::Lab | Kind::Dnsperf => true,
        }
    }

    pub(super) fn arguments(&self, command: &mut Command, job: &Job<'_>) {
        let (ip, port) = (job.server.ip().to_string(), job.server.port().to_string());
        let (rate, clients) = (job.rate.to_string(), CLIENTS.to_string());
        let seconds = job.seconds.to_string();
        let floor = FLOOR_RATE.to_string();
        match self.kind {
            Kind::Lab | Kind::LabSleeping => {
                command.args(["load", "-s", &ip, "-p", &port, "-c", &clients, "-l", &seconds]);
                command.args(["--no-out", "--no-version", "--json", "-d"]).arg(job.names);
                let window = (IN_FLIGHT / CLIENTS).to_string();
                match job.cell {
                    Cell::Maximum => command.args(["-q", &window]),
                    Cell::Pacing => command.args(["-Q", &rate, "--arrivals", "uniform"]),
                    Cell::Floor => command.args(["-Q", &floor, "--arrivals", "uniform"]),
                };
                if self.kind == Kind::LabSleeping {
                    command.args(["--idle", "sleep"]);
                }
            }
            Kind::Dnsperf => {
                command.args(["-s", &ip, "-p", &port, "-c", &clients, "-l", &seconds, "-T", "1"]);
                command.arg("-d").arg(job.names);
                let window = IN_FLIGHT.to_string();
                match job.cell {
                    Cell::Maximum => command.args(["-q", &window]),
                    // A window that never fills: the rate alone is to decide.
                    Cell::Pacing => command.args(["-Q", &rate, "-q", "20000"]),
                    Cell::Floor => command.args(["-Q", &floor, "-v"]),
                };
            }
            Kind::Kxdpgun => {
                command.args(["-t", &seconds, "-p", &port, "-F", &job.cpu.to_string(), "-i"]);
                command.arg(job.names).args(["-I", job.interface.unwrap_or("lab0")]);
                let flood = FLOOD.to_string();
                match job.cell {
                    Cell::Maximum => command.args(["-b", "32", "-Q", &flood, &ip]),
                    // By default it sends ten at once.
                    Cell::Pacing | Cell::Floor => command.args(["-b", "1", "-Q", &rate, &ip]),
                };
            }
            Kind::Flame => {
                command.args(["-p", &port, "-l", &seconds, "-c", &clients, "-f"]).arg(job.names);
                let batch = (IN_FLIGHT / CLIENTS).to_string();
                match job.cell {
                    Cell::Maximum => command.args(["-q", &batch, "-d", "1", &ip]),
                    Cell::Pacing | Cell::Floor => command.args(["-Q", &rate, &ip]),
                };
            }
        }
    }

    /// The lowest and the median latency in nanoseconds, as the generator says.
    pub(super) fn floor(&self, output: &[u8]) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Lab | Kind::LabSleeping => {
                let result = lab_result::from_json(Path::new("output"), output).ok()?;
                Some((result.service.min()?, result.service.quantile(0.5).nanos()?))
            }
            Kind::Dnsperf => verbose_latencies(&String::from_utf8_lossy(output)),
            Kind::Kxdpgun | Kind::Flame => None,
        }
    }
}

/// Lowest and median of dnsperf's lines `> NOERROR name type 0.000123`.
fn verbose_latencies(text: &str) -> Option<(u64, u64)> {
    let answered = text.lines().filter(|line| line.starts_with("> "));
    let seconds = answered.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let mut nanos: Vec<u64> = seconds.map(|seconds| (seconds * 1e9).round() as u64).collect();
    nanos.sort_unstable();
    Some((*nanos.first()?, *nanos.get(nanos.len() / 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_dnsperf_are_read_from_its_lines() {
        let text = "[Status] x\n> NOERROR a.example A 0.000120\n> NOERROR b A 0.000080\n\
                    > T c A\n> NOERROR d A 0.000300\n  Average Latency (s): 0.1";
        assert_eq!(verbose_latencies(text), Some((80_000, 120_000)));
        assert_eq!(verbose_latencies("nothing"), None);
    }
}
