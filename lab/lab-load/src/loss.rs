//! Why queries have no response.

use crate::tally::{Cohort, Counts};

/// Why a sent item has no answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None came.
    TimedOut,
    /// It came back in an ICMP message.
    Refused,
    /// Its connection failed.
    ConnectionFailed,
}

impl Loss {
    /// Where it is counted for the whole run.
    pub fn of_run(self, counts: &mut Counts) -> &mut u64 {
        match self {
            Self::TimedOut => &mut counts.timed_out,
            Self::Refused => &mut counts.refused,
            Self::ConnectionFailed => &mut counts.connection_failed,
        }
    }

    /// Where it is counted for its second.
    pub fn of_second(self, cohort: &mut Cohort) -> &mut u64 {
        match self {
            Self::TimedOut => &mut cohort.timed_out,
            Self::Refused => &mut cohort.refused,
            Self::ConnectionFailed => &mut cohort.connection_failed,
        }
    }
}
