//! What an experiment consists of, and the order in which it is measured.

use lab_random::Stream;
use std::ops::Range;

/// Something that has a choice of levels: a setting of the kernel, a version, an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its levels; the first one is the usual one.
    pub levels: Vec<String>,
}

/// What is compared with others: a server, or one choice of a level for every factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Its name, by which results are found.
    pub name: String,
    /// The index of its level for each factor of the design.
    pub levels: Vec<usize>,
    /// How often it is measured in each block.
    pub each: usize,
    /// Conditions, by their index, under which it is not measured, because they mean nothing to it.
    pub left_out: Vec<usize>,
}

impl Arm {
    /// An arm without factors, once in each block.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), levels: Vec::new(), each: 1, left_out: Vec::new() }
    }

    /// Whether it is measured under a condition.
    pub fn is_measured(&self, condition: usize) -> bool {
        !self.left_out.contains(&condition)
    }
}

/// The order of the arms within blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The arms in turn, beginning with another one in each block; each begins equally often, and
    /// chance decides in which blocks.
    Balanced,
    /// Every block in an order of its own. The measurements of an arm that is measured several times
    /// are spread over the block.
    Random,
}

/// An experiment as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// What the arms differ in; none if they differ as a whole.
    pub factors: Vec<Factor>,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// Blocks: in each of them every arm is measured.
    pub blocks: usize,
    /// Blocks for which the arms are started once; 1 starts them for every block.
    pub group_blocks: usize,
    /// Conditions, such as loads, under which each block is measured.
    pub conditions: usize,
    /// Stages: how many conditions in turn an arm is set once for. Empty if it is set for each.
    pub stages: Vec<usize>,
    /// The order within blocks.
    pub order: Order,
    /// Decides the order, and nothing else does.
    pub seed: u64,
}

/// Why a design cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no arm, block or condition.
    #[error("expected at least one arm, one block and one condition")]
    Empty,
    /// An arm that is never measured.
    #[error("arm `{0}` is measured in no block: expected at least once")]
    Never(String),
    /// Two arms or two factors have the same name.
    #[error("the name `{0}` is taken twice")]
    SameName(String),
    /// An arm has not one level for each factor.
    #[error("arm `{arm}` has {got} levels: expected one for each of {factors} factors")]
    Levels {
        /// Its name.
        arm: String,
        /// How many levels it has.
        got: usize,
        /// How many factors there are.
        factors: usize,
    },
    /// An arm has a level that its factor lacks.
    #[error("arm `{arm}` has level {level} of `{factor}`, which has {levels}")]
    Level {
        /// Its name.
        arm: String,
        /// The factor.
        factor: String,
        /// The level that was chosen, from 0.
        level: usize,
        /// How many levels there are.
        levels: usize,
    },
    /// The stages are not made of the conditions.
    #[error(
        "stages of {stages:?} conditions: expected {conditions} conditions in all, and none of 0"
    )]
    Stages {
        /// Conditions of each stage.
        stages: Vec<usize>,
        /// How many conditions there are.
        conditions: usize,
    },
    /// More factors than a screening design may have, or none.
    #[error("{got} factors: expected 1 to {most}")]
    Factors {
        /// How many were given.
        got: usize,
        /// How many may be given.
        most: usize,
    },
    /// A factor of a screening design has not two levels.
    #[error("factor `{factor}` has {levels} levels: expected 2")]
    NotTwo {
        /// Its name.
        factor: String,
        /// How many levels it has.
        levels: usize,
    },
}

/// One block: the arms, by their index, in the order in which they are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its place among all blocks, from 0.
    pub index: usize,
    /// The arms.
    pub order: Vec<usize>,
}

/// All blocks in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// The purpose of the stream of numbers that orders are drawn from.
const ORDER_STREAM: u64 = 31;

impl Design {
    /// Arms that differ as a whole, in a balanced order.
    pub fn of_arms(names: &[&str], blocks: usize, seed: u64) -> Self {
        Self {
            factors: Vec::new(),
            arms: names.iter().map(|name| Arm::new(name)).collect(),
            blocks,
            group_blocks: 1,
            conditions: 1,
            stages: Vec::new(),
            order: Order::Balanced,
            seed,
        }
    }

