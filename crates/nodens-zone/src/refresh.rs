//! When a secondary asks its primaries for a zone (RFC 1034 section 4.3.5, RFC 1996).
//!
//! [`Refresh`] is one zone: a state machine whose inputs are the time, the ends of what it asked for,
//! and NOTIFY. [`Schedule`] has the zones of a server in the order of their times. Whoever
//! has sockets does what they say.

use crate::limits::{
    BOOTSTRAP_MAX, BOOTSTRAP_MIN, EXPIRE_MIN, REFRESH_MIN, REFUSED_MAX, RESTORED_MARGIN, RETRY_MIN,
    USELESS_MAX,
};
use crate::serial::Serial;
use crate::zone::{Soa, Timers};
use std::time::Duration;

mod schedule;

pub use schedule::{Schedule, Token};

#[cfg(test)]
mod tests;

/// What is to be done for a zone. A primary is its index among those of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask this primary for its SOA record; [`Refresh::ended`] has to be called with what came of it.
    Query(usize),
    /// Transfer the zone from this primary, by IXFR if there is a version; [`Refresh::ended`] again.
    Transfer(usize),
    /// No primary was reached for too long: the zone must not be served any more.
    Expire,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The primary has this version, or it said with a transfer that it has no later one.
    Has(Serial),
    /// The zone is here in a version with this serial and these times.
    Transferred(Serial, Timers),
    /// There was no answer in time, or none that is of use.
    Failed,
    /// The primary answered that it will not give the zone, or there is no room for it here.
    Refused,
    /// What the primary has cannot be served, and will be the same the next time: pauses grow.
    Useless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until that time, in monotonic nanoseconds.
    Resting(u64),
    /// To be done as soon as possible.
    Due(Action),
    /// Waits for the end of that.
    UnderWay(Action),
}

/// One zone of a secondary. Times are monotonic nanoseconds.
#[derive(Clone, Debug)]
pub struct Refresh {
    primaries: usize,
    /// The version that is here.
    serial: Option<Serial>,
    /// The times of the last version.
    timers: Option<Timers>,
    expires_at: Option<u64>,
    state: State,
    /// How many primaries were asked in this round.
    asked: usize,
    /// Whether one of them answered, though with an older version.
    reached: bool,
    /// How many of them have refused.
    refused: usize,
    /// Whether one of them has what cannot be served.
    useless: bool,
    /// Rounds that have failed since there was a version.
    failures: u32,
    /// Who sent a NOTIFY and was not asked first since, in that order: each once.
    notified: Vec<usize>,
    /// No round begins before, also after a NOTIFY.
    rested_at: u64,
    /// Whether it was restored, does not expire soon, and was not asked for since.
    is_restored: bool,
}

impl Refresh {
    /// A zone of so many primaries, of which nothing is here yet: it is asked for at once.
    pub fn new(primaries: usize) -> Self {
        Self {
            primaries,
            serial: None,
            timers: None,
            expires_at: None,
            state: State::Resting(0),
            asked: 0,
            reached: false,
            refused: 0,
            useless: false,
            failures: 0,
            notified: Vec::new(),
            rested_at: 0,
            is_restored: false,
        }
    }

    /// The version that is here.
    pub fn serial(&self) -> Option<Serial> {
        self.serial
    }

    /// A version is here from the beginning, which was last compared with a primary's `age` ago.
    pub fn restore(&mut self, now_ns: u64, soa: &Soa, age: Duration) {
        (self.serial, self.timers) = (Some(soa.serial()), Some(soa.timers()));
        let left = kept_for(soa.timers()).saturating_sub(age);
        self.expires_at = Some(now_ns.saturating_add(nanoseconds(left)));
        self.state = State::Resting(now_ns);
        self.is_restored = left > RESTORED_MARGIN;
    }

