//! The common start of workers: one page over HTTP that tells when it is, and what time it is there.
//!
//! A worker that is ready fetches the page again and again, and says so once it has compared the clocks.
//! Once all have, the page has the start, a second ahead. The address of the page has a secret of the load:
//! whoever does not know it can neither take part in the load nor end it. Of the fetches, the quickest tells best how the worker's clock stands to that of the
//! page: the clock there was read at some moment of the fetch, and so the difference is known to half of
//! the time it took. The start is by the page's clock. A clock that is set meanwhile makes all fetches before
//! that worthless: they no longer agree with the newest one. After the worker has said that it is ready this ends
//! the load, since the start may be by the clock as it was.

use super::clock::{Compared, Moment, own_time, unix};
use super::token::Token;
use crate::counters::{self, Endpoint};
use crate::http::{self, Page};
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use lab_load::Worker;
use lab_result::ClockOffset;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From the moment when all workers are ready to the start: each of them has to ask once more meanwhile.
const LEAD: Duration = Duration::from_secs(1);
/// Between two fetches.
const STEP: Duration = Duration::from_millis(50);
/// How many fetches a clock is compared by at least.
const FETCHES_MIN: u32 = 5;
/// Characters of another machine's text that are told.
const SAID_MAX: usize = 200;
/// How long a worker waits for the others: Pods may be started one after the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Where the page is.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    authority: String,
    port: u16,
    token: Token,
}

impl Desk {
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }
}

impl std::str::FromStr for Desk {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let error = || format!("`{text}`: expected http://HOST:PORT/TOKEN");
        let rest = text.strip_prefix("http://").with_context(error)?;
        let (authority, token) = rest.split_once('/').with_context(error)?;
        let token = token.parse().with_context(error)?;
        let (host, port) = authority.rsplit_once(':').with_context(error)?;
        if host.is_empty() {
            bail!(error());
        }
        let port = port.parse().with_context(error)?;
        Ok(Self { authority: authority.to_owned(), port, token })
    }
}

/// What the page knows.
#[derive(Debug, Default)]
struct State {
    ready: BTreeSet<usize>,
    /// The plan of the first worker.
    plan: Option<(usize, u64)>,
    start: Option<SystemTime>,
    /// Why there will be none.
    refused: Option<String>,
}

/// The page, in this process.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) address: SocketAddr,
    token: Token,
    state: Arc<Mutex<State>>,
}

/// Listens at this port of `address`, or of all addresses of the machine.
pub(super) fn listen(address: Option<IpAddr>, port: u16) -> Result<TcpListener> {
    listen_by(address, port, TcpListener::bind::<SocketAddr>)
}

fn listen_by(
    address: Option<IpAddr>,
    port: u16,
    bind: impl Fn(SocketAddr) -> std::io::Result<TcpListener>,
) -> Result<TcpListener> {
    let first = address.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
    let bound = bind((first, port).into()).or_else(|error| match address {
        // A machine may have no IPv6.
        None if error.kind() != ErrorKind::AddrInUse => bind((Ipv4Addr::UNSPECIFIED, port).into()),
        _ => Err(error),
    });
    bound.with_context(|| {
        format!("cannot give the start of the workers at {}", SocketAddr::new(first, port))
    })
}

/// Serves the page for so many workers; the threads that do end with the process.
pub(super) fn open(listener: TcpListener, token: Token, workers: usize) -> Result<Opened> {
    let address = listener.local_addr()?;
    let opened = Opened { address, token: token.clone(), state: Arc::default() };
    let state = Arc::clone(&opened.state);
    http::serve(listener, move |path| match question(path, &token) {
        Some(it) if it.worker.of() == workers => page(&mut lock(&state), &it, workers),
        Some(it) => Page::not_found(&format!("worker {} is not one of {workers}", it.worker)),
        None => Page::not_found("expected /TOKEN?worker=K/N&plan=HASH with the token of this load"),
    });
    Ok(opened)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    /// Where a worker asks.
    pub(super) fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.token.text())
    }

    /// When the workers start, once that is known.
    pub(super) fn start(&self) -> Option<SystemTime> {
        lock(&self.state).start
    }

    /// Tells all that ask that there will be no start.
    pub(super) fn refuse(&self, why: &str) {
        lock(&self.state).refused.get_or_insert_with(|| why.to_owned());
    }
}

/// What a worker asks with `/TOKEN?worker=2/4&plan=HASH`; with `&ready` once nothing but the start is
/// missing.
struct Question {
    worker: Worker,
    plan: u64,
    ready: bool,
}

