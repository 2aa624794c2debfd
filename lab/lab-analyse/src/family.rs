//! The tests of several groups that papers use, each with what it assumes and whether the values refute it.

use crate::analyse::Settings;
use crate::column::{Column, Values};
use lab_result::analysis::{Assumed, Family, FamilyPair};
use lab_stats::groups::{self, MeansTest, Pair};
use lab_stats::{blocked, paired};

/// The quantile of the normal distribution beyond which a correlation of neighbours is none by chance.
const CORRELATED: f64 = 1.96;
/// Fewer values have no correlation worth the name.
const CORRELATED_MIN: usize = 8;

/// The tests of all groups of `column` that have values; nothing of fewer than three.
pub(crate) fn families(
    column: &Column,
    names: &[&str],
    baseline: Option<usize>,
    is_paired: bool,
    settings: &Settings,
) -> Vec<Family> {
    let present = column.present();
    if present.len() < 3 {
        return Vec::new();
    }
    let values: Vec<Vec<f64>> =
        present.iter().filter_map(|at| Some(column.groups.get(*at)?.all.clone())).collect();
    if values.iter().any(|values| values.len() < 2) {
        return Vec::new();
    }
    let names: Vec<&str> = present.iter().filter_map(|at| names.get(*at).copied()).collect();
    let control = baseline.and_then(|baseline| present.iter().position(|at| *at == baseline));
    let asked = Asked { values: &values, names: &names, control, alpha: settings.alpha };
    let mut all = asked.ranks();
    if is_paired {
        all.extend(asked.blocks(column, &present));
    }
    all.extend(asked.means());
    all
}

struct Asked<'a> {
    values: &'a [Vec<f64>],
    names: &'a [&'a str],
    control: Option<usize>,
    alpha: f64,
}

impl Asked<'_> {
    fn ranks(&self) -> Vec<Family> {
        let Some(overall) = groups::kruskal_wallis(self.values) else { return Vec::new() };
        let assumes = vec![self.independence(), self.shape()];
        let all = Family {
            test: "Kruskal–Wallis".to_owned(),
            statistic: Some(overall.statistic),
            p: Some(overall.p),
            assumes: assumes.clone(),
            ..Family::default()
        };
        let pairs = groups::dunn(self.values, self.control);
        let test = match self.control {
            Some(_) => "Dunn, with the baseline, by Holm",
            None => "Dunn, all pairs, by Holm",
        };
        vec![all, self.family(test, &pairs, assumes)]
    }

    fn blocks(&self, column: &Column, present: &[usize]) -> Option<Family> {
        let groups: Vec<&Values> = present.iter().filter_map(|at| column.groups.get(*at)).collect();
        let overall = blocked::friedman(&in_blocks(&groups))?;
        let assumes = vec![Assumed {
            what: "independent blocks".to_owned(),
            refuted: None,
            by: "not looked at".to_owned(),
        }];
        Some(Family {
            test: "Friedman, within blocks".to_owned(),
            statistic: Some(overall.statistic),
            p: Some(overall.p),
            assumes,
            ..Family::default()
        })
    }

    fn means(&self) -> Vec<Family> {
        let means = groups::all_means(self.values, self.alpha);
        let normal = self.assumed("normal values", means.normality, "D’Agostino–Pearson");
        let equal = self.assumed("equal variances", means.variances, "Brown–Forsythe");
        let mut assumes = vec![self.independence(), normal];
        let test = match means.test {
            MeansTest::Tukey => "Tukey, all pairs of means",
            MeansTest::GamesHowell => "Games–Howell, all pairs of means",
        };
        let of_tukey = [assumes.clone(), vec![equal]].concat();
        if means.test == MeansTest::Tukey {
            assumes.clone_from(&of_tukey);
        }
        let mut all = vec![self.family(test, &means.pairs, assumes)];
        if let Some(control) = self.control {
            let pairs = groups::dunnett(self.values, control, self.alpha);
            all.push(self.family("Dunnett, means with the baseline", &pairs, of_tukey));
        }
        all.retain(|family| !family.pairs.is_empty());
        all
    }

    fn family(&self, test: &str, pairs: &[Pair], assumes: Vec<Assumed>) -> Family {
        let name = |at: usize| self.names.get(at).copied().unwrap_or_default().to_owned();
        let pair = |pair: &Pair| FamilyPair {
            group: name(pair.group),
            with: name(pair.with),
            difference: pair.difference,
            p: pair.p,
            interval: pair.interval.map(|ends| [ends.low, ends.high]),
        };
        Family {
            test: test.to_owned(),
            pairs: pairs.iter().map(pair).collect(),
            assumes,
            ..Family::default()
        }
    }

    fn assumed(&self, what: &str, test: Option<groups::Overall>, by: &str) -> Assumed {
        Assumed {
            what: what.to_owned(),
            refuted: test.map(|test| test.p <= self.alpha),
            by: match test {
                Some(test) => format!("{by}, p {:.3}", test.p),
                None => "too few values to look at".to_owned(),
            },
        }
    }

    fn shape(&self) -> Assumed {
        self.assumed(
            "the same shape of all groups",
            groups::equal_variances(self.values),
            "Brown–Forsythe",
        )
    }

    /// Whether neighbours within a group are alike.
    fn independence(&self) -> Assumed {
        let looked: Vec<bool> =
            self.values.iter().filter_map(|values| is_correlated(values)).collect();
        let correlated = looked.iter().filter(|is| **is).count();
        Assumed {
            what: "independent values".to_owned(),
            refuted: (!looked.is_empty()).then_some(correlated > 0),
            by: match looked.len() {
                0 => "too few values to look at".to_owned(),
                all => format!("neighbours are correlated in {correlated} of {all} groups"),
            },
        }
    }
}

