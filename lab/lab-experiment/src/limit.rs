//! The highest rate at which a requirement holds: which rate to try next, when to stop, and what the
//! probes say together.
//!
//! The rate is doubled until a probe misses the requirement (or halved until one meets it). From then on
//! the probes are at the rate that is as probably too high as too low, given all probes so far
//! ([`Threshold`]), and on both sides of it. No single probe decides: one that was disturbed is outvoted by those after it. The
//! search ends when an interval that has the limit with a probability of 95 % is as narrow as asked for,
//! or after as many probes as were allowed; then the interval is as wide as it is.
//!
//! A probe that is INVALID says nothing about what is measured. It is taken again, and then other rates
//! are tried; it is no bound of the result as long as a valid probe can be one.

use lab_stats::Interval;
use lab_stats::threshold::Threshold;

/// By how much the rate goes up or down at a time before it is enclosed.
const FACTOR: f64 = 2.0;
/// How often a rate is tried before it is given up.
const TRIES: u32 = 3;
/// How many rates are given up between one that met and one that missed before the search ends there.
const GIVEN_UP_MAX: usize = 4;
/// How often the lowest rate must miss.
const FLOOR_MISSES: u32 = 2;
/// The probability that the limit lies in the interval.
pub const CONFIDENCE: f64 = 0.95;
/// Where the next probe may be, as probabilities that the limit is below. The first three take turns: in
/// the middle a probe says most of where the limit is, and on both sides of it how much chance decides.
const PARTS: [f64; 5] = [0.5, 0.15, 0.85, 0.3, 0.7];
const TURNS: usize = 3;

/// What a probe said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The requirement was met.
    Met,
    /// It was not.
    Missed,
    /// The probe is INVALID: nothing is known.
    Invalid,
}

/// Bounds of a search; rates are positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lowest rate that is tried.
    pub floor: f64,
    /// The highest rate that is tried.
    pub ceiling: f64,
    /// The search ends when the ratio of the ends of the interval is at most 1 plus this.
    pub precision: f64,
    /// The search ends after this many probes, INVALID ones among them.
    pub probes_max: usize,
}

/// Why a search did not continue above its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// The requirement is missed there.
    Server,
    /// It is missed at a rate further above than the precision asks for: the probes in between were
    /// INVALID.
    Between,
    /// The generator could not go faster.
    Generator,
    /// The ceiling was reached.
    Ceiling,
    /// The search did not come to its end: it had no more probes.
    Probes,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The limit; if it is not known what is above, the highest rate that met the requirement. `None` if
    /// none did: with [`Above::Server`] the floor missed it, else whether a rate meets it is not known.
    pub rate: Option<f64>,
    /// Where the limit is with a probability of [`CONFIDENCE`]; only with [`Above::Server`].
    pub interval: Option<Interval>,
    /// The lowest rate that missed the requirement; without one, the lowest that was given up.
    pub above: Option<f64>,
    /// What is above.
    pub why: Above,
    /// Whether the interval is as narrow as was asked for.
    pub settled: bool,
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    known: Threshold,
    /// The highest rate that met the requirement.
    met: Option<f64>,
    /// The lowest rate at which a valid probe missed it.
    missed: Option<f64>,
    /// How often the floor missed it.
    floor_missed: u32,
    /// Rates that were given up: each probe was invalid.
    invalid: Vec<f64>,
    /// How many probes of the rate at hand were invalid.
    tries: u32,
    /// Whether the rate at hand is one that was given up before.
    again: bool,
    /// Whether the lowest rate that was given up had its second chance.
    looked_again: bool,
    probes: usize,
    next: Option<f64>,
}

impl Search {
    /// A search that tries `start` first; a start near the result saves probes.
    pub fn new(bounds: Bounds, start: f64) -> Self {
        Self {
            bounds,
            known: Threshold::between(bounds.floor / FACTOR, bounds.ceiling * FACTOR),
            met: None,
            missed: None,
            floor_missed: 0,
            invalid: Vec::new(),
            tries: 0,
            again: false,
            looked_again: false,
            probes: 0,
            next: Some(start.clamp(bounds.floor, bounds.ceiling)),
        }
    }

    /// The rate to try now; `None` when the search is over.
    pub fn rate(&self) -> Option<f64> {
        self.next
    }

