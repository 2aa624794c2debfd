//! How long a client keeps a connection: queries, time, idle time, each fixed or drawn.

use lab_random as rng;
use std::fmt;
use std::str::FromStr;

/// The stream of random numbers that lives are drawn from.
const PURPOSE: u64 = 0x6c69_6665;

/// A number that is the same for every connection, or drawn for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Always this.
    Fixed(f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Uniform between the two.
    Uniform(f64, f64),
}

impl Amount {
    /// The mean.
    pub fn mean(self) -> f64 {
        match self {
            Self::Fixed(value) | Self::Exponential(value) => value,
            Self::Uniform(low, high) => low.midpoint(high),
        }
    }

    fn draw(self, stream: &mut rng::Stream) -> f64 {
        match self {
            Self::Fixed(value) => value,
            Self::Exponential(mean) => -mean * (1.0 - stream.unit()).ln(),
            Self::Uniform(low, high) => low + (high - low) * stream.unit(),
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::Fixed(value) => format!("{value}{unit}"),
            Self::Exponential(mean) => format!("exp:{mean}{unit}"),
            Self::Uniform(low, high) => format!("uniform:{low}{unit}-{high}{unit}"),
        }
    }

    /// Reads `5`, `exp:5` or `uniform:2-8`, each number by `number`.
    fn parse(text: &str, number: impl Fn(&str) -> Option<f64>) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an amount, expected one such as 10, exp:10 or uniform:5-20 (durations with a unit, such as 2s)"
            )
        };
        let positive = |text| number(text).filter(|value| *value > 0.0 && value.is_finite());
        match text.split_once(':') {
            None => Ok(Self::Fixed(positive(text).ok_or_else(wrong)?)),
            Some(("exp", mean)) => Ok(Self::Exponential(positive(mean).ok_or_else(wrong)?)),
            Some(("uniform", range)) => {
                let (low, high) = range.split_once('-').ok_or_else(wrong)?;
                let (low, high) = (positive(low), positive(high));
                let (low, high) = low.zip(high).ok_or_else(wrong)?;
                if low > high { Err(wrong()) } else { Ok(Self::Uniform(low, high)) }
            }
            Some(_) => Err(wrong()),
        }
    }
}

/// When a client leaves a connection: at whichever comes first. Without any, it stays as long as
/// the server lets it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Life {
    /// After this many queries; 1 is a new connection for each.
    pub questions: Option<Amount>,
    /// This many seconds after it was asked for.
    pub seconds: Option<Amount>,
    /// After this many seconds without a query or an answer.
    pub idle: Option<Amount>,
}

impl Life {
    /// Whether clients never leave by themselves.
    pub fn is_endless(&self) -> bool {
        *self == Self::default()
    }

    /// Connections that are needed each second to ask `rate` QPS by `clients`
    /// clients, on average, at most.
    pub fn connection_rate(&self, rate: f64, clients: usize) -> f64 {
        let questions = self.questions.map_or(0.0, |questions| rate / questions.mean().max(1.0));
        let per_client = |amount: Option<Amount>| {
            amount.map_or(0.0, |seconds| clients as f64 / seconds.mean().max(1e-6))
        };
        let times = per_client(self.seconds) + per_client(self.idle);
        (questions + times.min(rate)).min(rate)
    }

    /// The life of connection `number` of `client`, the same for every run with the same seed.
    pub(crate) fn draw(&self, seed: u64, client: u64, number: u32) -> Limits {
        let seed = rng::at(seed, client);
        let mut stream = rng::Stream::new(seed, PURPOSE ^ u64::from(number) << 32);
        let mut draw = |amount: Option<Amount>| amount.map(|amount| amount.draw(&mut stream));
        let questions = draw(self.questions).map_or(u64::MAX, |n| (n.round() as u64).max(1));
        let nanos = |seconds: Option<f64>| {
            seconds.map_or(u64::MAX, |seconds| (seconds * crate::SECOND as f64) as u64)
        };
        let seconds = draw(self.seconds);
        Limits { questions, time: nanos(seconds), idle: nanos(draw(self.idle)) }
    }
}

