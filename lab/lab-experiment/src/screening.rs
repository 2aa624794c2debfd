//! Two-level designs that find the few of many factors that matter, in as few runs as there can be.
//!
//! A design of `n` runs has room for `n - 1` factors, and every factor is at its high level in half of
//! the runs of every other factor's high level: each effect is estimated from all runs (Plackett and
//! Burman, 1946). The rows are those of a Hadamard matrix: by Sylvester's construction for powers of two,
//! else by Paley's two (1933), else by doubling.
//!
//! Without fold-over a factor's effect is mixed up with effects that two other factors have only
//! together (resolution III). With it, every run is also done with all levels exchanged, which takes
//! twice the runs and clears factors of such pairs (resolution IV; Box and Wilson, 1951). What three
//! factors have only together stays mixed up with single ones.

use crate::{Arm, Design, Factor, Order, Wrong};

/// The most runs of a design without fold-over.
const RUNS_MAX: usize = 64;
/// The most factors: one less than there are runs.
pub const FACTORS_MAX: usize = RUNS_MAX - 1;
/// The name of the arm with every factor at its first level.
pub const BASELINE: &str = "baseline";

/// The levels of factors in every run: false for the first level, true for the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screening {
    rows: Vec<Vec<bool>>,
    folded: bool,
}

impl Screening {
    /// The smallest design for `factors` factors. Its first run is the one with all of them at their
    /// first level.
    ///
    /// # Errors
    ///
    /// No factor, or more than [`FACTORS_MAX`].
    pub fn plackett_burman(factors: usize) -> Result<Self, Wrong> {
        let sizes = (1..=RUNS_MAX / 4).map(|quarter| 4 * quarter);
        let mut matrices = sizes.filter(|runs| *runs > factors).filter_map(hadamard);
        let matrix = matrices.next().filter(|_| factors > 0);
        let matrix = matrix.ok_or(Wrong::Factors { got: factors, most: FACTORS_MAX })?;
        Ok(Self { rows: normalized(matrix, factors), folded: false })
    }

    /// The design followed by every run with all levels exchanged.
    #[must_use]
    pub fn fold_over(mut self) -> Self {
        if !self.folded {
            let mirrored: Vec<Vec<bool>> =
                self.rows.iter().map(|row| row.iter().map(|high| !high).collect()).collect();
            self.rows.extend(mirrored);
            self.folded = true;
        }
        self
    }

    /// The runs, each with the level of every factor.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// 4 with fold-over, else 3: single effects are mixed up with those of two factors together.
    pub fn resolution(&self) -> u8 {
        if self.folded { 4 } else { 3 }
    }

    /// The experiment that measures every run once in each of `blocks` blocks, in an order of its own,
    /// with `baselines` measurements of [`BASELINE`] spread over the block. Arm 0 is the baseline.
    ///
    /// # Errors
    ///
    /// Another number of factors than the design has, or one that has not two levels.
    pub fn design(
        &self,
        factors: Vec<Factor>,
        blocks: usize,
        baselines: usize,
        seed: u64,
    ) -> Result<Design, Wrong> {
        let columns = self.rows.first().map_or(0, Vec::len);
        if factors.len() != columns {
            return Err(Wrong::Factors { got: factors.len(), most: columns });
        }
        if let Some(factor) = factors.iter().find(|factor| factor.levels.len() != 2) {
            let (name, levels) = (factor.name.clone(), factor.levels.len());
            return Err(Wrong::NotTwo { factor: name, levels });
        }
        let run = |(index, row): (usize, &Vec<bool>)| Arm {
            levels: row.iter().map(|high| usize::from(*high)).collect(),
            ..Arm::new(&format!("run {}", index + 1))
        };
        let baseline = Arm { levels: vec![0; columns], each: baselines, ..Arm::new(BASELINE) };
        let baseline = (baselines > 0).then_some(baseline);
        let arms = baseline.into_iter().chain(self.rows.iter().enumerate().map(run));
        Ok(Design {
            factors,
            arms: arms.collect(),
            blocks,
            group_blocks: 1,
            conditions: 1,
            stages: Vec::new(),
            order: Order::Random,
            seed,
        })
    }
}

/// A square matrix of signs, true for +1, whose rows are orthogonal.
type Signs = Vec<Vec<bool>>;

