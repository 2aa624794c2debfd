//! Seeded numbers by position: SplitMix64 (Steele, Lea and Flood, 2014) used as a counter.
//!
//! `at(seed, n)` depends on nothing but its arguments, so a plan is the same for any number of
//! threads. The algorithm is part of the plan and does not change between versions.
//!
//! What is deliberately absent: secrets. These numbers can be guessed, as a plan must be repeatable.

#![forbid(unsafe_code)]

/// The `n`th number of the stream `seed`.
pub fn at(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `n`th number of the stream `seed`, uniform in the half-open interval from 0 to 1.
pub fn unit(seed: u64, n: u64) -> f64 {
    (at(seed, n) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws numbers one after the other.
#[derive(Clone, Debug)]
pub struct Stream {
    seed: u64,
    next: u64,
}

impl Stream {
    /// A stream named by `purpose` under `seed`: streams of other purposes are independent.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self { seed: at(seed, purpose), next: 0 }
    }

    /// The next number, uniform in the half-open interval from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.next += 1;
        unit(self.seed, self.next - 1)
    }

    /// The next number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
    }
}

/// Ranks with Zipf's law: rank `k` (from 0) has a weight of `1 / (k + 1)^exponent`.
#[derive(Clone, Debug)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// A law over `ranks` ranks.
    pub fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=ranks).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self { cumulative: weights.collect() }
    }

    /// Draws a rank; 0 if there is none.
    pub fn draw(&self, stream: &mut Stream) -> usize {
        self.rank(stream.unit())
    }

    /// The rank of a number that is uniform in the half-open interval from 0 to 1; 0 if there is none.
    pub fn rank(&self, unit: f64) -> usize {
        let Some(total) = self.cumulative.last() else { return 0 };
        let wanted = unit * total;
        // Rounding may make the product the whole sum.
        self.cumulative.partition_point(|sum| *sum <= wanted).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_algorithm() {
        // The first outputs of SplitMix64 seeded with 1234567.
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([at(1_234_567, 0), at(1_234_567, 1)], published);
    }

    #[test]
    fn units_are_uniform() {
        let mut stream = Stream::new(1, 2);
        let mut counts = [0; 10];
        (0..100_000).for_each(|_| counts[stream.below(10)] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_gives_the_second_rank_half_of_the_first() {
        let (zipf, mut stream) = (Zipf::new(1_000, 1.0), Stream::new(3, 4));
        let mut counts = vec![0_u32; 1_000];
        (0..200_000).for_each(|_| counts[zipf.draw(&mut stream)] += 1);
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }
}
