//! The highest rate at which a server meets an objective: which rate to try next, and what the
//! tries say together. No I/O and no clock.
//!
//! One search ramps up geometrically until a probe misses the objective, then halves the ratio
//! between the highest rate that met it and the lowest that did not. It takes for granted that a
//! server that meets an objective at one rate meets it at lower ones; where a run is near the edge,
//! chance decides, which is why a search is repeated and the spread of its results is told.

use crate::Outcome;
use lab_histogram::Quantile;
use std::fmt;
use std::str::FromStr;

/// What the server must achieve; all limits at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective(Vec<Limit>);

/// One limit. Latency is response time, from the intended time of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// This part of all questions is answered within these nanoseconds; lost ones are not.
    Quantile(f64, u64),
    /// At most this part of the questions is lost.
    Loss(f64),
}

/// A text that is no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{word}` in `{text}`: expected limits as p99.9=5ms, p50=200us, max=1s or loss=0.1%, several \
     with commas"
)]
pub struct ObjectiveError {
    /// What is wrong.
    pub word: String,
    /// What it stands in.
    pub text: String,
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    /// Reads `p99.9=5ms,loss=0`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let limit = |word: &str| {
            let (key, value) = word.split_once('=')?;
            let nanos = || lab_units::nanos(value).ok();
            match key.trim() {
                "loss" => Some(Limit::Loss(lab_units::part(value).ok()?)),
                "max" => Some(Limit::Quantile(1.0, nanos()?)),
                key => {
                    let percent: f64 = key.strip_prefix('p')?.parse().ok()?;
                    let sound = percent > 0.0 && percent <= 100.0;
                    sound.then_some(Limit::Quantile(percent / 100.0, nanos()?))
                }
            }
        };
        let limits = text.split(',').map(|word| {
            let error = || ObjectiveError { word: word.to_owned(), text: text.to_owned() };
            limit(word).ok_or_else(error)
        });
        Ok(Self(limits.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |limit: &Limit| match limit {
            Limit::Quantile(1.0, nanos) => format!("max={}", duration(*nanos)),
            Limit::Quantile(part, nanos) => format!("p{}={}", percent(*part), duration(*nanos)),
            Limit::Loss(part) => format!("loss={}%", percent(*part)),
        };
        let limits: Vec<_> = self.0.iter().map(limit).collect();
        f.write_str(&limits.join(","))
    }
}

/// `part` in percent, without the error of the division.
fn percent(part: f64) -> f64 {
    (part * 1e11).round() / 1e9
}

fn duration(nanos: u64) -> String {
    format!("{:?}", std::time::Duration::from_nanos(nanos)).replace('µ', "u")
}

impl Objective {
    /// What `outcome` misses, in words; nothing if it meets the objective.
    pub fn missed(&self, outcome: &Outcome) -> Vec<String> {
        let missed = self.0.iter().filter_map(|limit| match limit {
            Limit::Quantile(part, nanos) => {
                let found = outcome.tally.response.quantile(*part);
                let (met, text) = match found {
                    Quantile::Empty => (false, "no answer".to_owned()),
                    Quantile::Value(value) => (value <= *nanos, duration(value)),
                    Quantile::AtLeast(value) => (false, format!("at least {}", duration(value))),
                };
                (!met).then(|| format!("p{} {text}", percent(*part)))
            }
            Limit::Loss(part) => {
                let loss = outcome.loss();
                (loss > *part).then(|| format!("loss {:.4}%", loss * 100.0))
            }
        });
        missed.collect()
    }

    /// How many questions a probe must have for its percentiles to rest on 10 at least.
    pub fn questions_needed(&self) -> f64 {
        let needed = self.0.iter().map(|limit| match limit {
            Limit::Quantile(part, _) if *part < 1.0 => 10.0 / (1.0 - part),
            Limit::Loss(part) if *part > 0.0 => 10.0 / part,
            Limit::Quantile(..) | Limit::Loss(_) => 100.0,
        });
        needed.fold(0.0, f64::max)
    }
}

/// What a probe said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The server met the objective.
    Met,
    /// It did not.
    Missed,
    /// The generator does not vouch for the probe: nothing is known about the server.
    Invalid,
}

/// Bounds of a search, in questions a second.
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

/// Why a search did not go on above its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// The server missed the objective.
    Server,
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
    /// The lowest rate tried above it.
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
    /// The lowest rate that did not, and what it said.
    unmet: Option<(f64, Said)>,
    /// Whether the probe at hand was invalid once already: chance may have spoilt it.
    again: bool,
    next: Option<f64>,
}

/// By how much the ramp goes up or down at a time.
const FACTOR: f64 = 2.0;

