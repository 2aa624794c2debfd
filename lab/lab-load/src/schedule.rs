//! When each item is sent: nanoseconds from the start of the run, known before it starts.

use crate::{SECOND, rng};

/// How arrivals are spread at a given mean rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    Uniform,
    /// As independent clients do: exponential gaps.
    Poisson,
}

/// The intended times of items 0, 1, 2, …
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    rate: f64,
    seed: u64,
    next: u64,
    /// Seconds from the start, for the Poisson process.
    elapsed: f64,
}

impl Schedule {
    /// A schedule with a mean of `rate` items a second; `rate` must be positive.
    pub fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Self {
        Self { arrivals, rate, seed: rng::at(seed, 3), next: 0, elapsed: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let n = self.next;
        self.next += 1;
        let seconds = match self.arrivals {
            // Computed from `n` and not summed up: no error grows with time.
            Arrivals::Uniform => n as f64 / self.rate,
            Arrivals::Poisson => {
                self.elapsed -= (1.0 - rng::unit(self.seed, n)).ln() / self.rate;
                self.elapsed
            }
        };
        Some((seconds * SECOND as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_times_are_exact_after_any_number_of_items() {
        let times: Vec<_> =
            Schedule::new(Arrivals::Uniform, 300_000.0, 1).take(3_000_001).collect();
        assert_eq!(times[0], 0);
        assert_eq!(times[3_000_000], 10 * SECOND);
        assert!(times.windows(2).all(|pair| (3_333..=3_334).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn poisson_gaps_have_the_right_mean_spread_and_no_memory() {
        let times: Vec<_> =
            Schedule::new(Arrivals::Poisson, 1_000.0, 1).take(200_001).map(|t| t as f64).collect();
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let lag = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
        assert!((lag / gaps.len() as f64 / variance).abs() < 0.01);
    }
}