/// What is asked, if by one that has the token.
fn question(path: &str, token: &Token) -> Option<Question> {
    let (own, query) = path.strip_prefix('/')?.split_once('?')?;
    if !token.is(own) {
        return None;
    }
    let value =
        |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    let plan = u64::from_str_radix(value("plan")?, 16).ok()?;
    let ready = query.split('&').any(|word| word == "ready");
    Some(Question { worker: value("worker")?.parse().ok()?, plan, ready })
}

/// What is said to a worker.
fn page(state: &mut State, asked: &Question, workers: usize) -> Page {
    let index = asked.worker.index();
    let (first, plan) = *state.plan.get_or_insert((index, asked.plan));
    if plan != asked.plan {
        let other = asked.plan;
        state.refused.get_or_insert(format!(
            "worker {index} has plan {other:016x}, but worker {first} has plan {plan:016x}"
        ));
    } else if asked.ready {
        state.ready.insert(index);
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
        if let Self::From(asking) = self {
            asking.started(Moment::now());
        }
        Ok(Some(start))
    }

    /// How the clock of this machine stands to that of the page.
    pub(in crate::load) fn clock(&self) -> Option<ClockOffset> {
        match self {
            Self::From(asking) => asking.clock.map(|best| best.clock),
            _ => None,
        }
    }

    /// Why this worker did not start with the others: this machine's clock was set between the comparison of the
    /// clocks and the start.
    pub(in crate::load) fn moved(&self) -> Option<String> {
        match self {
            Self::From(asking) => asking.moved.clone(),
            _ => None,
        }
    }
}

/// A worker that asks for the start.
pub(in crate::load) struct Asking {
    endpoint: Endpoint,
    /// The best comparison of those that agree with the newest one.
    clock: Option<Compared>,
    fetches: u32,
    moved: Option<String>,
}

/// What one fetch said.
struct Fetch {
    /// By the clock of the page.
    start: Option<u64>,
    compared: Compared,
}

impl Asking {
    pub(super) fn new(desk: &Desk, worker: Worker, plan: u64) -> Self {
        let path = format!("/{}?worker={worker}&plan={plan:016x}", desk.token.text());
        let endpoint = Endpoint::new(desk.authority.clone(), path);
        Self { endpoint, clock: None, fetches: 0, moved: None }
    }

    /// Asks until all are ready; the start by this machine's clock.
    fn agree(&mut self, stop: &AtomicBool) -> Result<SystemTime, String> {
        let (began, mut failure) = (Instant::now(), None);
        while began.elapsed() < PATIENCE {
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            match self.fetch()? {
                Ok(Fetch { start, compared }) => {
                    let best = self.best(compared)?;
                    self.compared();
                    if let Some(start) = start {
                        return Ok(UNIX_EPOCH + Duration::from_nanos(own_time(start, best.clock)));
                    }
                }
                Err(error) => failure = Some(error),
            }
            std::thread::sleep(STEP);
        }
        let failure = failure.map_or(String::new(), |error| format!(" ({error:#})"));
        Err(format!("not all workers were ready within {PATIENCE:?}{failure}"))
    }

    /// The best comparison, with the newest one. One that does not agree with the newest is of a time before a clock
    /// was set, or slewed for long; a step after the worker has said that it is ready is final.
    fn best(&mut self, newest: Compared) -> Result<Compared, String> {
        let step = self.clock.and_then(|best| best.step(&newest));
        if let Some(seconds) = step.filter(|_| self.fetches >= FETCHES_MIN - 1) {
            let there = &self.endpoint.authority;
            return Err(format!(
                "a clock was set by {seconds:.3} s while the workers waited for the start, here or at http://{there}: \
                 begin again once it is right"
            ));
        }
        let best = self.clock.filter(|best| best.is_better(&newest)).unwrap_or(newest);
        Ok(*self.clock.insert(best))
    }

    /// Looks at the clock once more when the load begins.
    fn started(&mut self, now: Moment) {
        self.moved = self.clock.and_then(|best| best.at.moved_until(now));
    }

    /// One more comparison of the clocks. The start is given when all are ready, and so soon that there
    /// is no time for them then.
    fn compared(&mut self) {
        self.fetches += 1;
        if self.fetches == FETCHES_MIN - 1 {
            self.endpoint.path.push_str("&ready");
        }
    }