    /// The blocks with their orders: the same for the same design.
    ///
    /// # Errors
    ///
    /// A design that cannot be measured as it is, or whose results could not be told apart.
    pub fn plan(&self) -> Result<Plan, Wrong> {
        self.check()?;
        let mut stream = Stream::new(self.seed, ORDER_STREAM);
        let orders = match self.order {
            Order::Balanced => self.balanced(&mut stream),
            Order::Random => (0..self.blocks).map(|_| self.random(&mut stream)).collect(),
        };
        let block = |(index, order)| Block { index, order };
        Ok(Plan { blocks: orders.into_iter().enumerate().map(block).collect() })
    }

    /// The conditions of each stage, in order.
    pub fn stages(&self) -> Vec<Range<usize>> {
        if self.stages.is_empty() {
            return (0..self.conditions).map(|condition| condition..condition + 1).collect();
        }
        let mut from = 0;
        let stage = |count: &usize| {
            from += count;
            from - count..from
        };
        self.stages.iter().map(stage).collect()
    }

    fn check(&self) -> Result<(), Wrong> {
        if self.arms.is_empty() || self.blocks == 0 || self.conditions == 0 {
            return Err(Wrong::Empty);
        }
        let of_stages: usize = self.stages.iter().sum();
        if !self.stages.is_empty() && (self.stages.contains(&0) || of_stages != self.conditions) {
            let (stages, conditions) = (self.stages.clone(), self.conditions);
            return Err(Wrong::Stages { stages, conditions });
        }
        unique(self.arms.iter().map(|arm| arm.name.as_str()))?;
        unique(self.factors.iter().map(|factor| factor.name.as_str()))?;
        for arm in &self.arms {
            let name = || arm.name.clone();
            let is_measured = (0..self.conditions).any(|condition| arm.is_measured(condition));
            if arm.each == 0 || !is_measured {
                return Err(Wrong::Never(name()));
            }
            let (got, factors) = (arm.levels.len(), self.factors.len());
            if got != factors {
                return Err(Wrong::Levels { arm: name(), got, factors });
            }
            let chosen = arm.levels.iter().zip(&self.factors);
            let beyond = |(level, factor): &(&usize, &Factor)| **level >= factor.levels.len();
            if let Some((level, factor)) = { chosen }.find(beyond) {
                let (level, levels) = (*level, factor.levels.len());
                return Err(Wrong::Level {
                    arm: name(),
                    factor: factor.name.clone(),
                    level,
                    levels,
                });
            }
        }
        Ok(())
    }

    /// The arms of a block, each as often as it is measured, as they were given.
    fn once(&self) -> Vec<usize> {
        let each = |(index, arm): (usize, &Arm)| std::iter::repeat_n(index, arm.each);
        self.arms.iter().enumerate().flat_map(each).collect()
    }

    fn balanced(&self, stream: &mut Stream) -> Vec<Vec<usize>> {
        let turn = self.once();
        // Where some arms must begin once more than others, chance decides which.
        let over = !self.blocks.is_multiple_of(turn.len());
        let first = if over { stream.below(turn.len()) } else { 0 };
        let rotated = |block: usize| {
            let mut order = turn.clone();
            order.rotate_left((block + first) % turn.len());
            order
        };
        let mut orders: Vec<_> = (0..self.blocks).map(rotated).collect();
        shuffle(&mut orders, stream);
        orders
    }

    fn random(&self, stream: &mut Stream) -> Vec<usize> {
        let single = |(index, arm): (usize, &Arm)| (arm.each == 1).then_some(index);
        let mut order: Vec<_> = self.arms.iter().enumerate().filter_map(single).collect();
        shuffle(&mut order, stream);
        for (index, arm) in self.arms.iter().enumerate().filter(|(_, arm)| arm.each > 1) {
            let before = order.len();
            for part in 0..arm.each {
                // Of as many equal parts of the block as there are measurements, each gets one.
                let (from, to) = (part * before / arm.each, (part + 1) * before / arm.each);
                order.insert(part + from + stream.below(to - from + 1), index);
            }
        }
        order
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Wrong> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair.first() == pair.last());
    let name = twice.and_then(|pair| pair.first());
    name.map_or(Ok(()), |name| Err(Wrong::SameName((*name).to_owned())))
}

