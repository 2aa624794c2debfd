//! How evenly queries arrived: a generator's pacing as its receiver saw it.

use lab_histogram::Histogram;

/// Nanoseconds of the windows in which arrivals are counted.
pub const WINDOW: u64 = 10_000_000;

/// What the arrival times of a run say about its schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spacing {
    /// Gaps between one arrival and the next.
    pub gaps: Histogram,
    /// How far each gap was from the mean gap.
    pub deviation: Histogram,
    /// The mean gap in nanoseconds.
    pub mean: f64,
    /// The standard deviation of the gaps over their mean: 0 for even, 1 for Poisson.
    pub cv: f64,
    /// The correlation of each gap with the next: negative if a late query is followed by one on
    /// time, 0 for Poisson.
    pub lag1: f64,
    /// The fewest and the most arrivals in a whole [`WINDOW`].
    pub window: (u64, u64),
    /// Arrivals a second.
    pub rate: f64,
}

impl Spacing {
    /// The spacing of `arrivals`, in nanoseconds and in order; `None` for fewer than three.
    pub fn of(arrivals: &[u64]) -> Option<Self> {
        let (first, last) = (*arrivals.first()?, *arrivals.last()?);
        let gaps: Vec<u64> = arrivals
            .iter()
            .zip(arrivals.iter().skip(1))
            .map(|(a, b)| b.saturating_sub(*a))
            .collect();
        if gaps.len() < 2 || last <= first {
            return None;
        }
        let count = gaps.len() as f64;
        let mean = (last - first) as f64 / count;
        let off = |gap: &u64| *gap as f64 - mean;
        let variance = gaps.iter().map(|gap| off(gap).powi(2)).sum::<f64>() / count;
        let pairs = gaps.iter().zip(gaps.iter().skip(1));
        let product: f64 =
            pairs.map(|(one, next)| off(one) * off(next)).sum::<f64>() / (count - 1.0);
        let mut spacing = Self {
            mean,
            cv: variance.sqrt() / mean,
            lag1: if variance > 0.0 { product / variance } else { 0.0 },
            window: windows(arrivals, first, last),
            rate: 1e9 / mean,
            ..Self::default()
        };
        for gap in &gaps {
            spacing.gaps.record(*gap);
            spacing.deviation.record(off(gap).abs() as u64);
        }
        Some(spacing)
    }
}

/// The fewest and the most arrivals in one of the windows that are whole.
fn windows(arrivals: &[u64], first: u64, last: u64) -> (u64, u64) {
    let mut counts = vec![0_u64; ((last - first) / WINDOW) as usize];
    for arrival in arrivals {
        if let Some(count) = counts.get_mut(((arrival - first) / WINDOW) as usize) {
            *count += 1;
        }
    }
    let least = counts.iter().min().copied().unwrap_or(0);
    (least, counts.iter().max().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_arrivals_have_no_spread_and_a_burst_shows() {
        let even: Vec<u64> = (0..10_001).map(|n| n * 50_000).collect();
        let spacing = Spacing::of(&even).unwrap();
        assert_eq!((spacing.mean, spacing.cv, spacing.window), (50_000.0, 0.0, (200, 200)));
        assert_eq!(spacing.deviation.max(), Some(0));
        assert!((spacing.rate - 20_000.0).abs() < 1e-6);
        // Everything of a millisecond at its end: 20 at once, then nothing.
        let bursts: Vec<u64> = (0..10_001).map(|n| n / 20 * 1_000_000).collect();
        let spacing = Spacing::of(&bursts).unwrap();
        assert!(spacing.cv > 4.0 && spacing.lag1 < 0.0, "{spacing:?}");
        assert_eq!(spacing.gaps.max(), Some(1_000_000));
    }

    #[test]
    fn poisson_arrivals_have_a_spread_of_one_and_no_memory() {
        let mut stream = lab_random::Stream::new(1, 1);
        let mut time = 0.0;
        let arrivals: Vec<u64> = (0..100_000)
            .map(|_| {
                time -= (1.0 - stream.unit()).ln() * 50_000.0;
                time as u64
            })
            .collect();
        let spacing = Spacing::of(&arrivals).unwrap();
        assert!((spacing.cv - 1.0).abs() < 0.02 && spacing.lag1.abs() < 0.02, "{spacing:?}");
    }

    #[test]
    fn too_few_arrivals_say_nothing() {
        assert_eq!(Spacing::of(&[]), None);
        assert_eq!(Spacing::of(&[1, 2]), None);
        assert_eq!(Spacing::of(&[5, 5, 5]), None);
    }
}
