//! `replay --fidelity`: a replay to an echo across a veth pair, and when its queries arrived there.

use crate::bench_lab::network::{Network, SERVER};
use crate::child::Scratch;
use crate::term::{self, Style, Table};
use anyhow::{Context, Result, bail};
use lab_replay::Fidelity;
use lab_replay::fidelity::{Plan, RATE_ERROR, SecondOf, TIME_ERROR};
use serde_json::json;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The echo's port.
const PORT: u16 = 5300;
/// How often it is looked whether the replay has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Seconds that miss a limit and are named.
const NAMED: usize = 5;

/// Where the echo is, as its users read it.
pub(super) fn target() -> Result<SocketAddr> {
    Ok(SocketAddr::new(SERVER.parse()?, PORT))
}

/// Replays with the arguments of this program to an echo in a namespace of its own and compares its arrivals with
/// `planned`; the exit code is that of the replay, or says that the arrivals are too far off.
pub(super) fn measure(
    planned: &Plan,
    (no_version, as_json): (bool, bool),
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let scratch = Scratch::new()?;
    let file = scratch.path().join("arrivals");
    let network = Network::new()?;
    let program = std::env::current_exe()?;
    let mut echo = Echo::start(&network, &program, &file)?;
    let arguments = std::env::args_os().skip(1).filter(|text| text != "--fidelity");
    let mut command = inside(&network.client, &program);
    command.args(arguments).args([OsString::from("--target"), target()?.to_string().into()]);
    if as_json {
        command.stdout(Stdio::null());
    }
    // The query for the version would arrive, too.
    if !no_version {
        command.arg("--no-version");
    }
    let status = ended(&mut command, stop).context("cannot replay")?;
    echo.stop()?;
    if status.code() == Some(i32::from(crate::EXIT_INTERRUPTED)) {
        // What was not sent any more would count as missing.
        return Ok(ExitCode::from(crate::EXIT_INTERRUPTED));
    }
    let arrived = arrivals(&file)?;
    let fidelity = Fidelity::of(planned, &arrived);
    term::out(&if as_json { to_json(&fidelity)? } else { text(&fidelity) });
    Ok(match status.code() {
        Some(0) if fidelity.is_met() => ExitCode::SUCCESS,
        Some(0) => ExitCode::from(crate::EXIT_REQUIREMENT),
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => bail!("the replay was ended by a signal"),
    })
}

/// How the replay ended, which is asked to end once when this program is. It ends with this program in any case.
fn ended(command: &mut Command, stop: &AtomicBool) -> Result<ExitStatus> {
    // Ctrl-C would reach it as well, and the second request to end is obeyed at once.
    let mut replay = lab_sys::cpu::spawn_confined(command.process_group(0), &[])?;
    let mut is_asked = false;
    loop {
        if let Some(status) = replay.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !is_asked {
            lab_sys::process::interrupt(&mut replay)?;
            is_asked = true;
        }
        std::thread::sleep(LOOK);
    }
}