/// Whether independent values would show such a correlation of neighbours in fewer than 5 % of cases;
/// `None` of few values.
pub(crate) fn is_correlated(values: &[f64]) -> Option<bool> {
    let count = values.len() as f64;
    let lag = paired::lag_one(values).filter(|_| values.len() >= CORRELATED_MIN)?;
    Some((lag + 1.0 / count).abs() > CORRELATED / count.sqrt())
}

/// The blocks that every group has, each with the groups' values.
fn in_blocks(groups: &[&Values]) -> Vec<Vec<f64>> {
    let Some(first) = groups.first() else { return Vec::new() };
    let of_block = |values: &Values, place: usize, block: &Option<String>| {
        let at = match block {
            Some(_) => values.blocks.iter().position(|other| other == block)?,
            None => place,
        };
        values.all.get(at).copied()
    };
    let row = |(place, block): (usize, &Option<String>)| {
        groups.iter().map(|values| of_block(values, place, block)).collect::<Option<Vec<f64>>>()
    };
    first.blocks.iter().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[f64], blocks: &[&str]) -> Values {
        let blocks = blocks.iter().map(|block| Some((*block).to_owned())).collect();
        Values { all: all.to_vec(), blocks, runs: all.len(), ..Values::default() }
    }

    #[test]
    fn blocks_are_those_that_every_group_has_whatever_their_order() {
        let (a, b) =
            (values(&[1.0, 2.0, 3.0], &["x", "y", "z"]), values(&[20.0, 10.0], &["y", "x"]));
        assert_eq!(in_blocks(&[&a, &b]), [[1.0, 10.0], [2.0, 20.0]]);
    }

    #[test]
    fn readings_of_a_gauge_are_correlated_and_alternating_values_are_not_taken_for_independent() {
        let gauge = [286.0, 286.0, 286.0, 284.0, 284.0, 284.0, 284.0, 284.0, 281.0, 281.0, 281.0];
        assert_eq!(is_correlated(&gauge), Some(true));
        assert_eq!(is_correlated(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]), Some(true));
        assert_eq!(is_correlated(&[5.0, 3.0, 8.0, 1.0, 7.0, 9.0, 2.0, 4.0, 6.0]), Some(false));
        assert_eq!(is_correlated(&[1.0, 2.0, 3.0]), None);
    }
}
