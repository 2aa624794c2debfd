//! What becomes of questions that no zone of a server matches, beside their answer.

use crate::handler::Job;
use crate::time::Now;
use crate::worker::WorkerState;
use std::fmt;

/// Takes note of a question.
type Hear = dyn Fn(Now, &mut WorkerState, &Job) + Send + Sync;

/// Takes note of the questions that no zone of a server matches, which get REFUSED.
pub struct Unserved(Box<Hear>);

impl Unserved {
    /// Calls `hear` for each of them.
    pub fn new(hear: impl Fn(Now, &mut WorkerState, &Job) + Send + Sync + 'static) -> Self {
        Self(Box::new(hear))
    }

    /// Takes note of the question of `job`.
    pub(super) fn hear(&self, now: Now, worker: &mut WorkerState, job: &Job) {
        (self.0)(now, worker, job);
    }
}

impl fmt::Debug for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unserved")
    }
}
