//! The common start of workers: one page over HTTP that tells when it is, and what time it is there.
//!
//! A worker that is ready fetches the page again and again. Once all have, the page has the start, a
//! second ahead. Of the fetches, the quickest tells best how the worker's clock stands to that of the
//! page: the clock there was read at some moment of the fetch, and so the difference is known to half of
//! the time it took. The start is by the page's clock.

use crate::counters::{self, Endpoint};
use crate::http::{self, Page};
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use lab_load::Worker;
use lab_result::ClockOffset;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From the moment when all workers are ready to the start: each of them has to ask once more meanwhile.
const LEAD: Duration = Duration::from_secs(1);
/// Between two fetches.
const STEP: Duration = Duration::from_millis(50);
/// How many fetches a clock is compared by at least.
const FETCHES_MIN: u32 = 5;
/// How long a worker waits for the others: Pods may be started one after the other.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where the page is.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    authority: String,
    port: u16,
}

impl Desk {
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl std::str::FromStr for Desk {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let error = || format!("`{text}`: expected http://HOST:PORT");
        let authority = text.strip_prefix("http://").with_context(error)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = authority.rsplit_once(':').with_context(error)?;
        if host.is_empty() || host.contains('/') {
            bail!(error());
        }
        let port = port.parse().with_context(error)?;
        Ok(Self { authority: authority.to_owned(), port })
    }
}

/// What the page knows.
#[derive(Debug, Default)]
struct State {
    ready: BTreeSet<usize>,
    /// The plan of the first worker.
    plan: Option<(usize, String)>,
    start: Option<SystemTime>,
    /// Why there will be none.
    refused: Option<String>,
}

/// The page, in this process.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// Serves the page for so many workers; the threads that do end with the process.
pub(super) fn open(address: SocketAddr, workers: usize) -> Result<Opened> {
    let failed = || format!("cannot give the start of the workers at {address}");
    let listener = TcpListener::bind(address).with_context(failed)?;
    let opened =
        Opened { address: listener.local_addr().with_context(failed)?, state: Arc::default() };
    let state = Arc::clone(&opened.state);
    http::serve(listener, move |path| page(&mut lock(&state), path, workers));
    Ok(opened)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    /// When the workers start, once that is known.
    pub(super) fn start(&self) -> Option<SystemTime> {
        lock(&self.state).start
    }

    /// Tells all that ask that there will be no start.
    pub(super) fn refuse(&self, why: &str) {
        lock(&self.state).refused.get_or_insert_with(|| why.to_owned());
    }
}

/// What is said to a worker that asks with `/start?worker=2/4&plan=HASH`.
fn page(state: &mut State, path: &str, workers: usize) -> Page {
    let Some((worker, plan)) = question(path) else {
        return Page::not_found("expected /start?worker=K/N&plan=HASH");
    };
    if let Some(why) = wrong(state, worker, plan, workers) {
        state.refused.get_or_insert(why);
    } else {
        state.plan.get_or_insert_with(|| (worker.index(), plan.to_owned()));
        state.ready.insert(worker.index());
    }
    if state.ready.len() == workers && state.start.is_none() && state.refused.is_none() {
        state.start = Some(SystemTime::now() + LEAD);
    }
    let body = json!({
        "workers": workers,
        "ready": state.ready.len(),
        "refused": state.refused,
        "start_unix_ns": state.start.map(unix),
        "now_unix_ns": unix(SystemTime::now()),
    });
    Page::found("application/json", format!("{body}\n"))
}

/// The worker that asks, and its plan.
fn question(path: &str) -> Option<(Worker, &str)> {
    let query = path.strip_prefix("/start?")?;
    let value =
        |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    Some((value("worker")?.parse().ok()?, value("plan")?))
}

/// Why this worker is none of those that share the plan.
fn wrong(state: &State, worker: Worker, plan: &str, workers: usize) -> Option<String> {
    if worker.of() != workers {
        return Some(format!("worker {worker} is not one of {workers}"));
    }
    let (first, other) = state.plan.as_ref().filter(|(_, other)| other != plan)?;
    let index = worker.index();
    Some(format!("worker {index} has plan {plan}, but worker {first} has plan {other}"))
}

