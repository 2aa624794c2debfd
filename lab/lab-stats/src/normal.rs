//! Quantiles of the distributions that tests and plans need.

use statrs::distribution::{Beta, ChiSquared, ContinuousCDF, FisherSnedecor, Normal, StudentsT};

/// The standard normal distribution function.
pub(crate) fn cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Its inverse; infinite at 0 and 1.
pub(crate) fn quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(0.0, 1.0))
}

/// The quantile of Student's t; the normal one if `freedom` is not positive.
pub(crate) fn student(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or_else(|_| quantile(p), |t| t.inverse_cdf(p))
}

/// The quantile of the chi-squared distribution; 0 if `freedom` is not positive.
pub(crate) fn chi_squared(p: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).map_or(0.0, |chi| chi.inverse_cdf(p))
}

/// The chance that a chi-squared variable exceeds `value`; 1 if `freedom` is not positive.
pub(crate) fn chi_squared_above(value: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(value.max(0.0)))
}

/// The chance that a variable with the F distribution exceeds `value`; 1 if a freedom is not positive.
pub(crate) fn f_above(value: f64, freedom: f64, within: f64) -> f64 {
    FisherSnedecor::new(freedom, within).map_or(1.0, |f| f.sf(value.max(0.0)))
}

/// The quantile of the beta distribution; 0 if a shape is not positive.
pub(crate) fn beta(p: f64, a: f64, b: f64) -> f64 {
    let Ok(beta) = Beta::new(a, b) else { return 0.0 };
    // Bisection on the distribution function: the bound of its error is the last step.
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let middle = low.midpoint(high);
        if beta.cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.midpoint(high)
}
