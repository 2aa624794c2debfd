//! What a server must achieve: limits of latency and loss, and whether a load met them. No I/O and no
//! clock.

use lab_histogram::{Histogram, Quantile};
use std::fmt;
use std::str::FromStr;

/// What the server must achieve; all limits at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective(Vec<Limit>);

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    what: What,
    /// Whether the bound itself is too much already: written with `<`.
    strict: bool,
}

/// Latency is response time, from the intended time of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// This part of all queries is answered within these nanoseconds; lost ones are not.
    Quantile(f64, u64),
    /// At most this part of the queries is lost.
    Loss(f64),
}

/// The queries of a load: those that were lost among those that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Without an answer in time.
    pub lost: u64,
    /// All of them; a load without any meets no limit.
    pub sent: u64,
}

impl Lost {
    /// As it is read, with the numbers where the percentage alone would pass for none.
    fn text(self, part: f64) -> String {
        let percent = format!("{:.4}", part * 100.0);
        if self.lost > 0 && percent == "0.0000" {
            return format!("loss < 0.0001 % ({} of {})", self.lost, self.sent);
        }
        format!("loss {percent} %")
    }
}

/// How a load did at one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The limit, as it is typed.
    pub limit: String,
    /// What was found, as `p99 ≥ 2 s`.
    pub found: String,
    /// Whether the limit was met.
    pub met: bool,
}

/// A text that is no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{word}` in `{text}`: expected limits such as p99.9=5ms, p50<200us, max<=1s or loss=0.1%, separated by commas"
)]
pub struct ObjectiveError {
    /// What is wrong.
    pub word: String,
    /// What it stands in.
    pub text: String,
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    /// Reads `p99.9=5ms,loss=0` and `p99<5ms,loss<0.1%`; `=` is `<=`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let limits = text.split(',').map(|word| {
            let error = || ObjectiveError { word: word.to_owned(), text: text.to_owned() };
            Limit::parse(word).ok_or_else(error)
        });
        Ok(Self(limits.collect::<Result<_, _>>()?))
    }
}

impl Limit {
    fn parse(word: &str) -> Option<Self> {
        let at = word.find(['<', '=', '≤'])?;
        let (key, rest) = word.split_at(at);
        let signs = ["<=", "≤", "<", "="];
        let sign = signs.into_iter().find(|sign| rest.starts_with(sign))?;
        let value = rest.strip_prefix(sign)?;
        let nanos = || lab_units::nanos(value).ok();
        let what = match key.trim() {
            "loss" => What::Loss(lab_units::part(value).ok()?),
            "max" => What::Quantile(1.0, nanos()?),
            key => {
                let percent: f64 = key.strip_prefix('p')?.parse().ok()?;
                let sound = percent > 0.0 && percent <= 100.0;
                What::Quantile(sound.then_some(percent / 100.0)?, nanos()?)
            }
        };
        // Nothing is below zero.
        let possible = sign != "<" || !matches!(what, What::Loss(0.0) | What::Quantile(_, 0));
        possible.then_some(Self { what, strict: sign == "<" })
    }