    /// Takes what the probe at [`Search::rate`] said.
    pub fn take(&mut self, said: Said) {
        let Some(rate) = self.next else { return };
        self.probes += 1;
        match said {
            Said::Invalid if !self.again && self.tries + 1 < TRIES => {
                self.tries += 1;
                self.next = self.next.filter(|_| self.probes < self.bounds.probes_max);
                return;
            }
            Said::Invalid if self.again => {}
            Said::Invalid => self.invalid.push(rate),
            Said::Met => {
                self.known.take(rate, true);
                self.met = Some(self.met.map_or(rate, |met| met.max(rate)));
                self.invalid.retain(|invalid| *invalid > rate);
            }
            Said::Missed => {
                self.known.take(rate, false);
                self.missed = Some(self.missed.map_or(rate, |missed| missed.min(rate)));
                self.floor_missed += u32::from(rate <= self.bounds.floor);
                self.invalid.retain(|invalid| *invalid < rate);
            }
        }
        (self.tries, self.again) = (0, false);
        self.next = self.after();
    }

    /// Takes for granted that no probe at [`Search::rate`] can be valid.
    pub fn give_up(&mut self) {
        let rate = self.next;
        while rate.is_some() && self.next == rate {
            self.take(Said::Invalid);
        }
    }

    fn after(&mut self) -> Option<f64> {
        if self.probes >= self.bounds.probes_max { None } else { self.following() }
    }

    /// The rate after this one, if there are probes left.
    fn following(&mut self) -> Option<f64> {
        let Bounds { floor, ceiling, precision, .. } = self.bounds;
        match (self.met, self.missed) {
            (Some(met), Some(_)) => self.between(met),
            (Some(met), None) => match self.lowest_invalid() {
                None => (met < ceiling).then_some((met * FACTOR).min(ceiling)),
                Some(above) if above / met > 1.0 + precision => Some((met * above).sqrt()),
                // What disturbed the generator may have passed.
                Some(above) => {
                    self.again = !std::mem::replace(&mut self.looked_again, true);
                    self.again.then_some(above)
                }
            },
            (None, missed) => {
                let lowest = self.lowest_invalid().into_iter().chain(missed).reduce(f64::min)?;
                let once_more = self.invalid.is_empty() && self.floor_missed < FLOOR_MISSES;
                (lowest > floor || once_more).then_some((lowest / FACTOR).max(floor))
            }
        }
    }

    fn lowest_invalid(&self) -> Option<f64> {
        self.invalid.iter().copied().reduce(f64::min)
    }

    fn is_settled(&self) -> bool {
        let Interval { low, high } = self.known.interval(CONFIDENCE);
        high / low <= 1.0 + self.bounds.precision
    }

    /// A rate in or beside the middle of where the limit may be, and none that was given up. What was
    /// never met is approached by no more than the factor at a time.
    fn between(&self, met: f64) -> Option<f64> {
        let Bounds { floor, ceiling, precision, .. } = self.bounds;
        let Interval { low, high } = self.known.interval(CONFIDENCE);
        let is_outside = high <= floor || low >= ceiling;
        if is_outside || self.is_settled() || self.invalid.len() >= GIVEN_UP_MAX {
            return None;
        }
        let near = 1.0 + precision / 2.0;
        let is_new =
            |rate: &f64| !self.invalid.iter().any(|other| (rate / other).max(other / rate) < near);
        let place = |part| self.known.quantile(part).min(met * FACTOR).clamp(floor, ceiling);
        let parts = PARTS.into_iter().cycle().skip(self.probes % TURNS).take(PARTS.len());
        parts.map(place).find(is_new)
    }

    /// Whether there was more to try before the limit is enclosed or known to be out of reach.
    fn is_cut_short(&self) -> bool {
        self.probes == 0 || self.tries > 0 || self.clone().following().is_some()
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let above = self.missed.or_else(|| self.lowest_invalid());
        let found = |rate, why| Found { rate, interval: None, above, why, settled: false };
        let Interval { low, high } = self.known.interval(CONFIDENCE);
        match (self.met, self.missed) {
            (Some(_), Some(_)) if high <= self.bounds.floor => found(None, Above::Server),
            (Some(_), Some(_)) if low >= self.bounds.ceiling => {
                found(Some(self.bounds.ceiling), Above::Ceiling)
            }
            (Some(met), Some(missed)) => {
                let (settled, given_up) = (self.is_settled(), !self.invalid.is_empty());
                if given_up && !settled {
                    return found(Some(met.min(missed)), Above::Between);
                }
                let interval = Some(Interval { low, high });
                let rate = Some(self.known.median());
                Found { rate, interval, above, why: Above::Server, settled }
            }
            (met, _) if self.is_cut_short() => found(met, Above::Probes),
            (met, _) if !self.invalid.is_empty() => found(met, Above::Generator),
            (met, Some(_)) => found(met, Above::Server),
            (met, None) => found(met, Above::Ceiling),
        }
    }
}

#[cfg(test)]
mod tests;
