//! Several groups of values that are not paired: the tests that papers on tuning use, with what each of
//! them assumes and whether that holds.
//!
//! They are for comparison with such papers. None of them knows about blocks, so what drifts while the
//! groups are measured one after the other counts as a difference between groups; [`crate::screening`]
//! has no such weakness and is what a verdict is made of.
//!
//! | test | asks | assumes besides independent values |
//! |---|---|---|
//! | [`kruskal_wallis`] (1952) | whether any group differs | the same shape, for a statement about locations |
//! | [`dunn`] (1964) | which, by ranks | as above |
//! | [`tukey`] (1949, 1953) | which, all pairs of means | normal values, equal variances |
//! | [`games_howell`] (1976) | the same | normal values |
//! | [`dunnett`] (1955) | which means differ from that of a control | normal values, equal variances |
//!
//! [`equal_variances`] and [`normal_values`] look whether the assumptions are refuted by the values,
//! and [`all_means`] chooses between Tukey and Games–Howell by the first. A test that refutes nothing
//! proves nothing: with few values it can refute little.

use crate::paired::{mean_ranks, median};
use crate::ranges::{many_to_one, many_to_one_quantile, studentized, studentized_quantile};
use crate::{Interval, holm, normal};

/// Fewer values than this in all are not tested for normality.
const NORMALITY_MIN: usize = 20;

/// A test of all groups at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    /// The statistic.
    pub statistic: f64,
    /// Its degrees of freedom: one number for chi-squared, two for F.
    pub freedom: (f64, Option<f64>),
    /// The p-value.
    pub p: f64,
}

/// One of several comparisons of two groups, adjusted for their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The index of the group that is compared.
    pub group: usize,
    /// The index of the group that it is compared with.
    pub with: usize,
    /// How much more the first one has: of the mean, or of the mean rank.
    pub difference: f64,
    /// The difference over its standard error.
    pub statistic: f64,
    /// The p-value, adjusted for all pairs.
    pub p: f64,
    /// The interval of the difference, for all pairs together; `None` for ranks.
    pub interval: Option<Interval>,
}

/// How the means of all pairs were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeansTest {
    /// Equal variances were not refuted.
    Tukey,
    /// They were refuted, or could not be tested.
    GamesHowell,
}

/// All pairs of means, with what was looked at first.
#[derive(Clone, Debug, PartialEq)]
pub struct Means {
    /// Which test it is.
    pub test: MeansTest,
    /// The test of equal variances; `None` where it is not defined.
    pub variances: Option<Overall>,
    /// The test of normal values; `None` with fewer than 20 values.
    pub normality: Option<Overall>,
    /// The pairs.
    pub pairs: Vec<Pair>,
}

/// Size, mean and variance of a group.
#[derive(Clone, Copy)]
struct Moments {
    n: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    /// `None` with fewer than two values.
    fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (values.len() > 1).then(|| Self { n, mean, variance: squares / (n - 1.0) })
    }

    fn all(groups: &[Vec<f64>]) -> Option<Vec<Self>> {
        (groups.len() > 1).then_some(())?;
        groups.iter().map(|group| Self::of(group)).collect()
    }
}

/// The variance within groups, with its degrees of freedom; `None` if it is zero.
fn pooled(moments: &[Moments]) -> Option<(f64, f64)> {
    let freedom = moments.iter().map(|group| group.n - 1.0).sum::<f64>();
    let squares = moments.iter().map(|group| group.variance * (group.n - 1.0)).sum::<f64>();
    (squares > 0.0).then_some((squares / freedom, freedom))
}

/// Whether any group tends to be higher than the others (Kruskal and Wallis, with their correction for
/// ties); `None` without two groups, with an empty one, or if all values are the same.
pub fn kruskal_wallis(groups: &[Vec<f64>]) -> Option<Overall> {
    let (ranks, n, ties) = ranked(groups)?;
    let squares = groups.iter().zip(&ranks).map(|(group, mean)| group.len() as f64 * mean * mean);
    let raw = 12.0 / (n * (n + 1.0)) * squares.sum::<f64>() - 3.0 * (n + 1.0);
    let statistic = raw / (1.0 - ties / (n.powi(3) - n));
    let freedom = groups.len() as f64 - 1.0;
    let p = normal::chi_squared_above(statistic, freedom);
    Some(Overall { statistic, freedom: (freedom, None), p })
}

/// The mean rank of each group, the number of values, and Σ (t³ − t) over groups of `t` ties.
fn ranked(groups: &[Vec<f64>]) -> Option<(Vec<f64>, f64, f64)> {
    let all: Vec<f64> = groups.iter().flatten().copied().collect();
    let mut rest = mean_ranks(&all);
    let sorted = {
        let mut sorted = rest.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let n = all.len() as f64;
    let cubes = |tied: &[f64]| (tied.len() as f64).powi(3) - tied.len() as f64;
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(cubes).sum();
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) || ties >= n.powi(3) - n {
        return None;
    }
    let mean = |group: &Vec<f64>| rest.drain(..group.len()).sum::<f64>() / group.len() as f64;
    Some((groups.iter().map(mean).collect(), n, ties))
}

