//! Workers on this machine: this program again, with the same command line.

use super::STARTED_AS;
use super::start::{self, Opened};
use super::token::Token;
use crate::term::Live;
use anyhow::{Context, Result};
use lab_load::Config;
use lab_result::ResultFile;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Between looks at the children.
const LOOK: Duration = Duration::from_millis(20);
/// How much longer than its load a worker may take until it is ended.
const GRACE: Duration = Duration::from_secs(30);

/// A worker process. It is killed when the value goes, and when this process ends in any way.
struct Process {
    child: Child,
    result: Option<JoinHandle<Vec<u8>>>,
    said: Option<JoinHandle<Vec<u8>>>,
    /// Why it has no result, if this process ended it.
    ended: Option<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has already ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The results that there are, and the workers without one with the reason.
type Outcomes = (Vec<ResultFile>, Vec<(usize, String)>);

/// The results of `workers` processes, and why some have none.
pub(super) fn run(workers: usize, config: &Config, stop: &AtomicBool) -> Result<Outcomes> {
    let listener = start::listen(Some(Ipv4Addr::LOCALHOST.into()), 0)?;
    let desk = start::open(listener, Token::new()?, workers)?;
    let processes = (0..workers).map(|index| begin(index, workers, &desk));
    let mut processes = processes.collect::<Result<Vec<_>>>()?;
    watch(&mut processes, &desk, config, stop)?;
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    for (index, process) in processes.into_iter().enumerate() {
        match outcome(process) {
            Ok(result) => results.push(*result),
            Err(why) => missing.push((index, why)),
        }
    }
    Ok((results, missing))
}

fn begin(index: usize, workers: usize, desk: &Opened) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env(STARTED_AS, format!("{index}/{workers} {}", desk.url()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Ctrl-C of the terminal is for the parent alone: a worker that gets it, too, is told to end twice.
    command.process_group(0);
    let child = lab_sys::cpu::spawn_confined(&mut command, &[]);
    let mut child = child.with_context(|| format!("cannot start worker {index}"))?;
    let result = child.stdout.take().map(read);
    let said = child.stderr.take().map(read);
    Ok(Process { child, result, said, ended: None })
}

/// Reads to the end on a thread of its own, so that no pipe gets full.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut octets = Vec::new();
        // What could be read up to an error is no result, and is told as such.
        _ = pipe.read_to_end(&mut octets);
        octets
    })
}

/// Waits until all have ended.
fn watch(
    processes: &mut [Process],
    desk: &Opened,
    config: &Config,
    stop: &AtomicBool,
) -> Result<()> {
    let live = Live::new();
    let (mut told, mut shown) = (false, String::new());
    let mut limit = Limit { began: Instant::now(), ended: None, load: load(config) };
    loop {
        let mut running = 0;
        for (index, process) in processes.iter_mut().enumerate() {
            match process.child.try_wait()? {
                None => running += 1,
                // The others would wait for it.
                Some(status) if desk.start().is_none() => {
                    limit.ended.get_or_insert_with(|| (Instant::now(), "there was no start"));
                    desk.refuse(&format!("worker {index} ended before the start ({status})"));
                }
                Some(_) => {}
            }
        }
        if running == 0 {
            live.clear();
            return Ok(());
        }
        let elapsed = desk.start().and_then(|start| SystemTime::now().duration_since(start).ok());
        let elapsed = elapsed.unwrap_or_default();
        let text = match desk.start() {
            Some(_) => format!("{running} workers, {} s", elapsed.as_secs()),
            None => format!("{running} workers get ready"),
        };
        if text != shown {
            live.show(elapsed.as_secs_f64(), config.duration.as_secs_f64(), &text);
            shown = text;
        }
        if stop.load(Ordering::Relaxed) && !std::mem::replace(&mut told, true) {
            limit.ended.get_or_insert_with(|| (Instant::now(), "the interrupt"));
            processes.iter_mut().try_for_each(|it| lab_sys::process::interrupt(&mut it.child))?;
        }
        if let Some(since) = limit.passed(desk.start().map(|_| elapsed), Instant::now()) {
            kill(processes, since);
        }
        std::thread::sleep(LOOK);
    }
}