fn inside(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// When queries arrived, as the echo has written it.
fn arrivals(file: &Path) -> Result<Vec<u64>> {
    let text = std::fs::File::open(file).context("the echo wrote no arrivals")?;
    let mut times = Vec::new();
    for line in BufReader::new(text).lines() {
        times.push(line?.parse()?);
    }
    Ok(times)
}

/// An echo in a process of its own; killed with the value.
struct Echo(Child);

impl Echo {
    fn start(network: &Network, program: &Path, arrivals: &Path) -> Result<Self> {
        let mut command = inside(&network.server, program);
        let listen = target()?.to_string();
        command.args([
            "echo",
            "--json",
            "--mode",
            "udp,tcp",
            "--listen",
            &listen,
            "--arrivals-file",
        ]);
        command.arg(arrivals).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // The thread that sends has the last one.
        let cpus = lab_sys::cpu::allowed()?;
        let first = if cpus.len() > 1 { cpus.first().copied() } else { None };
        let cpus: Vec<_> = first.into_iter().collect();
        let mut echo = Self(lab_sys::cpu::spawn_confined(&mut command, &cpus)?);
        let mut line = String::new();
        if let Some(errors) = echo.0.stderr.take() {
            BufReader::new(errors).read_line(&mut line)?;
        }
        if !line.starts_with("echo on ") {
            bail!("the echo did not start: {}", line.trim());
        }
        Ok(echo)
    }

    /// Ends it; its arrivals are in their file then.
    fn stop(&mut self) -> Result<()> {
        lab_sys::process::interrupt(&mut self.0)?;
        let status = self.0.wait()?;
        if !status.success() {
            bail!("the echo ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // An error means that it has already ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn text(found: &Fidelity) -> String {
    let nanos = |time: u64| term::nanos(time as f64);
    let mut table = Table::new(&["", "p25", "p50", "p75"]);
    let mut row = |name: &str, cells: [String; 3]| {
        table.row([&[name.to_owned()][..], &cells].concat());
    };
    row("gaps between queries, planned", found.planned_gaps.map(nanos));
    row("gaps between queries, arrived", found.arrived_gaps.map(nanos));
    if let Some((errors, _)) = found.errors {
        row("arrived later than planned", errors.map(signed));
    }
    let mut lines =
        vec![term::paint(Style::Bold, "fidelity, by the echo's receive stamps"), table.framed()];
    let (arrived, planned) = (term::count(found.arrived), term::count(found.planned));
    lines.push(format!("  arrived    {arrived} of {planned} queries over UDP"));
    if let Some((_, most)) = found.errors {
        lines.push(format!("  furthest   one query was {} from its time", nanos(most)));
    }
    let limit = term::percent(RATE_ERROR);
    lines.push(by_second(found, &format!("rate within {limit}"), SecondOf::keeps_rate, |second| {
        format!("{} of {}", term::count(second.arrived), term::count(second.planned))
    }));
    let limit = nanos(TIME_ERROR);
    lines.push(by_second(found, &format!("gaps within {limit}"), SecondOf::keeps_gaps, |second| {
        format!("quartiles off by {}", nanos(second.gap_error))
    }));
    if found.moved > 0 {
        let moved = term::count(found.moved);
        lines.push(format!("  moved      {moved} stand too far behind later ones in the recording: planned for when they are read"));
    }
    lines.push(match found.is_met() {
        true => term::paint(Style::Good, "FAITHFUL: queries arrived as they were recorded"),
        false => term::paint(Style::Bad, "NOT FAITHFUL: queries arrived otherwise than recorded"),
    });
    lines.join("\n")
}

/// How many seconds are as they should be, and the first that are not.
fn by_second(
    found: &Fidelity,
    name: &str,
    keeps: fn(&SecondOf) -> bool,
    say: impl Fn(&SecondOf) -> String,
) -> String {
    let off = found.seconds.iter().enumerate().filter(|(_, second)| !keeps(second));
    let kept = found.seconds.iter().filter(|second| keeps(second)).count();
    let mut text = format!("  by second  {name} in {kept} of {}", found.seconds.len());
    for (at, second) in off.take(NAMED) {
        text += &format!("; second {at}: {}", say(second));
    }
    text
}

fn signed(time: i64) -> String {
    let text = term::nanos(time.unsigned_abs() as f64);
    if time < 0 { format!("-{text}") } else { text }
}

fn to_json(found: &Fidelity) -> Result<String> {
    let seconds = found.seconds.iter().map(|second| {
        json!({ "planned": second.planned, "arrived": second.arrived, "gap_error_ns": second.gap_error })
    });
    let errors =
        found.errors.map(|(quartiles, most)| json!({ "quartiles_ns": quartiles, "most_ns": most }));
    Ok(serde_json::to_string_pretty(&json!({
        "faithful": found.is_met(),
        "planned": found.planned,
        "arrived": found.arrived,
        "moved": found.moved,
        "planned_gaps_ns": found.planned_gaps,
        "arrived_gaps_ns": found.arrived_gaps,
        "errors": errors,
        "seconds": seconds.collect::<Vec<_>>(),
    }))?)
}
