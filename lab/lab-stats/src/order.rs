//! A sample by its order: quantiles, and the interval of a median that assumes no distribution.

use crate::Interval;

/// The quantile at `part`, between the two values next to it in proportion (definition 7 of Hyndman and
/// Fan, 1996); `None` without values.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let sorted = sorted(values);
    let place = part.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let low = sorted.get(place.floor() as usize)?;
    let high = sorted.get(place.ceil() as usize)?;
    Some(low + (high - low) * place.fract())
}

/// The interval of the median from two of the values, by the binomial distribution: it holds the true
/// one with a chance of at least 1 − `alpha`. `None` where even the lowest and the highest value are no
/// such interval, below six values at 0.05.
pub fn median_interval(values: &[f64], alpha: f64) -> Option<Interval> {
    let sorted = sorted(values);
    // How many values lie below the median: binomial with one half.
    // In logarithms: of more than a thousand values, one half to their number is 0.
    let mut chance = -(sorted.len() as f64) * std::f64::consts::LN_2;
    let (mut below, mut cut) = (0.0, 0);
    for at in 0..sorted.len() / 2 {
        below += chance.exp();
        if below > alpha / 2.0 {
            break;
        }
        cut = at + 1;
        chance += ((sorted.len() - at) as f64 / (at + 1) as f64).ln();
    }
    let low = *sorted.get(cut.checked_sub(1)?)?;
    let high = *sorted.get(sorted.len() - cut)?;
    Some(Interval { low, high })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_values_in_proportion() {
        // R's quantile(c(1, 2, 4, 8), c(0, .25, .5, .75, 1)).
        let of = |part| quantile(&[8.0, 1.0, 4.0, 2.0], part);
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(of);
        assert_eq!(found, [1.0, 1.75, 3.0, 5.0, 8.0].map(Some));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_interval_of_a_median_needs_six_values_and_is_that_of_the_table() {
        // Tables of the sign test at 0.05: 6 values all of them, 10 from the second to the ninth, 25
        // from the eighth to the eighteenth.
        for (count, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (25, 8.0, 18.0)] {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            assert_eq!(median_interval(&values, 0.05), Some(Interval { low, high }), "{count}");
        }
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05), None);
    }

    #[test]
    fn the_interval_of_a_median_of_many_values_has_a_width() {
        // By the normal distribution, 1.96 × √n ÷ 2 from the middle.
        for count in [1_000, 1_075, 3_000] {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            let ends = median_interval(&values, 0.05).unwrap();
            let (middle, half) = (f64::from(count) / 2.0, 0.98 * f64::from(count).sqrt());
            assert!((ends.low - (middle - half)).abs() < 2.0, "{count}: {ends:?}");
            assert!((ends.high - (middle + half)).abs() < 2.0, "{count}: {ends:?}");
        }
    }
}