impl Search {
    /// A search that tries `start` first; a start near the result saves probes.
    pub fn new(bounds: Bounds, start: f64) -> Self {
        let start = start.clamp(bounds.floor, bounds.ceiling);
        Self { bounds, met: None, unmet: None, again: false, next: Some(start) }
    }

    /// The rate to try now; `None` when the search is over.
    pub fn rate(&self) -> Option<f64> {
        self.next
    }

    /// Takes what the probe at [`Search::rate`] said.
    pub fn take(&mut self, said: Said) {
        let Some(rate) = self.next else { return };
        if said == Said::Invalid && !self.again {
            self.again = true;
            return;
        }
        self.again = false;
        match said {
            Said::Met => self.met = Some(rate),
            Said::Missed | Said::Invalid => self.unmet = Some((rate, said)),
        }
        let Bounds { floor, ceiling, precision } = self.bounds;
        self.next = match (self.met, self.unmet) {
            (Some(met), None) => (met < ceiling).then_some((met * FACTOR).min(ceiling)),
            (None, Some((unmet, _))) => (unmet > floor).then_some((unmet / FACTOR).max(floor)),
            (Some(met), Some((unmet, _))) => {
                (unmet / met > 1.0 + precision).then_some((met * unmet).sqrt())
            }
            (None, None) => None,
        };
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let why = match self.unmet {
            None => Above::Ceiling,
            Some((_, Said::Invalid)) => Above::Generator,
            Some(_) => Above::Server,
        };
        Found { highest: self.met, above: self.unmet.map(|(rate, _)| rate), why }
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
    /// What stopped the searches: the generator if it stopped any of them.
    pub why: Above,
}

impl Summary {
    /// The summary of `found`; `None` of nothing.
    pub fn of(found: &[Found]) -> Option<Self> {
        let mut rates: Vec<f64> = found.iter().map(|found| found.highest.unwrap_or(0.0)).collect();
        rates.sort_by(f64::total_cmp);
        let (lowest, highest) = (*rates.first()?, *rates.last()?);
        let (low, high) = (rates.get((rates.len() - 1) / 2)?, rates.get(rates.len() / 2)?);
        let any = |why| found.iter().any(|found| found.why == why);
        let why = [Above::Generator, Above::Ceiling].into_iter().find(|why| any(*why));
        let why = why.unwrap_or(Above::Server);
        Some(Self { median: (low + high) / 2.0, lowest, highest, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { floor: 100.0, ceiling: 1e6, precision: 0.05 };

    /// Searches against a server with this limit and a generator with that one.
    fn search(start: f64, server: f64, generator: f64) -> (Found, usize) {
        let mut search = Search::new(BOUNDS, start);
        let mut probes = 0;
        while let Some(rate) = search.rate() {
            assert!((BOUNDS.floor..=BOUNDS.ceiling).contains(&rate));
            probes += 1;
            assert!(probes < 60);
            search.take(match rate {
                rate if rate > generator => Said::Invalid,
                rate if rate > server => Said::Missed,
                _ => Said::Met,
            });
        }
        (search.found(), probes)
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
    }

    #[test]
    fn a_probe_that_chance_has_spoilt_is_taken_again() {
        let mut search = Search::new(BOUNDS, 1_000.0);
        search.take(Said::Invalid);
        assert_eq!(search.rate(), Some(1_000.0));
        search.take(Said::Met);
        assert_eq!((search.rate(), search.found().highest), (Some(2_000.0), Some(1_000.0)));
    }

    #[test]
    fn repeats_have_a_median_and_a_range() {
        let found = |rate: f64, why| Found { highest: Some(rate), above: None, why };
        let server = [3e3, 1e3, 2e3].map(|rate| found(rate, Above::Server));
        let summary = Summary::of(&server).unwrap();
        assert_eq!((summary.median, summary.lowest, summary.highest), (2e3, 1e3, 3e3));
        assert_eq!(summary.why, Above::Server);
        let both = [found(2e3, Above::Server), found(4e3, Above::Generator)];
        let summary = Summary::of(&both).unwrap();
        assert_eq!((summary.median, summary.why), (3e3, Above::Generator));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn objectives_are_read_and_what_is_wrong_is_named() {
        let objective: Objective = "p99.9=5ms,p50=200us,max=1s,loss=0.1%".parse().unwrap();
        assert_eq!(objective.to_string(), "p99.9=5ms,p50=200us,max=1s,loss=0.1%");
        assert!((objective.questions_needed() - 10_000.0).abs() < 1e-6);
        for text in ["", "p99", "p0=1ms", "p101=1ms", "q9=1ms", "p99=5", "loss=2", "p50=1ms,"] {
            let error = text.parse::<Objective>().unwrap_err().to_string();
            assert!(error.contains("expected limits as p99.9=5ms"), "{error}");
        }
    }
}