/// The life of one connection; `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) questions: u64,
    /// Nanoseconds.
    pub(crate) time: u64,
    /// Nanoseconds.
    pub(crate) idle: u64,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("queries", self.questions, ""),
            ("time", self.seconds, "s"),
            ("idle", self.idle, "s"),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter_map(|(name, amount, unit)| Some(format!("{name}={}", (*amount)?.text(unit))))
            .collect();
        f.write_str(if parts.is_empty() { "persistent" } else { "" })?;
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Life {
    type Err = String;

    /// Reads `persistent`, or `queries=N,time=D,idle=D` with any of the three: durations with a unit
    /// (`500ms`, `2s`, `1min`), numbers and durations also as `exp:MEAN` or `uniform:LOW-HIGH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut life = Self::default();
        if text == "persistent" {
            return Ok(life);
        }
        for part in text.split(',') {
            let expected = || format!("`{part}` is not one of queries=N, time=D, idle=D");
            let (name, value) = part.split_once('=').ok_or_else(expected)?;
            let (place, amount) = match name {
                "queries" => (&mut life.questions, Amount::parse(value, count)),
                "time" => (&mut life.seconds, Amount::parse(value, seconds)),
                "idle" => (&mut life.idle, Amount::parse(value, seconds)),
                _ => return Err(expected()),
            };
            if place.replace(amount?).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(life)
    }
}

fn count(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|count| *count >= 1.0)
}

fn seconds(text: &str) -> Option<f64> {
    lab_units::nanos(text).ok().map(|nanos| nanos as f64 / crate::SECOND as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_read_and_written() {
        let life: Life = "queries=10,time=exp:30s,idle=uniform:500ms-2s".parse().unwrap();
        assert_eq!(life.questions, Some(Amount::Fixed(10.0)));
        assert_eq!(life.seconds, Some(Amount::Exponential(30.0)));
        assert_eq!(life.idle, Some(Amount::Uniform(0.5, 2.0)));
        assert_eq!(life.to_string(), "queries=10,time=exp:30s,idle=uniform:0.5s-2s");
        assert_eq!(life.to_string().parse(), Ok(life));
        assert_eq!("persistent".parse(), Ok(Life::default()));
        assert_eq!(Life::default().to_string(), "persistent");
    }

    #[test]
    fn what_is_no_life_is_named() {
        for (text, word) in [
            ("queries=0", "`0`"),
            ("queries=1,queries=2", "twice"),
            ("time=-1s", "-1s"),
            ("time=5d", "5d"),
            ("time=5", "with a unit"),
            ("idle=normal:3s", "uniform"),
            ("idle=uniform:3s-2s", "3s-2s"),
            ("", "queries=N"),
            ("age=3", "age=3"),
        ] {
            let error = text.parse::<Life>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn drawn_lives_have_the_mean_and_do_not_change() {
        let life: Life = "queries=exp:50,time=uniform:1s-3s".parse().unwrap();
        let drawn: Vec<_> = (0..20_000).map(|n| life.draw(7, 3, n)).collect();
        assert_eq!(drawn[9], life.draw(7, 3, 9));
        assert_ne!(drawn[9], life.draw(7, 4, 9));
        let mean = drawn.iter().map(|l| l.questions as f64).sum::<f64>() / 20_000.0;
        assert!((49.0..51.5).contains(&mean), "{mean}");
        let second = crate::SECOND;
        assert!(drawn.iter().all(|l| (second..=3 * second).contains(&l.time)));
        assert!(drawn.iter().all(|l| l.idle == u64::MAX && l.questions >= 1));
    }

    #[test]
    fn connections_a_second_follow_from_queries_and_times() {
        let rate = |text: &str| text.parse::<Life>().unwrap().connection_rate(1_000.0, 10);
        assert_eq!(rate("queries=1"), 1_000.0);
        assert_eq!(rate("queries=exp:20"), 50.0);
        assert_eq!(rate("time=2s"), 5.0);
        assert_eq!(rate("persistent"), 0.0);
    }
}