    /// When there is something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        self.next_request().into_iter().chain(self.expires_at).min()
    }

    /// When a primary is to be asked.
    fn next_request(&self) -> Option<u64> {
        match self.state {
            State::Resting(until) => Some(until),
            State::Due(_) => Some(0),
            State::UnderWay(_) => None,
        }
    }

    /// Whether others may go first: the next attempt follows one that has failed, and nothing is served meanwhile, or
    /// what is served was restored.
    fn is_patient(&self) -> bool {
        let rests = matches!(self.state, State::Resting(_)) && self.notified.is_empty();
        let is_retry = self.serial.is_none() && self.failures > 0;
        rests && (is_retry || self.is_restored)
    }

    /// What is to be done now. To be called until it gives nothing.
    pub fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if self.expires_at.is_some_and(|at| at <= now_ns) {
            // What a primary said of the version that is gone does not count.
            (self.expires_at, self.serial, self.reached) = (None, None, false);
            self.is_restored = false;
            // Nothing is served until a primary answers: no pause is worth that.
            if matches!(self.state, State::Resting(_)) {
                self.state = State::Resting(now_ns);
            }
            return Some(Action::Expire);
        }
        match self.state {
            State::Resting(until) if until <= now_ns => {
                let first = self.notified.first().copied();
                self.begin(first.unwrap_or_default());
            }
            _ => {}
        }
        let State::Due(action) = self.state else { return None };
        self.state = State::UnderWay(action);
        Some(action)
    }

    /// Starts a round with this primary.
    fn begin(&mut self, primary: usize) {
        (self.asked, self.reached, self.refused, self.useless) = (0, false, 0, false);
        self.is_restored = false;
        self.notified.retain(|other| *other != primary);
        match primary.checked_rem(self.primaries) {
            Some(primary) => self.ask(primary),
            None => self.state = State::Resting(u64::MAX),
        }
    }

    fn ask(&mut self, primary: usize) {
        self.asked += 1;
        self.state = State::Due(match self.serial {
            Some(_) => Action::Query(primary),
            None => Action::Transfer(primary),
        });
    }

    /// The last action but [`Action::Expire`] has ended. `random` is spread evenly over all numbers.
    pub fn ended(&mut self, now_ns: u64, end: End, random: u32) {
        let State::UnderWay(action) = self.state else { return };
        let (primary, queried) = match action {
            Action::Query(primary) => (primary, true),
            Action::Transfer(primary) => (primary, false),
            Action::Expire => return,
        };
        match end {
            End::Transferred(serial, timers) => {
                (self.serial, self.timers) = (Some(serial), Some(timers));
                self.succeed(now_ns, random);
            }
            End::Has(theirs) if queried && self.serial.is_none_or(|ours| theirs > ours) => {
                self.state = State::Due(Action::Transfer(primary));
            }
            End::Has(theirs) if self.serial == Some(theirs) => self.succeed(now_ns, random),
            End::Has(theirs) => {
                // Another may have a newer version.
                self.reached |= self.serial.is_some_and(|ours| theirs < ours);
                self.ask_next(primary, now_ns, random);
            }
            End::Failed | End::Refused | End::Useless => {
                self.refused += usize::from(end == End::Refused);
                self.useless |= end == End::Useless;
                self.ask_next(primary, now_ns, random);
            }
        }
    }

    fn ask_next(&mut self, after: usize, now_ns: u64, random: u32) {
        if self.asked < self.primaries {
            self.ask((after + 1) % self.primaries);
        } else if self.reached {
            self.lag(now_ns, random);
        } else {
            self.fail(now_ns, random);
        }
    }

    fn succeed(&mut self, now_ns: u64, random: u32) {
        self.failures = 0;
        let Some(timers) = self.timers else { return self.fail(now_ns, random) };
        self.expires_at = Some(now_ns.saturating_add(nanoseconds(kept_for(timers))));
        self.rest(now_ns, seconds(timers.refresh, REFRESH_MIN), REFRESH_MIN, random);
    }

    /// The primaries that were reached have earlier versions alone, which they may have for ever, as after a zone was
    /// made anew: the version that is here expires unless one of them has it in time. BIND, Knot DNS and NSD do the
    /// same.
    fn lag(&mut self, now_ns: u64, random: u32) {
        self.failures = 0;
        let Some(timers) = self.timers else { return self.fail(now_ns, random) };
        self.rest(now_ns, seconds(timers.refresh, REFRESH_MIN), REFRESH_MIN, random);
    }

    fn fail(&mut self, now_ns: u64, random: u32) {
        let doubled = BOOTSTRAP_MIN.saturating_mul(1 << self.failures.min(16));
        // RETRY is for a version that is served meanwhile.
        let mut pause = match self.timers.filter(|_| self.serial.is_some()) {
            Some(timers) => seconds(timers.retry, RETRY_MIN),
            None if self.refused == self.asked => doubled.min(REFUSED_MAX),
            None => doubled.min(BOOTSTRAP_MAX),
        };
        if self.useless {
            pause = pause.max(doubled.min(USELESS_MAX));
        }
        self.failures = self.failures.saturating_add(1);
        self.rest(now_ns, pause, RETRY_MIN, random);
    }

    /// Rests for `pause` less up to a quarter, so that zones that came together do not stay together;
    /// only for `least` if a primary says that there is something new.
    fn rest(&mut self, now_ns: u64, pause: Duration, least: Duration, random: u32) {
        self.rested_at = now_ns.saturating_add(nanoseconds(least));
        if !self.notified.is_empty() {
            self.state = State::Resting(self.rested_at);
            return;
        }
        let pause = nanoseconds(pause);
        let less = (u128::from(pause / 4) * u128::from(random)) >> 32;
        let less = u64::try_from(less).unwrap_or(0);
        self.state = State::Resting(now_ns.saturating_add(pause - less));
    }

    /// `primary` says that the zone has changed, perhaps with the serial of its version. It is asked
    /// before the others: at once, or [`REFRESH_MIN`] after a round that has reached a primary and
    /// [`RETRY_MIN`] after one that has not.
    pub fn notified(&mut self, primary: usize, serial: Option<Serial>) {
        let is_known = serial.is_some_and(|theirs| self.serial.is_some_and(|ours| theirs <= ours));
        if is_known || primary >= self.primaries {
            return;
        }
        if !self.notified.contains(&primary) {
            self.notified.push(primary);
        }
        if let State::Resting(until) = self.state {
            self.state = State::Resting(until.min(self.rested_at));
        }
    }
}

/// How long a version may be served without a primary: EXPIRE, or as long as it takes to find that no
/// primary answers, where that is longer (RFC 1912 section 2.2 wants EXPIRE to be longer).
pub fn kept_for(timers: Timers) -> Duration {
    let found = seconds(timers.refresh, REFRESH_MIN) + seconds(timers.retry, RETRY_MIN);
    seconds(timers.expire, EXPIRE_MIN).max(found)
}

fn seconds(value: u32, least: Duration) -> Duration {
    Duration::from_secs(value.into()).max(least)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