/// Every pair of groups, or every group with `control`, by mean ranks (Dunn, with the correction for
/// ties), adjusted by Holm's method. Empty where [`kruskal_wallis`] is not defined.
pub fn dunn(groups: &[Vec<f64>], control: Option<usize>) -> Vec<Pair> {
    let Some((ranks, n, ties)) = ranked(groups) else { return Vec::new() };
    let variance = n * (n + 1.0) / 12.0 - ties / (12.0 * (n - 1.0));
    let sized: Vec<(f64, f64)> = groups.iter().map(|group| group.len() as f64).zip(ranks).collect();
    let mut pairs = pairs(&sized, control, |(n, rank), (other_n, other_rank)| {
        let difference = rank - other_rank;
        let statistic = difference / (variance * (1.0 / n + 1.0 / other_n)).sqrt();
        (difference, statistic, 2.0 * normal::cdf(-statistic.abs()), None)
    });
    let adjusted = holm::adjusted(&pairs.iter().map(|pair| pair.p).collect::<Vec<_>>());
    pairs.iter_mut().zip(adjusted).for_each(|(pair, p)| pair.p = p);
    pairs
}

/// What a comparison of two groups brings: difference, statistic, p-value and interval.
type Compared = (f64, f64, f64, Option<Interval>);

/// Compares each group with every earlier one, or with the control.
fn pairs<T: Copy>(
    groups: &[T],
    control: Option<usize>,
    compare: impl Fn(T, T) -> Compared,
) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (group, one) in groups.iter().enumerate() {
        for (with, other) in groups.iter().enumerate() {
            if control.map_or(with < group, |control| with == control && group != control) {
                let (difference, statistic, p, interval) = compare(*one, *other);
                pairs.push(Pair { group, with, difference, statistic, p, interval });
            }
        }
    }
    pairs
}

/// All pairs of means with a common variance (Tukey; Kramer, 1956, for unequal sizes). Empty without
/// two groups, with one of fewer than two values, or without any variance.
pub fn tukey(groups: &[Vec<f64>], alpha: f64) -> Vec<Pair> {
    let Some(moments) = Moments::all(groups) else { return Vec::new() };
    let Some((variance, freedom)) = pooled(&moments) else { return Vec::new() };
    let critical = studentized_quantile(1.0 - alpha, groups.len(), freedom);
    pairs(&moments, None, |one, other| {
        let error = (variance / 2.0 * (1.0 / one.n + 1.0 / other.n)).sqrt();
        of_range(one.mean - other.mean, error, critical, (groups.len(), freedom))
    })
}

/// All pairs of means, each with the variances of its two groups (Games and Howell). Empty without two
/// groups, or with one of fewer than two values or without any variance.
pub fn games_howell(groups: &[Vec<f64>], alpha: f64) -> Vec<Pair> {
    let Some(moments) = Moments::all(groups) else { return Vec::new() };
    if moments.iter().any(|group| group.variance <= 0.0) {
        return Vec::new();
    }
    pairs(&moments, None, |one, other| {
        let part = |group: Moments| group.variance / group.n;
        let (a, b) = (part(one), part(other));
        // Welch (1947).
        let freedom = (a + b).powi(2) / (a * a / (one.n - 1.0) + b * b / (other.n - 1.0));
        let critical = studentized_quantile(1.0 - alpha, groups.len(), freedom);
        let error = ((a + b) / 2.0).sqrt();
        of_range(one.mean - other.mean, error, critical, (groups.len(), freedom))
    })
}

fn of_range(
    difference: f64,
    error: f64,
    critical: f64,
    (count, freedom): (usize, f64),
) -> Compared {
    let statistic = difference / error;
    let p = 1.0 - studentized(statistic.abs(), count, freedom);
    let half = critical * error;
    let interval = Interval { low: difference - half, high: difference + half };
    (difference, statistic, p.max(0.0), Some(interval))
}

/// The mean of every other group beside that of group `control`, with a common variance (Dunnett,
/// two-sided; any sizes). Empty without two groups, with one of fewer than two values, or without any
/// variance, or if there is no such group.
pub fn dunnett(groups: &[Vec<f64>], control: usize, alpha: f64) -> Vec<Pair> {
    let Some(moments) = Moments::all(groups) else { return Vec::new() };
    let Some((variance, freedom)) = pooled(&moments) else { return Vec::new() };
    let Some(of_control) = moments.get(control) else { return Vec::new() };
    let others = moments.iter().enumerate().filter(|(at, _)| *at != control);
    let loads: Vec<f64> =
        others.map(|(_, group)| (group.n / (group.n + of_control.n)).sqrt()).collect();
    let critical = many_to_one_quantile(1.0 - alpha, &loads, freedom);
    pairs(&moments, Some(control), |one, other| {
        let error = (variance * (1.0 / one.n + 1.0 / other.n)).sqrt();
        let difference = one.mean - other.mean;
        let statistic = difference / error;
        let p = 1.0 - many_to_one(statistic.abs(), &loads, freedom);
        let half = critical * error;
        let interval = Interval { low: difference - half, high: difference + half };
        (difference, statistic, p.max(0.0), Some(interval))
    })
}

