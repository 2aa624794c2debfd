//! What a difference of two values is when one of them is only a bound: a time among lost queries is at
//! least the timeout, and a capacity may be out of reach.

use super::{Finding, Verdict};

/// What is known about the difference of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// It is the estimate.
    Known,
    /// B's value is at least, or A's at most, what stands for it: it is at least the estimate.
    AtLeast,
    /// The other way round: it is at most the estimate.
    AtMost,
    /// Some values say the one, some the other: nothing.
    Unknown,
}

impl Shift {
    /// Whether the values can show `verdict`, or that more of them would: a bound is evidence in one
    /// direction only. Less is better, or more.
    pub fn supports(self, verdict: Verdict, more_is_better: bool) -> bool {
        let lower = if more_is_better { Verdict::Slower } else { Verdict::Faster };
        match verdict {
            Verdict::Inconclusive | Verdict::Equivalent => self == Self::Known,
            verdict if verdict == lower => matches!(self, Self::Known | Self::AtMost),
            Verdict::Faster | Verdict::Slower => matches!(self, Self::Known | Self::AtLeast),
        }
    }

    /// `text`, which is the estimate or an end of its interval, with the sign of a bound.
    pub fn sign(self, text: &str) -> String {
        match self {
            Self::Known => text.to_owned(),
            Self::AtLeast => format!("≥ {text}"),
            Self::AtMost => format!("≤ {text}"),
            Self::Unknown => "unknown".to_owned(),
        }
    }

    /// An interval: of a bound, only the end towards the other value is known.
    pub fn interval(
        self,
        [low, high]: [String; 2],
        known: impl Fn(&str, &str) -> String,
    ) -> String {
        match self {
            Self::Known => known(&low, &high),
            Self::AtLeast => self.sign(&low),
            Self::AtMost => self.sign(&high),
            Self::Unknown => self.sign(""),
        }
    }
}

impl Finding {
    /// What is known about the difference.
    pub fn shift(&self) -> Shift {
        let at_least = self.b_is_bound || self.a_at_most;
        let at_most = self.a_is_bound || self.b_at_most;
        match (at_most, at_least) {
            (false, false) => Shift::Known,
            (false, true) => Shift::AtLeast,
            (true, false) => Shift::AtMost,
            (true, true) => Shift::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_supports_verdicts_in_its_direction_only() {
        let finding = |a, b| Finding { a_is_bound: a, b_is_bound: b, ..Finding::default() };
        let shifts = [(false, false), (false, true), (true, false), (true, true)]
            .map(|(a, b)| finding(a, b).shift());
        assert_eq!(shifts, [Shift::Known, Shift::AtLeast, Shift::AtMost, Shift::Unknown]);
        let supported = |verdict| shifts.map(|shift| shift.supports(verdict, false));
        assert_eq!(supported(Verdict::Faster), [true, false, true, false]);
        assert_eq!(supported(Verdict::Slower), [true, true, false, false]);
        assert_eq!(supported(Verdict::Equivalent), [true, false, false, false]);
        let supported = |verdict| shifts.map(|shift| shift.supports(verdict, true));
        assert_eq!(supported(Verdict::Slower), [true, false, true, false]);
        assert_eq!(supported(Verdict::Faster), [true, true, false, false]);
        let interval = |shift: Shift| {
            shift.interval(["1".into(), "2".into()], |low, high| format!("{low} to {high}"))
        };
        assert_eq!(shifts.map(interval), ["1 to 2", "≥ 1", "≤ 2", "unknown"]);
    }

    #[test]
    fn a_value_that_is_at_most_what_stands_for_it_says_the_opposite() {
        let finding = |(a_at_most, b_at_most), (a_is_bound, b_is_bound)| Finding {
            a_at_most,
            b_at_most,
            a_is_bound,
            b_is_bound,
            ..Finding::default()
        };
        let shift = |at_most, at_least| finding(at_most, at_least).shift();
        let none = (false, false);
        assert_eq!(shift((true, false), none), Shift::AtLeast);
        assert_eq!(shift((false, true), none), Shift::AtMost);
        assert_eq!(shift((true, true), none), Shift::Unknown);
        assert_eq!(shift((true, false), (false, true)), Shift::AtLeast);
        assert_eq!(shift((false, true), (false, true)), Shift::Unknown);
    }
}