    /// Asks once. The outer error is final: there will be no start.
    fn fetch(&self) -> Result<Result<Fetch>, String> {
        let at = Moment::now();
        let (status, text) = match counters::fetch(&self.endpoint) {
            Ok(fetched) => fetched,
            Err(error) => return Ok(Err(error)),
        };
        if counters::code(&status) == Some("404") {
            let there = &self.endpoint.authority;
            return Err(format!("http://{there} knows no such worker: {}", plain(&text)));
        }
        let took = u64::try_from(at.monotonic.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let page: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(why) = page["refused"].as_str() {
            return Err(plain(why));
        }
        let Some(there) = page["now_unix_ns"].as_u64() else {
            let error = anyhow::anyhow!("`{}` is no answer about a start", plain(&text));
            return Ok(Err(error));
        };
        let here = i128::from(unix(at.wall)) + i128::from(took / 2);
        let offset_ns = i64::try_from(here - i128::from(there)).unwrap_or(i64::MAX);
        let clock = ClockOffset { offset_ns, within_ns: took.div_ceil(2) };
        let compared = Compared { clock, at };
        Ok(Ok(Fetch { start: page["start_unix_ns"].as_u64(), compared }))
    }
}

/// What another machine said, for a terminal: on one line and without control characters.
fn plain(text: &str) -> String {
    text.trim_end().chars().filter(|c| !c.is_control()).take(SAID_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk(opened: &Opened) -> Desk {
        opened.url().parse().unwrap()
    }

    fn asking(opened: &Opened, index: usize, plan: u64) -> Asking {
        Asking::new(&desk(opened), Worker::new(index, 3).unwrap(), plan)
    }

    fn opened() -> Opened {
        let listener = listen(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        open(listener, Token::new().unwrap(), 3).unwrap()
    }

    #[test]
    fn all_workers_get_one_start_when_the_last_is_ready() {
        let opened = opened();
        let stop = AtomicBool::new(false);
        let starts: Vec<_> = std::thread::scope(|scope| {
            let begin = |index| {
                let mut asking = asking(&opened, index, 7);
                let stop = &stop;
                scope.spawn(move || (asking.agree(stop).unwrap(), asking.clock.unwrap().clock))
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
    fn a_worker_with_another_plan_ends_all() {
        let opened = opened();
        let stop = AtomicBool::new(false);
        assert!(asking(&opened, 0, 7).fetch().unwrap().is_ok());
        let why = asking(&opened, 1, 8).agree(&stop).unwrap_err();
        let wanted = "worker 1 has plan 0000000000000008, but worker 0 has plan 0000000000000007";
        assert_eq!(why, wanted);
        assert_eq!(asking(&opened, 0, 7).agree(&stop).unwrap_err(), wanted);
    }

    #[test]
    fn a_stranger_neither_takes_part_nor_ends_the_load() {
        let opened = opened();
        let stop = AtomicBool::new(false);
        let mut stranger = desk(&opened);
        stranger.token = Token::new().unwrap();
        let mut unknown = Asking::new(&stranger, Worker::new(0, 3).unwrap(), 8);
        let why = unknown.agree(&stop).unwrap_err();
        assert!(why.contains("knows no such worker") && why.contains("the token"), "{why}");
        let mut one_of_two = Asking::new(&desk(&opened), Worker::new(0, 2).unwrap(), 8);
        let why = one_of_two.agree(&stop).unwrap_err();
        assert!(why.ends_with("worker 0/2 is not one of 3"), "{why}");
        for path in ["/start?worker=0/1&plan=x", "/?worker=0/3&plan=8&ready"] {
            let endpoint = Endpoint::new(desk(&opened).authority, path.to_owned());
            assert!(counters::get(&endpoint).unwrap_err().to_string().contains("404"), "{path}");
        }
        {
            let state = lock(&opened.state);
            assert!(state.plan.is_none() && state.refused.is_none() && state.ready.is_empty());
        }
        // The others start as if nothing had been.
        std::thread::scope(|scope| {
            for index in 0..3 {
                let (mut asking, stop) = (asking(&opened, index, 7), &stop);
                scope.spawn(move || asking.agree(stop).unwrap());
            }
        });
    }

    #[test]
    fn what_another_machine_says_has_no_control_characters() {
        assert_eq!(plain("\u{1b}[2Ja\r\nb\n"), "[2Jab");
        assert_eq!(plain(&"x".repeat(1_000)).len(), SAID_MAX);
    }

    #[test]
    fn a_machine_without_ipv6_listens_on_ipv4_and_a_port_in_use_is_an_error() {
        let bind = |address: SocketAddr| match address {
            // EAFNOSUPPORT
            SocketAddr::V6(_) => Err(std::io::Error::from_raw_os_error(97)),
            SocketAddr::V4(_) => TcpListener::bind(address),
        };
        let found = listen_by(None, 0, bind).unwrap();
        assert!(found.local_addr().unwrap().ip().is_unspecified());
        assert!(listen_by(Some(Ipv6Addr::LOCALHOST.into()), 0, bind).is_err());
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(Some(address.ip()), address.port()).unwrap_err();
        assert!(format!("{error:#}").contains(&address.to_string()), "{error:#}");
    }

    #[test]
    fn a_worker_far_away_knows_the_start_before_it_is_over() {
        let token = Token::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/{}", listener.local_addr().unwrap(), token.text());
        let state = Arc::new(Mutex::new(State::default()));
        http::serve(listener, move |path| {
            std::thread::sleep(Duration::from_millis(300));
            page(&mut lock(&state), &question(path, &token).unwrap(), 1)
        });
        let mut asking = Asking::new(&url.parse().unwrap(), Worker::new(0, 1).unwrap(), 7);
        let start = asking.agree(&AtomicBool::new(false)).unwrap();
        assert_eq!(asking.fetches, FETCHES_MIN);
        assert!(start > SystemTime::now(), "{:?}", start.elapsed());
    }

    /// A page for one worker, whose clock is set by 5 s after so many fetches, of which the first is the
    /// quickest; it never has a start before the fetch after that.
    fn page_that_is_set_after(fetches: u64) -> Asking {
        let token = Token::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/{}", listener.local_addr().unwrap(), token.text());
        let count = std::sync::atomic::AtomicU64::new(0);
        http::serve(listener, move |path| {
            let before = count.fetch_add(1, Ordering::Relaxed);
            if before > 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
            let set = if before >= fetches { 5_000_000_000 } else { 0 };
            let now = unix(SystemTime::now()) + set;
            let is_ready = question(path, &token).unwrap().ready && before > fetches;
            let start = is_ready.then_some(now + 1_000_000_000);
            let body = json!({ "start_unix_ns": start, "now_unix_ns": now });
            Page::found("application/json", format!("{body}\n"))
        });
        Asking::new(&url.parse().unwrap(), Worker::new(0, 1).unwrap(), 7)
    }

    #[test]
    fn a_clock_that_is_set_while_workers_wait_is_seen() {
        let stop = AtomicBool::new(false);
        let why = page_that_is_set_after(10).agree(&stop).unwrap_err();
        assert!(why.contains("a clock was set by ") && why.contains(" s while the"), "{why}");
        // Before it is ready a worker takes the clock as it is now.
        let mut early = page_that_is_set_after(2);
        let start = early.agree(&stop).unwrap();
        let ahead = start.duration_since(SystemTime::now()).unwrap();
        assert!(ahead < Duration::from_secs(2), "{ahead:?}");
        let clock = early.clock.unwrap().clock;
        assert!((clock.offset_ns + 5_000_000_000).abs() < 1_000_000_000, "{clock:?}");
    }

    #[test]
    fn a_clock_that_is_slewed_changes_the_comparison_and_ends_nothing() {
        let opened = opened();
        let mut asking = asking(&opened, 0, 7);
        asking.fetches = 100;
        let at = Moment::now();
        let compared =
            |offset_ns, within_ns| Compared { clock: ClockOffset { offset_ns, within_ns }, at };
        let mut best = |offset, within| asking.best(compared(offset, within)).unwrap().clock;
        assert_eq!(best(0, 10_000).offset_ns, 0);
        assert_eq!(best(15_000, 20_000).offset_ns, 0, "both may be true");
        assert_eq!(best(40_000, 20_000).offset_ns, 40_000, "the clocks have drifted apart");
        assert!(asking.best(compared(9_000_000, 20_000)).is_err());
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
    fn a_worker_that_is_stopped_no_longer_asks_and_a_refusal_reaches_all() {
        let opened = opened();
        let stopped = AtomicBool::new(true);
        assert_eq!(asking(&opened, 0, 7).agree(&stopped).unwrap_err(), "interrupted");
        opened.refuse("worker 2 has ended");
        let stop = AtomicBool::new(false);
        assert_eq!(asking(&opened, 1, 7).agree(&stop).unwrap_err(), "worker 2 has ended");
    }

    #[test]
    fn addresses_without_a_port_and_other_schemes_are_refused() {
        for text in [
            "",
            "http://",
            "http://host",
            "https://host:1",
            "http://host:x",
            "http://h/a:1",
            "http://:1",
        ] {
            for text in [text.to_owned(), format!("{text}/0123456789abcdef")] {
                assert!(text.parse::<Desk>().is_err(), "{text}");
            }
        }
        for text in ["http://host:1/", "http://host:1/short", "http://host:1/0123456789abcdef/"] {
            assert!(text.parse::<Desk>().is_err(), "{text}");
        }
        for text in ["http://lab-0.lab:5301", "http://[::1]:5301"] {
            let desk: Desk = format!("{text}/0123456789abcdef").parse().unwrap();
            assert_eq!(desk.port(), 5_301);
        }
    }
}