/// How long a worker may take from the start of the schedule on.
fn load(config: &Config) -> Duration {
    config.duration + 2 * config.timeout
}

/// Ends those that still run.
fn kill(processes: &mut [Process], since: &str) {
    for process in processes.iter_mut().filter(|it| it.ended.is_none()) {
        if matches!(process.child.try_wait(), Ok(None)) {
            process.ended = Some(format!("it had not ended {GRACE:?} after {since}"));
            _ = process.child.kill();
        }
    }
}

/// How long processes may run: one that is stopped, or hangs, would be waited for without end.
struct Limit {
    began: Instant,
    /// Since when, and why, there is nothing left to do for them.
    ended: Option<(Instant, &'static str)>,
    /// How long they may take from the start of the schedule on.
    load: Duration,
}

impl Limit {
    /// What they should have ended after, if that is too long ago at `now`. `elapsed` is the time since
    /// the start, if there is one.
    fn passed(&self, elapsed: Option<Duration>, now: Instant) -> Option<&'static str> {
        let is_over = |since: Instant, may: Duration| now.saturating_duration_since(since) > may;
        match (self.ended, elapsed) {
            (Some((since, why)), _) if is_over(since, GRACE) => Some(why),
            (_, Some(elapsed)) if elapsed > self.load + GRACE => Some("its load"),
            (_, None) if is_over(self.began, start::PATIENCE + GRACE) => {
                Some("the time that it may wait for the others")
            }
            _ => None,
        }
    }
}

/// The result that a process has left, or why there is none.
fn outcome(mut process: Process) -> Result<Box<ResultFile>, String> {
    let take = |pipe: Option<JoinHandle<Vec<u8>>>| pipe.and_then(|it| it.join().ok());
    let octets = take(process.result.take()).unwrap_or_default();
    let said = take(process.said.take()).unwrap_or_default();
    if let Some(why) = process.ended.take() {
        return Err(why);
    }
    let status = process.child.wait().map_err(|error| error.to_string())?;
    if octets.trim_ascii().is_empty() {
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last = last.strip_prefix("nodens-lab: ").unwrap_or(last);
        let said = if last.is_empty() { String::new() } else { format!(": {last}") };
        return Err(format!("{status}{said}"));
    }
    let result = lab_result::from_json(Path::new("its result"), &octets);
    result.map(Box::new).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_a_limit_before_the_start_after_an_interrupt_and_after_the_load() {
        let began = Instant::now();
        let limit = Limit { began, ended: None, load: Duration::from_secs(10) };
        let after = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(limit.passed(None, after(629)), None);
        assert_eq!(
            limit.passed(None, after(631)),
            Some("the time that it may wait for the others")
        );
        assert_eq!(limit.passed(Some(Duration::from_secs(39)), after(5_000)), None);
        assert_eq!(limit.passed(Some(Duration::from_secs(41)), after(5_000)), Some("its load"));
        let limit = Limit { ended: Some((began, "the interrupt")), ..limit };
        for elapsed in [None, Some(Duration::from_secs(5))] {
            assert_eq!(limit.passed(elapsed, after(29)), None);
            assert_eq!(limit.passed(elapsed, after(31)), Some("the interrupt"));
        }
    }

    #[test]
    fn a_process_that_is_stopped_is_ended_and_said_to_have_no_result() {
        let begin = |program: &str| {
            let mut command = Command::new(program);
            let child = command.arg("60").stdout(Stdio::piped()).spawn().unwrap();
            Process { child, result: None, said: None, ended: None }
        };
        let mut processes = [begin("sleep"), begin("true")];
        processes[1].child.wait().unwrap();
        let id = processes[0].child.id().to_string();
        Command::new("kill").args(["-STOP", &id]).status().unwrap();
        kill(&mut processes, "the interrupt");
        let [stopped, ended] = processes;
        assert!(ended.ended.is_none(), "it ended by itself");
        assert_eq!(outcome(stopped).unwrap_err(), "it had not ended 30s after the interrupt");
    }
}
