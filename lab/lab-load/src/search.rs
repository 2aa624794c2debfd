//! The highest rate at which a server meets an objective: which rate to try next, and what the
//! tries say together. No I/O and no clock.
//!
//! One search ramps up geometrically until a probe misses the objective, then halves the ratio
//! between the highest rate that met it and the lowest that did not. It takes for granted that a
//! server that meets an objective at one rate meets it at lower ones; where a run is near the edge,
//! chance decides, which is why a search is repeated and the spread of its results is reported.
//!
//! A probe that is INVALID says nothing about the server. It is taken again,
//! and then other rates are tried; it is no bound of the result as long as a valid probe can be one.

pub use crate::objective::{Check, Objective, ObjectiveError};

/// What a probe said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The server met the objective.
    Met,
    /// It did not.
    Missed,
    /// The probe is INVALID: nothing is known about the server.
    Invalid,
}

/// Bounds of a search, in QPS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lowest rate that is tried.
    pub floor: f64,
    /// The highest rate that is tried.
    pub ceiling: f64,
    /// The search ends when the ratio of the lowest rate that fails to the highest that does not is
    /// at most 1 plus this.
    pub precision: f64,
}

/// Why a search did not continue above its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// The server missed the objective.
    Server,
    /// The server missed the objective, but at a rate further above than the precision asks for:
    /// the probes in between were INVALID.
    Between,
    /// The generator could not go faster.
    Generator,
    /// The ceiling was reached.
    Ceiling,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The highest rate that met the objective; `None` if not even the floor did.
    pub highest: Option<f64>,
    /// The lowest rate above it at which the server missed it; without one, the lowest that the
    /// generator declared INVALID.
    pub above: Option<f64>,
    /// What was there.
    pub why: Above,
}

/// One search.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    /// The highest rate that met the objective.
    met: Option<f64>,
    /// The lowest rate at which a valid probe missed it.
    missed: Option<f64>,
    /// Rates that were given up: each probe was invalid.
    invalid: Vec<f64>,
    /// How many probes of the rate at hand were invalid.
    tries: u32,
    /// Whether the rate at hand is one that was given up before.
    again: bool,
    /// Whether the lowest rate that was given up had its second chance.
    looked_again: bool,
    next: Option<f64>,
}

/// By how much the ramp goes up or down at a time.
const FACTOR: f64 = 2.0;
/// How often a rate is tried before it is given up.
const TRIES: u32 = 3;
/// How many rates are given up between one that met and one that missed before the search ends there.
const GIVEN_UP_MAX: usize = 4;
/// Places between such rates, in the order in which they are tried.
const PLACES: [f64; 7] = [0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875];

