//! Which failures of the primaries of a zone were said: one that lasts is said once, and another reason is said again.

use crate::limits::FAILURES_SAID_MAX;
use foldhash::fast::FixedState;
use nodens_core::log::Level;
use std::hash::BuildHasher;
use std::net::SocketAddr;

/// Failures that were said, by primary and reason, until the primary answers again.
#[derive(Debug, Default)]
pub(super) struct Said(Vec<(SocketAddr, u64)>);

impl Said {
    /// This primary has failed for this reason, which is said. Gives how loudly.
    pub(super) fn note(&mut self, primary: SocketAddr, reason: &str) -> Level {
        let (own, kind) = (self.0.iter().filter(|(address, _)| *address == primary), kind(reason));
        let is_known = own.clone().any(|(_, known)| *known == kind);
        // One whose reasons take turns is not worth more lines.
        if is_known || own.count() >= FAILURES_SAID_MAX {
            return Level::Debug;
        }
        self.0.push((primary, kind));
        Level::Warning
    }

    /// How loudly to say that an attempt with this primary has failed, which another one follows at once.
    pub(super) fn level_of_attempt(&self, primary: SocketAddr) -> Level {
        let has_failed = self.0.iter().any(|(address, _)| *address == primary);
        if has_failed { Level::Debug } else { Level::Warning }
    }

    /// The primary has answered. Gives whether a failure was said.
    pub(super) fn forget(&mut self, primary: SocketAddr) -> bool {
        let before = self.0.len();
        self.0.retain(|(address, _)| *address != primary);
        self.0.len() < before
    }
}

/// A reason without its numbers: the time, serials and octets are others each time.
fn kind(reason: &str) -> u64 {
    let text: String = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
    FixedState::default().hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_reason_is_said_and_the_same_one_with_other_numbers_is_not() {
        let [one, two] = ["192.0.2.1:53", "192.0.2.2:53"].map(|text| text.parse().unwrap());
        let mut said = Said::default();
        let mut say = |primary, reason: &str| said.note(primary, reason);
        assert_eq!(say(one, "expired: it is 05:19:29"), Level::Warning);
        assert_eq!(say(one, "expired: it is 05:19:31"), Level::Debug);
        assert_eq!(say(two, "expired: it is 05:19:31"), Level::Warning);
        assert_eq!(say(one, "unknown authority"), Level::Warning);
        assert_eq!(say(one, "expired: it is 05:20:00"), Level::Debug);
        for (reason, level) in
            [("a", Level::Warning), ("b", Level::Warning), ("c", Level::Debug), ("d", Level::Debug)]
        {
            assert_eq!(say(one, reason), level, "{reason}");
        }
        assert!(said.forget(one) && !said.forget(one));
        assert_eq!(said.note(one, "unknown authority"), Level::Warning);
        assert_eq!(said.note(two, "expired: it is 06:00:00"), Level::Debug);
    }
}