/// A Hadamard matrix of this order, if one of the constructions has it.
fn hadamard(order: usize) -> Option<Signs> {
    if order == 1 {
        return Some(vec![vec![true]]);
    }
    let half = order.is_multiple_of(2).then_some(order / 2)?;
    if order.is_power_of_two() {
        return hadamard(half).map(doubled);
    }
    if order.is_multiple_of(4) && is_prime(order - 1) {
        return Some(paley_one(order - 1));
    }
    // `half - 1` has the remainder 1 by 4 where `half` has 2.
    if half % 4 == 2 && is_prime(half - 1) {
        return Some(paley_two(half - 1));
    }
    hadamard(half).map(doubled)
}

/// Sylvester's step: the matrix beside itself, and below that the matrix beside its negative.
fn doubled(matrix: Signs) -> Signs {
    let beside = |row: &Vec<bool>, same: bool| {
        row.iter().copied().chain(row.iter().map(|sign| *sign == same)).collect::<Vec<bool>>()
    };
    let above = matrix.iter().map(|row| beside(row, true));
    above.chain(matrix.iter().map(|row| beside(row, false))).collect()
}

fn is_prime(number: usize) -> bool {
    number > 1
        && (2..number).take_while(|by| by * by <= number).all(|by| !number.is_multiple_of(by))
}

/// The quadratic characters of the numbers below a prime: `None` for 0, true for squares.
fn characters(prime: usize) -> Vec<Option<bool>> {
    let is_square = |number: usize| (1..prime).any(|root| root * root % prime == number);
    (0..prime).map(|number| (number > 0).then(|| is_square(number))).collect()
}

/// The character of `row - column`.
fn character(characters: &[Option<bool>], row: usize, column: usize) -> Option<bool> {
    let prime = characters.len();
    characters.get((row + prime - column) % prime).copied().flatten()
}

/// Paley's first construction, of order `prime + 1` for a prime with the remainder 3 by 4.
fn paley_one(prime: usize) -> Signs {
    let characters = characters(prime);
    let sign = |row: usize, column: usize| match (row, column) {
        (0, _) => true,
        (_, 0) => false,
        _ => character(&characters, row - 1, column - 1).unwrap_or(true),
    };
    (0..=prime).map(|row| (0..=prime).map(|column| sign(row, column)).collect()).collect()
}

/// Paley's second construction, of order `2 (prime + 1)` for a prime with the remainder 1 by 4: a
/// symmetric conference matrix, with a matrix of order two in place of every number.
fn paley_two(prime: usize) -> Signs {
    let characters = characters(prime);
    let conference = |row: usize, column: usize| match (row, column) {
        (0, 0) => None,
        (0, _) | (_, 0) => Some(true),
        _ => character(&characters, row - 1, column - 1),
    };
    let sign = |row: usize, column: usize| {
        let (first_row, first_column) = (row.is_multiple_of(2), column.is_multiple_of(2));
        match conference(row / 2, column / 2) {
            None => first_row && first_column,
            Some(sign) => (first_row || first_column) == sign,
        }
    };
    let order = 2 * (prime + 1);
    (0..order).map(|row| (0..order).map(|column| sign(row, column)).collect()).collect()
}

