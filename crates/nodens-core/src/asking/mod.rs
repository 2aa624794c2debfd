//! How a query gets a response from one of several upstreams.
//!
//! [`Asking`] has the upstreams and the rules: [`attempts`] whom to ask when, [`late`] what if a
//! response takes long, [`retries`], [`budget`] and [`reserve`] whether again, [`policy`] in which order,
//! [`coalesce`] who waits for whose response, [`probes`] when an upstream that failed is well again,
//! [`outage`] what is said when all have failed.
//! It knows no directive: `forward` makes it and maps its results. Sending is up to the owner of the
//! sockets.

mod attempts;
mod budget;
pub(crate) mod coalesce;
mod connecting;
mod ended;
mod late;
mod outage;
mod parts;
mod policy;
pub(crate) mod probes;
mod reserve;
mod retries;

use crate::metrics::Counter;
use crate::time::Now;
use crate::upstream::{Carrier, Upstream};
use budget::Floor;
use reserve::Reserve;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use attempts::State;
pub(crate) use ended::leave;
pub use parts::Parts;
pub use policy::Policy;
pub(crate) use retries::Cause;

/// Upstreams and how they are asked.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) options: Options,
    /// Tells this one from others in [`InFlight`](crate::coalescing::InFlight).
    pub(crate) instance: u64,
    /// Retries that all workers have together.
    pub(crate) floor: Floor,
    /// Those for clients that have had few.
    pub(crate) reserve: Reserve,
    /// The directive that log lines name.
    pub(crate) origin: &'static str,
    /// The zones whose queries come here, for the log.
    pub(crate) zones: String,
    /// Why a coalesced query failed last, for its followers.
    pub(crate) last_error: Mutex<String>,
    pub(crate) series: Series,
}

/// The rules.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) policy: Policy,
    /// Failed health checks in a row that are still tolerated; 0 for no health checks.
    pub(crate) max_fails: u32,
    /// How long one attempt may take.
    pub(crate) read_timeout: Duration,
    /// `None` by default; 0 for no limit.
    pub(crate) max_connect_attempts: Option<u32>,
    /// Whether a query fails at once while all upstreams are down.
    pub(crate) failfast: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::Random,
            max_fails: 2,
            read_timeout: Duration::from_secs(2),
            max_connect_attempts: None,
            failfast: false,
        }
    }
}

/// Metric series without labels.
#[derive(Debug)]
pub(crate) struct Series {
    /// Queries that found all upstreams down.
    pub(crate) all_down: Counter,
    /// Attempts after the first.
    pub(crate) retries: Counter,
    /// Retries for which there was no budget at their time.
    pub(crate) put_off: Counter,
}

/// A query in progress, and the worker that it belongs to.
pub(crate) struct Query<'a> {
    pub(crate) now: Now,
    /// Whose query it is.
    pub(crate) client: IpAddr,
    /// How to ask by default.
    pub(crate) carrier: Carrier,
    pub(crate) state: &'a mut State,
    /// The job's error so far.
    pub(crate) error: &'a mut String,
    /// When the job ends at the latest, monotonic nanoseconds.
    pub(crate) deadline_ns: u64,
    /// The job's timer.
    pub(crate) timer_at: &'a mut u64,
    pub(crate) worker: &'a mut Parts,
}

impl Query<'_> {
    /// Wakes the job at `at_ns`; a later call replaces an earlier one.
    fn set_timer(&mut self, at_ns: u64) {
        *self.timer_at = at_ns;
        self.worker.timers.push(at_ns, self.worker.ticket);
    }
}

/// How a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits for a response or for its timer.
    Waits,
    /// There is no response; [`Query::error`] says why.
    Failed,
}

impl Asking {
    /// The job that this one waited for has no response: asks in its place, or fails as it did.
    pub(crate) fn shared_nothing(&self, q: &mut Query<'_>) -> Progress {
        if coalesce::takes_over(q.state, q.worker) {
            return self.ask_next(q, Cause::Retry);
        }
        q.error.clone_from(&self.last_error.lock().unwrap_or_else(PoisonError::into_inner));
        self.fail(q)
    }

    fn remember_error(&self, error: &str) {
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        error.clone_into(&mut last);
    }
}
