//! Several groups measured in blocks, each group once in each block.

use crate::groups::Overall;
use crate::normal;
use crate::paired::mean_ranks;

/// Whether any group tends to be higher than the others within blocks (Friedman, 1937, with the
/// correction for ties); a block has the value of each group, in one order of groups. `None` without two
/// blocks and two groups, with a block of another length, or if no block tells groups apart.
pub fn friedman(blocks: &[Vec<f64>]) -> Option<Overall> {
    let groups = blocks.first()?.len();
    if blocks.len() < 2 || groups < 2 || blocks.iter().any(|block| block.len() != groups) {
        return None;
    }
    let (n, k) = (blocks.len() as f64, groups as f64);
    let ranks: Vec<Vec<f64>> = blocks.iter().map(|block| mean_ranks(block)).collect();
    let centre = (k + 1.0) / 2.0;
    let sum = |group: usize| -> f64 { ranks.iter().filter_map(|block| block.get(group)).sum() };
    let between: f64 = (0..groups).map(|group| (sum(group) - n * centre).powi(2)).sum();
    let within: f64 = ranks.iter().flatten().map(|rank| (rank - centre).powi(2)).sum();
    if within <= 0.0 {
        return None;
    }
    let statistic = between * (k - 1.0) / within;
    let p = normal::chi_squared_above(statistic, k - 1.0);
    Some(Overall { statistic, freedom: (k - 1.0, None), p })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ways of rounding first base, 22 runners (Hollander and Wolfe, 1973), which is the example
    /// of R's `friedman.test`: chi-squared 11.143, p 0.003805.
    #[test]
    fn the_published_example_of_hollander_and_wolfe() {
        let times = "5.40 5.50 5.55 5.85 5.70 5.75 5.20 5.60 5.50 5.55 5.50 5.40 5.90 5.85 5.70 \
            5.45 5.55 5.60 5.40 5.40 5.35 5.45 5.50 5.35 5.25 5.15 5.00 5.85 5.80 5.70 5.25 5.20 5.10 \
            5.65 5.55 5.45 5.60 5.35 5.45 5.05 5.00 4.95 5.50 5.50 5.40 5.45 5.55 5.50 5.55 5.55 5.35 \
            5.45 5.50 5.55 5.50 5.45 5.25 5.65 5.60 5.40 5.70 5.65 5.55 6.30 6.30 6.25";
        let times: Vec<f64> = times.split_whitespace().map(|text| text.parse().unwrap()).collect();
        let blocks: Vec<Vec<f64>> = times.chunks(3).map(<[f64]>::to_vec).collect();
        let found = friedman(&blocks).unwrap();
        assert_eq!(found.freedom, (2.0, None));
        assert!((found.statistic - 11.143).abs() < 0.001, "{found:?}");
        assert!((found.p - 0.003805).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn blocks_that_tell_nothing_apart_or_do_not_fit_have_no_test() {
        assert_eq!(friedman(&[vec![1.0, 1.0], vec![2.0, 2.0]]), None);
        assert_eq!(friedman(&[vec![1.0, 2.0]]), None);
        assert_eq!(friedman(&[vec![1.0, 2.0], vec![2.0]]), None);
        assert_eq!(friedman(&[]), None);
    }
}