impl Search {
    /// A search that tries `start` first; a start near the result saves probes.
    pub fn new(bounds: Bounds, start: f64) -> Self {
        Self {
            bounds,
            met: None,
            missed: None,
            invalid: Vec::new(),
            tries: 0,
            again: false,
            looked_again: false,
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
        match said {
            Said::Invalid if !self.again && self.tries + 1 < TRIES => {
                self.tries += 1;
                return;
            }
            Said::Invalid if self.again => {}
            Said::Invalid => self.invalid.push(rate),
            Said::Met => {
                self.met = Some(rate);
                self.invalid.retain(|invalid| *invalid > rate);
            }
            Said::Missed => {
                self.missed = Some(rate);
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
        let Bounds { floor, ceiling, precision } = self.bounds;
        match (self.met, self.missed) {
            (Some(met), Some(missed)) if missed / met <= 1.0 + precision => None,
            (Some(met), Some(missed)) => self.between(met, missed),
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
                (lowest > floor).then_some((lowest / FACTOR).max(floor))
            }
        }
    }

    fn lowest_invalid(&self) -> Option<f64> {
        self.invalid.iter().copied().reduce(f64::min)
    }

    /// A rate between one that met and one that missed, away from those that were given up.
    fn between(&self, met: f64, missed: f64) -> Option<f64> {
        if self.invalid.len() >= GIVEN_UP_MAX {
            return None;
        }
        let near = 1.0 + self.bounds.precision / 2.0;
        let is_new =
            |rate: &f64| !self.invalid.iter().any(|other| (rate / other).max(other / rate) < near);
        PLACES.into_iter().map(|place| met * (missed / met).powf(place)).find(is_new)
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let precise = |met: f64, missed: f64| missed / met <= 1.0 + self.bounds.precision;
        let why = match (self.met, self.missed) {
            (Some(met), Some(missed)) if precise(met, missed) => Above::Server,
            (Some(_), Some(_)) => Above::Between,
            _ if !self.invalid.is_empty() => Above::Generator,
            (_, Some(_)) => Above::Server,
            (_, None) => Above::Ceiling,
        };
        let above = self.missed.or_else(|| self.lowest_invalid());
        Found { highest: self.met, above, why }
    }
}

/// What several searches say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median of the highest rates, a search without one counting as 0.
    pub median: f64,
    /// The lowest of them.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
    /// What stopped the searches that are counted.
    pub why: Above,
    /// How many searches are counted. One that the generator stopped is only if what it found is no
    /// less than what the others say: it knows no more than that the server does this much.
    pub counted: usize,
}

impl Summary {
    /// The summary of `found`; `None` of nothing.
    pub fn of(found: &[Found]) -> Option<Self> {
        let decided = |found: &&Found| matches!(found.why, Above::Server | Above::Ceiling);
        let between = |found: &&Found| found.why == Above::Between;
        let mut counted: Vec<Found> = found.iter().filter(decided).copied().collect();
        if let Some(median) = median(&counted) {
            let more = found.iter().filter(|it| !decided(it) && rate(it) >= median);
            counted.extend(more);
        } else {
            // The server has missed the objective in these: the generator is not the limit.
            counted = found.iter().filter(between).copied().collect();
        }
        if counted.is_empty() {
            counted = found.to_vec();
        }
        let median = median(&counted)?;
        let rates = || counted.iter().map(rate);
        let (lowest, highest) = (rates().reduce(f64::min)?, rates().reduce(f64::max)?);
        Some(Self { median, lowest, highest, why: why(&counted), counted: counted.len() })
    }
}

/// The one or two in the middle.
fn middle(counted: &[Found]) -> Option<[Found; 2]> {
    let mut sorted = counted.to_vec();
    sorted.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let low = sorted.len().checked_sub(1)? / 2;
    Some([*sorted.get(low)?, *sorted.get(sorted.len() / 2)?])
}

fn median(counted: &[Found]) -> Option<f64> {
    middle(counted).map(|[low, high]| (rate(&low) + rate(&high)) / 2.0)
}

/// What stopped the searches in the middle: the server if it stopped one of them.
fn why(counted: &[Found]) -> Above {
    let any = |why| middle(counted).is_some_and(|found| found.iter().any(|it| it.why == why));
    let all = [Above::Server, Above::Between, Above::Ceiling];
    all.into_iter().find(|why| any(*why)).unwrap_or(Above::Generator)
}

fn rate(found: &Found) -> f64 {
    found.highest.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { floor: 100.0, ceiling: 1e6, precision: 0.05 };

    /// A whole search, by what a probe at a rate says the first, second, … time overall.
    fn search_by(start: f64, mut said: impl FnMut(f64, usize) -> Said) -> (Found, usize) {
        let mut search = Search::new(BOUNDS, start);
        let mut probes = 0;
        while let Some(rate) = search.rate() {
            assert!((BOUNDS.floor..=BOUNDS.ceiling).contains(&rate));
            probes += 1;
            assert!(probes < 100);
            search.take(said(rate, probes));
        }
        (search.found(), probes)
    }

    /// Searches against a server with this limit and a generator with that one.
    fn search(start: f64, server: f64, generator: f64) -> (Found, usize) {
        search_by(start, |rate, _| match rate {
            rate if rate > generator => Said::Invalid,
            rate if rate > server => Said::Missed,
            _ => Said::Met,
        })
    }

    #[test]
    fn the_limit_of_a_server_is_found_from_any_start() {
        for limit in [100.0, 123.0, 999.0, 54_321.0, 999_999.0] {
            for start in [1.0, 100.0, 1_000.0, 50_000.0, 1e7] {
                let (found, probes) = search(start, limit, f64::INFINITY);
                let (highest, above) = (found.highest.unwrap(), found.above.unwrap());
                assert!(highest <= limit && limit < above && above / highest <= 1.05);
                assert_eq!(found.why, Above::Server);
                assert!(probes <= 22, "{limit} {start}: {probes}");
            }
        }
    }

    #[test]
    fn a_server_without_a_limit_reaches_the_ceiling_and_a_bad_one_not_the_floor() {
        let (found, _) = search(1_000.0, f64::INFINITY, f64::INFINITY);
        assert_eq!(found, Found { highest: Some(1e6), above: None, why: Above::Ceiling });
        let (found, _) = search(1_000.0, 99.0, f64::INFINITY);
        assert_eq!(found, Found { highest: None, above: Some(100.0), why: Above::Server });
    }

    #[test]
    fn what_the_generator_cannot_send_is_no_limit_of_the_server() {
        let (found, _) = search(1_000.0, 90_000.0, 40_000.0);
        assert_eq!(found.why, Above::Generator);
        assert!((38_000.0..=40_000.0).contains(&found.highest.unwrap()));
        let (found, _) = search(1_000.0, 30_000.0, 40_000.0);
        assert_eq!(found.why, Above::Server);
        let (found, _) = search(1_000.0, 90_000.0, 50.0);
        assert_eq!(found, Found { highest: None, above: Some(100.0), why: Above::Generator });
    }

    #[test]
    fn a_probe_that_chance_has_spoilt_is_taken_again() {
        let mut search = Search::new(BOUNDS, 1_000.0);
        search.take(Said::Invalid);
        search.take(Said::Invalid);
        assert_eq!(search.rate(), Some(1_000.0));
        search.take(Said::Met);
        assert_eq!((search.rate(), search.found().highest), (Some(2_000.0), Some(1_000.0)));
    }

    #[test]
    fn invalid_probes_below_a_valid_miss_are_no_bound_and_do_not_make_the_generator_the_limit() {
        // The server does 30,000; around 20,000 to 27,000, the run is INVALID.
        let (found, _) = search_by(16_000.0, |rate, _| match rate {
            20_000.0..27_000.0 => Said::Invalid,
            rate if rate > 30_000.0 => Said::Missed,
            _ => Said::Met,
        });
        assert_eq!(found.why, Above::Server);
        let (highest, above) = (found.highest.unwrap(), found.above.unwrap());
        assert!(highest <= 30_000.0 && 30_000.0 < above && above / highest <= 1.05, "{found:?}");
        // Nothing between 16,000 and 32,000 is valid: the bounds are those of valid probes.
        let (found, _) = search_by(16_000.0, |rate, _| match rate {
            rate if rate <= 16_000.0 => Said::Met,
            rate if rate >= 32_000.0 => Said::Missed,
            _ => Said::Invalid,
        });
        let between = Found { highest: Some(16e3), above: Some(32e3), why: Above::Between };
        assert_eq!(found, between);
    }

    #[test]
    fn a_disturbance_that_has_passed_does_not_bias_the_result_down() {
        // The generator is disturbed during the second to the fourth probe only.
        let (found, _) = search_by(1_000.0, |rate, probe| match (rate, probe) {
            (_, 2..=4) => Said::Invalid,
            (rate, _) if rate > 30_000.0 => Said::Missed,
            _ => Said::Met,
        });
        assert_eq!(found.why, Above::Server);
        assert!((28_500.0..=30_000.0).contains(&found.highest.unwrap()), "{found:?}");
    }

    #[test]
    fn a_rate_that_cannot_be_is_given_up_at_once() {
        let mut search = Search::new(BOUNDS, 1_000.0);
        search.take(Said::Met);
        search.give_up();
        assert!(search.rate().unwrap() < 2_000.0);
    }

    #[test]
    fn repeats_have_a_median_and_a_range() {
        let found = |rate: f64, why| Found { highest: Some(rate), above: None, why };
        let server = [3e3, 1e3, 2e3].map(|rate| found(rate, Above::Server));
        let summary = Summary::of(&server).unwrap();
        assert_eq!((summary.median, summary.lowest, summary.highest), (2e3, 1e3, 3e3));
        assert_eq!((summary.why, summary.counted), (Above::Server, 3));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn searches_that_the_generator_stopped_neither_bias_nor_overrule_those_of_the_server() {
        let found = |rate: f64, why| Found { highest: Some(rate), above: None, why };
        let of = |found: &[Found]| {
            let Summary { median, why, counted, .. } = Summary::of(found).unwrap();
            (median, why, counted)
        };
        let (server, generator) = (found(10e3, Above::Server), found(5e3, Above::Generator));
        assert_eq!(of(&[server, generator, generator]), (10e3, Above::Server, 1));
        // What it did more is valid.
        let more = found(12e3, Above::Generator);
        assert_eq!(of(&[server, more]), (11e3, Above::Server, 2));
        assert_eq!(of(&[generator, generator]), (5e3, Above::Generator, 2));
        let between = found(4e3, Above::Between);
        assert_eq!(of(&[generator, between]), (4e3, Above::Between, 1));
        let ceiling = found(1e6, Above::Ceiling);
        assert_eq!(of(&[ceiling, ceiling, server]), (1e6, Above::Ceiling, 3));
        assert_eq!(of(&[ceiling, server, server]), (10e3, Above::Server, 3));
    }
}