/// `columns` columns of the matrix, other than the first, with signs changed so that the first column
/// is +1 throughout and the first row is -1: neither changes that they are orthogonal.
fn normalized(matrix: Signs, columns: usize) -> Signs {
    let scaled: Signs = matrix
        .into_iter()
        .map(|row| {
            let first = row.first().copied().unwrap_or(true);
            row.into_iter().skip(1).take(columns).map(|sign| sign == first).collect()
        })
        .collect();
    let top = scaled.first().cloned().unwrap_or_default();
    let turned = |row: Vec<bool>| row.iter().zip(&top).map(|(sign, top)| sign != top).collect();
    scaled.into_iter().map(turned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(rows: &[Vec<bool>], columns: &[usize]) -> i32 {
        let sign = |row: &Vec<bool>| {
            columns.iter().map(|column| if row[*column] { 1 } else { -1 }).product::<i32>()
        };
        rows.iter().map(sign).sum()
    }

    fn factors(count: usize) -> Vec<Factor> {
        let levels = || vec!["off".to_owned(), "on".to_owned()];
        (0..count).map(|n| Factor { name: format!("knob {n}"), levels: levels() }).collect()
    }

    #[test]
    fn every_design_is_balanced_and_orthogonal_and_has_a_baseline_first() {
        for count in 1..=FACTORS_MAX {
            let design = Screening::plackett_burman(count).unwrap();
            let rows = design.rows();
            assert!(rows.len() > count && rows.len() <= RUNS_MAX, "{count}: {}", rows.len());
            assert!(rows[0].iter().all(|high| !high), "{count}");
            for one in 0..count {
                assert_eq!(product(rows, &[one]), 0, "{count}: column {one} is not balanced");
                for other in 0..one {
                    assert_eq!(product(rows, &[one, other]), 0, "{count}: {one} and {other}");
                }
            }
        }
    }

    #[test]
    fn there_are_no_more_runs_than_plackett_and_burman_had() {
        for (factors, runs) in
            [(3, 4), (4, 8), (11, 12), (12, 16), (19, 20), (23, 24), (27, 28), (30, 32), (35, 36)]
        {
            assert_eq!(Screening::plackett_burman(factors).unwrap().rows().len(), runs);
        }
        for refused in [0, FACTORS_MAX + 1, usize::MAX] {
            let error = Screening::plackett_burman(refused).unwrap_err().to_string();
            assert!(error.contains("expected 1 to 63"), "{error}");
        }
    }

    #[test]
    fn the_twelve_runs_are_those_that_were_published() {
        // Plackett and Burman (1946): one row of + + - + + + - - - + -, the others by cyclic shifts, and
        // one row of minus signs. Isomorphic designs agree in the products of three columns: +-4.
        let rows = Screening::plackett_burman(11).unwrap();
        for (one, other, third) in
            (0..11).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| (a, b, c))))
        {
            assert_eq!(product(rows.rows(), &[one, other, third]).abs(), 4);
        }
        let highs: Vec<usize> =
            rows.rows().iter().map(|row| row.iter().filter(|high| **high).count()).collect();
        assert_eq!(highs.iter().sum::<usize>(), 66);
        assert!(highs[1..].iter().all(|count| *count == 6), "{highs:?}");
    }

    #[test]
    fn fold_over_clears_factors_of_what_two_others_do_together() {
        for count in [5, 11, 12, 19, 23, 27, 30, 31] {
            let plain = Screening::plackett_burman(count).unwrap();
            let folded = plain.clone().fold_over();
            assert_eq!((plain.resolution(), folded.resolution()), (3, 4));
            assert_eq!(folded.rows().len(), 2 * plain.rows().len());
            let mut mixed = 0;
            for one in 0..count {
                assert_eq!(product(folded.rows(), &[one]), 0);
                for other in 0..one {
                    assert_eq!(product(folded.rows(), &[one, other]), 0);
                    for third in 0..other {
                        let of = [one, other, third];
                        mixed += usize::from(product(plain.rows(), &of) != 0);
                        assert_eq!(product(folded.rows(), &of), 0, "{count}: {of:?}");
                    }
                }
            }
            assert!(mixed > 0, "{count}: nothing was to be cleared");
            assert_eq!(folded.clone().fold_over(), folded, "folded twice");
        }
    }

    #[test]
    fn every_block_has_every_run_once_and_its_baselines() {
        let screening = Screening::plackett_burman(30).unwrap().fold_over();
        let design = screening.design(factors(30), 3, 2, 7).unwrap();
        let plan = design.plan().unwrap();
        assert_eq!(plan, screening.design(factors(30), 3, 2, 7).unwrap().plan().unwrap());
        for block in &plan.blocks {
            let mut order = block.order.clone();
            order.sort_unstable();
            let all = [0].into_iter().chain(0..65).collect::<Vec<_>>();
            assert_eq!(order, all);
            let at: Vec<_> = block.order.iter().enumerate().filter(|(_, arm)| **arm == 0).collect();
            assert!(at[0].0 <= 32 && at[1].0 >= 33, "{at:?}");
        }
        assert_eq!(design.arms[0].name, BASELINE);
        assert_eq!((&*design.arms[64].name, design.arms[64].levels.len()), ("run 64", 30));
    }

    #[test]
    fn factors_that_do_not_fit_are_refused() {
        let screening = Screening::plackett_burman(3).unwrap();
        let error = screening.design(factors(2), 1, 1, 1).unwrap_err().to_string();
        assert!(error.contains("2 factors"), "{error}");
        let mut three = factors(3);
        three[1].levels.push("auto".to_owned());
        let error = screening.design(three, 1, 1, 1).unwrap_err().to_string();
        assert!(error.contains("`knob 1` has 3 levels: expected 2"), "{error}");
        let arms = screening.design(factors(3), 1, 0, 1).unwrap().arms;
        assert_eq!(arms.len(), 4, "no baseline was asked for");
    }
}
