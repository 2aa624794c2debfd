//! A straight line through points: CPU = a + b × rate.

use crate::{Interval, normal};

/// A line by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The value at zero.
    pub intercept: f64,
    /// The increase per unit.
    pub slope: f64,
    /// The confidence interval of the intercept; `None` with two points.
    pub intercept_interval: Option<Interval>,
    /// The confidence interval of the slope; `None` with two points.
    pub slope_interval: Option<Interval>,
    /// The part of the variance that the line explains.
    pub r_squared: f64,
}

/// Fits `(x, y)` points with intervals at `1 - alpha`; `None` without two different `x`.
pub fn fit(points: &[(f64, f64)], alpha: f64) -> Option<Line> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let yy: f64 = points.iter().map(|(_, y)| (y - y_mean).powi(2)).sum();
    if points.len() < 2 || xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let intercept = y_mean - slope * x_mean;
    let residual: f64 = points.iter().map(|(x, y)| (y - intercept - slope * x).powi(2)).sum();
    let freedom = n - 2.0;
    let around = |value: f64, spread: f64| {
        let half = normal::student(1.0 - alpha / 2.0, freedom) * spread;
        (freedom > 0.0).then_some(Interval { low: value - half, high: value + half })
    };
    let variance = residual / freedom;
    let slope_interval = around(slope, (variance / xx).sqrt());
    let intercept_interval = around(intercept, (variance * (1.0 / n + x_mean.powi(2) / xx)).sqrt());
    let r_squared = if yy > 0.0 { 1.0 - residual / yy } else { 1.0 };
    Some(Line { intercept, slope, intercept_interval, slope_interval, r_squared })
}
