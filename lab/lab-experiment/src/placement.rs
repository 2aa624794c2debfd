//! Which CPUs what is measured gets, and which what measures it.

use std::ops::RangeInclusive;

/// How many CPUs each part may have: at least and at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// For what is measured.
    pub subject: RangeInclusive<usize>,
    /// For what it depends on, such as an upstream; `0..=0` if there is no such thing.
    pub helper: RangeInclusive<usize>,
    /// For what measures.
    pub load: RangeInclusive<usize>,
}

/// Who runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of what is measured: the first ones.
    pub subject: Vec<usize>,
    /// CPUs of what it depends on: the next ones.
    pub helper: Vec<usize>,
    /// CPUs of what measures: the last ones.
    pub load: Vec<usize>,
    /// How far they share CPUs, which a reader of the results must know.
    pub sharing: Sharing,
}

/// How far parts share CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each part has its own.
    None,
    /// What is measured has its own; what it depends on and what measures share the others.
    HelperAndLoad,
    /// There are too few CPUs for any of that.
    Everything,
}

impl Placement {
    /// Places three parts on the CPUs `allowed`. What measures gets its wish before what is measured
    /// gets more than its least: a generator without enough CPU spoils every measurement.
    pub fn choose(allowed: &[usize], wish: &Wish) -> Self {
        let least = (*wish.subject.start()).max(1);
        let (helper_least, load_least) = (*wish.helper.start(), (*wish.load.start()).max(1));
        let everywhere = |sharing| Self {
            subject: allowed.to_vec(),
            helper: if *wish.helper.end() == 0 { Vec::new() } else { allowed.to_vec() },
            load: allowed.to_vec(),
            sharing,
        };
        let spare = allowed.len().checked_sub(least + helper_least + load_least);
        let Some(mut spare) = spare else {
            return match allowed.split_at_checked(least) {
                Some((subject, rest)) if helper_least > 0 && !rest.is_empty() => Self {
                    subject: subject.to_vec(),
                    helper: rest.to_vec(),
                    load: rest.to_vec(),
                    sharing: Sharing::HelperAndLoad,
                },
                _ => everywhere(Sharing::Everything),
            };
        };
        let mut more = |least: usize, most: usize| {
            let taken = spare.min(most.saturating_sub(least));
            spare -= taken;
            least + taken
        };
        let load = more(load_least, *wish.load.end());
        let helper = more(helper_least, *wish.helper.end());
        let subject = more(least, *wish.subject.end());
        let part = |from: usize, count: usize| allowed.iter().skip(from).take(count).copied();
        Self {
            subject: part(0, subject).collect(),
            helper: part(subject, helper).collect(),
            load: part(allowed.len() - load, load).collect(),
            sharing: Sharing::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(cpus: usize, wish: &Wish) -> (Vec<usize>, Vec<usize>, Vec<usize>, Sharing) {
        let allowed: Vec<usize> = (10..10 + cpus).collect();
        let Placement { subject, helper, load, sharing } = Placement::choose(&allowed, wish);
        (subject, helper, load, sharing)
    }

    #[test]
    fn every_number_of_cpus_is_divided() {
        let all = 1..=usize::MAX;
        let two_threads = Wish { subject: all, helper: 0..=0, load: 2..=2 };
        let bench = Wish { subject: 1..=1, helper: 1..=1, load: 1..=2 };
        let echo = Wish { subject: 1..=2, helper: 0..=0, load: 1..=1 };
        for (cpus, wish, subject, helper, load, sharing) in [
            (8, &two_threads, &[10, 11, 12, 13, 14, 15][..], &[][..], &[16, 17][..], Sharing::None),
            (3, &two_threads, &[10], &[], &[11, 12], Sharing::None),
            (2, &two_threads, &[10, 11], &[], &[10, 11], Sharing::Everything),
            (4, &bench, &[10], &[11], &[12, 13], Sharing::None),
            (3, &bench, &[10], &[11], &[12], Sharing::None),
            (2, &bench, &[10], &[11], &[11], Sharing::HelperAndLoad),
            (1, &bench, &[10], &[10], &[10], Sharing::Everything),
            (6, &echo, &[10, 11], &[], &[15], Sharing::None),
            (2, &echo, &[10], &[], &[11], Sharing::None),
            (1, &echo, &[10], &[], &[10], Sharing::Everything),
            (0, &echo, &[], &[], &[], Sharing::Everything),
        ] {
            let expected = (subject.to_vec(), helper.to_vec(), load.to_vec(), sharing);
            assert_eq!(placed(cpus, wish), expected, "{cpus} CPUs, {wish:?}");
        }
    }
}