    fn check(&self, response: &Histogram, lost: Lost) -> Check {
        let within = |found: f64, bound: f64| found < bound || !self.strict && found <= bound;
        let (met, found) = match self.what {
            What::Quantile(part, bound) => {
                let (met, text) = match response.quantile(part) {
                    Quantile::Empty => (false, " no answer".to_owned()),
                    Quantile::Value(value) => {
                        (within(value as f64, bound as f64), format!(" {}", short(value)))
                    }
                    Quantile::AtLeast(value) => (false, format!(" ≥ {}", short(value))),
                };
                (met, format!("{}{text}", name(part)))
            }
            What::Loss(_) if lost.sent == 0 => {
                (false, "loss unknown, no query was sent".to_owned())
            }
            What::Loss(bound) => {
                let loss = lost.lost as f64 / lost.sent as f64;
                (within(loss, bound), lost.text(loss))
            }
        };
        Check { limit: self.to_string(), found, met }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.strict { '<' } else { '=' };
        match self.what {
            What::Quantile(part, nanos) => write!(f, "{}{sign}{}", name(part), exact(nanos)),
            What::Loss(part) => write!(f, "loss{sign}{}%", percent(part)),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<_> = self.0.iter().map(Limit::to_string).collect();
        f.write_str(&limits.join(","))
    }
}

/// `p99.9`, or `max` for all queries.
fn name(part: f64) -> String {
    if part >= 1.0 { "max".to_owned() } else { format!("p{}", percent(part)) }
}

/// `part` in percent, without the error of the division.
fn percent(part: f64) -> f64 {
    (part * 1e11).round() / 1e9
}

/// `nanos` to the last digit, as it is typed.
fn exact(nanos: u64) -> String {
    format!("{:?}", std::time::Duration::from_nanos(nanos)).replace('µ', "u")
}

/// `nanos` with three digits that count.
fn short(nanos: u64) -> String {
    let nanos = nanos as f64;
    let (value, unit) = match nanos {
        ..1e3 => (nanos, "ns"),
        ..1e6 => (nanos / 1e3, "us"),
        ..1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

impl Objective {
    /// How a load with these response times and lost queries did at each limit.
    pub fn check(&self, response: &Histogram, lost: Lost) -> Vec<Check> {
        self.0.iter().map(|limit| limit.check(response, lost)).collect()
    }

    /// How many queries a probe must have for its percentiles to rest on 10 at least.
    pub fn questions_needed(&self) -> f64 {
        let needed = self.0.iter().map(|limit| match limit.what {
            What::Quantile(part, _) if part < 1.0 => 10.0 / (1.0 - part),
            What::Loss(part) if part > 0.0 => 10.0 / part,
            What::Quantile(..) | What::Loss(_) => 100.0,
        });
        needed.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_what_is_wrong_is_named() {
        let objective: Objective = "p99.9=5ms,p50=200us,max=1s,loss=0.1%".parse().unwrap();
        assert_eq!(objective.to_string(), "p99.9=5ms,p50=200us,max=1s,loss=0.1%");
        assert!((objective.questions_needed() - 10_000.0).abs() < 1e-6);
        let strict: Objective = "p99<5ms,p50<=1.5ms,max≤1s,loss<0.1%".parse().unwrap();
        assert_eq!(strict.to_string(), "p99<5ms,p50=1.5ms,max=1s,loss<0.1%");
        assert_eq!(strict.to_string().parse(), Ok(strict));
        let wrong = ["", "p99", "p0=1ms", "p101=1ms", "q9=1ms", "p99=5", "loss=2", "p50=1ms,"];
        for text in wrong.into_iter().chain(["p99>5ms", "p99<<5ms", "p99==5ms", "loss<0", "p9<0s"])
        {
            let error = text.parse::<Objective>().unwrap_err().to_string();
            assert!(error.contains("expected limits such as p99.9=5ms"), "{error}");
        }
    }

    #[test]
    fn a_percentile_among_lost_queries_meets_no_limit_and_is_a_bound() {
        let mut response = Histogram::new();
        response.record_n(1_000_000, 98);
        (0..2).for_each(|_| response.record_censored(2_000_000_000));
        let objective: Objective = "p50<2ms,p99=5s,loss=2%,loss<2%".parse().unwrap();
        let checks = objective.check(&response, Lost { lost: 2, sent: 100 });
        let met: Vec<_> = checks.iter().map(|check| check.met).collect();
        assert_eq!(met, [true, false, true, false]);
        assert_eq!(checks[1].found, "p99 ≥ 2.00 s");
        assert_eq!((&*checks[3].limit, &*checks[3].found), ("loss<2%", "loss 2.0000 %"));
        let none = objective.check(&Histogram::new(), Lost::default());
        assert_eq!((none[0].met, &*none[0].found), (false, "p50 no answer"));
    }

    #[test]
    fn a_load_that_sent_nothing_meets_no_limit() {
        let objective: Objective = "p50<2ms,loss<0.1%,loss=100%".parse().unwrap();
        let checks = objective.check(&Histogram::new(), Lost::default());
        assert!(checks.iter().all(|check| !check.met), "{checks:?}");
        assert_eq!(checks[1].found, "loss unknown, no query was sent");
    }

    #[test]
    fn a_loss_too_small_for_its_digits_is_not_printed_as_none() {
        let objective: Objective = "loss=0".parse().unwrap();
        let found = |lost| objective.check(&Histogram::new(), Lost { lost, sent: 10_000_000 });
        let told = |lost| found(lost).first().map(|check| (check.met, check.found.clone()));
        assert_eq!(told(0), Some((true, "loss 0.0000 %".to_owned())));
        assert_eq!(told(4), Some((false, "loss < 0.0001 % (4 of 10000000)".to_owned())));
        assert_eq!(told(6), Some((false, "loss 0.0001 %".to_owned())));
    }
}