fn unix(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How a load waits for its start.
pub(in crate::load) enum StartLine {
    /// It does not.
    Now,
    /// For a time.
    At(SystemTime),
    /// For the others.
    From(Asking),
}

impl StartLine {
    pub(super) fn at(time: Timestamp) -> Self {
        Self::At(SystemTime::from(time))
    }

    /// When to start by this machine's clock; returns `before` that, and a second before at most.
    pub(in crate::load) fn agree(
        &mut self,
        stop: &AtomicBool,
        before: Duration,
    ) -> Result<Option<SystemTime>, String> {
        let start = match self {
            Self::Now => return Ok(None),
            Self::At(start) => *start,
            Self::From(asking) => asking.agree(stop)?,
        };
        let left = || start.duration_since(SystemTime::now()).unwrap_or_default();
        let before = before.min(LEAD);
        while left() > before {
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            std::thread::sleep(STEP.min(left().saturating_sub(before)));
        }
        Ok(Some(start))
    }

    /// How the clock of this machine stands to that of the page.
    pub(in crate::load) fn clock(&self) -> Option<ClockOffset> {
        match self {
            Self::From(asking) => asking.clock,
            _ => None,
        }
    }
}

/// A worker that asks for the start.
pub(in crate::load) struct Asking {
    endpoint: Endpoint,
    clock: Option<ClockOffset>,
}

/// What one fetch said.
struct Fetch {
    /// By the clock of the page.
    start: Option<u64>,
    clock: ClockOffset,
}

impl Asking {
    pub(super) fn new(desk: &Desk, worker: Worker, plan: u64) -> Self {
        let path = format!("/start?worker={worker}&plan={plan:016x}");
        Self { endpoint: Endpoint::new(desk.authority.clone(), path), clock: None }
    }

    /// Asks until all are ready; the start by this machine's clock.
    fn agree(&mut self, stop: &AtomicBool) -> Result<SystemTime, String> {
        let (began, mut fetches, mut failure) = (Instant::now(), 0, None);
        while began.elapsed() < PATIENCE {
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            match self.fetch()? {
                Ok(Fetch { start, clock }) => {
                    fetches += 1;
                    let best = self.clock.filter(|best| best.within_ns <= clock.within_ns);
                    let best = *self.clock.insert(best.unwrap_or(clock));
                    if let Some(start) = start.filter(|_| fetches >= FETCHES_MIN) {
                        return Ok(UNIX_EPOCH + Duration::from_nanos(own_time(start, best)));
                    }
                }
                Err(error) => failure = Some(error),
            }
            std::thread::sleep(STEP);
        }
        let failure = failure.map_or(String::new(), |error| format!(" ({error:#})"));
        Err(format!("not all workers were ready within {PATIENCE:?}{failure}"))
    }

    /// Asks once. The outer error is final: there will be no start.
    fn fetch(&self) -> Result<Result<Fetch>, String> {
        let (before, clock) = (unix(SystemTime::now()), Instant::now());
        let text = match counters::get(&self.endpoint) {
            Ok(text) => text,
            Err(error) => return Ok(Err(error)),
        };
        let took = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let page: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(why) = page["refused"].as_str() {
            return Err(why.to_owned());
        }
        let Some(there) = page["now_unix_ns"].as_u64() else {
            let error = anyhow::anyhow!("`{}` is no answer about a start", text.trim_end());
            return Ok(Err(error));
        };
        let here = i128::from(before) + i128::from(took / 2);
        let offset_ns = i64::try_from(here - i128::from(there)).unwrap_or(i64::MAX);
        let clock = ClockOffset { offset_ns, within_ns: took.div_ceil(2) };
        Ok(Ok(Fetch { start: page["start_unix_ns"].as_u64(), clock }))
    }
}

/// A time of the page's clock by this machine's.
fn own_time(there: u64, clock: ClockOffset) -> u64 {
    u64::try_from(i128::from(there) + i128::from(clock.offset_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk(opened: &Opened) -> Desk {
        format!("http://{}", opened.address).parse().unwrap()
    }

    fn asking(opened: &Opened, index: usize, plan: u64) -> Asking {
        Asking::new(&desk(opened), Worker::new(index, 3).unwrap(), plan)
    }

    fn opened() -> Opened {
        open("127.0.0.1:0".parse().unwrap(), 3).unwrap()
    }

    #[test]
    fn all_workers_get_one_start_when_the_last_is_ready() {
        let opened = opened();
        let stop = AtomicBool::new(false);
        let starts: Vec<_> = std::thread::scope(|scope| {
            let begin = |index| {
                let mut asking = asking(&opened, index, 7);
                let stop = &stop;
                scope.spawn(move || (asking.agree(stop).unwrap(), asking.clock.unwrap()))
            };
            let early = [begin(0), begin(1)];
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(opened.start(), None, "one is missing");
            early.into_iter().chain([begin(2)]).map(|thread| thread.join().unwrap()).collect()
        });
        let start = opened.start().unwrap();
        for (own, clock) in starts {
            // One machine, one clock: what is measured as a difference is less than its bound.
            assert!(clock.offset_ns.unsigned_abs() <= clock.within_ns, "{clock:?}");
            let off = own.duration_since(start).unwrap_or_else(|error| error.duration());
            assert!(off <= Duration::from_nanos(clock.within_ns), "{off:?}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_starts_later_by_its_own_time() {
        let clock = ClockOffset { offset_ns: 1_500, within_ns: 10 };
        assert_eq!(own_time(10_000, clock), 11_500);
        assert_eq!(own_time(10_000, ClockOffset { offset_ns: -1_500, ..clock }), 8_500);
    }

    #[test]
    fn a_worker_with_another_plan_ends_all() {
        let opened = opened();
        let stop = AtomicBool::new(false);
        assert!(asking(&opened, 0, 7).fetch().unwrap().is_ok());
        let why = asking(&opened, 1, 8).agree(&stop).unwrap_err();
        let wanted = "worker 1 has plan 0000000000000008, but worker 0 has plan 0000000000000007";
        assert_eq!(why, wanted);
        assert_eq!(asking(&opened, 0, 7).agree(&stop).unwrap_err(), wanted);
        let other = self::opened();
        let mut one_of_two = Asking::new(&desk(&other), Worker::new(0, 2).unwrap(), 7);
        assert_eq!(one_of_two.agree(&stop).unwrap_err(), "worker 0/2 is not one of 3");
    }

    #[test]
    fn a_worker_that_is_stopped_no_longer_asks_and_a_refusal_reaches_all() {
        let opened = opened();
        let stopped = AtomicBool::new(true);
        assert_eq!(asking(&opened, 0, 7).agree(&stopped).unwrap_err(), "interrupted");
        opened.refuse("worker 2 has ended");
        let stop = AtomicBool::new(false);
        assert_eq!(asking(&opened, 1, 7).agree(&stop).unwrap_err(), "worker 2 has ended");
    }

    #[test]
    fn the_wait_for_a_start_ends_as_long_before_it_as_is_asked_for() {
        let start = SystemTime::now() + Duration::from_millis(700);
        let mut line = StartLine::At(start);
        let agreed = line.agree(&AtomicBool::new(false), Duration::from_millis(300)).unwrap();
        let left = start.duration_since(SystemTime::now()).unwrap();
        assert!(agreed == Some(start) && left <= Duration::from_millis(301), "{left:?}");
    }

    #[test]
    fn addresses_without_a_port_and_other_schemes_are_refused() {
        for text in
            ["", "http://", "http://host", "https://host:1", "http://host:x", "http://h/a:1"]
        {
            assert!(text.parse::<Desk>().is_err(), "{text}");
        }
        for text in ["http://lab-0.lab:5301", "http://[::1]:5301/"] {
            assert_eq!(text.parse::<Desk>().unwrap().port(), 5_301);
        }
    }
}