/// Every order equally likely (Fisher and Yates).
fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for at in (1..items.len()).rev() {
        items.swap(at, stream.below(at + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(design: &Design) -> Vec<Vec<usize>> {
        design.plan().unwrap().blocks.into_iter().map(|block| block.order).collect()
    }

    #[test]
    fn two_arms_begin_equally_often_and_the_seed_decides_when() {
        for blocks in [6, 7, 20] {
            let orders = orders(&Design::of_arms(&["a", "b"], blocks, 5));
            let firsts = orders.iter().filter(|order| order[0] == 0).count();
            assert!(firsts.abs_diff(blocks - firsts) <= blocks % 2, "{orders:?}");
            assert!(orders.iter().all(|order| *order == [0, 1] || *order == [1, 0]));
        }
        let plan = |seed| Design::of_arms(&["a", "b"], 20, seed).plan().unwrap();
        assert_eq!(plan(5), plan(5));
        assert_ne!(plan(5), plan(6));
        let extra: Vec<usize> =
            (0..40).map(|seed| orders(&Design::of_arms(&["a", "b"], 1, seed))[0][0]).collect();
        assert!(extra.contains(&0) && extra.contains(&1), "a single block always begins alike");
    }

    #[test]
    fn five_arms_begin_equally_often() {
        let names = ["a", "b", "c", "d", "e"];
        let orders = orders(&Design::of_arms(&names, 10, 3));
        for arm in 0..5 {
            assert_eq!(orders.iter().filter(|order| order[0] == arm).count(), 2);
        }
    }

    #[test]
    fn every_block_has_every_arm_and_the_baselines_are_spread() {
        let mut design = Design::of_arms(&["baseline", "1", "2", "3", "4", "5", "6"], 200, 8);
        design.arms[0].each = 3;
        design.order = Order::Random;
        let orders = orders(&design);
        let mut places = [0; 9];
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 0, 0, 1, 2, 3, 4, 5, 6]);
            let at: Vec<_> = (0..9).filter(|place| order[*place] == 0).collect();
            // The first of three measurements is not in the last third, and so on.
            assert!(at[0] <= 3 && (2..=6).contains(&at[1]) && at[2] >= 5, "{order:?}");
            places[order.iter().position(|arm| *arm == 1).unwrap()] += 1;
        }
        assert!(places.iter().all(|count| *count > 5), "arm 1 is rarely at some place: {places:?}");
        assert_ne!(orders[0], orders[1]);
    }

    #[test]
    fn designs_that_say_nothing_are_refused() {
        let factor = |name: &str| Factor {
            name: name.to_owned(),
            levels: vec!["off".to_owned(), "on".to_owned()],
        };
        let mut with_factor = Design::of_arms(&["a"], 1, 1);
        with_factor.factors = vec![factor("sack")];
        let mut beyond = with_factor.clone();
        beyond.arms[0].levels = vec![2];
        let mut twice = beyond.clone();
        twice.factors.push(factor("sack"));
        let mut never = Design::of_arms(&["a"], 1, 1);
        never.arms[0].each = 0;
        let mut no_condition = Design::of_arms(&["a"], 1, 1);
        no_condition.conditions = 0;
        let mut nowhere = Design::of_arms(&["a"], 1, 1);
        nowhere.arms[0].left_out = vec![0];
        let stages = |stages: &[usize]| Design {
            conditions: 3,
            stages: stages.to_vec(),
            ..Design::of_arms(&["a"], 1, 1)
        };
        for (design, expected) in [
            (nowhere, "`a` is measured in no block"),
            (stages(&[1, 1]), "expected 3 conditions in all"),
            (stages(&[3, 0]), "none of 0"),
            (Design::of_arms(&[], 1, 1), "at least one arm"),
            (Design::of_arms(&["a"], 0, 1), "one block"),
            (no_condition, "one condition"),
            (Design::of_arms(&["a", "b", "a"], 1, 1), "`a` is taken twice"),
            (never, "`a` is measured in no block"),
            (with_factor, "has 0 levels: expected one for each of 1"),
            (beyond, "has level 2 of `sack`, which has 2"),
            (twice, "`sack` is taken twice"),
        ] {
            let error = design.plan().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
