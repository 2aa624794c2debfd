//! One group beside another: estimate, interval, test and what they show.

use crate::analyse::Settings;
use crate::column::{Column, Values};
use crate::rates;
use lab_result::analysis::{Contrast, Shown};
use lab_stats::power::Plan;
use lab_stats::{Interval, Margin, compare, holm, unpaired};

/// What is asked of all contrasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'s> {
    pub(crate) settings: &'s Settings,
    /// Whether parts of runs stand for runs.
    pub(crate) by_part: bool,
    /// Whether values of one block are compared.
    pub(crate) paired: bool,
}

/// A contrast that is not yet corrected for the number of them.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) contrast: Contrast,
    /// The column.
    pub(crate) column: usize,
    margin: Margin,
    /// p-value of equivalence, where a test has one.
    equivalent_p: Option<f64>,
    /// Values as they are tested, for an interval at another level.
    values: [Vec<f64>; 2],
    is_bound: bool,
    is_fine: bool,
    /// Whether values that were not measured in pairs are too few to show anything.
    is_too_few: bool,
    is_ratio: bool,
}

/// Compares the groups `first` and `second` of `column`, whose differences up to `margin` do not matter.
pub(crate) fn raw(
    (at, column): (usize, &Column),
    [first, second]: [(&str, &Values); 2],
    margin: f64,
    asked: Asked<'_>,
) -> Raw {
    let is_ratio = column.is_ratio();
    let scaled = |values: &Values| -> Vec<f64> {
        let all = values.all.iter();
        all.map(|value| if is_ratio { value.ln() } else { *value }).collect()
    };
    let limits = if is_ratio { Margin::ratio(margin) } else { Margin::absolute(margin) };
    let (a, b) = (scaled(first.1), scaled(second.1));
    let mut raw = Raw {
        contrast: Contrast {
            group: second.0.to_owned(),
            with: first.0.to_owned(),
            values: [first.1.all.len(), second.1.all.len()],
            ..Contrast::default()
        },
        column: at,
        margin: limits,
        equivalent_p: None,
        is_bound: first.1.bounds + second.1.bounds > 0,
        is_fine: column.resolution() <= margin / 5.0,
        is_too_few: false,
        is_ratio,
        values: [a, b],
    };
    let pairs = if asked.paired { pairs(first.1, second.1, &raw.values) } else { None };
    match pairs {
        Some(differences) => raw.pairs(&differences, asked.settings),
        None => raw.unpaired(asked.settings.alpha),
    }
    if rates::differ(first.1, second.1) {
        let because = "it is what the generator was asked for, and not the same in both groups";
        (raw.contrast.shown, raw.contrast.because) = (Shown::Unjudged, because.to_owned());
    } else if asked.by_part && first.1.runs.min(second.1.runs) < 2 {
        let because = "one run of a group: its seconds or readings depend on each other";
        (raw.contrast.shown, raw.contrast.because) = (Shown::Unjudged, because.to_owned());
    } else if first.1.bounds > 0 && second.1.bounds > 0 {
        let because = "both have values among lost queries";
        (raw.contrast.shown, raw.contrast.because) = (Shown::Unjudged, because.to_owned());
    } else if !is_ordered(first.1, second.1) || !is_ordered(second.1, first.1) {
        let because = "values among lost queries may be higher or lower than the others: \
                       their bound is not above all of them";
        (raw.contrast.shown, raw.contrast.because) = (Shown::Unjudged, because.to_owned());
    } else if raw.contrast.p.is_none() {
        let because = "one value of a group: there is nothing to test";
        (raw.contrast.shown, raw.contrast.because) = (Shown::Unjudged, because.to_owned());
    }
    raw
}

/// Whether each value of `with` lies below what values of `bounded` are only known to be at least.
fn is_ordered(bounded: &Values, with: &Values) -> bool {
    bounded.least_bound.is_none_or(|bound| with.all.iter().all(|value| *value < bound))
}

/// The differences of values with one block, or of values at one place where no value has a block.
fn pairs(first: &Values, second: &Values, [a, b]: &[Vec<f64>; 2]) -> Option<Vec<f64>> {
    let has_blocks = |values: &Values| values.blocks.iter().all(Option::is_some);
    if !has_blocks(first) || !has_blocks(second) {
        let fits = a.len() == b.len();
        return fits.then(|| a.iter().zip(b).map(|(a, b)| b - a).collect());
    }
    let of_block = |block: &Option<String>| {
        let place = second.blocks.iter().position(|other| other == block)?;
        b.get(place).copied()
    };
    let found = first.blocks.iter().zip(a).filter_map(|(block, a)| Some(of_block(block)? - a));
    Some(found.collect())
}

