//! What a process has not got of what it is to answer from. A successor that lacks more of it than its
//! predecessor would deny or fail what that one answers, so it does not take over yet.

use std::fmt;
use std::time::{Duration, Instant};

/// How often a successor looks what it lacks. Very many zones take longer to be looked at.
const ROUND: Duration = Duration::from_millis(250);
/// How much longer than a look itself the time until the next one is at least.
const PAUSE_FACTOR: u32 = 4;

/// How much is missing of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// The same word in both processes.
    pub(crate) kind: &'static str,
    pub(crate) count: u32,
    /// One of them, for people.
    pub(crate) example: String,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.kind)?;
        if self.example.is_empty() { Ok(()) } else { write!(f, " ({})", self.example) }
    }
}

/// What a successor compares.
#[derive(Debug, Default)]
pub(super) struct Lacks {
    /// What the predecessor lacked when this process came.
    predecessor: Vec<(String, u32)>,
    look_at: Option<Instant>,
    /// What this process lacked more at the last look.
    more: Vec<Lack>,
}

impl Lacks {
    pub(super) fn beside(predecessor: Vec<(String, u32)>) -> Self {
        Self { predecessor, ..Self::default() }
    }

    /// Whether this process lacks no more than its predecessor, as far as it was looked; `own` looks. Says what it
    /// does lack where that is new.
    pub(super) fn look(&mut self, own: impl FnOnce() -> Vec<Lack>) -> Result<(), Option<String>> {
        let begun = Instant::now();
        if self.look_at.is_some_and(|at| begun < at) {
            return Err(None);
        }
        let is_first = self.look_at.is_none();
        let more = own().into_iter().filter(|lack| lack.count > self.of_predecessor(lack.kind));
        self.more = more.collect();
        let pause = (begun.elapsed() * PAUSE_FACTOR).max(ROUND);
        self.look_at = Some(Instant::now() + pause);
        if self.more.is_empty() { Ok(()) } else { Err(is_first.then(|| self.text())) }
    }

    fn of_predecessor(&self, kind: &str) -> u32 {
        let found = self.predecessor.iter().find(|(own, _)| own == kind);
        found.map_or(0, |(_, count)| *count)
    }

    /// What was missing at the last look; empty for nothing.
    pub(super) fn text(&self) -> String {
        self.more.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(count: u32) -> Vec<Lack> {
        let example = "a.test".to_owned();
        vec![Lack { kind: "zones", count, example }]
    }

    #[test]
    fn a_successor_may_lack_what_its_predecessor_lacks_and_no_more() {
        let lacks = |count| Lacks::beside(vec![("zones".to_owned(), 2)]).look(|| zones(count));
        assert_eq!(lacks(2), Ok(()));
        assert_eq!(lacks(3), Err(Some("3 zones (a.test)".to_owned())));
        let cluster = Lack { kind: "clusters", count: 1, example: String::new() };
        let other = Lacks::beside(vec![("zones".to_owned(), 2)]).look(|| vec![cluster]);
        assert_eq!(other, Err(Some("1 clusters".to_owned())));
        assert_eq!(Lacks::default().look(Vec::new), Ok(()));
    }

    #[test]
    fn it_is_said_once_and_looked_at_now_and_then() {
        let mut lacks = Lacks::default();
        assert!(matches!(lacks.look(|| zones(1)), Err(Some(_))));
        assert_eq!(lacks.look(|| panic!("too soon")), Err(None));
        lacks.look_at = Some(Instant::now());
        assert_eq!(lacks.look(|| zones(2)), Err(None));
        assert_eq!(lacks.text(), "2 zones (a.test)");
        lacks.look_at = Some(Instant::now());
        assert_eq!(lacks.look(|| zones(0)), Ok(()));
        assert_eq!(lacks.text(), "");
    }
}
