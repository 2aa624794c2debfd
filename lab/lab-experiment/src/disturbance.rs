//! When a measurement says less than it should, and what happens then.
//!
//! The rule is fixed before the first measurement and looks at the machine and at what measures, never
//! at the result: leaving out results because of what they are would make any two arms differ.
//!
//! A measurement is *disturbed* if the hypervisor took more than 1 % of the machine's CPU time, if other
//! processes took more than 5 % of the CPU time of what was measured, or if what measures calls its own
//! work invalid. It is measured again, as often as the plan allows. If it is disturbed every time, the
//! least disturbed attempt is kept with its faults. Nothing else is ever left out.

use std::fmt;

/// The part of the machine's CPU time that the hypervisor may take.
pub const STOLEN_MAX: f64 = 0.01;
/// The part of the CPU time of what is measured that other processes may take.
pub const ROBBED_MAX: f64 = 0.05;

/// Why a measurement is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The hypervisor had the CPU.
    Stolen,
    /// Other processes had the CPU.
    Robbed,
    /// What measures calls its own work invalid.
    Invalid,
    /// A check before the group of blocks failed; measuring again would not change that.
    Group,
}

/// One reason why a measurement is disturbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Which part of the rule it broke.
    pub kind: Kind,
    /// What happened, for people.
    pub reason: String,
    /// The part of the CPU time that was lost; 1 where that is unknown.
    pub part: f64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Fault {
    /// What measures calls its own work invalid because of `reason`.
    pub fn invalid(reason: &str) -> Self {
        Self { kind: Kind::Invalid, reason: reason.to_owned(), part: 1.0 }
    }

    /// A check before a group of blocks failed.
    pub fn of_group(reason: &str) -> Self {
        Self { kind: Kind::Group, reason: reason.to_owned(), part: 1.0 }
    }
}

/// What is known about the conditions of one measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signs {
    /// The part of the machine's CPU time that the hypervisor took (steal).
    pub stolen: f64,
    /// The part of the time that what is measured wanted to run and others had its CPU.
    pub robbed: f64,
    /// Why what measures calls its own work invalid.
    pub invalid: Vec<String>,
}

impl Signs {
    /// The faults by the rule; none if the measurement is good.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults: Vec<Fault> = self.invalid.iter().map(|why| Fault::invalid(why)).collect();
        // A part that is not a number is none that is small enough.
        for (kind, part, most, who, whose) in [
            (Kind::Stolen, self.stolen, STOLEN_MAX, "the hypervisor", "the CPU time"),
            (Kind::Robbed, self.robbed, ROBBED_MAX, "other processes", "its CPU time"),
        ] {
            if part <= most {
                continue;
            }
            let reason = format!("{who} took {:.1} % of {whose}", part * 100.0);
            faults.push(Fault { kind, reason, part: if part.is_nan() { 1.0 } else { part } });
        }
        faults
    }
}

/// The CPU time of the whole machine so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    all: u64,
    stolen: u64,
}

impl Machine {
    /// Reads it from `/proc/stat`; zero where there is no such file.
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is part of user (proc(5)).
        let ticks = line.split_ascii_whitespace().skip(1).take(8).map(|t| t.parse().unwrap_or(0));
        let ticks: Vec<u64> = ticks.collect();
        Self { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The part of the time until `later` that the hypervisor took.
    pub fn stolen_until(self, later: Self) -> f64 {
        let all = later.all.saturating_sub(self.all);
        let stolen = later.stolen.saturating_sub(self.stolen);
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }
}

/// What is measured again together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// All arms of the block under that condition, because they are compared with each other: what one
    /// of them met then, the others would not meet later.
    Block,
    /// The disturbed measurement alone, because a block is long.
    Single,
    /// The disturbed measurement alone and at once, while its arm is still set, because setting takes long.
    Held,
}

/// How often something disturbed is measured again, and what with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// How often at most.
    pub retries: usize,
    /// What with it.
    pub together: Together,
}

/// How disturbed an attempt is: how many faults that measuring again could change, and how much CPU
/// time they took together. An attempt without such faults is not disturbed.
pub(crate) fn severity<'a>(faults: impl Iterator<Item = &'a Fault>) -> (usize, f64) {
    let own = faults.filter(|fault| fault.kind != Kind::Group);
    own.fold((0, 0.0), |(count, part), fault| (count + 1, part + fault.part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_rule_allows_is_no_fault_and_what_exceeds_it_has_a_reason() {
        let kinds = |signs: &Signs| signs.faults().iter().map(|f| f.kind).collect::<Vec<_>>();
        let quiet = Signs { stolen: 0.01, robbed: 0.05, invalid: Vec::new() };
        assert_eq!(kinds(&quiet), []);
        assert_eq!(kinds(&Signs { stolen: 0.011, ..quiet.clone() }), [Kind::Stolen]);
        assert_eq!(kinds(&Signs { robbed: 0.06, ..quiet.clone() }), [Kind::Robbed]);
        let all = Signs { stolen: 0.5, robbed: f64::NAN, invalid: vec!["late".to_owned()] };
        let faults = all.faults();
        assert_eq!(kinds(&all), [Kind::Invalid, Kind::Stolen, Kind::Robbed]);
        assert_eq!(faults[1].to_string(), "the hypervisor took 50.0 % of the CPU time");
        assert_eq!(severity(faults.iter()), (3, 2.5));
        assert_eq!(severity([Fault::of_group("echo lost queries")].iter()), (0, 0.0));
    }

    #[test]
    fn stolen_time_is_a_part_of_what_passed() {
        let (before, after) = (Machine { all: 100, stolen: 1 }, Machine { all: 200, stolen: 3 });
        assert_eq!(before.stolen_until(after), 0.02);
        assert_eq!(after.stolen_until(after), 0.0);
        let text = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3\n";
        assert_eq!(Machine::parse(text), Machine { all: 360, stolen: 80 });
        assert_eq!(Machine::parse("nothing"), Machine::default());
    }
}