/// Whether the groups vary alike (Brown and Forsythe, 1974: Levene's test with medians); `None` without
/// two groups, with one of fewer than two values, or if no group varies.
pub fn equal_variances(groups: &[Vec<f64>]) -> Option<Overall> {
    let distances = |group: &Vec<f64>| {
        let centre = median(group)?;
        Some(group.iter().map(|value| (value - centre).abs()).collect::<Vec<f64>>())
    };
    let distances: Vec<Vec<f64>> = groups.iter().map(distances).collect::<Option<_>>()?;
    let moments = Moments::all(&distances)?;
    let (within, freedom) = pooled(&moments)?;
    let n: f64 = moments.iter().map(|group| group.n).sum();
    let centre = moments.iter().map(|group| group.n * group.mean).sum::<f64>() / n;
    let between: f64 = moments.iter().map(|group| group.n * (group.mean - centre).powi(2)).sum();
    let between_freedom = groups.len() as f64 - 1.0;
    let statistic = between / between_freedom / within;
    let p = normal::f_above(statistic, between_freedom, freedom);
    Some(Overall { statistic, freedom: (between_freedom, Some(freedom)), p })
}

/// Whether what differs from the means of the groups is normal, by its skewness and kurtosis
/// (D'Agostino and Pearson, 1973); `None` with fewer than 20 values or none that varies.
pub fn normal_values(groups: &[Vec<f64>]) -> Option<Overall> {
    let mut residuals = Vec::new();
    for group in groups {
        let mean = group.iter().sum::<f64>() / (group.len() as f64).max(1.0);
        residuals.extend(group.iter().map(|value| value - mean));
    }
    let n = residuals.len() as f64;
    let moment = |power: i32| residuals.iter().map(|value| value.powi(power)).sum::<f64>() / n;
    let variance = moment(2);
    if residuals.len() < NORMALITY_MIN || variance <= 0.0 {
        return None;
    }
    let skewness = skewness_z(moment(3) / variance.powf(1.5), n);
    let kurtosis = kurtosis_z(moment(4) / variance.powi(2), n);
    let statistic = skewness.powi(2) + kurtosis.powi(2);
    let p = normal::chi_squared_above(statistic, 2.0);
    Some(Overall { statistic, freedom: (2.0, None), p })
}

/// Skewness as a standard normal variable (D'Agostino, 1970).
fn skewness_z(skewness: f64, n: f64) -> f64 {
    let y = skewness * ((n + 1.0) * (n + 3.0) / (6.0 * (n - 2.0))).sqrt();
    let beta = 3.0 * (n * n + 27.0 * n - 70.0) * (n + 1.0) * (n + 3.0)
        / ((n - 2.0) * (n + 5.0) * (n + 7.0) * (n + 9.0));
    let w = (2.0 * (beta - 1.0)).sqrt() - 1.0;
    let scaled = y / (2.0 / (w - 1.0)).sqrt();
    scaled.asinh() / (0.5 * w.ln()).sqrt()
}

/// Kurtosis as a standard normal variable (Anscombe and Glynn, 1983).
fn kurtosis_z(kurtosis: f64, n: f64) -> f64 {
    let mean = 3.0 * (n - 1.0) / (n + 1.0);
    let variance = 24.0 * n * (n - 2.0) * (n - 3.0) / ((n + 1.0).powi(2) * (n + 3.0) * (n + 5.0));
    let x = (kurtosis - mean) / variance.sqrt();
    let beta = 6.0 * (n * n - 5.0 * n + 2.0) / ((n + 7.0) * (n + 9.0))
        * (6.0 * (n + 3.0) * (n + 5.0) / (n * (n - 2.0) * (n - 3.0))).sqrt();
    let a = 6.0 + 8.0 / beta * (2.0 / beta + (1.0 + 4.0 / (beta * beta)).sqrt());
    let below = 1.0 + x * (2.0 / (a - 4.0)).sqrt();
    let root = ((1.0 - 2.0 / a) / below).cbrt();
    (1.0 - 2.0 / (9.0 * a) - root) / (2.0 / (9.0 * a)).sqrt()
}

/// All pairs of means by the test that fits: Tukey's unless equal variances are refuted at `alpha` or
/// cannot be tested, else that of Games and Howell.
pub fn all_means(groups: &[Vec<f64>], alpha: f64) -> Means {
    let variances = equal_variances(groups);
    let equal = variances.is_some_and(|test| test.p > alpha);
    let test = if equal { MeansTest::Tukey } else { MeansTest::GamesHowell };
    let pairs = if equal { tukey(groups, alpha) } else { games_howell(groups, alpha) };
    Means { test, variances, normality: normal_values(groups), pairs }
}

#[cfg(test)]
mod tests;
