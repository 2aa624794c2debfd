//! Distributions of the largest of several differences of means, by numerical integration: the
//! studentized range (Tukey) and many comparisons with one control (Dunnett, 1955).
//!
//! Both are averages over the estimated standard deviation, which is the true one times the root of a
//! chi-squared variable over its degrees of freedom, of a probability that is known if it is given.

use crate::normal;
use statrs::function::gamma::ln_gamma;
use std::sync::LazyLock;

/// Nodes of an integral. Both integrands are smooth, and 64 are exact to about ten digits.
const NODES: usize = 64;
/// Standard deviations from the centre beyond which nothing is left.
const REACH: f64 = 8.0;
/// From this many degrees of freedom on the standard deviation counts as known.
const FREEDOM_MAX: f64 = 25_000.0;

/// Nodes and weights of Gauss and Legendre on the interval from -1 to 1.
static RULE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let n = NODES as f64;
    let node = |index: usize| {
        let mut x = (std::f64::consts::PI * (index as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        // Newton's method doubles the number of right digits in each step.
        for _ in 0..6 {
            let (mut last, mut value) = (1.0, x);
            for degree in 2..=NODES {
                let degree = degree as f64;
                let next = ((2.0 * degree - 1.0) * x * value - (degree - 1.0) * last) / degree;
                (last, value) = (value, next);
            }
            slope = n * (x * value - last) / (x * x - 1.0);
            x -= value / slope;
        }
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..NODES).map(node).collect()
});

/// The integral of `of` from `low` to `high`.
fn integral(low: f64, high: f64, of: impl Fn(f64) -> f64) -> f64 {
    let (middle, half) = (low.midpoint(high), (high - low) / 2.0);
    half * RULE.iter().map(|(x, weight)| weight * of(middle + half * x)).sum::<f64>()
}

fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

/// The mean of `given` over the estimated standard deviation, for a true one of 1.
fn over_deviation(freedom: f64, given: impl Fn(f64) -> f64) -> f64 {
    if freedom > FREEDOM_MAX {
        return given(1.0);
    }
    let half = freedom / 2.0;
    let scale = half * half.ln() - ln_gamma(half) + std::f64::consts::LN_2;
    let density = |s: f64| (scale + (freedom - 1.0) * s.ln() - half * s * s).exp();
    let reach = REACH / (2.0 * freedom).sqrt();
    integral((1.0 - reach).max(0.0), 1.0 + reach, |s| density(s) * given(s))
}

/// The chance that the range of `count` independent normal values is below `range` of their standard
/// deviations, which is estimated with `freedom` degrees of freedom.
pub(crate) fn studentized(range: f64, count: usize, freedom: f64) -> f64 {
    if range <= 0.0 || count < 2 {
        return 0.0;
    }
    let known = |range: f64| {
        // The largest is at `z`, and all others are at most `range` below it.
        let others = |z: f64| (normal::cdf(z) - normal::cdf(z - range)).powi(count as i32 - 1);
        count as f64 * integral(-REACH, REACH, |z| density(z) * others(z))
    };
    over_deviation(freedom, |s| known(range * s)).clamp(0.0, 1.0)
}

/// The range that [`studentized`] gives the chance `p`.
pub(crate) fn studentized_quantile(p: f64, count: usize, freedom: f64) -> f64 {
    inverse(p, |range| studentized(range, count, freedom))
}

/// The chance that none of several means differs from that of a control by more than `distance` standard
/// errors, either way. `loads` are the parts that the control has in the errors: the root of
/// n / (n + n of the control) for each.
pub(crate) fn many_to_one(distance: f64, loads: &[f64], freedom: f64) -> f64 {
    if distance <= 0.0 {
        return 0.0;
    }
    let known = |distance: f64| {
        let all = |z: f64| {
            let within = |load: &f64| {
                let own = (1.0 - load * load).sqrt();
                let end = |sign: f64| normal::cdf((load * z + sign * distance) / own);
                end(1.0) - end(-1.0)
            };
            loads.iter().map(within).product::<f64>()
        };
        integral(-REACH, REACH, |z| density(z) * all(z))
    };
    over_deviation(freedom, |s| known(distance * s)).clamp(0.0, 1.0)
}

/// The distance that [`many_to_one`] gives the chance `p`.
pub(crate) fn many_to_one_quantile(p: f64, loads: &[f64], freedom: f64) -> f64 {
    inverse(p, |distance| many_to_one(distance, loads, freedom))
}

/// Where an increasing function from 0 to 1 reaches `p`, by bisection.
fn inverse(p: f64, of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    while of(high) < p {
        if high > 1e4 {
            return f64::INFINITY;
        }
        high *= 2.0;
    }
    while high - low > 1e-9 * high {
        let middle = low.midpoint(high);
        if of(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.midpoint(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() <= tolerance, "got {got}, expected {expected}");
    }

    #[test]
    fn the_studentized_range_is_that_of_the_published_tables() {
        // Pearson and Hartley, Biometrika Tables for Statisticians, table 29: upper points.
        for (p, count, freedom, published) in [
            (0.95, 2, 10.0, 3.151),
            (0.95, 3, 10.0, 3.877),
            (0.95, 5, 20.0, 4.232),
            (0.95, 10, 30.0, 4.824),
            (0.95, 3, 5.0, 4.602),
            (0.95, 4, 1e9, 3.633),
            (0.99, 3, 10.0, 5.270),
            (0.99, 4, 12.0, 5.502),
            (0.99, 5, 1e9, 4.603),
        ] {
            close(studentized_quantile(p, count, freedom), published, 0.0016);
        }
    }

    #[test]
    fn two_means_are_students_t() {
        for freedom in [2.0, 5.0, 17.0, 200.0] {
            let t = normal::student(0.975, freedom);
            close(studentized_quantile(0.95, 2, freedom), t * 2.0_f64.sqrt(), 1e-5);
            close(many_to_one_quantile(0.95, &[0.5_f64.sqrt()], freedom), t, 1e-5);
        }
    }

    #[test]
    fn comparisons_with_a_control_are_those_of_dunnetts_tables() {
        // Dunnett (1964), New Tables for Multiple Comparisons with a Control: two-sided, 5 % and 1 %.
        let equal = |count: usize| vec![0.5_f64.sqrt(); count];
        for (p, count, freedom, published) in [
            (0.95, 2, 5.0, 3.03),
            (0.95, 3, 10.0, 2.76),
            (0.95, 5, 20.0, 2.73),
            (0.95, 4, 1e9, 2.44),
            (0.99, 2, 10.0, 3.53),
        ] {
            close(many_to_one_quantile(p, &equal(count), freedom), published, 0.006);
        }
    }

    #[test]
    fn edges() {
        assert_eq!(studentized(0.0, 3, 5.0), 0.0);
        assert_eq!(studentized(-1.0, 3, 5.0), 0.0);
        assert_eq!(studentized(3.0, 1, 5.0), 0.0);
        close(studentized(200.0, 3, 5.0), 1.0, 1e-6);
        close(many_to_one(200.0, &[0.7, 0.7], 5.0), 1.0, 1e-6);
        assert_eq!(inverse(1.5, |x| x / (1.0 + x)), f64::INFINITY);
    }
}
