//! Rates that the generator was asked for: a difference of them is none of the servers.

use crate::column::Values;
use crate::group::Group;
use crate::trial::Trial;

/// A rate of answers of this part of the rate that was asked for is that rate.
const KEPT: f64 = 0.95;
/// Rates that differ by less than this part of them are the same.
const SAME: f64 = 0.01;
/// Groups whose rates are named.
const NAMED_MAX: usize = 4;

/// The lowest and the highest rate that trials were asked for, and whether one of them had answers at that rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    asked: Option<[f64; 2]>,
    is_kept: bool,
}

impl Rates {
    /// Takes in a trial with this rate of answers.
    pub(crate) fn add(&mut self, trial: &Trial, answers: f64) {
        if let Some(rate) = asked(trial) {
            let [low, high] = self.asked.unwrap_or([rate; 2]);
            self.asked = Some([low.min(rate), high.max(rate)]);
            self.is_kept |= answers >= KEPT * rate;
        }
    }
}

/// The rate that a trial was asked for.
fn asked(trial: &Trial) -> Option<f64> {
    let rate = trial.labels.get("max_qps")?.parse().ok();
    rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
}

/// Whether the rates of answers of two groups differ because other rates were asked for.
pub(crate) fn differ(first: &Values, second: &Values) -> bool {
    let (a, b) = (&first.rates, &second.rates);
    (a.is_kept || b.is_kept) && !are_same(a.asked, b.asked)
}

fn are_same(a: Option<[f64; 2]>, b: Option<[f64; 2]>) -> bool {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= SAME * a.max(*b);
    match (a, b) {
        (Some(a), Some(b)) => a.iter().zip(&b).all(is_near),
        (None, None) => true,
        _ => false,
    }
}

/// That groups were asked for different rates, for people.
pub(crate) fn warning(groups: &[Group]) -> Option<String> {
    let of = |group: &Group| {
        let mut rates = Rates::default();
        group.trials.iter().for_each(|trial| rates.add(trial, 0.0));
        rates.asked
    };
    let all: Vec<_> = groups.iter().map(of).collect();
    if all.windows(2).all(|pair| matches!(pair, [a, b] if are_same(*a, *b))) {
        return None;
    }
    let told = |(group, asked): (&Group, &Option<[f64; 2]>)| match asked {
        Some([low, high]) if low == high => format!("{} {low}/s", group.name),
        Some([low, high]) => format!("{} {low} to {high}/s", group.name),
        None => format!("{} none", group.name),
    };
    let named: Vec<String> = groups.iter().zip(&all).take(NAMED_MAX).map(told).collect();
    let more = if groups.len() > NAMED_MAX { ", …" } else { "" };
    Some(format!(
        "the groups were asked for different rates ({}{more}): qps is what was asked for where it was kept, and \
         times are those of different loads",
        named.join(", ")
    ))
}