impl Raw {
    fn pairs(&mut self, differences: &[f64], settings: &Settings) {
        let plan = Plan { alpha: settings.alpha, ..Plan::default() };
        let how =
            lab_stats::Settings { plan, seed: settings.seed, ..lab_stats::Settings::default() };
        let Some(found) = compare(differences, self.margin, &how) else { return };
        self.contrast.test = "sign-flip test of pairs".to_owned();
        self.contrast.values = [differences.len(); 2];
        self.contrast.estimate = self.shown(found.estimate);
        self.contrast.interval = found.interval.map(|interval| self.ends(interval));
        if differences.len() > 1 {
            self.contrast.p = Some(found.difference.p);
            self.contrast.p_exact = found.difference.exact;
            self.equivalent_p = Some(found.equivalence_p);
            self.too_few(2.0 / 2.0_f64.powi(differences.len().min(60) as i32), settings.alpha);
        }
    }

    fn unpaired(&mut self, alpha: f64) {
        let [a, b] = &self.values;
        let Some(test) = unpaired::mann_whitney(a, b) else { return };
        self.contrast.estimate = self.shown(test.shift);
        if a.len().min(b.len()) < 2 {
            return;
        }
        self.contrast.test = "Mann–Whitney test".to_owned();
        let interval = unpaired::shift_interval(a, b, alpha);
        self.contrast.interval = interval.map(|interval| self.ends(interval));
        self.contrast.p = Some(test.p);
        self.contrast.p_exact = test.exact;
        self.contrast.delta = Some(test.delta);
        self.is_too_few = self.too_few(unpaired::least_p(a.len(), b.len()), alpha);
    }

    /// Whether no values could show a difference, `least` being the smallest p-value there is; and says so.
    fn too_few(&mut self, least: f64, alpha: f64) -> bool {
        let is_too_few = least > alpha;
        if is_too_few {
            let [m, n] = self.contrast.values;
            self.contrast.because = format!("with {m} and {n} values p is {least:.2} at least");
        }
        is_too_few
    }

    fn shown(&self, difference: f64) -> f64 {
        if self.is_ratio { difference.exp_m1() } else { difference }
    }

    fn ends(&self, interval: Interval) -> [f64; 2] {
        [self.shown(interval.low), self.shown(interval.high)]
    }

    /// What is shown, with the p-value adjusted for all contrasts and equivalence for `number` of them.
    fn judge(&mut self, adjusted: f64, number: usize, alpha: f64) {
        self.contrast.p_adjusted = Some(adjusted);
        let level = alpha / number.max(1) as f64;
        let within = match self.equivalent_p {
            Some(p) => p <= level,
            None => {
                let [a, b] = &self.values;
                let narrow = unpaired::shift_interval(a, b, 2.0 * level);
                self.contrast.narrow = narrow.map(|interval| self.ends(interval));
                narrow.is_some_and(|ends| {
                    self.margin.low <= ends.low && ends.high <= self.margin.high
                })
            }
        };
        if self.is_bound {
            // The order of values is known, and how far they lie apart is not.
            (self.contrast.interval, self.contrast.narrow) = (None, None);
        }
        if self.contrast.shown == Shown::Unjudged {
            return;
        }
        let differs = adjusted <= alpha;
        let excludes = self.contrast.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
        self.contrast.shown = match () {
            () if within && self.is_fine && !self.is_bound && !self.is_too_few => Shown::Equivalent,
            () if differs && (excludes || self.is_bound) && self.contrast.estimate < 0.0 => {
                Shown::Lower
            }
            () if differs && (excludes || self.is_bound) => Shown::Higher,
            () => Shown::Inconclusive,
        };
    }
}

/// Judges all contrasts of an analysis. The primary metric is corrected for its own alone, all others for
/// all of theirs.
pub(crate) fn judge(raws: &mut [Raw], primary: Option<usize>, alpha: f64) {
    for is_primary in [true, false] {
        let mut family: Vec<&mut Raw> = raws
            .iter_mut()
            .filter(|raw| (Some(raw.column) == primary) == is_primary && raw.contrast.p.is_some())
            .collect();
        let p: Vec<f64> = family.iter().filter_map(|raw| raw.contrast.p).collect();
        let number = family.len();
        for (raw, adjusted) in family.iter_mut().zip(holm::adjusted(&p)) {
            raw.judge(adjusted, number, alpha);
        }
    }
}
