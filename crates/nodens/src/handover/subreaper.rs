//! A process whose successor is its own child: its supervisor watches this process ID, so it stays for
//! as long as there is a server. It forwards signals and ends with the last server's exit code.

use crate::events::Event;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Says in the environment of a server which process stays when servers follow each other.
pub(super) const SUBREAPER: &str = "NODENS_REAPER";

/// Whether this process takes the exit codes of its children by now.
pub(super) static STAYS: AtomicBool = AtomicBool::new(false);
/// The exit code of the child that ended last before that.
pub(super) static LAST_CODE: AtomicI32 = AtomicI32::new(0);
/// How far up the line of processes it is looked; `/proc` may change while it is read.
const GENERATIONS_MAX: usize = 64;
/// How often it is looked at most.
const LOOKS_MAX: usize = 10;

/// Stays until the last child is gone.
pub(super) fn wait_for_children(sender: Sender<Event>, events: &Receiver<Event>) -> ExitCode {
    STAYS.store(true, Ordering::Release);
    let (report, ended) = channel();
    let run = move || {
        _ = report.send(collect());
        _ = sender.send(Event::Handover);
    };
    if std::thread::Builder::new().name("subreaper".to_owned()).spawn(run).is_err() {
        return ExitCode::FAILURE;
    }
    for event in events {
        if let Event::Signal(signal) = event {
            forward(signal);
        }
        if let Ok(code) = ended.try_recv() {
            return ExitCode::from(code);
        }
    }
    ExitCode::FAILURE
}

/// Waits for children until there are none; gives the exit code of the last, as a shell says it.
fn collect() -> u8 {
    let mut code = u8::try_from(LAST_CODE.load(Ordering::Acquire)).unwrap_or(1);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                let status = status.exit_status().or(signal).unwrap_or(1);
                code = u8::try_from(status).unwrap_or(1);
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return code,
        }
    }
}

/// Gives a signal to all that descend from this process: a server whose predecessor is about to
/// end is still the child of that one.
fn forward(signal: i32) {
    let Some(signal) = Signal::from_named_raw(signal) else { return };
    for server in descendants() {
        // One that has just ended needs none.
        _ = kill_process(server, signal);
    }
}

fn descendants() -> Vec<Pid> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let parents = family();
    let descends = |pid: &i32| {
        let up = std::iter::successors(parents.get(pid), |pid| parents.get(pid));
        up.take(GENERATIONS_MAX).any(|pid| *pid == own)
    };
    parents.keys().filter(|pid| descends(pid)).filter_map(|pid| Pid::from_raw(*pid)).collect()
}

/// Whether this process descends from `pid`; between them may be a predecessor that is about to end.
pub(super) fn is_ancestor(pid: u32) -> bool {
    let (parents, wanted) = (family(), i32::try_from(pid).unwrap_or(0));
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let up = std::iter::successors(parents.get(&own), |pid| parents.get(pid));
    up.take(GENERATIONS_MAX).any(|pid| *pid == wanted)
}

/// The parent of each process. One that ends while it is looked takes with it what connects its
/// children to the rest, so it is looked again then.
fn family() -> HashMap<i32, i32> {
    let mut parents = HashMap::new();
    for _ in 0..LOOKS_MAX {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        parents = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
        if parents.values().all(|parent| *parent == 0 || parents.contains_key(parent)) {
            break;
        }
    }
    parents
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name in parentheses: state, parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
